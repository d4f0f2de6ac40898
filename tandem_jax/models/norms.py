"""Root-mean-square norms; conventions differ, even inside one model."""

import jax
import jax.numpy as jnp
from jax import lax


def unit_rms(x: jax.Array, eps: float) -> jax.Array:
    """x / sqrt(mean(x^2) + eps) over the last axis, float32."""
    x = x.astype(jnp.float32)
    return x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + eps)


def centred_norm(x: jax.Array, w: jax.Array, eps: float) -> jax.Array:
    """Norm whose weight is stored around zero: unit_rms(x) * (1 + w), float32.

    x [..., D], w [D]; the caller casts once, at the end.
    """
    scale = 1.0 + w.astype(jnp.float32)
    return unit_rms(x, eps) * scale.reshape((1,) * (x.ndim - 1) + scale.shape)


def plain_norm(x: jax.Array, w: jax.Array, eps: float) -> jax.Array:
    """Norm whose weight multiplies as it is stored: unit_rms(x) * w, float32; x [..., D], w [D]."""
    return unit_rms(x, eps) * w.astype(jnp.float32).reshape((1,) * (x.ndim - 1) + w.shape)


def gated_norm(x: jax.Array, w: jax.Array, gate: jax.Array, eps: float) -> jax.Array:
    """DeltaNet's output norm: (unit_rms(x) in x's dtype) * w * silu(gate), float32.

    x, gate [..., V], w [V], plain weight (no 1 +).
    """
    unit = unit_rms(x, eps).astype(x.dtype).astype(jnp.float32)
    scale = w.astype(jnp.float32).reshape((1,) * (x.ndim - 1) + w.shape)
    return unit * scale * jax.nn.silu(gate.astype(jnp.float32))


def unit_l2(x: jax.Array) -> jax.Array:
    """x / sqrt(sum(x^2) + 1e-6) over the last axis, float32: DeltaNet's queries and keys."""
    x = x.astype(jnp.float32)
    return x * lax.rsqrt(jnp.sum(x * x, axis=-1, keepdims=True) + 1e-6)
