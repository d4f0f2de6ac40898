"""The table of drafters, and what each of its lines must keep to."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_jax.drafters import DRAFTERS, HeadDraft, Lattice, drafter_class, make_drafter
from tandem_jax.errors import ConfigError


def test_the_table():
    tests = ["wrong", "half-right", "random"]
    assert list(DRAFTERS) == ["none", *tests, "lookup", "mtp", "dflash2", "auto"]
    assert [name for name in DRAFTERS if drafter_class(name).uses_model_head] == ["mtp", "auto"]
    wanted = ["dflash2", "auto"]
    assert [name for name in DRAFTERS if drafter_class(name).uses_draft_model] == wanted
    assert [name for name in DRAFTERS if drafter_class(name).needs_truth] == tests


@pytest.mark.parametrize("name", DRAFTERS)
def test_names_agree(name):
    assert drafter_class(name).name == name
    assert type(make_drafter(name, vocab_size=10)) is drafter_class(name)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ConfigError, match="unknown drafter 'dflash9'") as caught:
        make_drafter("dflash9", vocab_size=10)
    assert caught.value.hint == (
        "choose one of: auto, dflash2, half-right, lookup, mtp, none, random, wrong"
    )


@pytest.mark.parametrize("name", DRAFTERS)
@given(data=st.data())
def test_proposals_of_a_whole_request_keep_to_the_protocol(name, data):
    """Plain decoding of a truth, with each drafter asked in every round."""
    truth = data.draw(st.lists(st.integers(0, 7), min_size=1, max_size=30))
    limits = st.integers(0, 31)
    drafter = make_drafter(name, vocab_size=8)
    drafter.reset([1, 2, 1], truth=truth)
    committed, new = [], truth[:1]
    while new:
        guess = HeadDraft(np.array([1, 2, 3], np.int32), np.full(3, 0.5, np.float32))
        cand = np.array([[1, 2], [0, 3], [7, 4]], np.int32)
        lattices = [Lattice(cand, np.full((3, 2, 2), x, np.float32), 1.4) for x in (0.5, np.nan)]
        committed += new
        drafter.observe(new, data.draw(st.sampled_from([None, guess, *lattices])))
        max_nodes, max_depth = data.draw(limits), data.draw(limits)
        tree = drafter.propose(committed[-1], max_nodes, max_depth)
        rest = truth[len(committed) :]
        if tree is None:
            new = rest[:1]
            continue
        tree.validate()
        assert tree.tokens[0] == committed[-1]
        assert 1 <= tree.n_draft <= max_nodes
        assert tree.depth.max() <= max_depth
        assert tree.tokens.max() < 8
        new = rest[: tree.accepted_against(rest) + 1]
    assert committed == truth
