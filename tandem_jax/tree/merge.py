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
    return NodeLists(
        [nodes.tokens[old] for old in order],
        [-1] + [place[nodes.parents[old]] for old in order[1:]],
        [nodes.scores[old] for old in order],
        [nodes.source[old] for old in order],
    )


def grafted(first: NodeLists, second: NodeLists) -> NodeLists:
    """Union of two trees: equal paths share a node, which keeps the first source and best score.

    Returns the union in canonical order; raises ValueError when the roots differ.
    """
    if first.tokens[0] != second.tokens[0]:
        raise ValueError(
            f"trees grow from different anchors: {first.tokens[0]} and {second.tokens[0]}"
        )
    union = NodeLists(*(list(field) for field in first))
    child_of = {
        (union.parents[node], union.tokens[node]): node for node in range(1, len(union.tokens))
    }
    place = [0] * len(second.tokens)
    for node in range(1, len(second.tokens)):
        edge = (place[second.parents[node]], second.tokens[node])
        shared = child_of.get(edge)
        if shared is None:
            shared = child_of[edge] = len(union.tokens)
            union.tokens.append(edge[1])
            union.parents.append(edge[0])
            union.scores.append(second.scores[node])
            union.source.append(second.source[node])
        elif second.scores[node] > union.scores[shared]:
            union.scores[shared] = second.scores[node]
        place[node] = shared
    return reordered(union)
