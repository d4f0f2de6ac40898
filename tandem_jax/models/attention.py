"""Gated full attention: projections and output; the attention itself is an op.

The output of each head is multiplied by sigmoid of a gate that the query projection emits.
"""

from dataclasses import dataclass

import jax

from tandem_jax.models.config import AttentionShape
from tandem_jax.models.norms import centred_norm
from tandem_jax.models.rope import rope_tables, rotate
from tandem_jax.quant import linear


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class AttentionWeights:
    """Weights of one attention mixer (or a stack with a leading layer axis)."""

    norm: jax.Array  # [D] around zero, the layer's input norm
    q: object  # [H * 2D', D]: per head, the query rows and then the gate rows
    k: object  # [G * D', D]
    v: object  # [G * D', D]
    q_norm: jax.Array  # [D'] around zero
    k_norm: jax.Array  # [D'] around zero
    out: object  # [D, H * D']


def attention_inputs(
    shape: AttentionShape, w: AttentionWeights, x: jax.Array, position: jax.Array, eps: float
) -> tuple[jax.Array, ...]:
    """Queries, gates, keys and values of rows x [R, D] at position [R].

    Returns q, gate [R, H, D'], k, v [R, G, D'], all in x's dtype; q and k normed and rotated.
    """
    rows, dtype = x.shape[0], x.dtype
    n = centred_norm(x, w.norm, eps).astype(dtype)
    both = linear(n, w.q).astype(dtype).reshape(rows, shape.heads, 2 * shape.width)
    q, gate = both[..., : shape.width], both[..., shape.width :]
    k = linear(n, w.k).astype(dtype).reshape(rows, shape.kv_heads, shape.width)
    v = linear(n, w.v).astype(dtype).reshape(rows, shape.kv_heads, shape.width)
    cos, sin = rope_tables(position, shape.rotary, shape.theta, dtype)
    q = rotate(centred_norm(q, w.q_norm, eps).astype(dtype), cos, sin)
    k = rotate(centred_norm(k, w.k_norm, eps).astype(dtype), cos, sin)
    return q, gate, k, v


def output_gate(o: jax.Array, gate: jax.Array) -> jax.Array:
    """o * sigmoid(gate), both [R, H, D']."""
    return o * jax.nn.sigmoid(gate)


def attention_output(w: AttentionWeights, x: jax.Array, o: jax.Array, gate: jax.Array) -> jax.Array:
    """x + out(o gated); x [R, D], o [R, H, D'] float32, gate [R, H, D']."""
    y = output_gate(o.astype(x.dtype), gate).reshape(x.shape[0], -1)
    return x + linear(y, w.out).astype(x.dtype)
