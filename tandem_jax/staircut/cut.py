"""The staircase cut: the node count of a candidate tree that earns most tokens a millisecond."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from tandem_jax.tree import DraftTree
from tandem_jax.tree.merge import NodeLists

MAX_NODES = 31  # drafted nodes that fit into 32 rows
SNAP = (7, 15, 23, 31)  # node counts that fill 8, 16, 24 and 32 rows


@dataclass(frozen=True)
class Costs:
    """What verifying a candidate costs, in milliseconds."""

    verify: Sequence[float]  # [R+1] by rows, the anchor included; verify and commit together
    draft: float = 0.0  # of the head that proposed it
    commit: float = 0.0  # on top, where `verify` does not hold the commit
    rollback: float | None = None  # of a chain that is rejected somewhere; None for a tree


class Step(NamedTuple):
    """One node count of a candidate: what it earns and what it costs."""

    nodes: int  # drafted nodes kept
    gain: float  # sum of q over them: tokens to expect beside the model's own
    ms: float  # price of the round, milliseconds
    value: float  # expected tokens a millisecond
    eligible: bool  # a cut may end here


@dataclass(frozen=True)
class Cut:
    """A candidate, cut; only the one that is taken becomes a tree of its own."""

    candidate: NodeLists
    kept: Sequence[int]  # nodes of the candidate that stay, the root among them, in any order
    step: Step  # where the cut fell

    @cached_property
    def tree(self) -> DraftTree:
        """The nodes that stay."""
        kept = sorted(self.kept)
        place = {node: row for row, node in enumerate(kept)}
        tokens, parents, scores, source = self.candidate
        lists = NodeLists(
            [tokens[node] for node in kept],
            [-1, *(place[parents[node]] for node in kept[1:])],
            [scores[node] for node in kept],
            [source[node] for node in kept],
        )
        return DraftTree.of_lists(lists)


def staircut(
    tree: DraftTree | NodeLists,
    q: Sequence[float],
    costs: Costs,
    *,
    snap: Sequence[int] = SNAP,
    max_nodes: int = MAX_NODES,
) -> Cut | None:
    """The best cut of a candidate, or None if it has no node or none fits.

    The candidate is a tree, or the nodes of one that are yet to be ordered.

    q [N+1]: probability that each node is accepted, q[0] unused. Nodes come in by descending raw
    score (stable), each with the ancestors it still lacks; one that does not fit is passed over.
    A cut ends at a count in `snap`, or where all that fits is in. Its value is

        (1 + min(sum q, n)) / (verify(n + 1) + draft + commit),

    and a chain pays rollback * clip(1 - sum q / n, 0, 1) in place of the commit. The first of the
    best counts wins.
    """
    nodes = tree.lists() if isinstance(tree, DraftTree) else tree
    order, counts = admission(nodes, max_nodes)
    wanted = {*snap, len(order)}
    ends = [n for n in counts if n in wanted]
    best: Step | None = None
    for step in _steps(order, ends, q, costs, snap):
        if best is None or step.value > best.value:
            best = step
    return None if best is None else Cut(nodes, [0, *order[: best.nodes]], best)


def curve(
    tree: DraftTree,
    q: Sequence[float],
    costs: Costs,
    *,
    snap: Sequence[int] = SNAP,
    max_nodes: int = MAX_NODES,
) -> list[Step]:
    """Every node count that the cut passes, for pictures and tables; arguments as `staircut`."""
    order, counts = admission(tree.lists(), max_nodes)
    return list(_steps(order, counts, q, costs, snap))


def admission(nodes: NodeLists, max_nodes: int) -> tuple[list[int], list[int]]:
    """Nodes in the order they come in, and the counts between which one comes with its ancestors.

    The nodes up to any of the counts are closed under ancestors.
    """
    scores, parents = nodes.scores, nodes.parents
    kept = [True] + [False] * (len(parents) - 1)
    order: list[int] = []
    counts: list[int] = []
    # `reverse` keeps equals in their order.
    for node in sorted(range(1, len(parents)), key=scores.__getitem__, reverse=True):
        if kept[node]:
            continue
        if len(order) >= max_nodes:
            break
        if kept[parents[node]]:  # nearly always: scores seldom rise along a path
            kept[node] = True
            order.append(node)
            counts.append(len(order))
            continue
        group = []
        while not kept[node]:
            group.append(node)
            node = parents[node]
        if len(order) + len(group) <= max_nodes:
            for member in group:
                kept[member] = True
            order += group
            counts.append(len(order))
    return order, counts


def greedy_chain(tree: DraftTree) -> DraftTree:
    """The walk that takes the child of the highest score at each node."""
    return tree.truncate(_first_run(tree.parents.tolist()))


def first_run(nodes: NodeLists) -> NodeLists:
    """The nodes up to the first that does not continue the one before it.

    In a pre-order with the best child first, and in the nodes of a lattice, the greedy walk.
    """
    rows = _first_run(nodes.parents)
    return NodeLists(*(field[:rows] for field in nodes))


def _first_run(parents: Sequence[int]) -> int:
    rows = 1
    while rows < len(parents) and parents[rows] == rows - 1:
        rows += 1
    return rows


def _steps(
    order: list[int], counts: list[int], q: Sequence[float], costs: Costs, snap: Sequence[int]
) -> Iterator[Step]:
    """The counts in turn, valued."""
    gains = list(accumulate(map(q.__getitem__, order)))
    fixed, rollback = costs.draft + costs.commit, costs.rollback
    if rollback is not None:
        fixed = costs.draft
    for n in counts:
        gain = gains[n - 1]
        ms = costs.verify[n + 1] + fixed
        if rollback is not None:
            ms += rollback * min(max(1.0 - gain / n, 0.0), 1.0)
        yield Step(n, gain, ms, (min(gain, n) + 1.0) / ms, n in snap or n == len(order))
