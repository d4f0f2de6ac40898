"""The device state of all slots: donated to every step and replaced by what it returns."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class DeltaState:
    """Recurrent state of the DeltaNet layers."""

    s: jax.Array  # [L, S, H, K, V] float32, matrix of each value head
    conv: jax.Array  # [L, S, W-1, C] activation dtype, last inputs of the short convolution


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class KvCache:
    """Paged keys and values of the attention layers; rows past a request's length mean nothing."""

    k: jax.Array  # [L, P, page, G, D] activation dtype, rotated keys
    v: jax.Array  # [L, P, page, G, D] activation dtype, values


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ModelState:
    """Everything a step reads and replaces."""

    delta: DeltaState
    kv: KvCache
    mtp_kv: KvCache | None  # the MTP layer's cache (L = 1), row t belongs to token t + 1; or None
    draft_kv: KvCache | None = None  # a block drafter's context: its own layers, heads and widths


def scatter_rows(
    cache: KvCache,
    k_rows: jax.Array,
    v_rows: jax.Array,
    pages: jax.Array,
    start: jax.Array,
    count: jax.Array,
) -> KvCache:
    """Write the first `count` rows of each request behind its committed tokens.

    k_rows, v_rows [L, B, T, G, D]; pages [B, N], start [B], count [B] int32. Rows past the count
    are dropped, so a rejected draft never reaches the cache.
    """
    size, n_pages = cache.k.shape[2], cache.k.shape[1]
    step = jnp.arange(k_rows.shape[2], dtype=jnp.int32)[None]
    at = start[:, None] + step
    slot = jnp.minimum(at // size, pages.shape[1] - 1)
    page = jnp.where(step < count[:, None], jnp.take_along_axis(pages, slot, 1), n_pages)

    def put(pool, rows):
        return pool.at[:, page, at % size].set(rows.astype(pool.dtype), mode="drop")

    return KvCache(put(cache.k, k_rows), put(cache.v, v_rows))
