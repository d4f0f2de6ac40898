"""Where an answer ends: at the token where plain decoding would end, inside a block or not."""

import pytest

from tandem_jax.engine.round import cut
from tandem_jax.sampling.params import SamplingParams
from tests.drafters.scripted import ScriptedDrafter
from tests.laws.bench import VOCAB, random_prompt
from tests.laws.texts import answer

BLOCK = 8  # drafted tokens a round, all of them right


@pytest.fixture(scope="module")
def prompt():
    return random_prompt(45)


@pytest.fixture(scope="module")
def truth(plain_text, prompt):
    return plain_text(prompt, 40)


@pytest.fixture
def run(engine, prompt, truth):
    """One request, drafted in right blocks of eight or, for comparison, not at all."""

    def go(params, *, drafted=True):
        blocks = ScriptedDrafter(counts=(BLOCK,), vocab_size=VOCAB) if drafted else None
        return answer(engine, prompt, params, blocks, truth=truth)

    return go


@pytest.mark.parametrize("limit", range(1, 21))
def test_max_tokens_are_met_exactly(run, truth, limit):
    """Reports E6 and E7: not one token fewer or more when a block crosses the limit."""
    got = run(limit)
    assert got.tokens == truth[:limit]
    assert got.reason == "length"
    # One token from the prefill, then nine a round: eight drafted ones and the bonus.
    assert len(got.events) == 1 + -(-(limit - 1) // (BLOCK + 1))
    assert len(got.sources) == limit
    assert all(len(event.tokens) for event in got.events)


@pytest.mark.parametrize("place", range(20))
def test_a_stop_id_anywhere_in_a_block(run, truth, place):
    """Report E5: nothing follows the end token, which is part of the answer."""
    stop = truth[place]
    wanted = truth[: truth.index(stop) + 1]
    params = SamplingParams(max_tokens=40, stop_token_ids=(stop,))
    for drafted in (True, False):
        got = run(params, drafted=drafted)
        assert (got.tokens, got.reason) == (wanted, "stop")
        assert got.events[-1].tokens[-1] == stop


def test_the_models_own_end_ids(engine, run, truth, monkeypatch):
    end = truth[5]
    assert truth.index(end) == 5
    monkeypatch.setattr(engine, "stop_ids", frozenset({end}))
    assert (run(40).tokens, run(40).reason) == (truth[:6], "stop")
    got = run(SamplingParams(max_tokens=40, ignore_eos=True))
    assert (got.tokens, got.reason) == (truth, "length")
    other = truth[3]
    params = SamplingParams(max_tokens=40, ignore_eos=True, stop_token_ids=(other,))
    assert run(params).tokens == truth[: truth.index(other) + 1]


def test_a_stop_at_the_limit_is_a_stop(run, truth):
    place = next(i for i in range(7, 30) if truth.index(truth[i]) == i)
    params = SamplingParams(max_tokens=place + 1, stop_token_ids=(truth[place],))
    assert (run(params).tokens, run(params).reason) == (truth[: place + 1], "stop")


def test_without_a_limit_the_context_is_the_limit(engine, plain_text):
    prompt = random_prompt(engine.config.max_context - 11)
    got = answer(engine, prompt, SamplingParams())
    assert (len(got.tokens), got.reason) == (11, "length")
    more = answer(engine, prompt, SamplingParams(max_tokens=500))
    assert more.tokens == got.tokens
    drafter = ScriptedDrafter(counts=(31,), vocab_size=VOCAB)
    drafted = answer(engine, prompt, SamplingParams(), drafter, truth=got.tokens * 2)
    assert (drafted.tokens, len(drafted.events)) == (got.tokens, 2)


@pytest.mark.parametrize(
    ("tokens", "remaining", "stop", "kept"),
    [
        ([1, 2, 3], 9, {}, (3, None)),
        ([1, 2, 3], 3, {}, (3, "length")),
        ([1, 2, 3], 2, {}, (2, "length")),
        ([1, 2, 3], 9, {1}, (1, "stop")),
        ([1, 2, 3], 9, {3}, (3, "stop")),
        ([1, 2, 3], 3, {3}, (3, "stop")),
        ([1, 2, 3], 2, {3}, (2, "length")),
        ([1, 2, 1], 9, {1, 2}, (1, "stop")),
        ([7], 1, {}, (1, "length")),
        ([7], 1, {7}, (1, "stop")),
    ],
)
def test_cut(tokens, remaining, stop, kept):
    assert cut(tokens, remaining, frozenset(stop)) == kept
