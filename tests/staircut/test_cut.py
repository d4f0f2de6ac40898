"""The staircase cut against the published vectors and against brute force."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_jax.staircut.cut import SNAP, Costs, admission, curve, greedy_chain, staircut
from tandem_jax.tree import DraftTree

# Verify and commit at 1k tokens of context, rows -> ms, as the project's pages publish them.
TREE = {2: 74.47, 4: 74.73, 8: 75.50, 12: 73.44, 16: 74.36}
TREE |= {17: 80.48, 20: 81.04, 24: 83.13, 28: 85.78, 32: 87.76}
CHAIN = {2: 74.53, 4: 74.79, 8: 75.39, 12: 72.89, 16: 74.35}
CHAIN |= {17: 78.12, 20: 79.26, 24: 80.02, 28: 81.77, 32: 85.46}


def by_rows(table):
    return np.interp(range(33), list(table), list(table.values())).tolist()


def bush(width, depth, first, rest):
    """`width` lines of `depth` nodes; the first one starts at `first`, a child has 0.8 of it."""
    tokens, parents, scores = [0], [-1], [1.0]
    for line in range(width):
        parent, score = 0, first if line == 0 else rest
        for level in range(depth):
            tokens.append(1 + line * depth + level)
            parents.append(parent)
            scores.append(score)
            parent, score = len(tokens) - 1, score * 0.8
    return DraftTree.from_parents(tokens, parents, scores=scores, source="df2-tree")


# The published vectors count the commit of 6.6 ms on top of the table.
@pytest.mark.parametrize(
    ("shape", "nodes", "tokens_a_second"),
    [
        ((4, 8, 0.9, 0.05), 15, 52.596),
        ((4, 7, 0.6, 0.01), 15, 35.825),
        ((4, 7, 0.99, 0.6), 28, 111.470),
    ],
)
def test_published_bushes(shape, nodes, tokens_a_second):
    tree = bush(*shape)
    cut = staircut(tree, tree.scores.tolist(), Costs(by_rows(TREE), draft=15.0, commit=6.6))
    assert cut.step.nodes == cut.tree.n_draft == nodes
    assert 1e3 * cut.step.value == pytest.approx(
        tokens_a_second,
        abs=5e-3,  # the table is rounded to 0.01 ms
    )


def test_published_gain_and_price():
    tree = bush(4, 8, 0.9, 0.05)
    step = staircut(tree, tree.scores.tolist(), Costs(by_rows(TREE), draft=15.0, commit=6.6)).step
    assert step.gain == pytest.approx(4.047025, abs=1e-5)
    assert step.ms == pytest.approx(95.9581, abs=5e-3)


def test_published_chain():
    scores = [0.95**i for i in range(1, 16)]
    chain = DraftTree.chain(0, range(1, 16), scores=scores, source="df2-greedy")
    costs = Costs(by_rows(CHAIN), draft=15.0, rollback=6.4)
    step = staircut(chain, chain.scores.tolist(), costs).step
    assert step.nodes == 15
    assert step.gain == pytest.approx(10.197467, abs=1e-5)
    assert step.ms == pytest.approx(91.4025, abs=5e-3)
    assert 1e3 * step.value == pytest.approx(122.507, abs=5e-3)


def test_nothing_to_cut():
    costs = Costs([1.0] * 33)
    assert staircut(DraftTree.root_only(3), [1.0], costs) is None
    assert staircut(bush(2, 2, 0.5, 0.4), [1.0] * 5, costs, max_nodes=0) is None


def test_the_first_of_equal_counts_wins():
    """A flat price and nothing to gain past the seventh node: the cut stays there."""
    tree = bush(1, 20, 1.0, 1.0)
    q = [1.0] * 8 + [0.0] * 13
    assert staircut(tree, q, Costs([50.0] * 33)).step.nodes == 7


def test_gain_counts_at_most_one_token_a_node():
    tree = bush(1, 7, 1.0, 1.0)
    step = staircut(tree, [1.0] + [1.5] * 7, Costs([10.0] * 33)).step
    assert step.gain == pytest.approx(10.5)
    assert step.value == pytest.approx((7 + 1) / 10)


def test_greedy_chain_takes_the_best_child():
    tree = bush(3, 4, 0.6, 0.5)
    chain = greedy_chain(tree)
    assert chain.is_chain
    assert chain.tokens.tolist() == [0, 1, 2, 3, 4]
    alone = DraftTree.root_only(5)
    assert greedy_chain(alone) == alone


@st.composite
def candidates(draw):
    """A tree of up to nine nodes whose scores may rise along a path, its q and its prices."""
    n = draw(st.integers(1, 9))
    parents = [-1] + [draw(st.integers(0, i)) for i in range(n)]
    share = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.5, 0.75, 1.0])
    scores = [1.0] + [draw(share) for _ in range(n)]
    tree = DraftTree.from_parents(range(n + 1), parents, scores=scores, source="lookup")
    q = [1.0] + [draw(share) for _ in range(n)]
    prices = draw(st.lists(st.integers(10, 40), min_size=11, max_size=11))
    rollback = draw(st.sampled_from([None, 0.0, 6.0]))
    costs = Costs(
        [float(p) for p in prices], draft=draw(st.sampled_from([0.0, 15.0])), rollback=rollback
    )
    snap = tuple(draw(st.sets(st.integers(1, 9), max_size=3)))
    return tree, q, costs, snap, draw(st.integers(1, 9))


def prefixes(tree, max_nodes):
    """Every set the admission rule passes through, built anew from its words for each length."""
    ranked = sorted(range(1, len(tree)), key=lambda i: -tree.scores[i])
    found = []
    for length in range(1, len(ranked) + 1):
        kept = {0}
        for node in ranked[:length]:
            path = set(np.flatnonzero(tree.ancestors[node]).tolist())
            if len(kept | path) - 1 <= max_nodes:
                kept |= path
        if kept != {0} and kept not in found:
            found.append(kept)
    return found


def value_of(kept, q, costs):
    n, gain = len(kept) - 1, sum(q[node] for node in kept if node)
    ms = costs.verify[n + 1] + costs.draft
    ms += costs.commit if costs.rollback is None else costs.rollback * np.clip(1 - gain / n, 0, 1)
    return (min(gain, n) + 1) / ms


@given(candidates())
def test_the_cut_is_the_best_admissible_prefix(given_):
    tree, q, costs, snap, max_nodes = given_
    sets = prefixes(tree, max_nodes)
    allowed = [s for s in sets if len(s) - 1 in snap or s == sets[-1]] if sets else []
    cut = staircut(tree, q, costs, snap=snap, max_nodes=max_nodes)
    if not allowed:
        assert cut is None
        return
    best = max(value_of(s, q, costs) for s in allowed)
    assert cut.step.value == pytest.approx(best, rel=1e-12)
    first = next(s for s in allowed if value_of(s, q, costs) >= best * (1 - 1e-12))
    assert cut.tree == tree.subset(sorted(first))
    assert cut.step.nodes == cut.tree.n_draft <= max_nodes


@given(candidates())
def test_a_cut_keeps_every_ancestor(given_):
    tree, q, costs, snap, max_nodes = given_
    cut = staircut(tree, q, costs, snap=snap, max_nodes=max_nodes)
    if cut is not None:
        cut.tree.validate()
        paths = {tuple(tree.tokens[np.flatnonzero(row)].tolist()) for row in tree.ancestors}
        kept = cut.tree
        for row in kept.ancestors:
            assert tuple(kept.tokens[np.flatnonzero(row)].tolist()) in paths


@given(candidates())
def test_the_curve_shows_where_the_cut_fell(given_):
    tree, q, costs, snap, max_nodes = given_
    steps = curve(tree, q, costs, snap=snap, max_nodes=max_nodes)
    cut = staircut(tree, q, costs, snap=snap, max_nodes=max_nodes)
    assert (cut is None) == (not steps)
    if cut is not None:
        assert cut.step in steps
        assert all(step.value <= cut.step.value for step in steps if step.eligible)
        assert [step.nodes for step in steps] == sorted({step.nodes for step in steps})


def test_a_node_that_does_not_fit_is_passed_over():
    """The best leaf needs three ancestors; with room for two nodes a cheaper one gets in."""
    tree = DraftTree.from_parents(
        [0, 1, 2, 3, 4], [-1, 0, 1, 2, 0], scores=[1, 0.1, 0.1, 0.9, 0.05], source="lookup"
    )
    assert admission(tree.lists(), 31) == ([3, 2, 1, 4], [3, 4])
    assert admission(tree.lists(), 2) == ([1, 2], [1, 2])
    assert admission(tree.lists(), 0) == ([], [])
    assert SNAP == (7, 15, 23, 31)
