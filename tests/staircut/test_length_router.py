"""The length router's schedule, and the budgets of the baselines."""

import numpy as np
import pytest

from tandem_jax.staircut.budget import prune
from tandem_jax.tree import DraftTree
from tests.staircut.scenes import ask, lattice, new_policy, play, start

NOISE = [int(t) for t in np.random.default_rng(0).integers(1000, 9000, 100)]


def rounds(policy, n, right_wide, right_narrow):
    """Heads asked in n rounds whose wide and narrow blocks are right up to so many tokens."""
    text, asked = start(policy, NOISE, 5), []
    for step in range(n):
        truth = [20_000 + 100 * step + i for i in range(32)]
        wide = truth[:right_wide] + [1] * (15 - right_wide)
        narrow = truth[:right_narrow] + [1] * (7 - right_narrow)
        heads = {"wide": lattice(wide), "narrow": lattice(narrow)}
        decision, _ = play(policy, text, truth, **heads)
        asked.append(decision.head)
    return asked


def test_four_wide_rounds_then_probes_then_the_narrow_arm():
    asked = rounds(new_policy("length"), 20, right_wide=2, right_narrow=4)
    assert asked == ["wide"] * 4 + ["narrow"] * 16


def test_an_equal_narrow_arm_does_not_win():
    """Same acceptance, and the price of 24 rows against 16 is not what the margin forgives."""
    asked = rounds(new_policy("length"), 20, right_wide=6, right_narrow=2)
    assert asked[:8] == ["wide"] * 4 + ["narrow"] * 4
    assert asked[8:] == ["wide"] * 12


def test_full_wide_rounds_leave_no_question():
    assert rounds(new_policy("length"), 10, right_wide=15, right_narrow=7) == ["wide"] * 10


def test_a_new_request_starts_over():
    policy = new_policy("length")
    assert rounds(policy, 12, 2, 4)[-1] == "narrow"
    assert rounds(policy, 3, 2, 4) == ["wide"] * 3


def test_short_answers_take_the_narrow_arm():
    policy = new_policy("length")
    text = start(policy, NOISE, 5)
    heads = {"wide": lattice([1] * 15), "narrow": lattice([1] * 7)}
    assert ask(policy, text, max_depth=14, **heads).head == "narrow"
    assert ask(policy, text, max_depth=15, **heads).head == "wide"


@pytest.mark.parametrize(("name", "head"), [("fixed8", "narrow"), ("fixed16", "wide")])
def test_fixed_policies_ask_one_head(name, head):
    assert rounds(new_policy(name), 6, 3, 3) == [head] * 6


def test_the_wide_budget_grows_once_the_answer_is_under_way():
    policy = new_policy("fixed16")
    text = start(policy, NOISE, 5)
    flat = lattice(list(range(300, 315)), sharp=0.3)
    assert ask(policy, text, wide=flat).tree.n_draft == 15
    for step in range(2):
        truth = [20_000 + 100 * step + i for i in range(32)]
        play(policy, text, truth, wide=lattice(truth[:15]))
    assert ask(policy, text, wide=flat).tree.n_draft == 23


def test_prune_by_hand():
    """Each node must bring what 2 ms are worth at one token in 20 ms, and better as it gains."""
    tree = DraftTree.from_parents(
        [0, 1, 2, 3, 4], [-1, 0, 1, 0, 3], scores=[1, 0.5, 0.2, 0.12, 0.02], source="lookup"
    )
    # 0.5 against 0.1; 0.2 against 1.5/22*2 = 0.136; 0.12 against 1.7/24*2 = 0.142: out.
    assert prune(tree, 31, 2.0, 20.0).tokens.tolist() == [0, 1, 2]
    assert prune(tree, 1, 2.0, 20.0).tokens.tolist() == [0, 1]
    assert prune(tree, 31, 0.0, 20.0) == tree
