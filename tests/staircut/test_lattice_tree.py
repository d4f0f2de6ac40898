"""Trees from lattices against a best-first search written from its definition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem_jax.drafters import Lattice
from tandem_jax.staircut.cut import greedy_chain
from tandem_jax.staircut.lattice_tree import lattice_tree

ANCHOR = 900


def random_lattice(seed, slots=15, k=16, scale=3.0, temperature=1.4):
    rng = np.random.default_rng(seed)
    cand = np.stack([rng.permutation(800)[:k] for _ in range(slots)]).astype(np.int32)
    scores = (scale * rng.standard_normal((slots, k, k))).astype(np.float32)
    return Lattice(cand, scores, temperature)


def log_rows(lattice):
    x = lattice.scores.astype(np.float64) / lattice.temperature
    x -= x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def best_first(lattice, budget):
    """{path of candidate indices: log-probability}: the walk, then the best child of any node."""
    logp, walk = log_rows(lattice), lattice.greedy_walk().tolist()
    slots, k = lattice.cand.shape
    tree = {(): 0.0}
    for slot in range(min(budget, slots)):
        path = tuple(walk[: slot + 1])
        tree[path] = tree[path[:-1]] + logp[slot, path[-2] if slot else 0, path[-1]]
    while len(tree) - 1 < budget:
        best = max(
            (
                (log + logp[len(path), path[-1] if path else 0, c], (*path, c))
                for path, log in tree.items()
                if len(path) < slots
                for c in range(k)
                if (*path, c) not in tree
            ),
            default=None,
        )
        if best is None:
            break
        tree[best[1]] = best[0]
    return tree


def paths_of(tree):
    """{token path: score} of every drafted node."""
    return {
        tuple(tree.tokens[np.flatnonzero(row)][1:].tolist()): float(tree.scores[node])
        for node, row in enumerate(tree.ancestors)
        if node
    }


@pytest.mark.parametrize("budget", [1, 2, 7, 15, 16, 31])
@pytest.mark.parametrize("seed", range(4))
def test_the_likeliest_nodes_around_the_walk(seed, budget):
    lattice = random_lattice(seed, scale=(0.5, 3.0)[seed % 2])
    tree = lattice_tree(lattice, ANCHOR, budget)
    wanted = {
        tuple(lattice.cand[slot, c] for slot, c in enumerate(path)): np.exp(log)
        for path, log in best_first(lattice, budget).items()
        if path
    }
    found = paths_of(tree)
    assert found.keys() == wanted.keys()
    for path, score in found.items():
        assert score == pytest.approx(wanted[path], rel=1e-6)
    assert tree.n_draft == budget


@settings(max_examples=30)
@given(st.integers(0, 2**31), st.integers(1, 31), st.integers(1, 9), st.integers(1, 6))
def test_trees_are_lawful(seed, budget, slots, k):
    lattice = random_lattice(seed, slots=slots, k=k)
    tree = lattice_tree(lattice, ANCHOR, budget)
    tree.validate()
    full = sum(k**depth for depth in range(1, slots + 1))
    assert tree.n_draft == min(budget, full)
    up = tree.scores[np.maximum(tree.parents, 0)]
    assert (tree.scores <= up).all()


def test_the_walk_is_named_and_comes_whole():
    """Low scores do not cost the walk a node while the budget lasts."""
    lattice = random_lattice(1, scale=0.1)
    tree = lattice_tree(lattice, ANCHOR, 31)
    walk = lattice.greedy_chain(ANCHOR, 15)
    named = [n for n, name in enumerate(tree.source_names) if name == "df2-greedy"]
    assert tree.tokens[named].tolist() == walk.tokens[1:].tolist()
    np.testing.assert_allclose(tree.scores[named], walk.scores[1:], rtol=1e-6)
    assert set(tree.source_names[1:]) == {"df2-greedy", "df2-tree"}


def test_a_sharp_lattice_gives_the_walk_as_greedy_chain():
    lattice = random_lattice(2, scale=12.0)
    assert greedy_chain(lattice_tree(lattice, ANCHOR, 31)).tokens[:8].tolist() == (
        lattice.greedy_chain(ANCHOR, 7).tokens.tolist()
    )


def test_nothing_for_no_budget():
    assert lattice_tree(random_lattice(0), ANCHOR, 0) is None


def test_temperature_flattens_scores_and_keeps_the_walk():
    sharp, flat = (random_lattice(5, temperature=t) for t in (1.0, 2.5))
    trees = [lattice_tree(lattice, ANCHOR, 15) for lattice in (sharp, flat)]
    walks = [tree.tokens[tree.source == tree.source[1]].tolist() for tree in trees]
    assert trees[0].source_names[1] == "df2-greedy"
    assert walks[0] == walks[1]
    assert trees[0].scores[1] > trees[1].scores[1]


def test_scores_of_any_size_give_probabilities():
    """Float32 at its limits: one candidate has everything, and there is no warning."""
    lattice = random_lattice(3, slots=3, k=4)
    scores = np.where(lattice.scores > 0, 3e38, -3e38).astype(np.float32)
    scores[:, :, 0], scores[:, :, 1:] = 3e38, np.minimum(scores[:, :, 1:], 0)
    tree = lattice_tree(Lattice(lattice.cand, scores, 0.5), ANCHOR, 12)
    tree.validate()
    assert tree.scores[:4].tolist() == [1.0, 1.0, 1.0, 1.0]
    assert tree.scores[4:].max() == 0.0


def test_of_equal_nodes_the_one_found_first_comes_first():
    """All alike: the walk takes candidate 0 down to the end, then depth one fills up in order."""
    lattice = random_lattice(4, slots=3, k=4)
    flat = Lattice(lattice.cand, np.zeros_like(lattice.scores), 1.4)
    tree = lattice_tree(flat, ANCHOR, 6)
    assert tree.tokens.tolist() == [
        ANCHOR, *flat.cand[:3, 0].tolist(), *flat.cand[0, 1:].tolist()
    ]  # fmt: skip
    assert tree.scores.tolist() == pytest.approx([1, 1 / 4, 1 / 16, 1 / 64, 1 / 4, 1 / 4, 1 / 4])


@given(st.integers(0, 2**31), st.integers(1, 30))
def test_a_smaller_tree_is_part_of_a_larger_one(seed, budget):
    """Nodes are added one by one: more room takes nothing back (past the walk)."""
    lattice = random_lattice(seed, slots=4, k=5)
    budget = max(budget, 4)
    small, large = (paths_of(lattice_tree(lattice, ANCHOR, n)) for n in (budget, budget + 1))
    assert small.items() <= large.items()
