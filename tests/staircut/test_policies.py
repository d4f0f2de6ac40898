"""What holds for every policy: lawful trees, limits, saved states, replays bit for bit."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem_jax.errors import ConfigError
from tandem_jax.staircut.policy import POLICIES, Outcome, policy_class
from tests.staircut.scenes import ask, chain, lattice, new_policy, play, start

LEARNING = ("staircut", "mtp")


def heads_of(rng, truth):
    """Heads that are sometimes right about the truth."""

    def guess(n):
        right = [*truth[:n], *([1] * n)][:n]
        return [t if rng.random() < 0.8 else int(rng.integers(40_000, 41_000)) for t in right]

    wide, narrow, mtp = guess(15), guess(7), guess(4)
    sharp = float(rng.uniform(0.5, 8.0))
    return {
        "wide": lattice(wide, sharp=sharp),
        "narrow": lattice(narrow, sharp=sharp),
        "mtp": chain(mtp, rng.uniform(0.2, 1.0, 4)),
    }


def run(policy, seed, n_rounds=40, request=None):
    """Decisions of a request of random text with repeats, priced by a noisy clock."""
    rng = np.random.default_rng(seed)
    body = rng.integers(0, 50, 60).tolist()
    truth = (body + body[5:40] + rng.integers(0, 50, 30).tolist()) * 4
    text = start(policy, body, truth[0])
    found, at = [], 1
    for _ in range(n_rounds):
        if at >= len(truth) - 1:
            break
        noise = float(rng.uniform(0.9, 1.2))
        decision, tokens = play(
            policy,
            text,
            truth[at : at + 40],
            verify_ms=75.0 * noise,
            draft_ms=14.0 * noise,
            **heads_of(rng, truth[at:]),
        )
        found.append((decision.label, decision.head, decision.value, decision.tree))
        at += len(tokens)
    return found


def same(a, b):
    return all(
        x[:3] == y[:3] and (x[3] is y[3] if x[3] is None else x[3] == y[3])
        for x, y in zip(a, b, strict=True)
    )


@pytest.mark.parametrize("name", list(POLICIES))
def test_the_name_is_the_tables(name):
    assert policy_class(name).name == name


def test_an_unknown_policy_is_named():
    with pytest.raises(ConfigError, match="unknown policy 'fastest'") as caught:
        policy_class("fastest")
    assert "staircut" in caught.value.hint


@pytest.mark.parametrize("name", list(POLICIES))
def test_a_recorded_run_is_replayed_bit_for_bit(name):
    first, second = (run(new_policy(name), seed=3) for _ in range(2))
    assert same(first, second)
    assert len({label for label, *_ in first}) >= (1 if name == "none" else 2) or name != "staircut"


@pytest.mark.parametrize("name", LEARNING)
def test_a_saved_policy_goes_on_as_if_nothing_had_happened(name):
    policy, other = new_policy(name), new_policy(name)
    run(policy, seed=4)
    saved = json.loads(json.dumps(policy.state()))
    other.load_state(saved)
    assert other.state() == policy.state()
    assert same(run(policy, seed=5), run(other, seed=5))
    fresh = new_policy(name)
    assert fresh.state() != policy.state()


@pytest.mark.parametrize("name", LEARNING)
@pytest.mark.parametrize("part", ["calibration", "copies", "draft_cost", "slower", "prices"])
def test_a_damaged_state_is_refused_and_changes_nothing(name, part):
    policy = new_policy(name)
    run(policy, seed=6)
    good = policy.state()
    for damage in ({}, {**good, part: {"x": [1]}}, {**good, "extra": {}}, [], {**good, part: 3}):
        with pytest.raises(ConfigError, match=name):
            policy.load_state(damage)
        assert policy.state() == good


@pytest.mark.parametrize("name", ["fixed8", "fixed16", "length"])
def test_a_baseline_keeps_its_draft_costs(name):
    policy, other = new_policy(name), new_policy(name)
    run(policy, seed=4)
    saved = json.loads(json.dumps(policy.state()))
    other.load_state(saved)
    assert other.state() == policy.state() != new_policy(name).state()
    assert same(run(policy, seed=5), run(other, seed=5))
    for damage in ({}, {**saved, "wide": {"x": [1]}}, {**saved, "extra": {}}, 3):
        with pytest.raises(ConfigError, match=name):
            policy.load_state(damage)


def test_plain_decoding_takes_no_state():
    policy = new_policy("none")
    assert policy.state() == {}
    policy.load_state({})
    with pytest.raises(ConfigError, match="learns nothing"):
        policy.load_state({"calibration": {}})


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(list(POLICIES)),
    st.integers(0, 10_000),
    st.integers(0, 31),
    st.integers(0, 31),
)
def test_trees_are_lawful_and_within_limits(name, seed, nodes, depth):
    rng = np.random.default_rng(seed)
    policy = new_policy(name)
    text = start(policy, rng.integers(0, 6, 40).tolist(), 3)
    for _ in range(4):
        heads = heads_of(rng, rng.integers(0, 6, 20).tolist())
        tree = ask(policy, text, max_nodes=nodes, max_depth=depth, **heads).tree
        rows = 1
        if tree is not None:
            tree.validate()
            assert tree.tokens[0] == text[-1]
            assert 1 <= tree.n_draft <= nodes
            assert tree.depth.max() <= depth
            rows = len(tree)
        tokens = rng.integers(0, 6, 2).tolist()
        policy.observe(Outcome(tokens, rows))
        text += tokens


@pytest.mark.parametrize("name", list(POLICIES))
def test_it_works_without_any_head(name):
    policy = new_policy(name)
    text = start(policy, [1, 2, 3, 4, 5, 6] * 3, 1)
    decision = ask(policy, text)
    assert decision.head == ""
    if name == "none":
        assert decision.tree is None
    else:
        assert decision.tree.tokens[1:5].tolist() == [2, 3, 4, 5]
