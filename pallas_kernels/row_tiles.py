"""Rows in tiles of one fixed size: how the reference ops make a row's bits its own.

XLA picks tilings, vector widths and fused multiply-adds by shape, so the same row may get other
low bits among 8 rows than among 32. Run in tiles of a fixed number of rows, under a loop whose
length the compiler cannot know, every row meets the same compiled code in every bucket: row
independence (design law 1) holds by construction, and unused tiles cost nothing.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax


def row_tiles(
    f: Callable, xs: tuple[jax.Array, ...], *, tile: int | None, used_tiles: jax.Array
) -> tuple[jax.Array, ...]:
    """Apply `f`, a function of rows, tile by tile.

    xs: arrays [R, ...] with R a multiple of `tile`; f maps their [tile, ...] slices to a tuple of
    [tile, ...] arrays. used_tiles: int32 scalar; rows of later tiles come back as zeros.
    tile None: one call on all rows, for devices where a single bucket serves every round.
    Returns a tuple of arrays [R, ...].
    """
    if tile is None:
        return f(*xs)
    rows = xs[0].shape[0]
    if rows % tile:
        raise ValueError(f"{rows} rows are not a multiple of the tile of {tile}")
    # A lone tile would be the whole array: the compiler then drops the slices and fuses the body
    # with its surroundings, other bits than in a larger bucket. A second, unused tile prevents it.
    padded = max(rows, 2 * tile)
    xs = tuple(jnp.pad(x, ((0, padded - rows), *((0, 0),) * (x.ndim - 1))) for x in xs)
    shapes = jax.eval_shape(f, *(jax.ShapeDtypeStruct((tile, *x.shape[1:]), x.dtype) for x in xs))
    outs = tuple(jnp.zeros((padded, *s.shape[1:]), s.dtype) for s in shapes)

    def body(i, outs):
        ys = f(*(lax.dynamic_slice_in_dim(x, i * tile, tile) for x in xs))
        return tuple(
            lax.dynamic_update_slice_in_dim(out, y, i * tile, 0)
            for out, y in zip(outs, ys, strict=True)
        )

    return tuple(out[:rows] for out in lax.fori_loop(0, used_tiles, body, outs))
