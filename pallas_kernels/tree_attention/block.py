"""Attention of a draft block: the nearest committed keys, then the block's own."""

import jax
import jax.numpy as jnp
from jax import lax

from pallas_kernels.tree_attention import softmax

PIECE = 2048  # committed keys taken at a time


def block_attention(
    q: jax.Array,
    k_rows: jax.Array,
    v_rows: jax.Array,
    k_cache: jax.Array,
    v_cache: jax.Array,
    layer: int,
    pages: jax.Array,
    length: jax.Array,
    *,
    window: int | None,
    causal: bool,
) -> jax.Array:
    """Attention output of B blocks of T rows; row j of a block stands at position length + j.

    q [B, T, H, D]; k_rows, v_rows [B, T, G, D] of the block itself; k_cache, v_cache
    [L, P, page, G, D]; pages [B, N] int32 page lists; length [B] int32, committed tokens. A row
    sees the committed keys nearer than `window` (None: all of them), and all rows of its block or,
    if `causal`, those up to itself. Returns [B, T, H, D] float32.
    """
    _, rows, heads, width = q.shape
    groups, page = k_rows.shape[2], k_cache.shape[2]
    scale, held = width**-0.5, pages.shape[1] * page
    # The first row reaches back furthest, to window - 1 keys.
    span = held if window is None else max(1, min(window - 1, held))
    size = min(span, PIECE)
    n_pieces = -(-span // size)
    own = jnp.ones((rows, rows), bool)
    own = jnp.tril(own) if causal else own

    def one(xs):
        q, k, v, pages, length = xs
        q = q.astype(jnp.float32).reshape(rows, groups, heads // groups, width)
        position = length + jnp.arange(rows, dtype=jnp.int32)

        def piece(i, state):
            at = length - (n_pieces - i) * size + jnp.arange(size, dtype=jnp.int32)
            back = jnp.maximum(at, 0)
            live = (at >= 0)[:, None, None]

            def cut(cache):
                return cache[layer, pages[back // page], back % page].astype(jnp.float32)

            near = jnp.ones((rows, size), bool)
            if window is not None:
                near = position[:, None] - at[None] < window
            seen = near & (at >= 0)[None]
            values = jnp.where(live, cut(v_cache), 0.0)
            return softmax.absorb(state, q, cut(k_cache), values, seen, scale=scale)

        state = softmax.empty(*q.shape)
        if n_pieces == 1:
            state = piece(0, state)
        else:
            first = n_pieces - (length + size - 1) // size
            state = lax.fori_loop(jnp.maximum(first, 0), n_pieces, piece, state)
        rest = (k.astype(jnp.float32), v.astype(jnp.float32), own)
        return softmax.finish(softmax.absorb(state, q, *rest, scale=scale))

    return lax.map(one, (q, k_rows, v_rows, pages, length)).reshape(q.shape)
