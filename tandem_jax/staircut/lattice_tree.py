"""From a lattice to a draft tree: the greedy walk first, then the likeliest branches."""

from heapq import heapify, heappop, heappush
from math import inf

import numpy as np

from tandem_jax.drafters.lattice import GREEDY, Lattice
from tandem_jax.tree import DraftTree
from tandem_jax.tree.draft_tree import SOURCE_CODE
from tandem_jax.tree.merge import NodeLists, reordered

BRANCH = "df2-tree"  # source of the nodes beside the greedy walk


def lattice_tree(lattice: Lattice, anchor: int, budget: int) -> DraftTree | None:
    """The `budget` nodes that hold most probability, the greedy walk among them; None without any.

    A node's score is the probability of its path at the lattice's temperature, each step read in
    the row of its parent's candidate. The walk comes first whatever its score; then the likeliest
    node whose parent is in the tree, again and again, ties to the one found first. Without the
    walk's privilege this is the best ancestor-closed set of that size. Takes a lattice whose
    scores are finite.
    """
    if budget < 1:
        return None
    grown = _Grown(anchor, lattice)
    grown.walk(min(budget, len(lattice.cand)))
    grown.branch(budget)
    scores = np.exp(np.array(grown.logs)).astype(np.float32).tolist()
    source = [0] + [SOURCE_CODE[GREEDY]] * grown.n_walk
    source += [SOURCE_CODE[BRANCH]] * (len(scores) - len(source))
    return DraftTree.lawful(*reordered(NodeLists(grown.tokens, grown.parents, scores, source)))


def _log_sums(lattice: Lattice) -> np.ndarray:
    """Logarithm [L, k] of what the exponentials behind each candidate sum to."""
    # Candidates first: numpy is slow at reducing a short last axis.
    x = np.array(lattice.scores.transpose(2, 0, 1), np.float64, order="C")
    x /= lattice.temperature
    top = x.max(axis=0)
    x -= top
    return top + np.log(np.exp(x, out=x).sum(axis=0))


class _Grown:
    """A tree under construction.

    A row is the list of scores behind one node, less those struck out because they are in the tree
    or in the heap: of each row only the best one waits there, and its successor when it is taken.
    """

    def __init__(self, anchor: int, lattice: Lattice) -> None:
        self.tokens, self.parents, self.logs = [anchor], [-1], [0.0]
        self.n_walk = 0
        self._cand, self._scores = lattice.cand.tolist(), lattice.scores
        self._log_sums, self._temperature = _log_sums(lattice).tolist(), lattice.temperature
        # (-log-probability, arrival, candidate, parent, slot, row, base), see `branch`
        self._heap: list[tuple] = []

    def walk(self, length: int) -> None:
        """Add the greedy walk; the second best of each of its steps waits."""
        choice = log = 0
        for slot in range(length):
            row = self._scores[slot, choice].tolist()
            base = log - self._log_sums[slot][choice]
            choice = row.index(max(row))
            log = base + row[choice] / self._temperature
            row[choice] = -inf
            self.tokens.append(self._cand[slot][choice])
            self.parents.append(slot)
            self.logs.append(log)
            second = max(row)
            if second > -inf:
                at = row.index(second)
                row[at] = -inf
                entry = (-base - second / self._temperature, slot, at, slot, slot, row, base)
                self._heap.append(entry)
        self.n_walk = length
        heapify(self._heap)

    def branch(self, budget: int) -> None:
        """Add the likeliest waiting nodes until there are `budget`.

        A waiting node is a candidate of a slot behind a parent; base: log-probability of the
        parent less the row's log-sum, to which score / temperature is added.
        """
        heap, slots, temperature = self._heap, len(self._cand), self._temperature
        arrivals = slots
        while heap and len(self.tokens) <= budget:
            negative_log, _, choice, parent, slot, row, base = heappop(heap)
            node = len(self.tokens)
            self.tokens.append(self._cand[slot][choice])
            self.parents.append(parent)
            self.logs.append(-negative_log)
            waiting = [(parent, slot, row, base)]
            if slot + 1 < slots:
                below = self._scores[slot + 1, choice].tolist()
                base = -negative_log - self._log_sums[slot + 1][choice]
                waiting.append((node, slot + 1, below, base))
            for parent, slot, row, base in waiting:
                best = max(row)
                if best > -inf:
                    at = row.index(best)
                    row[at] = -inf
                    log = base + best / temperature
                    heappush(heap, (-log, arrivals, at, parent, slot, row, base))
                    arrivals += 1
