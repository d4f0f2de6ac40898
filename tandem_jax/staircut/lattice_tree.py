"""From a lattice to a draft tree: the greedy walk first, then the likeliest branches."""

from heapq import heappop, heappush

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
    logp, order = _log_probs(lattice)
    grown = _Grown(anchor, lattice.cand, logp, order)
    grown.walk(min(budget, len(lattice.cand)))
    grown.branch(budget)
    logs = np.array(grown.logs)
    scores = np.exp(logs).astype(np.float32).tolist()
    lists = NodeLists(grown.tokens, grown.parents, scores, grown.source)
    return DraftTree.lawful(*reordered(lists))


def _log_probs(lattice: Lattice) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities of each candidate behind each one, and their ranking: both [L, k, k]."""
    logits = lattice.scores.astype(np.float64) / lattice.temperature
    logits -= logits.max(axis=-1, keepdims=True)
    logp = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    # Ranked by the scores themselves, so that the first of a row is the greedy walk's choice.
    return logp, np.argsort(-lattice.scores, axis=-1, kind="stable")


class _Grown:
    """A tree under construction; a node's next best sibling waits in the heap behind it."""

    def __init__(self, anchor: int, cand: np.ndarray, logp: np.ndarray, order: np.ndarray) -> None:
        self.tokens, self.parents, self.logs, self.source = [anchor], [-1], [0.0], [0]
        self._cand, self._logp, self._order = cand.tolist(), logp, order
        self._heap: list[tuple] = []
        self._arrivals = 0

    def walk(self, length: int) -> None:
        """Add the greedy walk, and let the runner-up of each of its steps wait."""
        row = parent = 0
        for slot in range(length):
            ranked = self._order[slot, row].tolist()
            logs = self._logp[slot, row].tolist()
            self._wait(slot, ranked, logs, 1, parent)
            parent = self._add(slot, ranked[0], parent, logs[ranked[0]], GREEDY)
            row = ranked[0]

    def branch(self, budget: int) -> None:
        """Add the likeliest waiting nodes until there are `budget`."""
        while self._heap and len(self.tokens) <= budget:
            _, _, slot, ranked, logs, rank, parent = heappop(self._heap)
            choice = ranked[rank]
            node = self._add(slot, choice, parent, logs[choice], BRANCH)
            self._wait(slot, ranked, logs, rank + 1, parent)
            if slot + 1 < len(self._cand):
                below = self._order[slot + 1, choice].tolist()
                self._wait(slot + 1, below, self._logp[slot + 1, choice].tolist(), 0, node)

    def _wait(self, slot: int, ranked: list, logs: list, rank: int, parent: int) -> None:
        if rank < len(ranked):
            log = self.logs[parent] + logs[ranked[rank]]
            entry = (-log, self._arrivals, slot, ranked, logs, rank, parent)
            heappush(self._heap, entry)
            self._arrivals += 1

    def _add(self, slot: int, choice: int, parent: int, log: float, source: str) -> int:
        self.tokens.append(self._cand[slot][choice])
        self.parents.append(parent)
        self.logs.append(self.logs[parent] + log)
        self.source.append(SOURCE_CODE[source])
        return len(self.tokens) - 1
