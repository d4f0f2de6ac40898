"""The training model: the dense Qwen3.5 hybrid (DeltaNet, gated attention, MTP) over whole rows.

Parameters are a plain tree of float32 arrays, matrices as [in, out], layers stacked by groups of
four ("linear" [G 3 ...], "full" [G ...]). Letters: B rows, T tokens, D width, H heads, G groups.
Documents in a row are told apart by `segments` [B T]: attention sees only its own document, the
convolution too, and the DeltaNet state is reset by a decay of exp(-30) at a document's first token.
"""

import math
from functools import partial

import jax
import jax.numpy as jnp

from tools.train.delta_rule import CHUNK, chunk_delta_rule, sequential_delta_rule
from tools.train.shapes import ModelShape

RESET = -30.0


def _normal(key, shape, scale=0.02):
    return scale * jax.random.normal(key, shape, jnp.float32)


def _mlp_init(key, s: ModelShape, lead, out_scale):
    keys = jax.random.split(key, 3)
    return {"gate": _normal(keys[0], (*lead, s.d_model, s.d_ffn)),
            "up": _normal(keys[1], (*lead, s.d_model, s.d_ffn)),
            "down": _normal(keys[2], (*lead, s.d_ffn, s.d_model), out_scale)}


def _full_init(key, s: ModelShape, lead, out_scale):
    keys = jax.random.split(key, 5)
    width, kv = s.query_heads * s.d_head, s.kv_heads * s.d_head
    return {"input_norm": jnp.zeros((*lead, s.d_model)), "post_norm": jnp.zeros((*lead, s.d_model)),
            "q": _normal(keys[0], (*lead, s.d_model, 2 * width)),
            "k": _normal(keys[1], (*lead, s.d_model, kv)),
            "v": _normal(keys[2], (*lead, s.d_model, kv)),
            "o": _normal(keys[3], (*lead, width, s.d_model), out_scale),
            "q_norm": jnp.zeros((*lead, s.d_head)), "k_norm": jnp.zeros((*lead, s.d_head)),
            "mlp": _mlp_init(keys[4], s, lead, out_scale)}


def _linear_init(key, s: ModelShape, lead, out_scale):
    keys = jax.random.split(key, 9)
    heads, width = s.value_heads, s.value_heads * s.d_delta
    step = jnp.exp(jax.random.uniform(keys[6], (*lead, heads), minval=math.log(1e-3),
                                      maxval=math.log(0.1)))
    return {"input_norm": jnp.zeros((*lead, s.d_model)), "post_norm": jnp.zeros((*lead, s.d_model)),
            "qkv": _normal(keys[0], (*lead, s.d_model, s.conv_channels)),
            "z": _normal(keys[1], (*lead, s.d_model, width)),
            "a": _normal(keys[2], (*lead, s.d_model, heads)),
            "b": _normal(keys[3], (*lead, s.d_model, heads)),
            "conv": jax.random.uniform(keys[4], (*lead, s.conv_taps, s.conv_channels),
                                       minval=-0.5, maxval=0.5),
            "A_log": jnp.log(jax.random.uniform(keys[5], (*lead, heads), minval=1.0, maxval=16.0)),
            "dt_bias": step + jnp.log(-jnp.expm1(-step)),  # inverse of softplus
            "norm": jnp.ones((*lead, s.d_delta)),
            "out": _normal(keys[7], (*lead, width, s.d_model), out_scale),
            "mlp": _mlp_init(keys[8], s, lead, out_scale)}


def init_params(key, s: ModelShape) -> dict:
    """Return float32 parameters: normal 0.02, outputs / sqrt(2 layers), norms 0 in (1+w) form."""
    keys = jax.random.split(key, 5)
    out_scale = 0.02 / math.sqrt(2 * s.n_layers)
    return {"embed": _normal(keys[0], (s.vocabulary, s.d_model)),
            "norm": jnp.zeros(s.d_model),
            "linear": _linear_init(keys[1], s, (s.n_groups, 3), out_scale),
            "full": _full_init(keys[2], s, (s.n_groups,), out_scale),
            "mtp": {"fc": _normal(keys[3], (2 * s.d_model, s.d_model)),
                    "embed_norm": jnp.zeros(s.d_model), "hidden_norm": jnp.zeros(s.d_model),
                    "norm": jnp.zeros(s.d_model), "layer": _full_init(keys[4], s, (), out_scale)}}


def rms_norm(x, weight, eps):
    """Return n(x) (1 + w), in float32, cast back (the norm of everything but DeltaNet's output)."""
    y = x.astype(jnp.float32)
    y = y * jax.lax.rsqrt(jnp.mean(y * y, -1, keepdims=True) + eps)
    return (y * (1.0 + weight)).astype(x.dtype)


@jax.custom_vjp
def look_up(table, tokens):
    """Return rows [... D] of table [V D]; the gradient is one matrix product.

    Added row by row, the few most frequent tokens would make the devices wait for each other.
    """
    return table[tokens]


def _look_up_backward(kept, gradient):
    tokens, rows = kept
    flat = gradient.reshape(-1, gradient.shape[-1])
    marks = jax.nn.one_hot(tokens.reshape(-1), rows, dtype=flat.dtype)
    total = jnp.einsum("tv,td->vd", marks, flat, preferred_element_type=jnp.float32)
    return total.astype(gradient.dtype), None


look_up.defvjp(lambda table, tokens: (table[tokens], (tokens, table.shape[0])), _look_up_backward)


def _dot(x, weight):
    return jnp.matmul(x, weight.astype(x.dtype))


def _mlp(p, x):
    return _dot(jax.nn.silu(_dot(x, p["gate"])) * _dot(x, p["up"]), p["down"])


def _rotate(x, positions, s: ModelShape):
    """Half-split rotary on the first d_rotary dims of x [B T H d_head]; positions [T]."""
    half = s.d_rotary // 2
    frequency = s.rope_theta ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angle = positions.astype(jnp.float32)[:, None] * frequency
    cos, sin = (f(angle)[None, :, None].astype(x.dtype) for f in (jnp.cos, jnp.sin))
    a, b, rest = x[..., :half], x[..., half:2 * half], x[..., 2 * half:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin, rest], -1)


def attention(p, x, segments, positions, s: ModelShape):
    """Gated causal attention of x [B T D] inside each document."""
    rows, length, _ = x.shape
    q, gate = jnp.split(_dot(x, p["q"]).reshape(rows, length, s.query_heads, 2 * s.d_head), 2, -1)
    k = _dot(x, p["k"]).reshape(rows, length, s.kv_heads, s.d_head)
    v = _dot(x, p["v"]).reshape(rows, length, s.kv_heads, s.d_head)
    q = _rotate(rms_norm(q, p["q_norm"], s.eps), positions, s)
    k = _rotate(rms_norm(k, p["k_norm"], s.eps), positions, s)
    causal = jnp.tril(jnp.ones((length, length), bool))
    mask = causal & (segments[:, :, None] == segments[:, None, :])
    out = jax.nn.dot_product_attention(q, k, v, mask=mask[:, None])
    out = out * jax.nn.sigmoid(gate)
    return _dot(out.reshape(rows, length, -1), p["o"])


def _causal_conv(x, weight, segments):
    """Depthwise convolution of x [B T C] with weight [W C]; the last tap takes the token itself."""
    taps = weight.shape[0]
    out = x * weight[-1].astype(x.dtype)
    for back in range(1, taps):
        shifted = jnp.pad(x, ((0, 0), (back, 0), (0, 0)))[:, :-back]
        same = jnp.pad(segments, ((0, 0), (back, 0)), constant_values=-1)[:, :-back] == segments
        out += jnp.where(same[..., None], shifted, 0) * weight[taps - 1 - back].astype(x.dtype)
    return out


def _unit(x):
    return x * jax.lax.rsqrt(jnp.sum(x * x, -1, keepdims=True) + 1e-6)


def delta_net(p, x, segments, s: ModelShape, *, sequential=False):
    """Gated DeltaNet of x [B T D]; state and gates in float32."""
    rows, length, _ = x.shape
    mixed = jax.nn.silu(_causal_conv(_dot(x, p["qkv"]), p["conv"], segments))
    widths = (s.key_heads * s.d_delta, 2 * s.key_heads * s.d_delta)
    q, k, v = (part.reshape(rows, length, -1, s.d_delta).astype(jnp.float32)
               for part in jnp.split(mixed, widths, -1))
    repeats = s.value_heads // s.key_heads
    q = jnp.repeat(_unit(q) * s.d_delta**-0.5, repeats, 2)
    k = jnp.repeat(_unit(k), repeats, 2)
    beta = jax.nn.sigmoid(_dot(x, p["b"])).astype(jnp.float32)
    step = jax.nn.softplus(_dot(x, p["a"]).astype(jnp.float32) + p["dt_bias"])
    first = jnp.pad(segments, ((0, 0), (1, 0)), constant_values=-1)[:, :-1] != segments
    g = jnp.where(first[..., None], RESET, -jnp.exp(p["A_log"]) * step)
    state = jnp.zeros((rows, s.value_heads, s.d_delta, s.d_delta), jnp.float32)
    rule = sequential_delta_rule if sequential else chunk_delta_rule
    out, _ = rule(q, k, v, g, beta, state)
    out = out * jax.lax.rsqrt(jnp.mean(out * out, -1, keepdims=True) + s.eps)
    out = out.astype(x.dtype) * p["norm"].astype(x.dtype)
    z = _dot(x, p["z"]).reshape(out.shape).astype(jnp.float32)
    out = (out.astype(jnp.float32) * jax.nn.silu(z)).astype(x.dtype)
    return _dot(out.reshape(rows, length, -1), p["out"])


def _layer(mixer, p, x, s: ModelShape):
    x = x + mixer(p, rms_norm(x, p["input_norm"], s.eps))
    return x + _mlp(p["mlp"], rms_norm(x, p["post_norm"], s.eps))


def forward(params, tokens, segments, s: ModelShape, *, dtype=jnp.bfloat16, remat=True,
            sequential=False, taps: tuple[int, ...] = ()):
    """Return the hidden states after the final norm, [B T D] in `dtype`.

    T must be a multiple of CHUNK unless `sequential`. With `taps` (ascending layer numbers) the
    result is (hidden, the residual streams that enter those layers [len(taps) B T D]).
    """
    assert sequential or tokens.shape[1] % CHUNK == 0, tokens.shape
    positions = jnp.arange(tokens.shape[1])
    # Written out on a GPU: there a scan's copies of what it keeps for the backward pass cost as
    # much as the layers (benchmarks/results/h200-train-parts.json).
    unroll = jax.default_backend() != "cpu"
    mix_linear = partial(delta_net, segments=segments, s=s, sequential=sequential)
    # Attention logits are the one thing too large to keep for the backward pass.
    mix_full = jax.checkpoint(partial(attention, segments=segments, positions=positions, s=s))

    def linear(x, p):
        return _layer(mix_linear, p, x, s), x if taps else None

    def group(x, p):
        # A scan inside the scan: one DeltaNet layer is compiled instead of three.
        x, entering = jax.lax.scan(jax.checkpoint(linear) if remat else linear, x, p[0],
                                    unroll=unroll)
        if taps:
            entering = jnp.concatenate([entering, x[None]])
        return _layer(mix_full, p[1], x, s), entering

    x = look_up(params["embed"].astype(dtype), tokens)
    x, entering = jax.lax.scan(group, x, (params["linear"], params["full"]), unroll=unroll)
    hidden = rms_norm(x, params["norm"], s.eps)
    if not taps:
        return hidden
    return hidden, entering.reshape(-1, *x.shape)[jnp.asarray(taps)]


def mtp_forward(params, hidden, next_tokens, segments, s: ModelShape):
    """Return MTP hidden states [B T D]: row t joins h_t and token t+1 and speaks of token t+2."""
    p = params["mtp"]
    embedded = look_up(params["embed"].astype(hidden.dtype), next_tokens)
    x = _dot(jnp.concatenate([rms_norm(embedded, p["embed_norm"], s.eps),
                              rms_norm(hidden, p["hidden_norm"], s.eps)], -1), p["fc"])
    mixer = jax.checkpoint(partial(attention, segments=segments, s=s,
                                   positions=1 + jnp.arange(next_tokens.shape[1])))
    return rms_norm(_layer(mixer, p["layer"], x, s), p["norm"], s.eps)


def logits_of(params, hidden):
    """Return float32 logits [... V] through the head [V D], or the embedding when it is tied."""
    head = params["head"] if "head" in params else params["embed"]
    return jnp.einsum("...d,vd->...v", hidden, head.astype(hidden.dtype),
                      preferred_element_type=jnp.float32)
