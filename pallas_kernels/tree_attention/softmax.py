"""Softmax attention in pieces: keys arrive block by block, in a fixed order.

Source: the online softmax of Milakov and Gimelshein (2018), as used by FlashAttention.
A block whose keys are all masked for a row leaves that row's state as it was, bit for bit.
"""

import jax
import jax.numpy as jnp
from jax import lax

_FLOOR = -1e30  # stands for "nothing seen yet"; finite, so that floor - floor is 0 and not NaN


def empty(rows: int, groups: int, heads: int, width: int) -> tuple[jax.Array, ...]:
    """State before any key: (maximum [R, G, M], weight sum [R, G, M], value sum [R, G, M, D])."""
    peak = jnp.full((rows, groups, heads), _FLOOR, jnp.float32)
    return peak, jnp.zeros_like(peak), jnp.zeros((rows, groups, heads, width), jnp.float32)


def absorb(
    state: tuple[jax.Array, ...],
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    mask: jax.Array,
    *,
    scale: float,
) -> tuple[jax.Array, ...]:
    """Add a block of keys.

    q [R, G, M, D] float32 (M query heads a KV head); k, v [B, G, D] shared by all rows or
    [R, B, G, D] one block a row, float32 and finite; mask [R, B] bool, True = the row sees the key.
    """
    peak, total, acc = state
    kv = "bgd" if k.ndim == 3 else "rbgd"
    hi = lax.Precision.HIGHEST
    scores = jnp.einsum(f"rgmd,{kv}->rgmb", q, k, precision=hi) * scale
    scores = jnp.where(mask[:, None, None, :], scores, -jnp.inf)
    new_peak = jnp.maximum(peak, jnp.max(scores, axis=-1))
    weights = jnp.exp(scores - new_peak[..., None])
    kept = jnp.exp(peak - new_peak)
    total = total * kept + jnp.sum(weights, axis=-1)
    acc = acc * kept[..., None] + jnp.einsum(f"rgmb,{kv}->rgmd", weights, v, precision=hi)
    return new_peak, total, acc


def finish(state: tuple[jax.Array, ...]) -> jax.Array:
    """The attention output [R, G, M, D] float32."""
    return state[2] / state[1][..., None]
