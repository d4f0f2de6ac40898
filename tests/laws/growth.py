"""Random draft trees for laws and contracts, drawn with numpy so that one seed is one test."""

from collections.abc import Sequence

import numpy as np

from tandem_jax.tree import DraftTree

P_TRUE = 0.7  # chance that a node below a right path carries the right token, if still free


def random_parents(rng: np.random.Generator, n_nodes: int) -> list[int]:
    """Parents in depth-first pre-order, -1 for the root; from chains to stars."""
    climb = rng.choice([0.0, 0.1, 0.3, 0.5, 0.9])
    parents = [-1]
    for node in range(1, n_nodes):
        parent = node - 1
        while parent > 0 and rng.random() < climb:
            parent = parents[parent]
        parents.append(parent)
    return parents


def path_to(parents: Sequence[int], node: int) -> list[int]:
    """Nodes from the root down to `node`."""
    path = [node]
    while parents[path[-1]] >= 0:
        path.append(int(parents[path[-1]]))
    return path[::-1]


def depths(parents: Sequence[int]) -> list[int]:
    """Edges between each node and the root."""
    return [len(path_to(parents, node)) - 1 for node in range(len(parents))]


def random_tree(
    rng: np.random.Generator, anchor: int, truth: Sequence[int], n_draft: int, vocab: int
) -> DraftTree:
    """A tree of random shape whose paths follow `truth`, the tokens after the anchor, in part."""
    parents = random_parents(rng, n_draft + 1)
    depth = depths(parents)
    tokens, right, taken = [anchor], [True], [set() for _ in parents]
    for node in range(1, n_draft + 1):
        up, level = parents[node], depth[node] - 1
        wanted = truth[level] if right[up] and level < len(truth) else None
        token = wanted
        if wanted is None or wanted in taken[up] or rng.random() > P_TRUE:
            token = int(rng.integers(vocab))
            while token in taken[up]:
                token = int(rng.integers(vocab))
        taken[up].add(token)
        tokens.append(token)
        right.append(token == wanted)
    return DraftTree.from_parents(tokens, parents, source="random")
