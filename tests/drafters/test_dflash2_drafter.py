"""The greedy walk through a lattice, and the drafter that proposes it."""

import logging

import numpy as np
import pytest

from tandem_jax.drafters import HeadDraft, Lattice, make_drafter
from tandem_jax.drafters.combined import CombinedDrafter
from tandem_jax.drafters.dflash2 import DFlash2Drafter

ANCHOR = 5
CAND = np.array([[10, 11], [20, 21], [30, 31]], np.int32)
# Slot 0: the second candidate. Behind it (row 1) the first of slot 1, though row 0 prefers the
# second; behind that (row 0) the second of slot 2.
SCORES = np.array(
    [[[0, 1], [9, 0]], [[0, 9], [2, 0]], [[0, 3], [9, 0]]], np.float32
)
HEAD = HeadDraft(np.array([7, 8], np.int32), np.array([0.5, 0.5], np.float32))


def lattice(scores=SCORES, temperature=1.0):
    return Lattice(CAND, np.array(scores, np.float32), temperature)


def observed(drafter, head, prompt=(1, 2)):
    drafter.reset(prompt)
    drafter.observe([ANCHOR], head)
    return drafter


def softmax(x, temperature):
    weights = np.exp(np.array(x) / temperature)
    return weights / weights.sum()


def test_the_walk_follows_the_selected_predecessor():
    assert lattice().greedy_walk().tolist() == [1, 0, 1]


@pytest.mark.parametrize("temperature", [1.0, 1.4, 10.0])
def test_scores_are_path_probabilities_at_the_temperature(temperature):
    tree = lattice(temperature=temperature).greedy_chain(ANCHOR, 3)
    steps = [softmax([0, 1], temperature)[1], softmax([2, 0], temperature)[0]]
    steps.append(softmax([0, 3], temperature)[1])
    assert tree.tokens.tolist() == [ANCHOR, 11, 20, 31]
    assert tree.is_chain
    assert tree.scores.tolist() == pytest.approx([1.0, *np.cumprod(steps)])
    assert set(tree.source_names[1:]) == {"df2-greedy"}


def test_equal_rows_walk_like_v1():
    unary = np.array([[1, 0], [0, 4], [3, 2]], np.float32)
    rows = np.repeat(unary[:, None], 2, axis=1)
    tree = lattice(rows).greedy_chain(ANCHOR, 3)
    assert tree.tokens.tolist() == [ANCHOR, 10, 21, 30]
    steps = [softmax(row, 1.0).max() for row in unary]
    assert tree.scores.tolist() == pytest.approx([1.0, *np.cumprod(steps)])


def test_ties_go_to_the_better_candidate_of_the_head():
    assert lattice(np.zeros((3, 2, 2))).greedy_walk().tolist() == [0, 0, 0]


def test_extreme_scores_stay_probabilities():
    scores = lattice(SCORES * 1e30).greedy_chain(ANCHOR, 3).scores.tolist()
    assert scores == [1.0, 1.0, 1.0, 1.0]
    low = lattice(np.full((3, 2, 2), -3e38)).greedy_chain(ANCHOR, 3).scores.tolist()
    assert low == [1.0, 0.5, 0.25, 0.125]


def test_the_chain_is_cut_to_the_budget():
    drafter = observed(DFlash2Drafter(), lattice())
    assert drafter.propose(ANCHOR, 16, 16).tokens.tolist() == [ANCHOR, 11, 20, 31]
    assert drafter.propose(ANCHOR, 2, 16).tokens.tolist() == [ANCHOR, 11, 20]
    assert drafter.propose(ANCHOR, 16, 1).tokens.tolist() == [ANCHOR, 11]
    assert drafter.propose(ANCHOR, 0, 16) is None
    assert drafter.propose(ANCHOR, 16, 0) is None


def test_without_a_fresh_lattice_it_declines():
    drafter = DFlash2Drafter()
    drafter.reset([1])
    assert drafter.propose(1, 16, 16) is None
    for stale in (None, HEAD):
        observed(drafter, lattice()).observe([6], stale)
        assert drafter.propose(6, 16, 16) is None
    observed(drafter, lattice()).reset([1])
    assert drafter.propose(1, 16, 16) is None


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_scores_that_are_not_finite_are_declined_and_told_once(bad, caplog):
    scores = SCORES.copy()
    scores[2, 1, 0] = bad
    drafter = observed(DFlash2Drafter(), lattice(scores))
    with caplog.at_level(logging.WARNING, "tandem_jax"):
        caplog.clear()
        assert drafter.propose(ANCHOR, 16, 16) is None
        observed(drafter, lattice(scores)).observe([6], lattice(scores))
        assert drafter.propose(6, 16, 16) is None
    assert (drafter.broken, len(caplog.messages)) == (2, 1)
    assert "not finite" in caplog.messages[0]
    drafter.observe([7], lattice())
    assert drafter.propose(7, 16, 16).n_draft == 3
    observed(drafter, lattice())
    assert drafter.broken == 0


@pytest.mark.parametrize(
    "shapes", [((3, 2), (3, 2, 3)), ((3, 2), (2, 2, 2)), ((0, 2), (0, 2, 2))]
)
def test_a_lattice_has_one_score_a_pair(shapes):
    cand, scores = (np.zeros(shape, kind) for shape, kind in zip(shapes, "if", strict=True))
    with pytest.raises(ValueError, match="lattice of"):
        Lattice(cand, scores, 1.0)


def test_auto_prefers_the_block_drafter_and_adds_the_lookup():
    drafter = observed(make_drafter("auto", vocab_size=50), lattice())
    tree = drafter.propose(ANCHOR, 16, 16)
    assert set(tree.source_names[1:]) == {"df2-greedy"}
    drafter = observed(CombinedDrafter(), lattice(), [3, ANCHOR, 11, 9, 3])
    tree = drafter.propose(ANCHOR, 16, 16)
    assert set(tree.source_names[1:]) == {"df2-greedy", "lookup"}
    assert tree.source_names[tree.tokens.tolist().index(11)] == "df2-greedy"


def test_auto_still_hears_the_mtp_head():
    drafter = observed(make_drafter("auto", vocab_size=50), HEAD)
    assert set(drafter.propose(ANCHOR, 16, 16).source_names[1:]) == {"mtp"}
