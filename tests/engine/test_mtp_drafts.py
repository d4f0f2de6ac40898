"""The MTP head's drafts against the numpy oracle, after prefill and after rounds."""

from contextlib import closing

import numpy as np
import pytest

from checkpoints.synthetic import tensor_values
from tandem_jax.sampling.params import SamplingParams
from tests.drafters.scripted import ScriptedDrafter
from tests.laws.bench import CONFIG, SEED, VOCAB, random_prompt
from tests.models.numpy_forward import forward, mtp_forward

TOLERANCE = 1e-4  # of a probability
PARAMS = SamplingParams(max_tokens=20)


class HeadSpy(ScriptedDrafter):
    """Notes what the head drafted beside each step."""

    name = "head spy"
    uses_model_head = True

    def __init__(self, **script):
        super().__init__(vocab_size=VOCAB, **script)
        self.heads = []

    def observe(self, tokens, head):
        super().observe(tokens, head)
        self.heads.append(head)


@pytest.fixture(scope="module")
def tensors():
    return tensor_values(CONFIG, seed=SEED, mtp=True)


def greedy_chain(tensors, ids, depth):
    """Tokens and probabilities the head drafts behind `ids`, whose last one is the anchor."""
    hidden = forward(tensors, CONFIG, np.array(ids[:-1])).hidden
    following, tokens, probs = list(ids[1:]), [], []
    for _ in range(depth):
        positions = np.arange(1, len(following) + 1)
        logits, y = mtp_forward(tensors, CONFIG, hidden, np.array(following), positions)
        weights = np.exp(logits[-1] - logits[-1].max())
        tokens.append(int(weights.argmax()))
        probs.append(float(weights.max() / weights.sum()))
        hidden = np.concatenate([hidden, y[-1:]])
        following.append(tokens[-1])
    return tokens, probs


def check(head, tensors, ids, depth):
    tokens, probs = greedy_chain(tensors, ids, depth)
    assert head.tokens.tolist() == tokens
    np.testing.assert_allclose(head.probs, probs, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("n_prompt", [1, 2, 20, 64, 70])
def test_after_prefill(engine, plain_text, tensors, n_prompt):
    """Within the first page, up to its border, and behind it."""
    prompt, spy = random_prompt(n_prompt), HeadSpy(counts=(0,))
    with closing(engine.run(prompt, PARAMS, spy, truth=[])) as run:
        (first,) = next(run).tokens
    check(spy.heads[0], tensors, [*prompt, first], engine.config.mtp_depth)


@pytest.mark.parametrize("n_right", [0, 1, 3, 6])
def test_after_rounds_that_accepted_drafts(engine, plain_text, tensors, n_right):
    """Six drafted, some of them right: the head's cache holds the accepted rows alone."""
    prompt = random_prompt(20)
    truth = plain_text(prompt, 20)
    spy = HeadSpy(counts=(6,), rights=(n_right,))
    text = []
    with closing(engine.run(prompt, PARAMS, spy, truth=truth)) as run:
        for turn in range(3):
            event = next(run)
            text.extend(event.tokens)
            check(spy.heads[turn], tensors, prompt + text, engine.config.mtp_depth)
            assert event.accepted == (n_right if turn else 0)
    assert text == truth[: len(text)]
