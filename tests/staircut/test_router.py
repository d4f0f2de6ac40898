"""StairCut round by round: candidates, skips, deep lines, the plain step, what survives a reset."""

import numpy as np
import pytest

from tandem_jax.staircut.policy import Outcome, RoundInput
from tandem_jax.staircut.router import StairCut, StairOptions
from tests.staircut.scenes import FLAT, ask, chain, lattice, new_policy, play, start

WALK = list(range(100, 115))
NOISE = [int(t) for t in np.random.default_rng(0).integers(1000, 9000, 200)]


def test_a_confident_head_gets_a_long_line_and_a_weak_one_a_short_tree():
    sizes = {}
    rising = {"1024": {"tree": {"2": 50.0, "8": 52.0, "16": 70.0, "32": 110.0}}}
    for sharp in (1.0, 3.0, 9.0):
        policy = new_policy("staircut", prices=rising)
        text = start(policy, NOISE, 5)
        decision = ask(policy, text, wide=lattice(WALK, sharp=sharp))
        decision.tree.validate()
        sizes[sharp] = decision.tree.n_draft
        assert decision.head == "wide"
        assert decision.label in ("head", "chain")
    assert sizes[1.0] <= 7
    assert sizes[1.0] <= sizes[3.0] <= sizes[9.0] == 15


@pytest.mark.parametrize(("nodes", "depth"), [(10, 31), (31, 4), (3, 3), (1, 1)])
def test_limits_are_kept(nodes, depth):
    policy = new_policy("staircut", prices=FLAT)
    text = start(policy, WALK * 3, WALK[0])
    tree = ask(policy, text, max_nodes=nodes, max_depth=depth, wide=lattice(WALK[1:])).tree
    assert 1 <= tree.n_draft <= nodes
    assert tree.depth.max() <= depth


@pytest.mark.parametrize(("nodes", "depth"), [(0, 31), (31, 0)])
def test_no_room_no_draft(nodes, depth):
    policy = new_policy("staircut")
    text = start(policy, WALK * 3, WALK[0])
    asked = []
    decision = ask(policy, text, max_nodes=nodes, max_depth=depth)
    assert decision.tree is None
    assert asked == []


def test_without_a_head_the_lookup_drafts_alone():
    policy = new_policy("staircut")
    text = start(policy, WALK * 3, WALK[0])
    decision = ask(policy, text)
    assert (decision.label, decision.head) == ("lookup", "")
    assert decision.tree.tokens[1:4].tolist() == WALK[1:4]


def test_head_and_lookup_share_nodes_of_one_merged_tree():
    """The lookup knows the first three tokens, the head all; a shared node is the head's."""
    policy = new_policy("staircut", prices=FLAT)
    prompt = [*NOISE, 7, 8, 9, *WALK[:3], 444, 445, 446, *NOISE[:20], 7, 8]
    text = start(policy, prompt, 9)
    decision = ask(policy, text, wide=lattice(WALK, sharp=2.0))
    assert decision.label == "merged"
    names = dict(zip(decision.tree.tokens.tolist(), decision.tree.source_names, strict=True))
    assert names[WALK[0]] == "df2-greedy"
    assert names[444] == "lookup"


def test_a_tree_that_earns_less_than_a_plain_step_is_not_verified():
    """Rows are so dear that only a sure tree would pay."""
    steep = {"1024": {"tree": {"1": 10.0, "2": 100.0, "32": 900.0}, "plain": 10.0}}
    policy = new_policy("staircut", prices=steep)
    text = start(policy, NOISE, 5)
    decision = ask(policy, text, wide=lattice(WALK, sharp=1.0))
    assert (decision.tree, decision.label, decision.head) == (None, "plain", "wide")


def test_nan_scores_are_no_candidate():
    policy = new_policy("staircut")
    text = start(policy, NOISE, 5)
    broken = lattice(WALK)
    broken.scores[3, 0, 0] = np.nan
    assert ask(policy, text, wide=broken).tree is None


def test_calibration_follows_what_was_accepted_and_survives_reset():
    policy = new_policy("staircut")
    text = start(policy, NOISE, 5)
    for _ in range(12):
        wrong = [int(t) + 20_000 for t in WALK]
        play(policy, text, [1, 2, 3], wide=lattice(wrong, sharp=4.0))
    low = policy.calibration.head.value
    assert low < 0.2
    policy.reset([1, 2, 3])
    assert policy.calibration.head.value == low
    text = start(policy, NOISE, 5)
    for _ in range(30):
        play(policy, text, [*WALK, 1], wide=lattice(WALK, sharp=4.0))
    assert policy.calibration.head.value > 0.9
    assert policy.calibration.head_accepted.value > 9


def test_a_copy_run_leaves_the_head_out_until_the_copy_ends():
    """The head is not asked while the lookup alone is worth more; a miss asks it again."""
    source = [int(t) for t in np.random.default_rng(1).integers(1000, 9000, 300)]
    policy = new_policy("staircut")
    text = start(policy, [*source, *NOISE[:8], *source[:7]], source[7])
    asked, at = [], 8
    for _ in range(8):
        decision, tokens = play(policy, text, source[at : at + 40], wide=lattice(WALK, sharp=0.5))
        asked.append(decision.head)
        at += len(tokens)
    assert asked[0] == "wide"  # no run yet
    assert asked[-3:] == ["", "", ""]
    # While it lasts, no draft is asked for in advance either.
    assert ask(policy, text, wide=lattice(WALK, sharp=0.5)).head == ""
    assert not policy.wants_draft
    # The copy breaks off.
    play(policy, text, [9991], wide=None)
    decision, _ = play(policy, text, [9992, 9993], wide=lattice(WALK))
    assert decision.head == "wide"
    assert policy.copies.copy_run == 0


def test_two_full_rounds_make_a_deep_line():
    source = [int(t) for t in np.random.default_rng(2).integers(1000, 9000, 400)]
    policy = new_policy("staircut", prices=FLAT)
    text = start(policy, [*source, *NOISE[:8], *source[:7]], source[7])
    labels, sizes, at = [], [], 8
    for _ in range(6):
        decision, tokens = play(policy, text, source[at : at + 50])
        labels.append(decision.label)
        sizes.append(len(tokens))
        at += len(tokens)
    assert labels[:2] == ["lookup", "lookup"]
    assert "deep" in labels
    deep = labels.index("deep")
    assert sizes[deep] == 32  # 31 drafted tokens and the model's own
    assert set(decision.tree.source_names[1:]) == {"deep"}
    # Without the rule there is none.
    plain = StairCut(policy._setup, StairOptions(deep_after=10**6))
    text, at = start(plain, [*source, *NOISE[:8], *source[:7]], source[7]), 8
    for _ in range(4):
        decision, tokens = play(plain, text, source[at : at + 50])
        assert decision.label == "lookup"
        at += len(tokens)


def test_losing_drafts_are_skipped_and_probed_again():
    """A round with a draft costs four plain steps and brings one token: case F8."""
    policy = new_policy("staircut", prices=FLAT)
    text, truth = start(policy, NOISE, 5), np.random.default_rng(3).integers(0, 9000, 120)
    drafted = []
    for step in range(120):
        wrong = lattice([30_000 + step + i for i in range(15)], sharp=9.0)
        asked = []

        def said(value=wrong, asked=asked):
            asked.append(1)
            return value

        decision = policy.propose(_given(text, said))
        drafted.append(bool(asked))
        verify = 200.0 if decision.tree is not None else 50.0
        rows = 1 if decision.tree is None else len(decision.tree)
        token = int(truth[step])
        policy.observe(Outcome([token], rows, verify, 10.0 if asked else None))
        text.append(token)
    first_plain = drafted.index(False)
    assert first_plain <= 20
    later = drafted[first_plain:]
    probes = [i for i, was in enumerate(later) if was]
    assert 1 <= len(probes) <= 4
    gaps = np.diff([0, *probes])
    assert (gaps >= 16).all()
    assert sorted(gaps) == gaps.tolist()


def _given(text, said):
    return RoundInput(text[-1], len(text), 31, 31, wide=said)


def test_an_mtp_head_is_not_asked():
    policy = new_policy("staircut")
    text = start(policy, NOISE, 5)
    assert ask(policy, text, mtp=chain([1, 2], [0.9, 0.9])).tree is None
