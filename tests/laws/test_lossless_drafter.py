"""The laws with a block drafter beside the model: it may cost speed, never a bit or a token.

Its weights are random, so it is nearly always wrong, or NaN. Rows of the context that nobody has
committed are NaN as well.
"""

import pytest

from tandem_jax.drafters import make_drafter
from tests.drafters.scripted import ScriptedDrafter
from tests.laws.bench import (
    VOCAB,
    drafted_bench,
    drafted_engine,
    new_engine,
    random_prompt,
    tiny_bench,
    tiny_drafter,
)
from tests.laws.bits import same_bits
from tests.laws.states import differing
from tests.laws.texts import PlainTexts, answer

N = 60


@pytest.fixture(scope="module", params=["float32", "bfloat16"])
def dtype(request, platform):
    return request.param


@pytest.fixture(scope="module")
def plain_text(dtype):
    """Plain decoding of the engine without any draft head."""
    return PlainTexts(tiny_bench(dtype).engine)


@pytest.fixture(scope="module")
def engines(dtype):
    """One engine with random weights, one with NaN in every weight of the drafter."""
    random = drafted_engine(dtype)
    broken = new_engine(dtype, draft=tiny_drafter(dtype, nan=True))
    broken.executables = random.executables
    return {"random": random, "NaN": broken}


@pytest.mark.parametrize("weights", ["random", "NaN"])
@pytest.mark.parametrize("name", ["none", "dflash2", "auto"])
def test_every_text_is_the_one_without_a_drafter(engines, plain_text, name, weights, caplog):
    for prompt in (random_prompt(1), random_prompt(64), random_prompt(25) * 3):
        caplog.clear()
        drafter = make_drafter(name, vocab_size=VOCAB)
        got = answer(engines[weights], prompt, N, drafter)
        assert got.tokens == plain_text(prompt, N)
        told = [line for line in caplog.messages if "not finite" in line]
        assert len(told) == (weights == "NaN" and name != "none")
        if name == "dflash2":
            assert (got.drafted > N) == (weights == "random")
            assert set(got.sources) <= {"target", "df2-greedy"}


def test_right_drafts_beside_the_drafter_are_taken(engines, plain_text):
    """Its context grows by whole accepted paths and the text stays."""
    prompt = random_prompt(70)
    truth = plain_text(prompt, N)
    for engine in engines.values():
        drafter = ScriptedDrafter(counts=(5, 0, 7), rights=(3, None), vocab_size=VOCAB)
        got = answer(engine, prompt, N, drafter, truth=truth)
        assert got.tokens == truth
        assert got.accepted > N // 3


@pytest.mark.parametrize("n_prompt", [1, 70])
def test_no_bit_depends_on_the_drafter(dtype, n_prompt):
    """Logits, recurrent state, conv tails and KV of prefill and plain rounds."""
    alone, beside = (bench(dtype).plain(n_prompt, 12) for bench in (tiny_bench, drafted_bench))
    assert alone.tokens == beside.tokens
    assert same_bits(alone.logits, beside.logits)
    for fed in range(13):
        assert differing(alone.committed(fed), beside.committed(fed)) == [], fed
