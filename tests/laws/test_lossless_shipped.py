"""Every drafter writes the text of the shipped NVFP4 target, in float32 and bf16 arithmetic."""

import pytest

from tandem_jax import LLM, SamplingParams
from tandem_jax.drafters import DRAFTERS
from tandem_jax.loading import shipped_path

N = 32
PARAMS = SamplingParams(max_tokens=N, ignore_eos=True)
SMALL = {"max_context": 128, "page_tokens": 128, "prefill_buckets": (128,), "row_buckets": (16,)}
PROMPTS = {
    "prose": "The old house stood at the end of a long road, and",
    "code": 'def read_lines(path):\n    """Return the lines of a file."""\n',
}
# What an LLM is opened with, and the drafters asked for there. A draft model takes the place of
# the MTP head; mini-b16 is the one that ships first for the target.
OPENED = {
    "mini-b16": ({"drafter": "dflash2"}, sorted(set(DRAFTERS) - {"mtp"})),
    "mini-b8": ({"draft_model": "mini-b8"}, ["dflash2"]),
    "mtp": ({"drafter": "mtp"}, ["mtp", "auto"]),
}
PAIRS = [(name, drafter) for name, (_, drafters) in OPENED.items() for drafter in drafters]


@pytest.fixture(scope="module", params=["float32", "bfloat16"])
def opened(request, platform):
    """The shipped target by what it was opened with; the newest LLM is kept, older ones are not."""
    assert shipped_path("mini").is_dir(), "the shipped model `mini` belongs to the checkout"
    current = {}

    def llm(name):
        if name not in current:
            current.clear()
            options = OPENED[name][0] | SMALL
            current[name] = LLM("mini", dtype=request.param, warmup=False, **options)
        return current[name]

    return llm


@pytest.fixture(scope="module")
def plain(opened):
    """Token ids of plain decoding of a prompt, by the LLM opened first."""
    found = {}

    def tokens(prompt):
        if not found:
            llm = opened(next(iter(OPENED)))
            found.update({name: tokens_of(llm, text, "none") for name, text in PROMPTS.items()})
        return found[prompt]

    return tokens


def tokens_of(llm, prompt, drafter):
    """Token ids of one answer."""
    events = llm.stream_ids(llm.tokenizer.encode(prompt), PARAMS, drafter=drafter)
    return [token for event in events for token in event.tokens]


@pytest.mark.parametrize(("name", "drafter"), PAIRS)
def test_every_drafter_writes_the_targets_text(opened, plain, name, drafter):
    for prompt, text in PROMPTS.items():
        expected = plain(prompt)
        assert len(expected) == N
        assert tokens_of(opened(name), text, drafter) == expected
