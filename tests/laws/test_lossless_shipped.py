"""Every drafter writes the shipped target's own text: NVFP4 weights, float32 and bf16 arithmetic."""

import pytest

from tandem_jax import LLM, SamplingParams
from tandem_jax.drafters import DRAFTERS
from tandem_jax.loading import shipped_path

N = 40
PARAMS = SamplingParams(max_tokens=N, ignore_eos=True)
PROMPTS = {
    "prose": "The old house stood at the end of a long road, and",
    "code": 'def read_lines(path):\n    """Return the lines of a file."""\n',
}


@pytest.fixture(scope="module", params=["float32", "bfloat16"])
def mini(request, platform):
    """The shipped target with its block drafter, from four-bit weights."""
    assert shipped_path("mini").is_dir(), "the shipped model `mini` belongs to the checkout"
    small = {"page_tokens": 128, "prefill_buckets": (128,), "row_buckets": (16,)}
    return LLM(
        "mini", drafter="dflash2", max_context=128, dtype=request.param, warmup=False, **small
    )


@pytest.fixture(scope="module")
def plain(mini):
    """Prompt name -> token ids of plain decoding."""
    return {name: tokens_of(mini, prompt, "none") for name, prompt in PROMPTS.items()}


def tokens_of(llm, prompt, drafter):
    """Token ids of one answer."""
    events = llm.stream_ids(llm.tokenizer.encode(prompt), PARAMS, drafter=drafter)
    return [token for event in events for token in event.tokens]


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("drafter", sorted(DRAFTERS))
def test_every_drafter_writes_the_targets_text(mini, plain, drafter, prompt):
    assert len(plain[prompt]) == N
    assert tokens_of(mini, PROMPTS[prompt], drafter) == plain[prompt]
