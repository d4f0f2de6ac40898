"""The DFlash2 drafter over whole rows: many blocks at once, each behind its own anchor.

Parameters are a plain tree of float32 arrays, matrices as [in, out], layers stacked. Letters:
B rows, T tokens, N anchors of a row, R rows of a block, L = R - 1 slots, D width, H query heads,
G key/value heads, K head width, V vocabulary, k candidates of a slot. Source of the formulas: the
published descriptions of DFlash (arXiv 2602.06036) and DFlash2.
"""

import math

import jax
import jax.numpy as jnp

from tools.train.drafter_shapes import DrafterShape

NEVER = -1e30  # a masked attention logit; finite, so that gradients stay finite


def _normal(key, shape, scale):
    return scale * jax.random.normal(key, shape, jnp.float32)


def _identity_conv(key, s: DrafterShape) -> dict:
    """Return a convolution that passes its input through: base 1 on the own row, no dynamics."""
    base = jnp.zeros((s.n_layers, 2, 2, s.d_model)).at[:, :, 0].set(1.0)
    width = 2 * 2 * s.conv_groups
    return {"base": base, "kernel": _normal(key, (s.n_layers, s.d_model, width), 1e-3)}


def init_drafter(key, s: DrafterShape) -> dict:
    """Return float32 parameters: norms 1, matrices 1/sqrt(in), convolutions the identity."""
    keys = jax.random.split(key, 13)
    q, kv, lead = s.heads * s.d_head, s.kv_heads * s.d_head, s.n_layers
    back = 1 / math.sqrt(2 * s.n_layers)  # two sublayers of every layer add to the residual

    def matrix(at, rows, columns, scale=1.0):
        return _normal(keys[at], (lead, rows, columns), scale / math.sqrt(rows))

    layers = {
        "input_norm": jnp.ones((lead, s.d_model)), "post_norm": jnp.ones((lead, s.d_model)),
        "q": matrix(0, s.d_model, q), "k": matrix(1, s.d_model, kv), "v": matrix(2, s.d_model, kv),
        "o": matrix(3, q, s.d_model, back),
        "q_norm": jnp.ones((lead, s.d_head)), "k_norm": jnp.ones((lead, s.d_head)),
        "gate": matrix(4, s.d_model, s.d_ffn), "up": matrix(5, s.d_model, s.d_ffn),
        "down": matrix(6, s.d_ffn, s.d_model, back),
        "attention_conv": _identity_conv(keys[7], s), "mlp_conv": _identity_conv(keys[8], s)}
    width = len(s.taps) * s.d_model
    return {"fc": _normal(keys[9], (width, s.d_model), 1 / math.sqrt(width)),
            "hidden_norm": jnp.ones(s.d_model), "norm": jnp.ones(s.d_model), "layers": layers,
            "selector": {
                "hidden": _normal(keys[10], (s.d_model, s.rank), 1 / math.sqrt(s.d_model)),
                "predecessor": _normal(keys[11], (s.vocabulary, s.rank), 0.3),
                "successor": _normal(keys[12], (s.vocabulary, s.rank), 0.02)}}


def plain_norm(x, weight, eps):
    """Return n(x) w in float32, cast back: the drafter's norm has no 1 + w."""
    y = x.astype(jnp.float32)
    y = y * jax.lax.rsqrt(jnp.mean(y * y, -1, keepdims=True) + eps)
    return (y * weight).astype(x.dtype)


def dot(x, weight):
    """Return x @ weight in x's dtype."""
    return jnp.matmul(x, weight.astype(x.dtype))


def rotate(x, positions, theta, d_rotary):
    """Half-split rotary on the first d_rotary dims of x [... heads K], positions [...]."""
    half = d_rotary // 2
    frequency = theta ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angle = (positions.astype(jnp.float32)[..., None] * frequency)[..., None, :]
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    y = x.astype(jnp.float32)
    a, b, rest = y[..., :half], y[..., half:d_rotary], y[..., d_rotary:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin, rest], -1).astype(x.dtype)


def context_of(p, s: DrafterShape, taps):
    """Return the context features [B T D] of taps [n_taps B T D], in the taps' dtype."""
    joined = jnp.concatenate(list(taps), -1)
    return plain_norm(dot(joined, p["fc"]), p["hidden_norm"], s.eps)


def conv_coefficients(p, x, s: DrafterShape):
    """Return the convolution's coefficients [side tap ... R D] of the normed input x [... R D]."""
    delta = dot(x, p["kernel"]).reshape(*x.shape[:-1], 2, 2, s.conv_groups)
    wide = jnp.repeat(delta, s.conv_group, -1) + p["base"].astype(x.dtype)
    return jnp.moveaxis(wide, (-3, -2), (0, 1))


def two_tap_conv(coefficients, y):
    """Return c0 y_t + c1 y_{t-1} over the block's rows of y [... R D], zero before the first."""
    before = jnp.pad(y, [(0, 0)] * (y.ndim - 2) + [(1, 0), (0, 0)])[..., :-1, :]
    return coefficients[0] * y + coefficients[1] * before


def _attend(q, k, v, context_k, context_v, visible):
    """Return attention [B N R H K] of blocks over their context and over themselves.

    q [B N R H K]; k, v [B N R G K]; context_k, context_v [B T G K]; visible [B N R T].
    One softmax over both kinds of keys, kept apart so that the context is not copied per block.
    """
    rows, anchors, block, heads, width = q.shape
    groups = k.shape[-2]
    q = q.reshape(rows, anchors, block, groups, heads // groups, width)
    scale = width**-0.5
    far = jnp.einsum("bnrghk,btgk->bghnrt", q, context_k, preferred_element_type=jnp.float32)
    near = jnp.einsum("bnrghk,bnsgk->bghnrs", q, k, preferred_element_type=jnp.float32) * scale
    far = jnp.where(visible[:, None, None], far * scale, NEVER)
    top = jax.lax.stop_gradient(jnp.maximum(jnp.max(far, -1), jnp.max(near, -1)))[..., None]
    far, near = jnp.exp(far - top), jnp.exp(near - top)
    total = jnp.sum(far, -1) + jnp.sum(near, -1)
    out = (jnp.einsum("bghnrt,btgk->bnrghk", far.astype(v.dtype), context_v,
                      preferred_element_type=jnp.float32)
           + jnp.einsum("bghnrs,bnsgk->bnrghk", near.astype(v.dtype), v,
                        preferred_element_type=jnp.float32))
    out = out / jnp.moveaxis(total, (1, 2), (3, 4))[..., None]
    return out.astype(v.dtype).reshape(rows, anchors, block, heads, width)


def _heads(x, weight, s: DrafterShape):
    return dot(x, weight).reshape(*x.shape[:-1], -1, s.d_head)


def _layer(p, h, ctx, visible, positions, s: DrafterShape):
    """One drafter layer on blocks h [B N R D] with context ctx [B T D]."""
    x = plain_norm(h, p["input_norm"], s.eps)
    conv = conv_coefficients(p["attention_conv"], x, s)
    x = two_tap_conv(conv[0], x)

    def turned(y, norm, at):
        return rotate(plain_norm(y, norm, s.eps), at, s.rope_theta, s.d_head)

    at_context = jnp.arange(ctx.shape[1])[None]
    # Attention weights are the one thing too large to keep for the backward pass.
    out = jax.checkpoint(_attend)(
        turned(_heads(x, p["q"], s), p["q_norm"], positions),
        turned(_heads(x, p["k"], s), p["k_norm"], positions), _heads(x, p["v"], s),
        turned(_heads(ctx, p["k"], s), p["k_norm"], at_context), _heads(ctx, p["v"], s), visible)
    h = h + two_tap_conv(conv[1], dot(out.reshape(*h.shape[:-1], -1), p["o"]))
    x = plain_norm(h, p["post_norm"], s.eps)
    conv = conv_coefficients(p["mlp_conv"], x, s)
    x = two_tap_conv(conv[0], x)
    x = dot(jax.nn.silu(dot(x, p["gate"])) * dot(x, p["up"]), p["down"])
    return h + two_tap_conv(conv[1], x)


def block_hidden(p, s: DrafterShape, embed, ctx, segments, anchor_token, anchor_at):
    """Return final-normed hidden states [B N R D] of one block behind each anchor.

    embed [V D]; ctx [B T D] (its dtype is the compute dtype); segments [B T]; anchor_token [B N];
    anchor_at [B N] is the anchor's index in its row: the block sees context strictly before it.
    """
    at_row = jnp.arange(s.block)
    ids = jnp.where(at_row == 0, anchor_token[..., None], s.mask_id)
    positions = anchor_at[..., None] + at_row
    t = jnp.arange(ctx.shape[1])
    own = jnp.take_along_axis(segments, anchor_at, 1)
    inside = (segments[:, None] == own[..., None]) & (t < anchor_at[..., None])
    visible = inside[:, :, None] & (positions[..., None] - t < s.window)
    h, _ = jax.lax.scan(lambda h, layer: (_layer(layer, h, ctx, visible, positions, s), None),
                        embed.astype(ctx.dtype)[ids], p["layers"])
    return plain_norm(h, p["norm"], s.eps)


def head_logits(head, hidden):
    """Return float32 logits [... V] of hidden [... D] through the target's head [V D]."""
    return jnp.einsum("...d,vd->...v", hidden, head.astype(hidden.dtype),
                      preferred_element_type=jnp.float32)


def top_ids(logits, k: int):
    """Return (values, ids) [... k] of the k largest of logits [... V], descending.

    Flat, because XLA's own top-k kernel for GPUs takes two axes and sorts everything otherwise.
    """
    found = jax.lax.top_k(logits.reshape(-1, logits.shape[-1]), k)
    return tuple(x.reshape(*logits.shape[:-1], k) for x in found)


def candidates(p, s: DrafterShape, head, hidden):
    """Return the top-k ids and their logits (float32), [... L k] each, of slots [... L D].

    hidden holds rows 1.. of `block_hidden`; candidates descend, so index 0 is the plain argmax.
    """
    del p
    unary, cand = top_ids(head_logits(head, hidden), s.top_k)
    return cand, unary


def pair_scores(p, hidden, predecessor, successor):
    """Return <A[a] * H h, B[b]> [... p c] in float32 of ids [... p] and [... c], hidden [... D]."""
    selector = p["selector"]
    r = jnp.matmul(hidden.astype(jnp.float32), selector["hidden"], precision="highest")
    return jnp.einsum("...pr,...cr->...pc", selector["predecessor"][predecessor] * r[..., None, :],
                      selector["successor"][successor], precision="highest")


def lattice_scores(p, s: DrafterShape, hidden, anchor_token, cand, unary):
    """Return float32 scores [... L k(predecessor) k(candidate)] of slots [... L D].

    anchor_token [...]; the anchor precedes slot 0 whatever the row of its predecessor axis.
    """
    first = jnp.broadcast_to(anchor_token[..., None, None].astype(cand.dtype),
                             (*cand.shape[:-2], 1, s.top_k))
    before = jnp.concatenate([first, cand[..., :-1, :]], -2)
    return unary[..., None, :] + pair_scores(p, hidden, before, cand)


def walk(scores):
    """Return candidate indices [... L] of the greedy walk through scores [... L k k]."""
    best = jnp.argmax(scores, -1)
    chosen = [best[..., 0, 0]]
    for slot in range(1, best.shape[-2]):
        chosen.append(jnp.take_along_axis(best[..., slot, :], chosen[-1][..., None], -1)[..., 0])
    return jnp.stack(chosen, -1)
