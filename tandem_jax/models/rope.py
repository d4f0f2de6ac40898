"""Rotary position embedding on the first part of a head (half-split pairing).

For text the three position rows of the family's mRoPE are equal, so this is ordinary rope.
"""

import jax
import jax.numpy as jnp


def rope_tables(
    position: jax.Array, rotary: int, theta: float, dtype: jnp.dtype
) -> tuple[jax.Array, jax.Array]:
    """cos and sin of position [R] int32: [R, rotary / 2] each, in float32, rounded to `dtype`."""
    power = jnp.arange(0, rotary, 2, dtype=jnp.float32) / rotary
    frequency = 1.0 / jnp.power(jnp.float32(theta), power)
    angle = position.astype(jnp.float32)[:, None] * frequency[None]
    return jnp.cos(angle).astype(dtype), jnp.sin(angle).astype(dtype)


def rotate(x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
    """Turn dim i against dim i + rotary/2 of each head; x [R, H, D], cos, sin [R, rotary / 2]."""
    half = cos.shape[-1]
    cos, sin = cos[:, None], sin[:, None]
    a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin, rest], axis=-1)
