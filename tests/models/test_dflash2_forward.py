"""The block drafter's forward against the readable oracle: block, convolution, mask, selector."""

import jax.numpy as jnp
import numpy as np
import pytest

from pallas_kernels.tree_attention import block as block_op
from tandem_jax.models import dflash2
from tandem_jax.models.dflash2_weights import ConvWeights
from tandem_jax.quant.dense import Dense
from tests.models import numpy_dflash2 as oracle
from tests.models.drafter_pair import pair, v1_pair

TOLERANCE = 1e-4
ANCHOR = 17
# One layer without convolutions, so that a row's output shows what this row alone sees.
SINGLE = {"num_hidden_layers": 1, "layer_types": ["sliding_attention"]}
EDGE = v1_pair(**SINGLE, sliding_window=12, is_causal=False, block_size=8)
CASES = {
    "sliding": pair(),
    "window shorter than the text": pair(sliding_window=9),
    "block of 16": pair(dflash_config={"block_size": 16, "selector_top_k": 16}),
    "full layers": pair(layer_types=["full_attention"] * 2),
    "causal": pair(is_causal=True),
    "sliding without is_causal": pair(is_causal=...),
    "one tap": pair(dflash_config={"target_layer_ids": [2], "tap": "entry"}),
    "v1": v1_pair(),
    "v1 with a short window": v1_pair(sliding_window=7),
    "v1, not causal": v1_pair(is_causal=False),
}


@pytest.fixture(scope="module", params=CASES.values(), ids=CASES)
def case(request, platform):
    return request.param


@pytest.mark.parametrize("n_tokens", [1, 8, 39, 130])
def test_the_block_equals_the_oracle(case, n_tokens):
    """Less than a window, more than one, over page borders; the rest of the cache is NaN."""
    ours, cand, scores = case.ours(ANCHOR, n_tokens)
    theirs, logits = case.theirs(ANCHOR, n_tokens)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=TOLERANCE)
    best = np.argsort(-logits, axis=-1, kind="stable")[:, : cand.shape[1]]
    assert cand.tolist() == best.tolist()
    unary = np.take_along_axis(logits, cand, axis=1)
    if case.model.config.rank:
        wanted = oracle.selector_scores(case.tensors, theirs, ANCHOR, cand, unary)
    else:
        wanted = np.broadcast_to(unary[:, None], scores.shape)
    np.testing.assert_allclose(scores, wanted, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize(
    "overrides", [{"layer_types": ["full_attention"] * 2}, {"sliding_window": 100}]
)
def test_the_context_in_pieces_is_the_context_in_one(monkeypatch, platform, overrides):
    together, cut = pair(**overrides), pair(**overrides)
    for n_tokens in (5, 130):
        wanted = together.ours(ANCHOR, n_tokens)[0]
        with monkeypatch.context() as patch:
            patch.setattr(block_op, "PIECE", 32)
            found = cut.ours(ANCHOR, n_tokens)[0]
        np.testing.assert_allclose(found, wanted, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize(
    ("key", "last_row"), [(18, 0), (19, 0), (20, 1), (21, 2), (25, 6), (26, 7), (29, 7)]
)
def test_the_edge_of_the_window(key, last_row):
    """Row j stands at 30 + j and sees a context key at a distance below the window of 12."""
    taps = EDGE.taps.copy()
    taps[:, key] += 1.0
    before, after = EDGE.ours(ANCHOR, 30)[0], EDGE.ours(ANCHOR, 30, taps)[0]
    changed = np.abs(after - before).max(axis=-1) > 0
    assert changed.tolist() == [row <= last_row for row in range(1, 8)]


@pytest.mark.parametrize(
    ("overrides", "sees_later"),
    [
        ({"is_causal": False}, True),
        ({"is_causal": True}, False),
        ({"is_causal": ...}, False),
        ({"is_causal": ..., "layer_types": ["full_attention"]}, True),
        ({"is_causal": False, "layer_types": ["full_attention"]}, True),
        ({"is_causal": True, "layer_types": ["full_attention"]}, False),
    ],
)
def test_who_sees_the_rest_of_the_block(overrides, sees_later):
    """`is_causal` decides; without it a sliding layer is causal and a full one is not.

    The first row's attention is the same at any block size only if it sees no later row.
    """
    config = {**SINGLE, **overrides}
    few, many = (v1_pair(**config, block_size=n).ours(ANCHOR, 20)[0] for n in (3, 6))
    assert (np.abs(few[0] - many[0]).max() > 1e-3) == sees_later


def test_the_convolution_by_hand():
    """Two blocks of two rows, two groups of two channels, side 1."""
    cfg = pair(dflash_config={"block_size": 2, "conv_group_size": 2}).model.config
    cfg = dflash2.DFlashConfig(**{**vars(cfg), "width": 4})
    base = np.zeros((2, 2, 4), np.float32)
    base[1, 0], base[1, 1] = [1, 2, 3, 4], [10, 20, 30, 40]
    kernel = np.zeros((2, 2, 2, 4), np.float32)  # [side, tap, group, D]
    kernel[1, 0, 1, 0] = 1.0  # the row's channel 0 adds to tap 0 of the second group
    w = ConvWeights(jnp.asarray(base), Dense(jnp.asarray(kernel.reshape(8, 4))))
    x = jnp.asarray([[0.5, 0, 0, 0]] * 4, jnp.float32)
    y = jnp.asarray([[1, 1, 1, 1], [2, 2, 2, 2], [3, 3, 3, 3], [4, 4, 4, 4]], jnp.float32)
    out = dflash2.convolve(cfg, dflash2.conv_coefficients(cfg, w, x), 1, y)
    assert out.tolist() == [
        [1, 2, 3.5, 4.5],
        [2 + 10, 4 + 20, 7 + 30, 9 + 40],
        [3, 6, 10.5, 13.5],
        [4 + 30, 8 + 60, 14 + 90, 18 + 120],
    ]


def test_scales_and_the_soft_cap():
    keys = {"input_embedding_scale": 0.5, "output_multiplier": 2.0, "final_logit_softcapping": 3.0}
    scaled, plain = pair(dflash_config=keys), pair()
    ours, cand, scores = scaled.ours(ANCHOR, 10)
    vars(plain)["embed"] = scaled.embed * 0.5
    theirs, logits = plain.theirs(ANCHOR, 10)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=TOLERANCE)
    capped = 3.0 * np.tanh(2.0 * (logits * 2.0) / 3.0)  # the head itself is not scaled
    unary = np.take_along_axis(capped, cand, axis=1)
    wanted = oracle.selector_scores(scaled.tensors, theirs, ANCHOR, cand, unary)
    np.testing.assert_allclose(scores, wanted, rtol=0, atol=TOLERANCE)
