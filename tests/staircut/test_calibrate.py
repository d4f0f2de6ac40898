"""What probabilities are worth, learned from committed tokens."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_jax.staircut.calibrate import Calibration, DraftCost, ProbDeciles, put_to_test, scaled
from tandem_jax.staircut.estimators import Est, Rate
from tandem_jax.tree import DraftTree
from tandem_jax.tree.merge import NodeLists


def test_rate():
    rate = Rate(1.0)
    rate.update(1, 2.0)
    assert rate.value == pytest.approx(1 - 0.15 * 0.5)
    rate.update(3, 0.0)  # nothing was promised
    assert rate.value == pytest.approx(0.925)
    for _ in range(200):
        rate.update(6, 2.0)
    assert rate.value == pytest.approx(3.0)  # not capped


def test_est():
    est = Est(15.0, 0.3, 3)
    assert est.value == 15.0
    for sample in (10.0, 20.0, 30.0):
        est.update(sample)
    assert est.value == pytest.approx(20.0)  # the prior is gone with the first sample
    est.update(30.0)
    assert est.value == pytest.approx(23.0)


#        0
#       / \
#      1   4
#     / \
#    2   3
TREE = DraftTree.from_parents(
    [9, 1, 2, 3, 4], [-1, 0, 1, 1, 0], scores=[1, 0.6, 0.4, 0.1, 0.3], source="mtp"
).lists()


@pytest.mark.parametrize(
    ("tokens", "accepted", "promised"),
    [
        ([7], 0, 1.4),  # the first token is wrong: all of it was tested
        ([1, 7], 1, 1.4),
        ([1, 2, 5], 2, 1.4),
        ([1], 1, 0.9),  # cut there: what lies below was not tested
        ([1, 3], 2, 1.4),  # a leaf has nothing below
        ([4], 1, 1.4),
        ([1, 2], 2, 1.4),
        ([4, 7], 1, 1.4),
        ([2], 0, 1.4),  # right below another node only
        ([], 0, 0.0),  # nothing was committed
    ],
)
def test_what_was_put_to_the_test(tokens, accepted, promised):
    assert put_to_test(TREE, tokens) == (accepted, pytest.approx(promised, abs=1e-6))


def test_nothing_below_the_last_token_is_tested_however_deep_it_lies():
    line = DraftTree.chain(9, [1, 2, 3, 4], source="lookup", scores=[0.9, 0.8, 0.7, 0.6]).lists()
    for length in range(5):
        got = put_to_test(line, [1, 2, 3, 4][:length])
        assert got == (length, pytest.approx(sum([0.9, 0.8, 0.7, 0.6][:length]), abs=1e-6))
    assert put_to_test(line, [1, 2, 3, 4, 5]) == (4, pytest.approx(3.0))
    assert put_to_test(DraftTree.root_only(9).lists(), [1]) == (0, 0.0)


@st.composite
def trees_and_tokens(draw):
    """A tree of up to eight nodes without equal siblings, and tokens to test it with."""
    words, parents, scores = [9], [-1], [1.0]
    for _ in range(draw(st.integers(0, 8))):
        parent, word = draw(st.integers(0, len(words) - 1)), draw(st.integers(0, 3))
        if (parent, word) not in zip(parents, words, strict=True):
            words, parents = [*words, word], [*parents, parent]
            scores.append(scores[parent] * draw(st.sampled_from([0.25, 0.5, 0.75])))
    nodes = NodeLists(words, parents, scores, [0] + [1] * (len(words) - 1))
    return nodes, draw(st.lists(st.integers(0, 3), max_size=6))


@given(trees_and_tokens())
def test_put_to_test_against_paths_of_words(given_):
    nodes, tokens = given_
    paths = [()]
    for word, parent in list(zip(nodes.tokens, nodes.parents, strict=True))[1:]:
        paths.append((*paths[parent], word))
    line = tuple(tokens)
    accepted = max(n for n in range(len(line) + 1) if line[:n] in paths)
    censored = {p for p in paths if len(p) > len(line) and p[: len(line)] == line}
    promised = sum(s for p, s in zip(paths, nodes.scores, strict=True) if p and p not in censored)
    assert put_to_test(nodes, tokens) == (accepted, pytest.approx(promised, abs=1e-9))


def test_scaled_by_source_and_capped():
    tree = DraftTree.from_parents(
        [9, 1, 2], [-1, 0, 0], scores=[1, 0.6, 0.4], source=["lookup", "df2-greedy"]
    ).lists()
    factors = [1.0] * 9
    factors[1], factors[6] = 2.0, 0.5
    assert scaled(tree, factors) == [1.0, 1.0, pytest.approx(0.2)]


def test_calibration_round_trip():
    calibration, other = Calibration(), Calibration()
    assert calibration.to_dict() == {"head": 1.0, "lookup": 1.0, "head_accepted": 4.3}
    calibration.head.update(1, 4.0)
    calibration.head_accepted.update(9, 1)
    other.load_dict(calibration.to_dict())
    assert other.to_dict() == calibration.to_dict()
    assert calibration.head_accepted.value == pytest.approx(4.3 + 0.15 * 4.7)
    with pytest.raises(KeyError):
        other.load_dict({"head": 1.0})
    assert other.to_dict() == calibration.to_dict()


def test_deciles_start_at_the_probability_itself():
    deciles = ProbDeciles()
    assert [deciles.q(p) for p in (0.0, 0.05, 0.5, 0.99, 1.0)] == [0.0, 0.05, 0.5, 0.99, 1.0]


def test_one_token_moves_its_tenth_by_a_fifth():
    deciles = ProbDeciles()
    deciles.observe(0.5, accepted=True)
    assert deciles.q(0.5) == pytest.approx(0.6)
    assert deciles.q(0.59) == pytest.approx(0.69)
    assert [deciles.q(p) for p in (0.49, 0.6)] == [0.49, 0.6]
    deciles.observe(0.5, accepted=False)  # a sixth
    assert deciles.q(0.5) == pytest.approx(0.6 + (0.0 - 0.6) / 6)
    assert deciles.counts == [0, 0, 0, 0, 0, 2, 0, 0, 0, 0]


def test_deciles_stay_probabilities():
    deciles = ProbDeciles()
    for _ in range(200):
        deciles.observe(0.9, accepted=True)
        deciles.observe(0.09, accepted=False)
    deciles.observe(1.0, accepted=True)
    assert deciles.q(1.0) == deciles.q(0.99) == 1.0
    assert deciles.q(0.0) == deciles.q(0.01) == 0.0
    assert deciles.counts[9] == 201


def test_deciles_converge_to_what_is_measured():
    rng, deciles = np.random.default_rng(0), ProbDeciles(alpha=0.01)
    for _ in range(4000):
        deciles.observe(0.85, bool(rng.random() < 0.4))
    assert deciles.q(0.85) == pytest.approx(0.4, abs=0.06)
    assert deciles.q(0.81) == pytest.approx(0.36, abs=0.06)  # the tenth moves together
    assert deciles.q(0.75) == 0.75
    assert deciles.counts[8] == 4000
    other = ProbDeciles(alpha=0.01)
    other.load_dict(deciles.to_dict())
    assert other.q(0.85) == deciles.q(0.85)
    for each in (deciles, other):
        each.observe(0.85, accepted=True)
    assert other.to_dict() == deciles.to_dict()
    with pytest.raises(ValueError, match="9 tenths"):
        other.load_dict({"shift": [0.0] * 9, "counts": [0] * 9})


def test_the_cost_of_a_draft():
    cost = DraftCost({1024: 15.0, 8192: 30.0})
    assert [cost.ms(n) for n in (10, 5000, 8192, 100_000)] == [15.0, 30.0, 30.0, 30.0]
    cost.observe(500, 12.0)
    assert cost.ms(500) == pytest.approx(12.0)
    assert cost.ms(3000) == 15.0
    cost.observe(500, 900.0)  # a pause, no draft
    cost.observe(500, 0.1)
    assert cost.ms(500) == pytest.approx(12.0)
    other = DraftCost({1024: 15.0})
    other.load_dict(json.loads(json.dumps(cost.to_dict())))
    assert other.ms(500) == pytest.approx(12.0)
    assert other.to_dict() == cost.to_dict() == {"1024": [pytest.approx(12.0), 1]}


def test_a_draft_counts_by_class_with_the_first_three_alike():
    cost = DraftCost({1024: 15.0})
    for ms in (10.0, 20.0, 30.0):
        cost.observe(1500, ms)
    assert cost.ms(2048) == pytest.approx(20.0)
    cost.observe(1500, 30.0)
    assert cost.ms(1025) == pytest.approx(23.0)
    assert cost.ms(1024) == cost.ms(2049) == 15.0


@pytest.mark.parametrize(("ms", "counts"), [(0.99, 0), (1.0, 1), (60.0, 1), (60.1, 0)])
def test_a_draft_counts_between_a_tenth_and_six_times_its_prior(ms, counts):
    cost = DraftCost({1024: 10.0, 2048: 10.0, 4096: 40.0})
    cost.observe(500, ms)
    assert len(cost.to_dict()) == counts


def test_the_prior_of_a_class_is_the_nearest_lower_one():
    cost = DraftCost({4096: 20.0, 16384: 40.0})
    asked = (1, 3000, 4096, 4097, 9000, 40_000)
    assert [cost.ms(n) for n in asked] == [20.0, 20.0, 20.0, 20.0, 40.0, 40.0]


@pytest.mark.parametrize("state", [{"1024": 3.0}, {"x": [1.0, 1]}, {"1024": [1.0]}])
def test_a_damaged_draft_cost_is_an_error_and_changes_nothing(state):
    cost = DraftCost({1024: 15.0})
    cost.observe(500, 12.0)
    with pytest.raises((TypeError, ValueError)):
        cost.load_dict(state)
    assert cost.ms(500) == pytest.approx(12.0)


def test_a_draft_nobody_priced():
    cost = DraftCost(None)
    assert cost.ms(500) == 0.0
    cost.observe(500, 7.0)
    assert cost.ms(500) == pytest.approx(7.0)
    assert cost.ms(5000) == 0.0
    cost.observe(500, 700.0)  # without a prior there is no telling a pause from a draft
    assert cost.ms(500) == pytest.approx(353.5)
    assert DraftCost({}).ms(500) == 0.0
