"""What probabilities are worth, learned from committed tokens."""

import numpy as np
import pytest

from tandem_jax.staircut.calibrate import Calibration, DraftCost, ProbDeciles, put_to_test, scaled
from tandem_jax.staircut.estimators import Est, Rate
from tandem_jax.tree import DraftTree


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
    ],
)
def test_what_was_put_to_the_test(tokens, accepted, promised):
    assert put_to_test(TREE, tokens) == (accepted, pytest.approx(promised, abs=1e-6))


def test_scaled_by_source_and_capped():
    tree = DraftTree.from_parents(
        [9, 1, 2], [-1, 0, 0], scores=[1, 0.6, 0.4], source=["lookup", "df2-greedy"]
    ).lists()
    factors = [1.0] * 9
    factors[1], factors[6] = 2.0, 0.5
    assert scaled(tree, factors) == [1.0, 1.0, pytest.approx(0.2)]


def test_calibration_round_trip():
    calibration, other = Calibration(), Calibration()
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
    other.load_dict(cost.to_dict())
    assert other.ms(500) == pytest.approx(12.0)


def test_a_draft_nobody_priced():
    cost = DraftCost(None)
    assert cost.ms(500) == 0.0
    cost.observe(500, 7.0)
    assert cost.ms(500) == pytest.approx(7.0)
