"""Tiles of a fixed number of rows: one row, one set of bits, in every bucket."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pallas_kernels.row_tiles import row_tiles
from tests.contracts.cases import ROWS, buckets, reference_tile
from tests.laws.bits import same_bits

WIDTH, WIDER = 320, 640


@pytest.fixture(scope="module")
def weights():
    rng = np.random.default_rng(0)
    return rng.standard_normal((WIDER, WIDTH)).astype(np.float32) / 16


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(1).standard_normal((ROWS, WIDTH)).astype(np.float32)


def layer(w):
    """Norm, product, gate and softmax: reductions of each kind over a row."""

    def f(x):
        unit = x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)
        y = jnp.einsum("rk,nk->rn", unit, w, precision=jax.lax.Precision.HIGHEST)
        return x + jnp.tanh(y[:, :WIDTH]), jax.nn.softmax(y, axis=-1)

    return f


@pytest.fixture(scope="module")
def run(platform, weights):
    """Both outputs of `layer` on some rows, tiled as on this platform."""
    tile = reference_tile(platform)
    step = jax.jit(lambda x, used: row_tiles(layer(weights), (x,), tile=tile, used_tiles=used))
    return lambda x: [np.asarray(y) for y in step(x, np.int32(-(-len(x) // 8)))]


def test_a_row_has_the_same_bits_in_every_bucket_and_place(platform, rows, run):
    whole = run(rows)
    rng = np.random.default_rng(2)
    for size in buckets(platform):
        for _ in range(5):
            chosen = rng.permutation(ROWS)[:size]
            for found, wanted in zip(run(rows[chosen]), whole, strict=True):
                assert same_bits(found, wanted[chosen])


def test_a_row_does_not_see_its_neighbours(platform, rows, run):
    whole = run(rows)
    other = rows.copy()
    other[:3], other[4:] = 1e6, np.nan
    for found, wanted in zip(run(other), whole, strict=True):
        assert same_bits(found[3], wanted[3])


def test_unused_tiles_are_zeros(rows):
    def step(x, used):
        return row_tiles(lambda x: (x * 2, x[:, 0]), (x,), tile=8, used_tiles=used)

    for used in (0, 1, 3):
        wide, thin = jax.jit(step)(rows, np.int32(used))
        wanted = np.where(np.arange(ROWS)[:, None] < 8 * used, rows * 2, 0)
        np.testing.assert_array_equal(wide, wanted)
        np.testing.assert_array_equal(thin, wanted[:, 0] / 2)


def test_a_lone_tile_keeps_its_shape(rows):
    (y,) = row_tiles(lambda x: (x + 1,), (rows[:8],), tile=8, used_tiles=jnp.int32(1))
    np.testing.assert_array_equal(y, rows[:8] + 1)


def test_part_of_a_tile_is_refused(rows):
    with pytest.raises(ValueError, match="12 rows are not a multiple of the tile of 8"):
        row_tiles(lambda x: (x,), (rows[:12],), tile=8, used_tiles=jnp.int32(1))
