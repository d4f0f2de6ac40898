"""Three sources of copies: who votes, with what weight, and what the policies are told."""

import pytest

from tandem_jax.drafters.lookup import LookupDrafter, Match


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
    drafter = lookup([6, 7, 8, 99, 98, *GRAM], Shelf(8, [(40, 41)]))
    tree = drafter.propose(8, 9, 9)
    assert drafter.match == Match("corpus", 8, 3)
    assert tree.tokens.tolist() == [8, 40, 41]
    assert tree.scores.tolist() == pytest.approx([1, 0.5 / 1.1, (0.5 / 1.1) ** 2])


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
        (([*GRAM, *LONG[:20], 55] + [*GRAM, *LONG[20:], 66] + [*GRAM, 7] * 2 + GRAM), ()),  # share
        ([6, 7, 8, *LONG, 98, *GRAM], (Shelf(8, [tuple(LONG)]),)),  # only the store matches
    ],
)
def test_no_deep_line_without_one(text, stores):
    assert lookup(text, *stores).deep_line(text[-1], 31) is None


def test_a_line_shorter_than_sixteen_is_not_deep():
    text = [*GRAM, *LONG[:15]]
    drafter = lookup([*text, *GRAM])
    # What follows runs into the second copy: long enough. Cut to fifteen it is not.
    assert drafter.deep_line(8, 31) is not None
    assert drafter.deep_line(8, 15) is None


def test_every_committed_token_is_indexed():
    drafter = lookup([5, 6, 7])
    for block in ([8], [9, 10], [5, 6]):
        drafter.propose_nodes(drafter._index.tokens[-1], 31, 31)
        drafter.observe(block, None)
    assert drafter.length == 8
    assert drafter.propose(6, 3, 3).tokens.tolist() == [6, 7, 8, 9]
