"""Inverse of a unit lower triangular matrix by recursive blocks.

The popular doubling product (I - A)(I + A^2)(I + A^4)... is exact on paper, but on the correlated
keys of a trained model its powers grow beyond float32 before they cancel. Halving the matrix
keeps every intermediate an entry of some true inverse:

    [[X, 0], [Y, Z]]^-1 = [[X^-1, 0], [-Z^-1 Y X^-1, Z^-1]]

down to blocks of 4, where A^4 = 0 makes the finite product exact.
"""

import jax
import jax.numpy as jnp
from jax import lax

_BASE = 4


def _mm(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)


def _diagonal_blocks(a: jax.Array, size: int, row: int, column: int, step: int) -> jax.Array:
    """Blocks (row + i step, column + i step) of a [..., N, N] cut into squares of `size`."""
    n = a.shape[-1] // size
    at = jnp.arange(0, n, step, dtype=jnp.int32)
    cut = a.reshape(*a.shape[:-2], n, size, n, size).swapaxes(-3, -2)
    return cut[..., at + row, at + column, :, :]


def unit_lower_inverse(a: jax.Array) -> jax.Array:
    """(I + A)^-1 for strictly lower triangular A.

    a [..., N, N] float32, N a power of two; entries on and above the diagonal are ignored.
    Returns [..., N, N] float32. Blocks of one size are done in one batch, smallest first.
    Raises ValueError for another N.
    """
    n = a.shape[-1]
    if n & (n - 1):
        raise ValueError(f"the block inverse needs a power of two, not {n} rows")
    # One batch axis: XLA on a CPU fails to compile these block products over two.
    shape, size = a.shape, min(n, _BASE)
    a = jnp.tril(a.reshape(-1, n, n), -1)
    blocks = _diagonal_blocks(a, size, 0, 0, 1)
    eye = jnp.broadcast_to(jnp.eye(size, dtype=a.dtype), blocks.shape)
    inverse = _mm(eye - blocks, eye + _mm(blocks, blocks))
    while size < n:
        x, z = inverse[..., 0::2, :, :], inverse[..., 1::2, :, :]
        corner = -_mm(z, _mm(_diagonal_blocks(a, size, 1, 0, 2), x))
        top = jnp.concatenate([x, jnp.zeros_like(x)], axis=-1)
        inverse = jnp.concatenate([top, jnp.concatenate([corner, z], axis=-1)], axis=-2)
        size *= 2
    return inverse[..., 0, :, :].reshape(shape)
