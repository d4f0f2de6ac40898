"""Prompts that cannot run are refused with one clear line before anything is held."""

import pytest

from tandem_jax.errors import ContextLengthError, EmptyPromptError, RequestError
from tandem_jax.sampling.params import SamplingParams
from tests.laws.bench import VOCAB, random_prompt
from tests.laws.states import CONTEXT
from tests.laws.texts import answer


def refusal(engine, prompt, kind):
    """The error of a prompt; nothing may be held after it."""
    with pytest.raises(kind) as caught:
        answer(engine, prompt, 5)
    assert engine.pages.held == [0, 0]
    assert caught.value.param == "prompt"
    return caught.value


def test_an_empty_prompt(engine):
    error = refusal(engine, [], EmptyPromptError)
    assert str(error) == "the prompt is empty"
    assert error.hint == "give at least one character of text"


def test_a_prompt_that_is_too_long_by_one(engine):
    error = refusal(engine, random_prompt(CONTEXT), ContextLengthError)
    assert (error.n_prompt_tokens, error.n_ctx) == (CONTEXT, CONTEXT)
    assert error.code == "context_length_exceeded"
    assert f"the prompt has {CONTEXT} tokens, but the context holds {CONTEXT}" in str(error)


def test_a_prompt_that_fits_exactly(engine):
    got = answer(engine, random_prompt(CONTEXT - 1), SamplingParams())
    assert (len(got.tokens), got.reason) == (1, "length")


@pytest.mark.parametrize("token", [-1, VOCAB, 1 << 40])
def test_a_token_outside_the_vocabulary(engine, token):
    error = refusal(engine, [1, token, 2], RequestError)
    assert str(error) == f"token id {token} is outside the vocabulary of {VOCAB}"


def test_the_first_and_last_token_of_the_vocabulary(engine):
    assert len(answer(engine, [0, VOCAB - 1], 2).tokens) == 2


def test_a_good_prompt_after_a_bad_one(engine, plain_text):
    wanted = plain_text(random_prompt(20), 10)
    refusal(engine, random_prompt(CONTEXT), ContextLengthError)
    assert answer(engine, random_prompt(20), 10).tokens == wanted


def test_check_tells_how_many_tokens_fit(engine):
    assert engine.check([1] * 40, SamplingParams()) == CONTEXT - 40
    assert engine.check([1] * 40, SamplingParams(max_tokens=7)) == 7
    assert engine.check([1] * (CONTEXT - 3), SamplingParams(max_tokens=7)) == 3
