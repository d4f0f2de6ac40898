"""Tree attention over paged KV with a position-ordered window: readable and bit-exact.

In plain decoding the keys of a row lie in the cache in position order; in a verify the last few
lie at tree slots. So each row's keys are split at

    B(p) = 32 floor((p - 31) / 32), at least 0      (p = the row's position)

Keys below B(p) are committed for every row of a tree up to 31 levels deep and are taken from the
cache in blocks of a fixed size; the window [B(p), p], at most 63 keys, is gathered per row in
position order, from the cache or from the ancestor's tree row, and taken last. Both the split and
the order depend on p only, hence equal bits in plain decoding and in any tree (design law 2).
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax

from pallas_kernels.row_tiles import row_tiles
from pallas_kernels.tree_attention import softmax

LINE = 32  # window split grid; a tree may be at most this many rows deep
WINDOW = 64  # gathered keys a row: up to 63, and one more to make it even
BLOCK = 256  # committed keys taken at a time


def window_start(position: jax.Array) -> jax.Array:
    """B(p): the first position of a row's gathered window; position int32, any shape."""
    return jnp.maximum(LINE * ((position - (LINE - 1)) // LINE), 0)


@dataclass(frozen=True)
class _Source:
    """Where the keys and values of one attention call come from."""

    k_cache: jax.Array  # [L, P, page, G, D]
    v_cache: jax.Array  # [L, P, page, G, D]
    layer: jax.Array  # int32 scalar
    k_rows: jax.Array  # [R, G, D] keys of the tree rows themselves
    v_rows: jax.Array  # [R, G, D]
    pages: jax.Array  # [B, N] int32 page lists

    def committed(self, pages: jax.Array, at: jax.Array, size: int, length: jax.Array):
        """`size` cache rows from position `at` on, all on one page: k, v [size, G, D] float32."""
        page = self.k_cache.shape[2]

        def cut(cache):
            corner = (self.layer, pages[at // page], at % page, 0, 0)
            rows = lax.dynamic_slice(cache, corner, (1, 1, size, *cache.shape[3:]))
            return rows[0, 0].astype(jnp.float32)

        live = at + jnp.arange(size, dtype=jnp.int32) < length
        return cut(self.k_cache), jnp.where(live[:, None, None], cut(self.v_cache), 0.0)

    def window(
        self, pages: jax.Array, at: jax.Array, cached: jax.Array, node: jax.Array, seen: jax.Array
    ):
        """Keys at positions `at` [R, W], from the cache or from tree row `node`: [R, W, G, D]."""
        page, back = self.k_cache.shape[2], jnp.where(cached, at, 0)

        def gather(cache, rows):
            old = cache[self.layer, pages[back // page], back % page]
            both = jnp.where(cached[..., None, None], old, rows[node].astype(old.dtype))
            return jnp.where(seen[..., None, None], both.astype(jnp.float32), 0.0)

        return gather(self.k_cache, self.k_rows), gather(self.v_cache, self.v_rows)


def _attend(source: _Source, block: int, q, position, length, request, path) -> jax.Array:
    """The rows of one tile, all of one request; q [R, G, M, D] -> [R, G, M, D] float32."""
    pages, scale = source.pages[request[0]], q.shape[-1] ** -0.5
    # The bound binds only for chains longer than a tree may be, which need no bit equality.
    start = jnp.minimum(window_start(position), length)

    def below(i, state):
        k, v = source.committed(pages, i * block, block, length[0])
        at = i * block + jnp.arange(block, dtype=jnp.int32)
        return softmax.absorb(state, q, k, v, at[None] < start[:, None], scale=scale)

    state = softmax.empty(*q.shape)
    state = lax.fori_loop(0, (jnp.max(start) + block - 1) // block, below, state)
    at = start[:, None] + jnp.arange(WINDOW, dtype=jnp.int32)[None]
    level = jnp.clip(at - length[:, None], 0, path.shape[1] - 1)
    seen = at <= position[:, None]
    node = jnp.take_along_axis(path, level, 1)
    k, v = source.window(pages, at, at < length[:, None], node, seen)
    return softmax.finish(softmax.absorb(state, q, k, v, seen, scale=scale))


def tree_attention(
    q: jax.Array,
    k_rows: jax.Array,
    v_rows: jax.Array,
    k_cache: jax.Array,
    v_cache: jax.Array,
    layer: jax.Array,
    pages: jax.Array,
    position: jax.Array,
    length: jax.Array,
    request: jax.Array,
    path: jax.Array,
    used_tiles: jax.Array,
    *,
    tile: int | None,
) -> jax.Array:
    """Attention output of every tree row.

    q [R, H, D]; k_rows, v_rows [R, G, D] keys and values of the tree rows themselves; k_cache,
    v_cache [L, P, page, G, D]; layer: int32 scalar; pages [B, N] int32 page lists; position,
    length, request [R] int32 (row's position, its request's committed tokens, its request);
    path [R, T] int32, row of the ancestor at each depth (any value past the row's own depth);
    used_tiles: int32 scalar. Rows come request by request, T of each.
    Returns [R, H, D] float32.
    """
    rows, heads, width = q.shape
    groups, page = k_rows.shape[1], k_cache.shape[2]
    per_request, block = rows // pages.shape[0], min(BLOCK, page)
    if per_request > WINDOW - LINE // 2:
        raise ValueError(f"{per_request} rows a request do not fit the window of {WINDOW}")
    if page % block:
        raise ValueError(f"a page of {page} tokens is not a multiple of {block}")
    source = _Source(k_cache, v_cache, layer, k_rows, v_rows, pages)
    grouped = q.astype(jnp.float32).reshape(rows, groups, heads // groups, width)

    def attend(*xs):
        return (_attend(source, block, *xs),)

    xs = (grouped, position, length, request, path)
    (out,) = row_tiles(attend, xs, tile=tile or per_request, used_tiles=used_tiles)
    return out.reshape(q.shape)
