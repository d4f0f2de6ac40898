"""The MTP StairCut: second choices, the joined copied line, deciles, and when it stays plain."""

import numpy as np
import pytest

from tests.staircut.scenes import ask, chain, new_policy, play, start

FLAT = {"1024": {"tree": {"1": 50.0, "32": 50.0}}, "draft": {"mtp": {"1024": 5.0}}}
STEP = {"1024": {"tree": {"1": 50.0, "32": 81.0}}, "draft": {"mtp": {"1024": 5.0}}}
NOISE = [int(t) for t in np.random.default_rng(0).integers(1000, 9000, 100)]


def scores_of(tree):
    """Score by token path."""
    return {
        tuple(tree.tokens[np.flatnonzero(row)][1:].tolist()): float(tree.scores[node])
        for node, row in enumerate(tree.ancestors)
    }


def test_the_chain_with_its_second_choices():
    policy = new_policy("mtp", prices=FLAT)
    text = start(policy, NOISE, 5)
    said = chain([1, 2, 3, 4], [0.9, 0.8, 0.7, 0.6], [11, 12, 13, 14], [0.05, 0.1, 0.2, 0.3])
    tree = ask(policy, text, mtp=said).tree
    scores = scores_of(tree)
    assert tree.n_draft == 8  # prices are flat: everything is worth verifying
    assert scores[1,] == pytest.approx(0.9)
    assert scores[1, 2, 3] == pytest.approx(0.9 * 0.8 * 0.7)
    assert scores[1, 2, 13] == pytest.approx(0.9 * 0.8 * 0.2)
    assert set(tree.source_names[1:]) == {"mtp"}


def test_rows_that_cost_keep_the_best_nodes_alone():
    policy = new_policy("mtp", prices=STEP)
    text = start(policy, NOISE, 5)
    said = chain([1, 2, 3, 4], [0.9, 0.6, 0.5, 0.05], second_probs=[0.01] * 4)
    tree = ask(policy, text, mtp=said).tree
    # A row costs 1 of about 56 ms: it pays from a fifth of a token... of (1 + gain) / 56.
    assert tree.is_chain
    assert tree.tokens.tolist() == [5, 1, 2, 3]


def test_the_copied_line_joins_shares_parts_and_runs_on():
    policy = new_policy("mtp", prices=FLAT)
    line = [70, 71, 72, 73, 74, 75]
    prompt = [*NOISE, 7, 8, 9, *line, *NOISE[:20], 7, 8]
    text = start(policy, prompt, 9)
    said = chain([70, 71, 99, 98], [0.9, 0.8, 0.7, 0.6])
    decision = ask(policy, text, mtp=said)
    scores = scores_of(decision.tree)
    copied = 1 / 1.6  # one witness
    assert decision.label == "merged"
    assert scores[70,] == pytest.approx(1 - (1 - 0.9) * (1 - copied))
    assert scores[70, 71] == pytest.approx(1 - (1 - 0.9 * 0.8) * (1 - copied**2))
    # They part here: the head's own and the copied token are siblings.
    assert scores[70, 71, 99] == pytest.approx(0.9 * 0.8 * 0.7)
    assert scores[70, 71, 72] == pytest.approx(copied**3)
    assert scores[70, 71, 72, 73] == pytest.approx(copied**4)
    names = dict(zip(decision.tree.tokens.tolist(), decision.tree.source_names, strict=True))
    assert (names[70], names[72]) == ("mtp", "lookup")


def test_a_line_runs_on_past_the_end_of_the_chain():
    policy = new_policy("mtp", prices=FLAT)
    line = list(range(70, 80))
    text = start(policy, [*NOISE, 7, 8, 9, *line, *NOISE[:20], 7, 8], 9)
    tree = ask(policy, text, mtp=chain(line[:4], [0.9] * 4)).tree
    assert tree.tokens[np.flatnonzero(tree.ancestors[tree.depth.argmax()])].tolist()[:7] == [
        9,
        *line[:6],
    ]


def test_deciles_learn_what_a_probability_is_worth():
    """Tokens of 0.85 are always wrong: their q falls and the chain gets shorter."""
    policy = new_policy("mtp", prices=STEP)
    text = start(policy, NOISE, 5)
    before = policy.deciles.q(0.85)
    for step in range(40):
        said = chain([30_000 + step] * 4, [0.85, 0.95, 0.95, 0.95])
        play(policy, text, [step % 5, 1, 1, 1, 1, 1], mtp=said)
    assert before == pytest.approx(0.85)
    assert policy.deciles.q(0.85) < 0.3
    assert policy.deciles.q(0.95) == pytest.approx(0.95)  # never tested: the first was wrong
    assert sum(policy.deciles.counts) == 80  # first and second choice of the first step


def test_without_a_draft_only_the_lookup_is_left():
    policy = new_policy("mtp", prices=FLAT)
    text = start(policy, [1, 2, 3, 4] * 4, 1)
    decision = ask(policy, text)
    assert (decision.label, decision.head) == ("lookup", "")
    assert set(decision.tree.source_names[1:]) == {"lookup"}
