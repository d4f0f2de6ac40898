"""What the trainer exports is what the engine runs: the same lattice from the same text."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tandem_jax import LLM, SamplingParams
from tandem_jax.drafters.dflash2 import DFlash2Drafter
from tandem_jax.loading import shipped_path
from tools.train.drafter_export import export_drafter, read_drafter
from tools.train.drafter_model import (
    block_hidden,
    candidates,
    context_of,
    init_drafter,
    lattice_scores,
    walk,
)
from tools.train.drafter_shapes import DRAFTERS
from tools.train.model import forward
from tools.train.shapes import PRESETS
from tools.train.verify import load_params

SHAPE = replace(DRAFTERS["nano-b8"], window=24, block=6)
PROMPT = "def mean(values):\n    total = sum(values)\n    return total / len(values)\n\n\n" * 2
PARAMS = SamplingParams(max_tokens=16, ignore_eos=True)


class Spy(DFlash2Drafter):
    """Notes what it hears and says."""

    def __init__(self):
        super().__init__()
        self.heard, self.said = [], []

    def observe(self, tokens, head):
        super().observe(tokens, head)
        self.heard.append((list(tokens), head))

    def propose(self, anchor, max_nodes, max_depth):
        tree = super().propose(anchor, max_nodes, max_depth)
        self.said.append(tree)
        return tree


@pytest.fixture(scope="module", params=[False, True], ids=["bf16", "nvfp4"])
def folder(request, tmp_path_factory):
    """A drafter of random weights, exported as the trainer does."""
    tree = init_drafter(jax.random.key(0), SHAPE)
    leaves, kind = jax.tree.flatten(tree)
    keys = jax.random.split(jax.random.key(1), len(leaves))
    noisy = [x + 0.05 * jax.random.normal(key, x.shape)
             for x, key in zip(leaves, keys, strict=True)]
    out = tmp_path_factory.mktemp("drafter")
    export_drafter(jax.tree.unflatten(kind, noisy), SHAPE, out, nvfp4=request.param,
                   temperature=1.1)
    return out


def trained_lattice(folder, ids):
    """(candidates [L, k], scores [L, k, k], walk [L]) of the trainer's form; ids end in the anchor.
    """
    params, shape, _ = read_drafter(folder)
    params = jax.tree.map(jnp.asarray, params)
    nano = PRESETS["nano"]
    target, _ = load_params(shipped_path("nano"), nano)
    tokens = jnp.asarray(ids)[None]
    segments = jnp.zeros_like(tokens)
    _, taps = forward(target, tokens, segments, nano, dtype=jnp.float32, remat=False,
                      sequential=True, taps=shape.taps)
    anchor, at = tokens[:, -1:], jnp.full((1, 1), len(ids) - 1)
    embed = target["embed"]
    hidden = block_hidden(params, shape, embed, context_of(params, shape, taps), segments, anchor,
                          at)[:, :, 1:]
    cand, unary = candidates(params, shape, target.get("head", embed), hidden)
    scores = lattice_scores(params, shape, hidden, anchor, cand, unary)
    return tuple(np.asarray(x)[0, 0] for x in (cand, scores, walk(scores)))


def test_the_engine_drafts_what_the_trainer_would(folder):
    llm = LLM("nano", drafter="dflash2", draft_model=folder, max_context=256, warmup=False,
              dtype="float32", page_tokens=64, prefill_buckets=(64,), row_buckets=(8,))
    assert llm.describe()["block_drafter"]["tap"] == "entry"
    prompt, spy = llm.tokenizer.encode(PROMPT), Spy()
    ids = list(prompt)
    list(llm.engine.run(prompt, PARAMS, spy))
    for turn, (tokens, lattice) in enumerate(spy.heard):
        ids += tokens
        if turn not in (0, 1, 5):
            continue
        cand, scores, path = trained_lattice(folder, ids)
        assert lattice.cand.tolist() == cand.tolist()
        np.testing.assert_allclose(lattice.scores, scores, rtol=0, atol=2e-3)
        tree = spy.said[turn]
        assert tree.tokens[1:].tolist() == cand[np.arange(len(path)), path].tolist()
        assert lattice.temperature == 1.1
    assert llm.verify_lossless(prompt, PARAMS).lossless
