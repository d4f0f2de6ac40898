"""Policies cost or save time, never a token: taught anything, they write plain decoding's text."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tandem_jax.engine.policy_drafter import PolicyDrafter
from tandem_jax.staircut.policy import POLICIES, PolicySetup, make_policy
from tandem_jax.staircut.price_model import PriceModel
from tandem_jax.staircut.prices import load_prices, read_prices
from tests.laws.bench import drafted_engine, new_engine, random_prompt, tiny_drafter, tiny_engine
from tests.laws.texts import PlainTexts, answer

N = 60
PROMPTS = [random_prompt(1), random_prompt(25) * 3, random_prompt(64)]


@pytest.fixture(scope="module")
def engines(platform):
    """By head: a random block drafter, one of NaN, and the model's own head."""
    random, nan = drafted_engine(), new_engine(draft=tiny_drafter(nan=True))
    nan.executables = random.executables
    return {"random": random, "NaN": nan, "mtp": tiny_engine()}


@pytest.fixture(scope="module")
def plain_text(engines):
    return PlainTexts(engines["mtp"])


def policy_drafter(name, table=None):
    prices = PriceModel(table)
    setup = PolicySetup(prices, {} if table is None else table.draft)
    return PolicyDrafter(make_policy(name, setup), prices)


@pytest.mark.parametrize("prices", ["gb10", None])
@pytest.mark.parametrize("name", list(POLICIES))
def test_every_policy_writes_the_plain_text(engines, plain_text, name, prices):
    """One policy for all answers, so that each answer meets what the last ones taught it."""
    for head in ("mtp",) if name == "mtp" else ("random", "NaN"):
        drafter = policy_drafter(name, prices and load_prices(prices))
        for prompt in PROMPTS * 2:
            got = answer(engines[head], prompt, N, drafter)
            assert got.tokens == plain_text(prompt, N)
        if name == "none":
            assert got.drafted == 0


def test_copies_are_drafted_and_accepted(engines, plain_text):
    """The second answer to a prompt that holds the first one is a copy."""
    prompt = random_prompt(25)
    text = plain_text(prompt, N)
    longer = prompt + text + prompt
    drafter = policy_drafter("staircut", load_prices("gb10"))
    got = answer(engines["random"], longer, N, drafter)
    assert got.tokens == plain_text(longer, N)


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    prices=st.lists(st.floats(0.01, 500.0), min_size=4, max_size=4),
    draft_ms=st.floats(0.01, 300.0),
    factors=st.lists(st.floats(0.0, 50.0), min_size=3, max_size=3),
    n_tokens=st.integers(1, 40),
    which=st.integers(0, 2),
)
def test_no_price_and_no_lesson_changes_the_text(
    engines, plain_text, prices, draft_ms, factors, n_tokens, which
):
    rows = dict(zip(("2", "8", "16", "32"), prices, strict=True))
    table = read_prices({"1024": {"tree": rows}, "draft": {"wide": {"1024": draft_ms}}})
    drafter = policy_drafter("staircut", table)
    state = drafter.policy.state()
    state["calibration"] = dict(zip(("head", "lookup", "head_accepted"), factors, strict=True))
    drafter.policy.load_state(state)
    prompt = PROMPTS[which]
    got = answer(engines["random"], prompt, n_tokens, drafter)
    assert got.tokens == plain_text(prompt, n_tokens)
