"""Three sources of copies: who votes, with what weight, and what the policies are told."""

import json

import numpy as np
import pytest

from tandem_jax.drafters.corpus import CorpusStore
from tandem_jax.drafters.lookup import LookupDrafter, Match
from tandem_jax.drafters.suffix_store import SuffixStore


class Shelf:
    """A text store with one answer."""

    def __init__(self, order, lines):
        self.answer, self.asked = (order, lines), []

    def continuations(self, suffix, min_order, depth):
        self.asked.append((list(suffix), min_order, depth))
        order, lines = self.answer
        return (order, [line[:depth] for line in lines]) if order >= min_order else (0, [])


GRAM = list(range(1, 9))  # eight tokens


def lookup(text, *stores, **options):
    drafter = LookupDrafter(stores=stores, **options)
    drafter.reset(text[:-1])
    drafter.observe(text[-1:], None)
    return drafter


def test_a_store_votes_half_a_place_of_the_request():
    """One place here says 20, three in the store say 30: 1 against 1.5 of 2.5 votes."""
    shelf = Shelf(8, [(30, 31)] * 3)
    drafter = lookup([*GRAM, 20, 21, *GRAM], shelf)
    tree = drafter.propose(8, 2, 1)
    assert drafter.match == Match("both", 8, 8)
    assert tree.tokens.tolist() == [8, 30, 20]
    assert tree.scores.tolist() == pytest.approx([1, 1.5 / 3.1, 1 / 3.1])
    assert drafter.top[0] == 30
    assert shelf.asked == [(GRAM, 8, 1)]


def test_the_request_alone():
    drafter = lookup([*GRAM, 20, 21, *GRAM], Shelf(0, []))
    drafter.propose(8, 9, 9)
    assert drafter.match == Match("local", 8, 8)


def test_the_store_alone_where_its_match_is_longer():
    """The request knows the last three tokens only: it does not vote."""
    shelf = Shelf(8, [(40, 41)])
    drafter = lookup([6, 7, 8, 99, 98, *GRAM], shelf)
    tree = drafter.propose(8, 9, 9)
    assert shelf.asked == [(GRAM, 8, 9)]
    assert drafter.match == Match("corpus", 8, 3)
    assert tree.tokens.tolist() == [8, 40, 41]
    assert tree.scores.tolist() == pytest.approx([1, 0.5 / 1.1, (0.5 / 1.1) ** 2])


def test_shorter_matches_in_stored_text_do_not_count():
    drafter = lookup([6, 7, 8, 99, 98, *GRAM], Shelf(7, [(40, 41)]))
    assert drafter.propose(8, 1, 9).tokens.tolist() == [8, 99]
    assert drafter.match == Match("local", 3, 3)
    nothing = lookup(GRAM, Shelf(7, [(40, 41)]))
    assert (nothing.propose(8, 9, 9), nothing.match) == (None, None)


@pytest.mark.parametrize("order", range(2, 12))
def test_the_order_is_the_length_of_the_copy_up_to_eight(order):
    copied = list(range(50, 50 + order))
    drafter = lookup([*copied, 1, 2, *copied])
    tree = drafter.propose(copied[-1], 2, 2)
    known = min(order, 8)
    assert drafter.match == Match("local", known, known)
    assert tree.tokens.tolist() == [copied[-1], 1, 2]


@pytest.fixture
def real_stores(tmp_path):
    """A corpus that says 30 behind the eight tokens, and a suffix store that says 40, twice."""
    sha = "ab" * 32
    tokens = np.array([*GRAM, 30, 31, 1 << 30], np.int32)
    np.save(tmp_path / "tokens.npy", tokens)
    np.save(tmp_path / "sa.npy", np.arange(10, dtype=np.int32))
    meta = {"max_order": 8, "doc_sep": 1 << 30, "tokenizer": sha}
    (tmp_path / "meta.json").write_text(json.dumps(meta))
    store = SuffixStore(tmp_path / "store", sha)
    for last in (41, 42):
        store.append([*GRAM, 40, last])
    yield CorpusStore(tmp_path, sha), store
    store.close()


def test_request_corpus_and_suffix_store_vote_together(real_stores):
    drafter = lookup([*GRAM, 20, 21, *GRAM], *real_stores)
    tree = drafter.propose(8, 3, 1)
    assert drafter.match == Match("both", 8, 8)
    assert tree.tokens.tolist() == [8, 20, 40, 30]
    assert tree.scores.tolist() == pytest.approx([1, 1 / 3.1, 1 / 3.1, 0.5 / 3.1])
    alone = lookup(GRAM, *real_stores)
    tree = alone.propose_tree(8, 4, 2, lambda match: 0.8)
    assert alone.match == Match("corpus", 8, 0)
    assert tree.tokens.tolist() == [8, 40, 42, 41, 30]
    two, one = 0.8 * 2 / 3, 0.8 / 3
    assert tree.scores.tolist() == pytest.approx([1, two, 0.8 * two / 2, 0.8 * two / 2, one])


def test_the_heaviest_line_is_known_after_a_decline_too():
    many = [token for follower in range(10, 34) for token in (1, 2, follower)]
    drafter = lookup([*many, 1, 2])
    assert drafter.propose(2, 16, 1) is None
    assert drafter.top == (33,)  # the newest of equals
    nothing = lookup([1, 2, 3])
    assert nothing.propose(3, 16, 16) is None
    assert (nothing.match, nothing.top) == (None, ())


def test_a_copy_rate_takes_the_place_of_the_decay():
    seen = []

    def rho(match):
        seen.append(match)
        return 0.9

    drafter = lookup([*GRAM, 20, 21, 22, *GRAM])
    tree = drafter.propose_tree(8, 3, 9, rho)
    assert tree.scores.tolist() == pytest.approx([1, 0.9, 0.81, 0.729])
    assert seen == [Match("local", 8, 8)]
    split = lookup([*GRAM, 20, 5, *GRAM, 30, 5, *GRAM, 20, 6, *GRAM])
    tree = split.propose_tree(8, 2, 1, lambda match: 0.9)
    assert tree.tokens.tolist() == [8, 20, 30]
    assert tree.scores.tolist() == pytest.approx([1, 0.9 * 2 / 3, 0.9 / 3])
    # None leaves the decay where it is.
    assert split.propose_tree(8, 2, 1, lambda match: None).scores.tolist() == pytest.approx(
        [1, 2 / 3.6, 1 / 3.6]
    )


LONG = list(range(100, 140))
COPIES = [[*GRAM, *range(start, start + 20)] for start in (200, 300, 400)]


def test_a_deep_line_is_one_long_clear_copy():
    tree = lookup([*GRAM, *LONG, *GRAM]).deep_line(8, 31)
    assert tree.is_chain
    assert tree.tokens.tolist() == [8, *LONG[:31]]
    assert set(tree.source_names[1:]) == {"deep"}
    assert tree.scores.tolist() == [1.0] * 32


@pytest.mark.parametrize(
    ("text", "stores"),
    [
        ([*GRAM[1:], *LONG, 77, *GRAM[1:]], ()),  # a match of seven
        ([*GRAM, *LONG[:14], 999], ()),  # no match
        (COPIES[0] + COPIES[1] + COPIES[2] + GRAM, ()),  # a third of the vote
        (COPIES[0] + GRAM, (Shelf(8, [(7,), (9,), (11,)]),)),  # 1 of 2.5 votes
        ([6, 7, 8, *LONG, 98, *GRAM], (Shelf(8, [tuple(LONG)]),)),  # only the store matches
    ],
)
def test_no_deep_line_without_one(text, stores):
    assert lookup(text, *stores).deep_line(text[-1], 31) is None


def test_half_of_the_vote_is_enough_for_a_deep_line():
    text = COPIES[0] + COPIES[1] + GRAM
    assert lookup(text).deep_line(8, 18).tokens.tolist() == [8, *range(300, 318)]  # the newest
    two = Shelf(8, [(7,), (9,)])
    assert lookup(COPIES[0] + GRAM, two).deep_line(8, 18).tokens.tolist() == [8, *range(200, 218)]


def test_a_line_shorter_than_sixteen_is_not_deep():
    drafter = lookup([*GRAM, *LONG[:8], *GRAM])  # sixteen tokens follow, the last eight a copy
    assert drafter.deep_line(8, 31).tokens.tolist() == [8, *LONG[:8], *GRAM]
    assert drafter.deep_line(8, 15) is None
    assert lookup([*GRAM, *LONG[:7], *GRAM]).deep_line(8, 31) is None


def test_every_committed_token_is_indexed():
    drafter = lookup([5, 6, 7])
    for block in ([8], [9, 10], [5, 6]):
        drafter.propose_nodes(drafter._index.tokens[-1], 31, 31)
        drafter.observe(block, None)
    assert drafter.length == 8
    assert drafter.propose(6, 3, 3).tokens.tolist() == [6, 7, 8, 9]
