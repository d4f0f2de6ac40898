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
    """The two best tokens of each step behind `ids`, whose last one is the anchor, and their
    probabilities: two lists of pairs. The best ones continue the chain."""
    hidden = forward(tensors, CONFIG, np.array(ids[:-1])).hidden
    following, tokens, probs = list(ids[1:]), [], []
    for _ in range(depth):
        positions = np.arange(1, len(following) + 1)
        logits, y = mtp_forward(tensors, CONFIG, hidden, np.array(following), positions)
        weights = np.exp(logits[-1] - logits[-1].max())
        pair = np.argsort(-weights, kind="stable")[:2]
        tokens.append(pair.tolist())
        probs.append((weights[pair] / weights.sum()).tolist())
        hidden = np.concatenate([hidden, y[-1:]])
        following.append(tokens[-1][0])
    return tokens, probs


def check(head, tensors, ids, depth):
    tokens, probs = greedy_chain(tensors, ids, depth)
    assert np.stack([head.tokens, head.second], 1).tolist() == tokens
    found = np.stack([head.probs, head.second_probs], 1)
    np.testing.assert_allclose(found, probs, rtol=0, atol=TOLERANCE)


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


def test_rounds_without_a_draft_keep_the_heads_cache_in_sync(engine, plain_text, tensors):
    """Nothing is heard in rounds that ask for no draft, and the next draft is as good as ever."""
    prompt = random_prompt(20)
    truth = plain_text(prompt, 20)
    spy = HeadSpy(counts=(6,), rights=(3, 0, 2), wants=(False, False, True, False, True))
    text = []
    with closing(engine.run(prompt, PARAMS, spy, truth=truth)) as run:
        for turn in range(6):
            text.extend(next(run).tokens)
            if turn in (0, 3, 5):
                check(spy.heads[turn], tensors, prompt + text, engine.config.mtp_depth)
            else:
                assert spy.heads[turn] is None
    assert text == truth[: len(text)]
