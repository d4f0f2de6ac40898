"""Drafters that are right or wrong on purpose."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_jax.drafters import make_drafter
from tandem_jax.drafters.wrong import other_token
from tandem_jax.errors import ConfigError
from tests.drafters.scripted import ScriptedDrafter

TRUTHS = st.lists(st.integers(0, 5), min_size=1, max_size=20)


def started(name, truth, *, vocab_size=6, seed=0):
    drafter = make_drafter(name, vocab_size=vocab_size, seed=seed)
    drafter.reset([1, 2], truth=truth)
    drafter.observe(truth[:1], None)
    return drafter


@given(TRUTHS, st.integers(1, 31), st.integers(1, 16), st.integers(0, 3))
def test_wrong_never_drafts_a_true_token(truth, max_nodes, max_depth, seed):
    tree = started("wrong", truth, seed=seed).propose(truth[0], max_nodes, max_depth)
    assert tree.is_chain
    assert tree.n_draft == min(max_nodes, max_depth)
    assert set(tree.source_names[1:]) == {"wrong"}
    for drafted, true in zip(tree.tokens[1:].tolist(), truth[1:], strict=False):
        assert drafted != true
    assert tree.accepted_against(truth[1:]) == 0


def test_wrong_works_with_two_tokens_and_without_a_truth():
    drafter = started("wrong", [0, 1, 0, 1], vocab_size=2)
    assert drafter.propose(0, 3, 3).tokens.tolist() == [0, 0, 1, 0]
    drafter.reset([5])
    drafter.observe([4], None)
    assert drafter.propose(4, 3, 3).n_draft == 3


def test_other_token_needs_one_that_is_left():
    assert other_token(Random(0), 3, {0, 2}) == 1
    with pytest.raises(ValueError, match="all 2 tokens"):
        other_token(Random(0), 2, {0, 1})


@given(st.lists(st.integers(0, 5), min_size=2, max_size=40), st.integers(1, 31), st.integers(1, 16))
def test_half_right_is_accepted_for_half_of_its_line(truth, max_nodes, max_depth):
    tree = started("half-right", truth).propose(truth[0], max_nodes, max_depth)
    line = int(tree.depth.max())
    assert line == min(len(truth) - 1, max_depth, (2 * max_nodes + 2) // 3)
    assert tree.accepted_against(truth[1:]) == (line + 1) // 2
    assert tree.n_draft <= max_nodes


def test_half_right_hides_the_truth_behind_better_scored_siblings():
    truth = [3, 4, 5, 0, 1, 2]
    tree = started("half-right", truth).propose(3, 6, 16)
    # A line of four tokens, two of them right, each beside a decoy that outranks it.
    assert tree.n_draft == 6
    assert tree.parents.tolist() == [-1, 0, 0, 2, 2, 4, 5]
    assert tree.tokens[[2, 4]].tolist() == [4, 5]
    assert tree.tokens[1] != 4
    assert tree.tokens[3] != 5
    assert tree.tokens[5] != 0
    picks = [4, 0, 5, 0, 0, 1, 2]
    assert tree.accept_walk(picks)[:3] == [0, 2, 4]


def test_half_right_needs_a_truth_and_declines_at_its_end():
    drafter = make_drafter("half-right", vocab_size=6)
    with pytest.raises(ConfigError, match="half-right needs the text") as caught:
        drafter.reset([1])
    assert "decode the request with the drafter none" in caught.value.hint
    assert started("half-right", [3]).propose(3, 16, 16) is None


@given(TRUTHS, st.integers(1, 31), st.integers(1, 16), st.integers(0, 50))
def test_random_trees_respect_their_limits(truth, max_nodes, max_depth, seed):
    tree = started("random", truth, seed=seed).propose(truth[0], max_nodes, max_depth)
    if tree is not None:
        assert 1 <= tree.n_draft <= max_nodes
        assert tree.depth.max() <= max_depth
        assert set(tree.source_names[1:]) == {"random"}


def test_random_rounds_are_bushy_long_right_wrong_and_declined():
    truth = [step % 6 for step in range(40)]
    proposals = [started("random", truth, seed=seed).propose(0, 31, 16) for seed in range(200)]
    drawn = [tree for tree in proposals if tree is not None]
    accepted = [tree.accepted_against(truth[1:]) for tree in drawn]
    assert 0 < len(proposals) - len(drawn) < 30
    assert min(accepted) == 0
    assert max(accepted) >= 6
    assert any(tree.is_chain and tree.n_draft > 5 for tree in drawn)
    assert any(int((tree.parents == 0).sum()) >= 4 for tree in drawn)
    # The accepted path is often not the first branch.
    assert any(tree.tokens[1] != truth[1] and tree.accepted_against(truth[1:]) for tree in drawn)


def test_random_trees_stop_when_the_vocabulary_is_used_up():
    for seed in range(20):
        tree = started("random", [0, 1], vocab_size=2, seed=seed).propose(0, 31, 2)
        assert tree is None or tree.n_draft <= 6


@pytest.mark.parametrize("name", ["wrong", "half-right", "random"])
def test_equal_seeds_draft_equally_and_others_do_not(name):
    truth = list(range(50, 90))
    first = started(name, truth, vocab_size=500, seed=1).propose(50, 16, 16)
    assert first == started(name, truth, vocab_size=500, seed=1).propose(50, 16, 16)
    assert first != started(name, truth, vocab_size=500, seed=2).propose(50, 16, 16)


@pytest.mark.parametrize("name", ["wrong", "half-right", "random"])
def test_a_token_that_was_not_observed_is_noticed(name):
    drafter = started(name, [1, 2, 3])
    with pytest.raises(ValueError, match="anchor 2, but 1 was observed last"):
        drafter.propose(2, 4, 4)


def test_the_truth_is_followed_from_round_to_round():
    truth = [3, 4, 5, 0, 1, 2]
    drafter = started("half-right", truth)
    drafter.observe([4, 5], None)
    assert drafter.propose(5, 1, 1).tokens.tolist() == [5, 0]
    drafter.reset([1], truth=[2, 1])
    drafter.observe([2], None)
    assert drafter.propose(2, 1, 1).tokens.tolist() == [2, 1]


def test_the_scripted_drafter_repeats_its_counts():
    truth = list(range(30))
    drafter = ScriptedDrafter(counts=(3, 0, 2, 0, 0, 4), rights=(None, 1), vocab_size=40)
    drafter.reset([1], truth=truth)
    drafter.observe([0], None)
    accepted, committed = [], 1
    for _ in range(7):
        tree = drafter.propose(committed - 1, 16, 16)
        n_right = 0 if tree is None else tree.accepted_against(truth[committed:])
        drafter.observe(truth[committed : committed + n_right + 1], None)
        committed += n_right + 1
        accepted.append(n_right)
    assert drafter.drafted == [3, 0, 2, 0, 0, 4, 3]
    assert accepted == [3, 0, 2, 0, 0, 1, 3]
