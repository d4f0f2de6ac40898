"""From a lattice to a draft tree: the greedy walk first, then the likeliest branches."""

from heapq import heapify, heappop, heappush, heapreplace
from math import inf
from typing import NamedTuple

import numpy as np

from tandem_jax.drafters.lattice import GREEDY, Lattice
from tandem_jax.tree import DraftTree
from tandem_jax.tree.draft_tree import SOURCE_CODE
from tandem_jax.tree.merge import NodeLists

BRANCH = "df2-tree"  # source of the nodes beside the greedy walk


def lattice_tree(lattice: Lattice, anchor: int, budget: int) -> DraftTree | None:
    """The tree of `lattice_nodes`."""
    nodes = lattice_nodes(lattice, anchor, budget)
    return None if nodes is None else DraftTree.of_lists(nodes)


def lattice_nodes(lattice: Lattice, anchor: int, budget: int) -> NodeLists | None:
    """The `budget` nodes that hold most probability, the greedy walk among them; None without any.

    A node's score is the probability of its path at the lattice's temperature, each step read in
    the row of its parent's candidate. The walk comes first whatever its score; then the likeliest
    node whose parent is in the tree, again and again, ties to the one found first. Without the
    walk's privilege this is the best ancestor-closed set of that size. The walk is the first run
    of the nodes. Takes a lattice whose scores are finite.
    """
    if budget < 1:
        return None
    grown = _Grown([anchor], [-1], [0.0], [])
    log_sums = _log_sums(lattice).tolist()
    n_walk = min(budget, len(lattice.cand))
    _walk(grown, lattice, log_sums, n_walk)
    _branch(grown, lattice, log_sums, budget)
    scores = np.exp(np.array(grown.logs)).astype(np.float32).tolist()
    source = [0] + [SOURCE_CODE[GREEDY]] * n_walk
    source += [SOURCE_CODE[BRANCH]] * (len(scores) - len(source))
    return NodeLists(grown.tokens, grown.parents, scores, source)


def _log_sums(lattice: Lattice) -> np.ndarray:
    """Logarithm [L, k] of what the exponentials behind each candidate sum to."""
    # Candidates first: numpy is slow at reducing a short last axis.
    x = np.array(lattice.scores.transpose(2, 0, 1), np.float64, order="C")
    x /= lattice.temperature
    top = x.max(axis=0)
    x -= top
    # Single precision is exact enough for numbers of at most 1, and twice as fast. What is cut off
    # at exp(-80) does not show in a sum that holds a 1.
    x = np.maximum(x, -80.0, out=x).astype(np.float32)
    return top + np.log(np.exp(x, out=x).sum(axis=0, dtype=np.float64))


class _Grown(NamedTuple):
    """A tree under construction, and what waits to join it.

    A row is the list of scores behind one node, less those of the nodes it has given to the tree
    (struck out: -inf). Of each row only the best one waits, and is followed by the next best.
    """

    tokens: list[int]  # [n+1], the anchor first
    parents: list[int]  # [n+1]
    logs: list[float]  # [n+1] log-probability of the path to each node
    heap: list[tuple]  # (-log, arrival, parent, slot, row, score, base); log: of the whole path,
    # base + score / temperature


def _walk(grown: _Grown, lattice: Lattice, log_sums: list[list[float]], length: int) -> None:
    """Add the greedy walk; the second best of each of its steps waits."""
    tokens, parents, logs, heap = grown
    choice = log = 0
    for slot in range(length):
        row = lattice.scores[slot, choice].tolist()
        base = log - log_sums[slot][choice]
        best = max(row)
        choice = row.index(best)
        row[choice] = -inf
        log = base + best / lattice.temperature
        tokens.append(int(lattice.cand[slot, choice]))
        parents.append(slot)
        logs.append(log)
        second = max(row)
        if second > -inf:
            heap.append((-base - second / lattice.temperature, slot, slot, slot, row, second, base))
    heapify(heap)


def _branch(grown: _Grown, lattice: Lattice, log_sums: list[list[float]], budget: int) -> None:
    """Add the likeliest waiting nodes until there are `budget`.

    Behind each one its next best sibling and its best child begin to wait.
    """
    tokens, parents, logs, heap = grown
    scores, temperature, slots = lattice.scores, lattice.temperature, len(lattice.cand)
    arrivals = slots
    while heap and len(tokens) <= budget:
        negative_log, _, parent, slot, row, best, base = heap[0]
        choice = row.index(best)
        row[choice] = -inf
        best = max(row)
        if best > -inf:
            sibling = (-base - best / temperature, arrivals, parent, slot, row, best, base)
            heapreplace(heap, sibling)
        else:
            heappop(heap)
        if slot + 1 < slots:
            below = scores[slot + 1, choice].tolist()
            base = -negative_log - log_sums[slot + 1][choice]
            best, node = max(below), len(tokens)
            log = base + best / temperature
            heappush(heap, (-log, arrivals + 1, node, slot + 1, below, best, base))
        arrivals += 2
        tokens.append(int(lattice.cand[slot, choice]))
        parents.append(parent)
        logs.append(-negative_log)
