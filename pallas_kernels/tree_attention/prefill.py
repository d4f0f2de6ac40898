"""Causal attention of one prefill chunk: full pages before it, then the chunk itself."""

import jax
import jax.numpy as jnp
from jax import lax

from pallas_kernels.tree_attention import softmax


def prefill_attention(
    q: jax.Array,
    k_rows: jax.Array,
    v_rows: jax.Array,
    k_cache: jax.Array,
    v_cache: jax.Array,
    layer: jax.Array,
    pages: jax.Array,
    start: jax.Array,
) -> jax.Array:
    """Attention output of a chunk that begins on a page border.

    q [C, H, D]; k_rows, v_rows [C, G, D]; k_cache, v_cache [L, P, page, G, D]; layer, start: int32
    scalars, start a multiple of the page; pages [N] int32. Returns [C, H, D] float32.
    """
    rows, heads, width = q.shape
    groups, page = k_rows.shape[1], k_cache.shape[2]
    q = q.astype(jnp.float32).reshape(rows, groups, heads // groups, width)
    scale = width**-0.5
    everything = jnp.ones((rows, page), bool)

    def earlier(i, state):
        k = k_cache[layer, pages[i]].astype(jnp.float32)
        v = v_cache[layer, pages[i]].astype(jnp.float32)
        return softmax.absorb(state, q, k, v, everything, scale=scale)

    state = softmax.empty(rows, groups, heads // groups, width)
    state = lax.fori_loop(0, start // page, earlier, state)
    causal = jnp.tril(jnp.ones((rows, rows), bool))
    k, v = k_rows.astype(jnp.float32), v_rows.astype(jnp.float32)
    return softmax.finish(softmax.absorb(state, q, k, v, causal, scale=scale)).reshape(
        rows, heads, width
    )
