"""A stand-in for `tandem_jax.LLM`, so that these tests look at the command line alone."""

from types import SimpleNamespace
from typing import ClassVar

import pytest
from typer.testing import CliRunner

import tandem_jax
from tandem_jax.cli import app
from tandem_jax.engine.events import RoundEvent
from tandem_jax.errors import CheckpointError, ContextLengthError

END = 256  # the one special token of ByteTokenizer
N_CTX = 128
ROUND_TOKENS = 4  # committed by a round of FakeLLM: three guesses and the bonus token
CANNED = "héllo \x1b[31mworld, this is the canned answer of a model that knows one text"


class ByteTokenizer:
    """One token a byte, and an end token."""

    special_ids = frozenset({END})

    def encode(self, text):
        return list(text.encode())

    def token_bytes(self, token):
        return b"" if token == END else bytes([token])


class FakeLLM:
    """Writes CANNED whatever the prompt: one token from the prefill, then rounds of four."""

    model_name, drafter_name, max_context = "fake", "lookup", N_CTX
    opened: ClassVar[list] = []  # constructor calls of this test
    closed = 0  # how many were closed
    lossless = True

    def __init__(self, model, *, warmup=True, progress=None, **options):
        FakeLLM.opened.append({"model": model, **options})
        if model == "damaged":
            raise CheckpointError("damaged/model.safetensors ends early", hint="copy it again")
        for done in range(3):
            progress("loading", done, 2)
        self.tokenizer = ByteTokenizer()

    def encode_chat(self, messages, **template_kwargs):
        self.messages = messages
        return self.tokenizer.encode(messages[-1]["content"])

    def stream_ids(self, prompt_ids, params):
        if len(prompt_ids) >= N_CTX:
            raise ContextLengthError(len(prompt_ids), N_CTX)
        ids = [*CANNED.encode(), END][: params.max_tokens]
        yield event(ids[:1], ["target"], rows=0, last=len(ids) == 1)
        sources = ["lookup", "lookup", "mtp", "target"]
        for start in range(1, len(ids), ROUND_TOKENS):
            tokens = ids[start : start + ROUND_TOKENS]
            last = start + ROUND_TOKENS >= len(ids)
            yield event(tokens, sources[-len(tokens) :], rows=8, last=last)

    def close(self):
        FakeLLM.closed += 1

    def verify_lossless(self, prompt, params):
        return SimpleNamespace(lossless=self.lossless)

    def describe(self):
        return {
            "model": self.model_name,
            "drafter": self.drafter_name,
            "device": "cpu",
            "exactness_class": "bitwise",
            "layers": {"delta_net": 3, "attention": 1},
            "parameters": 2_030_000,
            "drafters": ["none", "lookup"],
            "routing": None,
        }


def event(tokens, sources, *, rows, last):
    return RoundEvent(
        tokens=tuple(tokens),
        sources=tuple(sources),
        rows=rows,
        drafted=max(0, rows - 1),
        accepted=len(tokens) - 1,
        finish_reason="length" if last else None,
        round_ms=1.0,
    )


@pytest.fixture
def fake_llm(monkeypatch):
    """The class, in the place of the real one; its class attributes are reset."""
    monkeypatch.setitem(vars(tandem_jax), "LLM", FakeLLM)
    monkeypatch.setattr(FakeLLM, "opened", [])
    monkeypatch.setattr(FakeLLM, "closed", 0)
    return FakeLLM


@pytest.fixture
def tandem(fake_llm):
    """Run the command line in this process: `tandem("demo", "--json").stdout`."""

    def run(*args, stdin=None):
        return CliRunner().invoke(app, list(args), input=stdin)

    return run
