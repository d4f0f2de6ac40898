"""The block drafter on the device: context of committed tokens, one pass over a masked block.

The context of token t is made once from the target's residual streams at t and kept as keys and
values of every layer. A block is [anchor, mask, mask, ...]; row j >= 1 predicts the token j places
behind the anchor. DFlash2 adds a two-tap convolution around each sublayer and a selector that
scores every candidate by the candidate before it; DFlash v1 has neither.

Its numbers only change how fast text arrives, so nothing here needs to be bit-exact.
Source: the published descriptions of DFlash and DFlash2 (formulas, not code).
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax

from tandem_jax.models.config import DFlashConfig
from tandem_jax.models.dflash2_weights import SIDES, TAPS, BlockWeights, ConvWeights, DFlashWeights
from tandem_jax.models.hybrid import HybridWeights, head_logits
from tandem_jax.models.norms import plain_norm
from tandem_jax.models.rope import rope_tables, rotate
from tandem_jax.ops.tree_attention import block_attention
from tandem_jax.quant import linear
from tandem_jax.state.model_state import KvCache


@dataclass(frozen=True)
class DraftModel:
    """A block drafter an engine can run beside its target."""

    config: DFlashConfig
    weights: DFlashWeights


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Anchors:
    """Where the blocks of B requests begin."""

    token: jax.Array  # [B] int32, last committed token, not forwarded by the target yet
    length: jax.Array  # [B] int32, its position: committed tokens before it, all in the context
    pages: jax.Array  # [B, N] int32 page lists


def _heads(cfg: DFlashConfig, x: jax.Array, weight) -> jax.Array:
    """Projection of rows x [R, D] into heads [R, H, D'] float32."""
    return linear(x, weight).reshape(x.shape[0], -1, cfg.head)


def _turned(cfg: DFlashConfig, x: jax.Array, norm: jax.Array, position: jax.Array) -> jax.Array:
    """Heads x [R, H, D'] float32, normed and rotated to position [R]."""
    cos, sin = rope_tables(position, cfg.head, cfg.theta, jnp.float32)
    return rotate(plain_norm(x, norm, cfg.eps), cos, sin)


def _layer(layers: BlockWeights, index: int) -> BlockWeights:
    return jax.tree.map(lambda a: a[index], layers)


def context_rows(
    cfg: DFlashConfig, w: DFlashWeights, taps: jax.Array, position: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Keys and values of committed tokens in every layer: [L, R, G, D'] each, in taps' dtype.

    taps [n, R, D] residual streams of the rows in ascending order of layers, position [R] int32.
    """
    dtype = taps.dtype
    joined = jnp.moveaxis(taps, 0, 1).reshape(position.shape[0], -1)
    context = plain_norm(linear(joined, w.fc).astype(dtype), w.hidden_norm, cfg.eps).astype(dtype)

    def rows(own: BlockWeights):
        k = _turned(cfg, _heads(cfg, context, own.k), own.k_norm, position)
        return k.astype(dtype), _heads(cfg, context, own.v).astype(dtype)

    k, v = zip(*(rows(_layer(w.layers, i)) for i in range(cfg.layers)), strict=True)
    return jnp.stack(k), jnp.stack(v)


def conv_coefficients(cfg: DFlashConfig, w: ConvWeights | None, x: jax.Array) -> jax.Array | None:
    """Coefficients [side, tap, R, D] float32 of a layer's convolution for its normed input x.

    base[side, tap, c] + d[row, side, tap, c // group], d the projection of the row; None in v1.
    """
    if w is None:
        return None
    groups = cfg.width // cfg.conv_group
    delta = linear(x, w.kernel).reshape(x.shape[0], SIDES, TAPS, groups)
    wide = jnp.repeat(jnp.moveaxis(delta, 0, 2), cfg.conv_group, axis=-1)
    return wide + w.base.astype(jnp.float32)[:, :, None]


def convolve(cfg: DFlashConfig, c: jax.Array | None, side: int, y: jax.Array) -> jax.Array:
    """c0 y_t + c1 y_(t-1) over the rows of each block, nothing before its first; y [R, D]."""
    if c is None:
        return y
    blocks = y.astype(jnp.float32).reshape(-1, cfg.block, cfg.width)
    before = jnp.pad(blocks, ((0, 0), (1, 0), (0, 0)))[:, :-1].reshape(y.shape)
    return (c[side, 0] * y.astype(jnp.float32) + c[side, 1] * before).astype(y.dtype)


def block_layer(
    cfg: DFlashConfig, w: BlockWeights, index: int, x: jax.Array, kv: KvCache, anchors: Anchors
) -> jax.Array:
    """One layer over the residual rows x [B * block, D]; `w` holds the layer's own weights."""
    dtype, blocks = x.dtype, (-1, cfg.block)
    row = jnp.arange(cfg.block, dtype=jnp.int32)
    position = (anchors.length[:, None] + row[None]).reshape(-1)

    n = plain_norm(x, w.norm, cfg.eps).astype(dtype)
    c = conv_coefficients(cfg, w.attention_conv, n)
    n = convolve(cfg, c, 0, n)
    q = _turned(cfg, _heads(cfg, n, w.q), w.q_norm, position)
    k = _turned(cfg, _heads(cfg, n, w.k), w.k_norm, position)
    rows = (a.astype(dtype).reshape(*blocks, *a.shape[1:]) for a in (q, k, _heads(cfg, n, w.v)))
    seen = {"window": cfg.windows[index], "causal": cfg.causal[index]}
    o = block_attention(*rows, kv.k, kv.v, index, anchors.pages, anchors.length, **seen)
    o = linear(o.astype(dtype).reshape(x.shape[0], -1), w.out).astype(dtype)
    x = x + convolve(cfg, c, 1, o)

    n = plain_norm(x, w.mlp_norm, cfg.eps).astype(dtype)
    c = conv_coefficients(cfg, w.mlp_conv, n)
    n = convolve(cfg, c, 0, n)
    y = jax.nn.silu(linear(n, w.gate)) * linear(n, w.up)
    return x + convolve(cfg, c, 1, linear(y.astype(dtype), w.down).astype(dtype))


def block_hidden(
    cfg: DFlashConfig, weights: HybridWeights, kv: KvCache, anchors: Anchors
) -> jax.Array:
    """Normed hidden rows [B, L, D] of the slots behind each anchor."""
    w, b = weights.draft, anchors.token.shape[0]
    masks = jnp.full((b, cfg.slots), cfg.mask_id, jnp.int32)
    token = jnp.concatenate([anchors.token[:, None], masks], axis=1).reshape(-1)
    x = weights.embed[token]
    x = (x.astype(jnp.float32) * cfg.embed_scale).astype(x.dtype)
    for index in range(cfg.layers):
        x = block_layer(cfg, _layer(w.layers, index), index, x, kv, anchors)
    y = plain_norm(x, w.norm, cfg.eps).astype(x.dtype)
    return y.reshape(b, cfg.block, cfg.width)[:, 1:]


def candidates(
    cfg: DFlashConfig, weights: HybridWeights, hidden: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The k best tokens of each slot and their logits: int32, float32 [B, L, k], descending."""
    shape = (*hidden.shape[:2], cfg.top_k)
    logits = head_logits(weights, hidden.reshape(-1, cfg.width)) * cfg.output_scale
    if cfg.softcap:
        logits = cfg.softcap * jnp.tanh(logits / cfg.softcap)
    unary, token = lax.top_k(logits, cfg.top_k)
    return token.astype(jnp.int32).reshape(shape), unary.reshape(shape)


def lattice_scores(
    w: DFlashWeights, hidden: jax.Array, anchor: jax.Array, token: jax.Array, unary: jax.Array
) -> jax.Array:
    """Score of every candidate behind every candidate of the slot before: [B, L, k, k] float32.

        score[l, p, c] = unary[l, c] + <A[p's token] * (H h_l), B[c's token]>

    hidden [B, L, D]; anchor [B], which precedes slot 0 whatever the row; token, unary [B, L, k].
    """
    b, slots, k = token.shape
    alone = jnp.broadcast_to(unary[:, :, None], (b, slots, k, k))
    if w.selector is None:
        return alone
    s = w.selector
    first = jnp.broadcast_to(anchor[:, None, None], (b, 1, k))
    before = jnp.concatenate([first, token[:, :-1]], axis=1)
    lead = linear(hidden.reshape(b * slots, -1), s.hidden).reshape(b, slots, 1, -1)
    a, c = (codes.astype(jnp.float32) for codes in (s.predecessor[before], s.successor[token]))
    pair = jnp.einsum("blpr,blcr->blpc", a * lead, c, precision=lax.Precision.HIGHEST)
    return alone + pair


def draft_block(
    cfg: DFlashConfig, weights: HybridWeights, kv: KvCache, anchors: Anchors
) -> tuple[jax.Array, jax.Array]:
    """The lattice behind each anchor: (candidates [B, L, k] int32, scores [B, L, k, k] float32).

    The context cache is only read; it must hold the tokens before the anchors.
    """
    hidden = block_hidden(cfg, weights, kv, anchors)
    token, unary = candidates(cfg, weights, hidden)
    return token, lattice_scores(weights.draft, hidden, anchors.token, token, unary)
