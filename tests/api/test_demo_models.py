"""The shipped model `nano`: every drafter writes the text of plain decoding, token for token."""

import pytest

from tandem_jax import LLM, SamplingParams
from tandem_jax.drafters import DRAFTERS as TABLE
from tandem_jax.loading import shipped_path

DRAFTERS = [name for name in TABLE if name != "dflash2"]  # all that need no draft model
N = 64
PARAMS = SamplingParams(max_tokens=N, ignore_eos=True)
PROMPTS = {
    "english": "The history of the United States begins with the first people who ",
    "code": "def add(left, right):\n    return left + right\n\n\ndef subtract(left, right):\n",
}


@pytest.fixture(scope="module")
def nano():
    """The model with its MTP head, in float32."""
    path = shipped_path("nano")
    assert path.is_dir(), f"{path} is missing: the shipped model `nano` belongs to the checkout"
    shapes = {"page_tokens": 128, "prefill_buckets": (128,), "row_buckets": (16,)}
    options = {"drafter": "mtp", "warmup": False, "dtype": "float32"}
    return LLM("nano", max_context=256, **options, **shapes)


@pytest.fixture(scope="module")
def plain(nano):
    """Prompt name -> token ids of plain decoding."""
    return {name: tokens_of(nano, prompt, "none")[0] for name, prompt in PROMPTS.items()}


def tokens_of(llm, prompt, drafter):
    """(token ids, rounds, drafted tokens accepted) of one answer."""
    events = list(llm.stream_ids(llm.tokenizer.encode(prompt), PARAMS, drafter=drafter))
    tokens = [token for event in events for token in event.tokens]
    return tokens, len(events) - 1, sum(event.accepted for event in events)


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("drafter", sorted(DRAFTERS))
def test_every_drafter_writes_the_same_text(nano, plain, drafter, prompt):
    tokens, rounds, accepted = tokens_of(nano, PROMPTS[prompt], drafter)
    assert tokens == plain[prompt]
    assert len(tokens) == N
    if drafter in ("none", "wrong"):
        assert (rounds, accepted) == (N - 1, 0)
    else:
        assert accepted > 0
        assert rounds < N - 1


def test_the_model_writes_text(nano, plain):
    """Whole characters, mostly letters and spaces, and more than one word over and over."""
    for tokens in plain.values():
        text = nano.tokenizer.decode(tokens)
        assert "\ufffd" not in text
        assert sum(c.isalpha() or c.isspace() for c in text) > 0.6 * len(text)
        assert len(set(text.split())) >= 5


def test_facts_of_the_shipped_model(nano):
    facts = nano.describe()
    assert (facts["model"], facts["mtp_head"]) == ("nano", True)
    assert facts["warnings"] == []
    assert facts["layers"] == {"delta_net": 3, "attention": 1}
    assert facts["vocab_size"] == nano.tokenizer.vocab_size == 8192
