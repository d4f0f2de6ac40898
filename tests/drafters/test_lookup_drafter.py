"""Lookup: index against a brute-force search, votes and scores by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_jax.drafters.lookup import LookupDrafter
from tandem_jax.drafters.ngrams import MAX_ORDER, NgramIndex

TOKENS = st.lists(st.integers(0, 3), max_size=60)


def lookup_after(prompt, *rounds, **options):
    drafter = LookupDrafter(**options)
    drafter.reset(prompt)
    for tokens in rounds:
        drafter.observe(tokens, None)
    return drafter


def brute_force_match(text, min_order):
    for order in range(min(MAX_ORDER, len(text)), min_order - 1, -1):
        gram = text[-order:]
        followers = [end for end in range(order, len(text)) if text[end - order : end] == gram]
        if followers:
            return order, followers[::-1][:24]
    return 0, []


def test_a_single_witness_decays_by_1_over_1_6_a_level():
    tree = lookup_after([1, 2, 3, 4, 1], [2]).propose(2, 16, 16)
    assert tree.is_chain
    assert tree.tokens.tolist() == [2, 3, 4, 1, 2]
    assert tree.scores.tolist() == pytest.approx([1.6**-level for level in range(5)], rel=1e-6)
    assert set(tree.source_names[1:]) == {"lookup"}


def test_votes_of_three_places():
    text = [1, 2, 3, 8, 1, 2, 3, 9, 1, 2, 4, 7, 1]
    tree = lookup_after(text, [2]).propose(2, 5, 2)
    # 3 was seen twice, 4 once: 2/3.6 and 1/3.6; below 3 the newer witness (9) comes first.
    assert tree.tokens.tolist() == [2, 3, 9, 8, 4, 7]
    assert tree.parents.tolist() == [-1, 0, 1, 1, 0, 4]
    twice, once = 2 / 3.6, 1 / 3.6
    assert tree.scores.tolist() == pytest.approx(
        [1, twice, twice / 2.6, twice / 2.6, once, once / 1.6], rel=1e-6
    )


def test_the_longest_match_alone_votes():
    text = [6, 1, 2, 3, 0, 1, 2, 4, 0, 1, 2, 4, 6, 1]
    tree = lookup_after(text, [2]).propose(2, 1, 1)
    assert tree.tokens.tolist() == [2, 3]
    assert tree.scores.tolist() == pytest.approx([1, 0.625])


def test_at_most_three_children_the_heaviest():
    text = []
    for follower, count in ((10, 1), (11, 3), (12, 2), (13, 2), (14, 1)):
        text += [1, 2, follower] * count
    tree = lookup_after(text, [1, 2]).propose(2, 16, 1)
    assert tree.tokens.tolist() == [2, 11, 13, 12]
    assert tree.scores.tolist() == pytest.approx([1, 3 / 9.6, 2 / 9.6, 2 / 9.6])


def test_the_newest_24_places_vote():
    text = [1, 2, 3] * 5 + [1, 2, 4] * 24
    for prompt, rest in ((text, [1, 2]), ([], [*text, 1, 2]), (text[:30], [*text[30:], 1, 2])):
        drafter = lookup_after(prompt, rest, min_order=2)
        order, places = drafter._index.longest_match(2)
        assert (order, len(places)) == (8, 22)
    # Order 2 alone: after the break only (1, 2) matches, 29 times, of which 24 count.
    tree = lookup_after([*text, 9, 1], [2]).propose(2, 16, 1)
    assert tree.tokens.tolist() == [2, 4]
    assert tree.scores.tolist() == pytest.approx([1, 24 / 24.6])


def test_declines_without_a_match_and_below_min_expected():
    assert lookup_after([1, 2, 3], [4]).propose(4, 16, 16) is None
    many = [token for follower in range(10, 34) for token in (1, 2, follower)]
    # 24 different followers, three of them kept: 3/24.6 = 0.12 expected.
    assert lookup_after([*many, 1], [2]).propose(2, 16, 1) is None
    tree = lookup_after([*many, 1], [2], min_expected=0.12).propose(2, 16, 1)
    assert tree.scores.tolist() == pytest.approx([1] + [1 / 24.6] * 3)


def test_min_order_refuses_short_matches():
    assert lookup_after([1, 2, 3, 1], [2], min_order=3).propose(2, 16, 16) is None
    with pytest.raises(ValueError, match="min_order 1 is not in"):
        LookupDrafter(min_order=1)


def test_depth_and_node_limits():
    drafter = lookup_after(list(range(40)), [0, 1])
    assert drafter.propose(1, 40, 40).n_draft == 16
    assert drafter.propose(1, 40, 5).n_draft == 5
    assert drafter.propose(1, 3, 40).n_draft == 3
    assert drafter.propose(1, 0, 16) is None
    assert drafter.propose(1, 16, 0) is None


def test_every_committed_token_is_indexed_first_ones_and_declined_rounds_too():
    # Defect 7 of the original: tokens committed without a proposal never entered the index.
    drafter = lookup_after([5, 6], [7])
    assert drafter.propose(7, 16, 16) is None
    drafter.observe([8], None)
    assert drafter.propose(8, 16, 16) is None
    drafter.observe([9, 6], None)
    drafter.observe([7], None)
    assert drafter._index.tokens == [5, 6, 7, 8, 9, 6, 7]
    assert drafter.propose(7, 16, 16).tokens.tolist() == [7, 8, 9, 6, 7]


def test_a_token_that_was_not_observed_is_an_error():
    drafter = lookup_after([1, 2], [3])
    with pytest.raises(ValueError, match="anchor 4, but 3 was observed last"):
        drafter.propose(4, 16, 16)


@pytest.mark.parametrize("indexed_by", ["prompt", "rounds"])
def test_reset_forgets_the_last_request(indexed_by):
    text = [1, 2, 3] * 5
    drafter = lookup_after(*((text,) if indexed_by == "prompt" else ([], text)))
    drafter.reset([1])
    drafter.observe([2], None)
    assert drafter._index.longest_match(2) == (0, [])
    drafter.observe([9, 8, 7, 1, 2], None)
    assert drafter._index.longest_match(2) == (2, [2])


@given(TOKENS, st.lists(st.lists(st.integers(0, 3), max_size=9), max_size=6), st.integers(2, 8))
def test_the_index_finds_what_a_search_of_the_whole_text_finds(prompt, rounds, min_order):
    index = NgramIndex()
    index.rebuild(prompt)
    text = list(prompt)
    for tokens in ([], *rounds):
        index.extend(tokens)
        text += tokens
        assert index.tokens == text
        assert index.longest_match(min_order) == brute_force_match(text, min_order)


@given(TOKENS, st.lists(st.integers(0, 3), min_size=1, max_size=60), st.integers(1, 31))
def test_how_the_text_arrived_does_not_matter(prompt, rest, budget):
    whole = lookup_after([], [*prompt, *rest]).propose(rest[-1], budget, 8)
    split = lookup_after(prompt, *([token] for token in rest)).propose(rest[-1], budget, 8)
    assert whole == split


@given(st.lists(st.integers(0, 3), min_size=4, max_size=80), st.integers(1, 31))
def test_the_tree_is_the_best_part_of_the_unlimited_tree(text, budget):
    drafter = lookup_after([], text, min_expected=0.0)
    whole = drafter.propose(text[-1], 10_000, 4)
    if whole is None:
        return
    part = drafter.propose(text[-1], budget, 4)
    assert part.n_draft == min(budget, whole.n_draft)
    assert part.expected_accepted == pytest.approx(
        whole.best_nodes(budget).expected_accepted, abs=1e-5
    )
