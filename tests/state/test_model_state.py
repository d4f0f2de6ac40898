"""The device state: its shapes, and rows that land in the cache where they belong or not at all."""

import jax
import numpy as np
import pytest

from tandem_jax.config import EngineConfig
from tandem_jax.engine.steps import empty_state
from tandem_jax.models.qwen35 import QWEN35
from tandem_jax.state.model_state import KvCache, scatter_rows
from tests.laws.bench import CONFIG

LAYERS, POOL, PAGE, GROUPS, WIDTH = 2, 6, 64, 2, 8
PAGES = np.array([[4, 1, 0], [2, 5, 3]], np.int32)

run = jax.jit(scatter_rows)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("mtp", [True, False])
def test_empty_state(dtype, mtp):
    settings = EngineConfig(
        max_context=130, slots=3, page_tokens=64, prefill_buckets=(64,), dtype=dtype
    )
    state = empty_state(QWEN35.read_config(CONFIG), settings, mtp_cache=mtp)
    assert (state.delta.s.shape, state.delta.s.dtype) == ((4, 3, 6, 16, 16), "float32")
    assert (state.delta.conv.shape, state.delta.conv.dtype) == ((4, 3, 3, 160), dtype)
    assert (state.kv.k.shape, state.kv.k.dtype) == ((2, 9, 64, 2, 32), dtype)
    assert (state.kv.v.shape, state.kv.v.dtype) == ((2, 9, 64, 2, 32), dtype)
    assert (state.mtp_kv is not None) == mtp
    if mtp:
        assert state.mtp_kv.k.shape == (1, 9, 64, 2, 32)
    assert all(not np.asarray(leaf).any() for leaf in jax.tree.leaves(state))


def scattered(start, count):
    """(pools, rows) after writing eight rows a request into pools full of NaN."""
    rng = np.random.default_rng(0)
    k, v = rng.standard_normal((2, LAYERS, 2, 8, GROUPS, WIDTH)).astype(np.float32)
    shape = (LAYERS, POOL, PAGE, GROUPS, WIDTH)
    empty = KvCache(*(np.full(shape, np.nan, np.float32) for _ in range(2)))
    args = (np.array(start, np.int32), np.array(count, np.int32))
    cache = run(empty, k, v, PAGES, *args)
    return (np.asarray(cache.k), np.asarray(cache.v)), (k, v)


@pytest.mark.parametrize(
    ("start", "count"),
    [
        ((0, 0), (8, 8)),
        ((60, 127), (8, 3)),  # over a page border
        ((64, 10), (0, 1)),  # nothing, and one
        ((184, 120), (8, 8)),  # up to the end of the last page
        ((190, 0), (2, 0)),  # rows past the count would lie behind the last page
    ],
)
def test_rows_up_to_the_count_are_written(platform, start, count):
    for pool, rows in zip(*scattered(start, count), strict=True):
        wanted = np.full(pool.shape, np.nan, np.float32)
        for request, (at, n) in enumerate(zip(start, count, strict=True)):
            for i in range(n):
                page = PAGES[request, (at + i) // PAGE]
                wanted[:, page, (at + i) % PAGE] = rows[:, request, i]
        np.testing.assert_array_equal(pool, wanted)


def test_rows_are_rounded_to_the_cache(platform):
    rows = np.full((LAYERS, 2, 8, GROUPS, WIDTH), 1.001, np.float32)
    shape = (LAYERS, POOL, PAGE, GROUPS, WIDTH)
    empty = KvCache(*(jax.numpy.zeros(shape, "bfloat16") for _ in range(2)))
    cache = run(empty, rows, rows, PAGES, np.zeros(2, np.int32), np.ones(2, np.int32))
    assert cache.k.dtype == "bfloat16"
    assert float(cache.k[0, 4, 0, 0, 0]) == 1.0
