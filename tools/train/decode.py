"""One token a step for many rows: the training model with a recurrent state, for self-generation.

Numerically the model of `tools.train.model.forward`; projections of one input are one matrix and
layers are unrolled, because a small model is bound by kernel launches. Letters: R rows, D width,
H value heads, K = V DeltaNet width, G key/value heads, T places of the cache, C channels, W taps.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tools.train.model import rms_norm
from tools.train.shapes import ModelShape


class DeltaState(NamedTuple):
    """State of one DeltaNet layer."""

    s: jax.Array  # [R H K V] float32
    tail: jax.Array  # [R W-1 C] compute dtype, last inputs of the convolution


class Cache(NamedTuple):
    """Keys and values of one attention layer."""

    k: jax.Array  # [R G T K] compute dtype
    v: jax.Array  # [R G T K] compute dtype


class State(NamedTuple):
    """All that a row remembers."""

    layers: tuple  # DeltaState or Cache of each layer
    start: jax.Array  # [R] int32, place at which the row's document began


def fused(params: dict, s: ModelShape, dtype) -> dict:
    """Return {"embed", "head", "norm", "layers": [dict]}: matrices joined and cast to `dtype`."""
    def joined(p, *names):
        return jnp.concatenate([jnp.asarray(p[name]) for name in names], -1).astype(dtype)

    def layer(p, inputs, output):
        kept = {key: jnp.asarray(value) for key, value in p.items()
                if key not in (*inputs, output, "mlp")}
        return {**kept, "in": joined(p, *inputs), "out": joined(p, output),
                "gate_up": joined(p["mlp"], "gate", "up"), "down": joined(p["mlp"], "down")}

    layers = []
    for at in range(s.n_layers):
        group, inner = divmod(at, 4)
        if inner == 3:
            tree = jax.tree.map(lambda x, group=group: x[group], params["full"])
            layers.append(layer(tree, ("q", "k", "v"), "o"))
        else:
            tree = jax.tree.map(lambda x, at=(group, inner): x[at], params["linear"])
            layers.append(layer(tree, ("qkv", "z", "a", "b"), "out"))
    embed = jnp.asarray(params["embed"])
    head = jnp.asarray(params["head"]) if "head" in params else embed
    return {"embed": embed.astype(dtype), "head": head.astype(dtype),
            "norm": jnp.asarray(params["norm"]), "layers": layers}


def empty_state(s: ModelShape, rows: int, places: int, dtype) -> State:
    """Return the state of rows that have read nothing, with room for `places` tokens."""
    layers = []
    for at in range(s.n_layers):
        if at % 4 == 3:
            room = jnp.zeros((rows, s.kv_heads, places, s.d_head), dtype)
            layers.append(Cache(room, jnp.copy(room)))
        else:
            layers.append(DeltaState(
                jnp.zeros((rows, s.value_heads, s.d_delta, s.d_delta), jnp.float32),
                jnp.zeros((rows, s.conv_taps - 1, s.conv_channels), dtype)))
    return State(tuple(layers), jnp.zeros(rows, jnp.int32))


def grown(state: State, places: int) -> State:
    """Return the state with caches of `places` places; new ones are zero."""
    def grow(layer):
        if isinstance(layer, DeltaState):
            return layer
        more = [(0, 0), (0, 0), (0, places - layer.k.shape[2]), (0, 0)]
        return Cache(jnp.pad(layer.k, more), jnp.pad(layer.v, more))
    return State(tuple(grow(layer) for layer in state.layers), state.start)


def _split(x, *widths):
    return jnp.split(x, np.cumsum(widths)[:-1].tolist(), -1)


def _unit(x):
    return x * jax.lax.rsqrt(jnp.sum(x * x, -1, keepdims=True) + 1e-6)


def _delta_step(p, x, state: DeltaState, begin, s: ModelShape):
    """Return (output [R D], state) of one DeltaNet token x [R D]; `begin` [R] resets a row."""
    heads = s.value_heads
    qkv, z, a, b = _split(x @ p["in"], s.conv_channels, heads * s.d_delta, heads, heads)
    tail = jnp.where(begin[:, None, None], 0, state.tail)
    taps = p["conv"].astype(x.dtype)
    mixed = qkv * taps[-1]
    for back in range(1, s.conv_taps):
        mixed += tail[:, -back] * taps[-1 - back]
    tail = jnp.concatenate([tail[:, 1:], qkv[:, None]], 1)
    mixed = jax.nn.silu(mixed).astype(jnp.float32).reshape(len(x), -1, s.d_delta)
    q, k, v = jnp.split(mixed, (s.key_heads, 2 * s.key_heads), 1)
    repeats = heads // s.key_heads
    q = jnp.repeat(_unit(q) * s.d_delta**-0.5, repeats, 1)
    k = jnp.repeat(_unit(k), repeats, 1)
    beta = jax.nn.sigmoid(b).astype(jnp.float32)[..., None]
    step = jax.nn.softplus(a.astype(jnp.float32) + p["dt_bias"])
    decay = jnp.where(begin[:, None], 0.0, jnp.exp(-jnp.exp(p["A_log"]) * step))[..., None]
    # Both reductions read the old state once; the new state's output follows from them:
    #     q.(d S + k u) = d (q.S) + (q.k) u.
    read_k = jnp.sum(state.s * k[..., None], 2)
    read_q = jnp.sum(state.s * q[..., None], 2)
    u = beta * (v - decay * read_k)
    out = decay * read_q + jnp.sum(q * k, -1, keepdims=True) * u
    new = decay[..., None] * state.s + k[..., None] * u[:, :, None]
    out = out * jax.lax.rsqrt(jnp.mean(out * out, -1, keepdims=True) + s.eps)
    out = out.astype(x.dtype) * p["norm"].astype(x.dtype)
    z = z.reshape(out.shape).astype(jnp.float32)
    out = (out.astype(jnp.float32) * jax.nn.silu(z)).astype(x.dtype)
    return out.reshape(len(x), -1) @ p["out"], DeltaState(new, tail)


def _rotate(x, at, s: ModelShape):
    """Half-split rotary on x [R heads d_head] at one place for all rows."""
    half = s.d_rotary // 2
    frequency = s.rope_theta ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angle = at.astype(jnp.float32) * frequency
    cos, sin = jnp.cos(angle).astype(x.dtype), jnp.sin(angle).astype(x.dtype)
    a, b, rest = x[..., :half], x[..., half:2 * half], x[..., 2 * half:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin, rest], -1)


def _attention_step(p, x, cache: Cache, start, at, s: ModelShape):
    """Return (output [R D], cache) of one attention token x [R D] at place `at` of its row."""
    rows, kv = len(x), s.kv_heads * s.d_head
    q, k, v = _split(x @ p["in"], 2 * s.query_heads * s.d_head, kv, kv)
    q, gate = jnp.split(q.reshape(rows, s.query_heads, 2 * s.d_head), 2, -1)
    k, v = (y.reshape(rows, s.kv_heads, s.d_head) for y in (k, v))
    q = _rotate(rms_norm(q, p["q_norm"], s.eps), at, s)
    k = _rotate(rms_norm(k, p["k_norm"], s.eps), at, s)
    cache = Cache(*(jax.lax.dynamic_update_slice_in_dim(old, new[:, :, None], at, 2)
                    for old, new in zip(cache, (k, v), strict=True)))
    q = q.reshape(rows, s.kv_heads, -1, s.d_head)
    scores = jnp.einsum("rghd,rgtd->rght", q, cache.k, preferred_element_type=jnp.float32)
    place = jnp.arange(cache.k.shape[2])
    seen = (place >= start[:, None]) & (place <= at)
    scores = jnp.where(seen[:, None, None], scores * s.d_head**-0.5, -1e30)
    weights = jax.nn.softmax(scores, -1).astype(x.dtype)
    out = jnp.einsum("rght,rgtd->rghd", weights, cache.v)
    out = out.reshape(gate.shape) * jax.nn.sigmoid(gate)
    return out.reshape(rows, -1) @ p["out"], cache


def decode_step(weights: dict, state: State, tokens, begin, at, s: ModelShape):
    """Return (float32 logits [R V], state) after token [R] at place `at` of every row.

    `begin` [R]: the token is the first of a document, which sees nothing before it.
    """
    x = weights["embed"][tokens]
    start = jnp.where(begin, at, state.start).astype(jnp.int32)
    layers = []
    for p, layer in zip(weights["layers"], state.layers, strict=True):
        y = rms_norm(x, p["input_norm"], s.eps)
        if isinstance(layer, DeltaState):
            y, layer = _delta_step(p, y, layer, begin, s)
        else:
            y, layer = _attention_step(p, y, layer, start, at, s)
        layers.append(layer)
        x = x + y
        gate, up = jnp.split(rms_norm(x, p["post_norm"], s.eps) @ p["gate_up"], 2, -1)
        x = x + (jax.nn.silu(gate) * up) @ p["down"]
    hidden = rms_norm(x, weights["norm"], s.eps)
    logits = jnp.einsum("rd,vd->rv", hidden, weights["head"], preferred_element_type=jnp.float32)
    return logits, State(tuple(layers), start)
