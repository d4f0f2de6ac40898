"""The rules a draft tree must keep, checked on plain lists of node fields.

I1 a parent comes before its children; I2 each subtree is one contiguous range; I3 siblings carry
different tokens; I4 siblings descend in score. Every check raises ValueError naming the node.
"""

from tandem_jax.tree.merge import NodeLists


def check_lengths(nodes: NodeLists) -> None:
    """All four fields are equally long and hold at least the root."""
    lengths = [len(field) for field in nodes]
    if min(lengths) == 0 or len(set(lengths)) != 1:
        raise ValueError(f"tokens, parents, scores and source differ or are empty: {lengths}")


def check_parents(parents: list[int]) -> None:
    """I1, with -1 at the root alone."""
    if parents[0] != -1:
        raise ValueError(f"the root's parent must be -1, not {parents[0]}")
    for node in range(1, len(parents)):
        if not 0 <= parents[node] < node:
            raise ValueError(f"node {node}: parent {parents[node]} does not come before it (I1)")


def check_order(nodes: NodeLists) -> None:
    """I2, I3, I4 and the range of the scores, for nodes that pass `check_parents`."""
    open_path = [0]
    last_score: dict[int, float] = {}
    edges: set[tuple[int, int]] = set()
    for node in range(1, len(nodes.tokens)):
        parent, token, score = nodes.parents[node], nodes.tokens[node], nodes.scores[node]
        while open_path and open_path[-1] != parent:
            open_path.pop()
        if not open_path:
            raise ValueError(f"node {node}: the subtree of node {parent} is torn apart (I2)")
        open_path.append(node)
        if (parent, token) in edges:
            raise ValueError(f"node {node}: a sibling already carries token {token} (I3)")
        edges.add((parent, token))
        if not 0.0 <= score <= 1.0:
            raise ValueError(f"node {node}: score {score:g} is not in [0, 1]")
        if score > last_score.get(parent, 1.0):
            raise ValueError(f"node {node}: score {score:g} is above its left sibling's (I4)")
        last_score[parent] = score
