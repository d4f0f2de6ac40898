"""Order and union of trees, on plain lists of node fields.

A round handles a few dozen nodes, where Python lists beat numpy's cost per call; nothing here
outlives the call.
"""

from collections.abc import Sequence
from typing import NamedTuple


class NodeLists(NamedTuple):
    """Node fields of one tree as lists of equal length; index 0 is the root."""

    tokens: list[int]  # [N+1] token ids
    parents: list[int]  # [N+1] parent indices, -1 for the root, else smaller than the own index
    scores: list[float]  # [N+1] path probabilities
    source: list[int]  # [N+1] codes into SOURCES

    @property
    def is_chain(self) -> bool:
        """True when every node continues the one before it."""
        return self.parents == list(range(-1, len(self.parents) - 1))


def preorder(parents: Sequence[int], scores: Sequence[float]) -> list[int]:
    """Depth-first order of the nodes, children by descending score, ties as inserted.

    parents [N+1] with parents[i] < i, scores [N+1]; returns the N+1 node indices.
    """
    children: list[list[int]] = [[] for _ in parents]
    for node in range(1, len(parents)):
        children[parents[node]].append(node)
    order: list[int] = []
    stack = [0]
    while stack:
        node = stack.pop()
        order.append(node)
        ranked = children[node]
        if len(ranked) > 1:
            # The best on top of the stack, and of equals the first: sorted from the back.
            ranked.reverse()
            ranked.sort(key=scores.__getitem__)
        stack += ranked
    return order


def reordered(nodes: NodeLists) -> NodeLists:
    """The same tree in the canonical order of `preorder`."""
    order = preorder(nodes.parents, nodes.scores)
    place = [0] * len(order)
    for new, old in enumerate(order):
        place[old] = new
    tokens, parents, scores, source = (list(map(field.__getitem__, order)) for field in nodes)
    return NodeLists(tokens, [-1] + [place[parent] for parent in parents[1:]], scores, source)


def grafted(first: NodeLists, second: NodeLists) -> NodeLists:
    """`united` in canonical order."""
    return reordered(united(first, second))


def united(first: NodeLists, second: NodeLists) -> NodeLists:
    """Union of two trees: equal paths share a node, which keeps the first source and best score.

    The first tree's nodes come first, parents before children; raises ValueError when the roots
    differ.
    """
    if first.tokens[0] != second.tokens[0]:
        raise ValueError(
            f"trees grow from different anchors: {first.tokens[0]} and {second.tokens[0]}"
        )
    tokens, parents, scores, source = (list(field) for field in first)
    child_of = dict(zip(zip(parents, tokens, strict=True), range(len(tokens)), strict=True))
    place = [0]
    for node, token in enumerate(second.tokens[1:], start=1):
        parent, score = place[second.parents[node]], second.scores[node]
        shared = child_of.setdefault((parent, token), len(tokens))
        if shared == len(tokens):
            tokens.append(token)
            parents.append(parent)
            scores.append(score)
            source.append(second.source[node])
        elif score > scores[shared]:
            scores[shared] = score
        place.append(shared)
    return NodeLists(tokens, parents, scores, source)
