"""The Gated DeltaNet mixer around the recurrence: projections, short convolution, gates, output.

Rounding points, the same in plain decoding, verify and prefill: the convolution is summed in
float32 and rounded once after its SiLU; q, k, v, the gates and the state stay float32.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from tandem_jax.models.config import DeltaShape
from tandem_jax.models.norms import centred_norm, gated_norm, unit_l2
from tandem_jax.quant import linear


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class DeltaWeights:
    """Weights of one DeltaNet mixer (or a stack with a leading layer axis)."""

    norm: jax.Array  # [D] around zero, the layer's input norm
    qkv: object  # [C, D]: queries, keys, values, each head-major
    z: object  # [H * V, D] output gate
    a: object  # [H, D] decay input
    b: object  # [H, D] write strength input
    conv: jax.Array  # [C, W], tap W-1 multiplies the current token
    a_log: jax.Array  # [H] float32
    dt_bias: jax.Array  # [H] float32
    out_norm: jax.Array  # [V] plain weight
    out: object  # [D, H * V]


def delta_inputs(
    w: DeltaWeights, x: jax.Array, eps: float
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Projections of rows x [R, D].

    Returns m [R, C] (before the convolution) and z [R, H * V] in x's dtype; g, beta [R, H]
    float32: g = -exp(a_log) softplus(a + dt_bias), beta = sigmoid(b).
    """
    n = centred_norm(x, w.norm, eps).astype(x.dtype)
    m, z = linear(n, w.qkv).astype(x.dtype), linear(n, w.z).astype(x.dtype)
    a = linear(n, w.a) + w.dt_bias.astype(jnp.float32)[None]
    g = -jnp.exp(w.a_log.astype(jnp.float32))[None] * jax.nn.softplus(a)
    return m, z, g, jax.nn.sigmoid(linear(n, w.b))


def short_conv(taps: jax.Array, window: list[jax.Array]) -> jax.Array:
    """silu(sum over j of taps[:, j] * window[j]), summed in float32, rounded to the input dtype.

    taps [C, W]; window: W arrays [R, C], oldest first, the row itself last.
    """
    taps = taps.astype(jnp.float32)
    total = window[0].astype(jnp.float32) * taps[:, 0][None]
    for j in range(1, len(window)):
        total = total + window[j].astype(jnp.float32) * taps[:, j][None]
    return jax.nn.silu(total).astype(window[0].dtype)


def split_heads(shape: DeltaShape, c: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Queries and keys [R, Hk, K] (unit length, queries scaled by K^-0.5), values [R, H, V].

    c [R, C] after the convolution; all float32.
    """
    rows, width = c.shape[0], shape.key_heads * shape.key_dim
    q = unit_l2(c[:, :width].reshape(rows, shape.key_heads, -1)) * shape.key_dim**-0.5
    k = unit_l2(c[:, width : 2 * width].reshape(rows, shape.key_heads, -1))
    v = c[:, 2 * width :].reshape(rows, shape.value_heads, -1).astype(jnp.float32)
    return q, k, v


def serve_value_heads(shape: DeltaShape, x: jax.Array) -> jax.Array:
    """Each key head serves the consecutive value heads behind it: [..., Hk, K] -> [..., H, K]."""
    return jnp.repeat(x, shape.value_heads // shape.key_heads, axis=-2)


def delta_output(
    w: DeltaWeights, x: jax.Array, o: jax.Array, z: jax.Array, eps: float
) -> jax.Array:
    """x + out(gated_norm(o, z)); x [R, D], o [R, H, V] float32, z [R, H * V]."""
    y = gated_norm(o.astype(x.dtype), w.out_norm, z.reshape(o.shape), eps)
    return x + linear(y.reshape(x.shape[0], -1).astype(x.dtype), w.out).astype(x.dtype)
