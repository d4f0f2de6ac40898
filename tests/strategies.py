"""Hypothesis strategies shared by all rooms' tests: random draft trees."""

import numpy as np
from hypothesis import strategies as st

from tandem_jax.tree import DraftTree


@st.composite
def parent_arrays(draw, *, min_nodes: int = 1, max_nodes: int = 31) -> np.ndarray:
    """[nodes] int32 parents in depth-first pre-order, root included: -1, then legal parents."""
    n_nodes = draw(st.integers(min_nodes, max_nodes))
    # How far node i climbs from node i-1 before it hangs on: 0 lengthens the line.
    climbs = draw(st.lists(st.integers(0, 6), min_size=n_nodes - 1, max_size=n_nodes - 1))
    parents = [-1]
    for node, climb in enumerate(climbs, start=1):
        parent = node - 1
        for _ in range(climb):
            parent = max(parents[parent], 0)
        parents.append(parent)
    return np.array(parents, np.int32)


@st.composite
def trees(
    draw,
    *,
    min_nodes: int = 1,
    max_nodes: int = 31,
    vocab_size: int = 40,
    anchor: int | None = None,
    source: str = "random",
) -> DraftTree:
    """Trees of `min_nodes` to `max_nodes` nodes, root included; siblings carry different tokens.

    Scores never rise along a path. A small vocabulary (which must hold `max_nodes` tokens) makes
    two draws share paths.
    """
    assert vocab_size >= max_nodes, "siblings could not all differ"
    parents = draw(parent_arrays(min_nodes=min_nodes, max_nodes=max_nodes)).tolist()
    n_nodes = len(parents)
    wishes = st.lists(st.integers(0, vocab_size - 1), min_size=n_nodes, max_size=n_nodes)
    tokens = draw(wishes)
    if anchor is not None:
        tokens[0] = anchor
    ratios = draw(st.lists(st.integers(0, 8), min_size=n_nodes, max_size=n_nodes))
    taken = [set() for _ in parents]
    scores = [1.0]
    for node in range(1, n_nodes):
        siblings = taken[parents[node]]
        while tokens[node] in siblings:
            tokens[node] = (tokens[node] + 1) % vocab_size
        siblings.add(tokens[node])
        scores.append(scores[parents[node]] * ratios[node] / 8)
    return DraftTree.from_parents(tokens, parents, scores=scores, source=source)
