"""Attention of tree rows over paged KV: right against float64, and one set of bits per row."""

from dataclasses import dataclass, replace

import jax
import numpy as np
import pytest

from pallas_kernels.tree_attention.prefill import prefill_attention
from pallas_kernels.tree_attention.reference import tree_attention, window_start
from tests.contracts.cases import ROWS, buckets, poison, reference_tile
from tests.laws.bits import same_bits
from tests.laws.growth import depths, path_to, random_parents

HEADS, GROUPS, WIDTH, LAYERS, LAYER = 4, 2, 32, 2, 1
PAGE, N_PAGES, POOL = 64, 4, 9
LENGTHS = (0, 1, 30, 31, 32, 33, 62, 63, 64, 65, 127, 128, 129, 200)
TOLERANCE = 1e-5

run = jax.jit(tree_attention, static_argnames="tile")
run_prefill = jax.jit(prefill_attention)


@dataclass(frozen=True)
class Text:
    """Queries, keys and values of one request, by position: committed ones, then tree rows."""

    q: np.ndarray  # [R, H, D] float32 of the tree rows
    k: np.ndarray  # [R, G, D]
    v: np.ndarray  # [R, G, D]
    old_k: np.ndarray  # [length, G, D] float32 of the committed tokens
    old_v: np.ndarray  # [length, G, D]

    def path_text(self, path):
        """The text in which all nodes of `path` but the last are committed."""
        last = [path[-1]]
        return Text(
            self.q[last],
            self.k[last],
            self.v[last],
            np.concatenate([self.old_k, self.k[path[:-1]]]),
            np.concatenate([self.old_v, self.v[path[:-1]]]),
        )


def random_text(rng, length, rows=ROWS):
    def draw(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    rows_kv, old_kv = (rows, GROUPS, WIDTH), (length, GROUPS, WIDTH)
    return Text(
        draw(rows, HEADS, WIDTH), draw(*rows_kv), draw(*rows_kv), draw(*old_kv), draw(*old_kv)
    )


def cache_of(old, pages, page):
    """[L, P, page, G, D] full of NaN but for `old` rows at their places on `pages`."""
    pool = np.full((LAYERS, POOL, page, GROUPS, WIDTH), np.nan, np.float32)
    for position, row in enumerate(old):
        pool[LAYER, pages[position // page], position % page] = row
    return pool


@dataclass(frozen=True)
class Pass:
    """One call's worth of requests: (text, parents, page list) each."""

    requests: tuple
    rows: int  # bucket
    page: int = PAGE

    def call(self, tile):
        """[B, T, H, D] of `tree_attention`, NaN in all rows and cache cells that are not in use."""
        k_cache = v_cache = np.full((LAYERS, POOL, self.page, GROUPS, WIDTH), np.nan, np.float32)
        parts = []
        for request, (text, parents, pages) in enumerate(self.requests):
            k, v = (cache_of(old, pages, self.page) for old in (text.old_k, text.old_v))
            k_cache, v_cache = (
                np.where(np.isnan(a), b, a) for a, b in ((k_cache, k), (v_cache, v))
            )
            parts.append(self._request_rows(request, text, parents))
        q, k, v, position, length, request, path = (
            np.concatenate(columns) for columns in zip(*parts, strict=True)
        )
        pages = np.stack([pages for _, _, pages in self.requests])
        used = (len(self.requests) - 1) * self.rows + len(self.requests[-1][1])
        where = (np.int32(LAYER), pages, position, length, request, path, np.int32(-(-used // 8)))
        o = np.asarray(run(q, k, v, k_cache, v_cache, *where, tile=tile))
        return o.reshape(len(self.requests), self.rows, HEADS, WIDTH)

    def _request_rows(self, request, text, parents):
        n, size = len(parents), self.rows
        depth = np.zeros(size, np.int32)
        depth[:n] = depths(parents)
        # Past a row's own depth the path table holds anything.
        path = np.random.default_rng(7).integers(0, size, (size, size)).astype(np.int32)
        for node in range(n):
            line = path_to(parents, node)
            path[node, : len(line)] = line
        wide = [np.zeros((size, *x.shape[1:]), np.float32) for x in (text.q, text.k, text.v)]
        for out, x in zip(wide, (text.q, text.k, text.v), strict=True):
            out[:n] = x[:n]
        length = len(text.old_k)
        return (
            *(poison(x, n) for x in wide),
            length + depth,
            np.full(size, length, np.int32),
            np.full(size, request, np.int32),
            path + request * size,
        )


def softmax64(q, k, v):
    """Attention of one row in float64: q [H, D], k, v [N, G, D] -> [H, D]."""
    k, v = (np.repeat(x.astype(np.float64), HEADS // GROUPS, axis=1) for x in (k, v))
    scores = np.einsum("hd,nhd->hn", q.astype(np.float64), k) * WIDTH**-0.5
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return np.einsum("hn,nhd->hd", weights, v)


def some_pages(rng):
    return rng.permutation(POOL)[:N_PAGES].astype(np.int32)


@pytest.mark.parametrize("length", LENGTHS)
def test_rows_equal_float64_and_plain_layout(platform, length):
    rng = np.random.default_rng(length)
    tile, small = reference_tile(platform), buckets(platform)[0]
    chain = list(range(-1, ROWS - 1))
    for parents in (random_parents(rng, ROWS), chain):
        text, pages = random_text(rng, length), some_pages(rng)
        o = Pass(((text, parents, pages),), ROWS).call(tile)[0]
        for node in range(ROWS):
            path = path_to(parents, node)
            k = np.concatenate([text.old_k, text.k[path]])
            v = np.concatenate([text.old_v, text.v[path]])
            assert np.abs(o[node] - softmax64(text.q[node], k, v)).max() <= TOLERANCE
            # Plain decoding: the path lies in the cache, on other pages, and the row is alone.
            plain = Pass(((text.path_text(path), [-1], some_pages(rng)),), small).call(tile)
            assert same_bits(o[node], plain[0, 0]), (length, parents, node)


@pytest.mark.parametrize("page", [64, 512])
def test_pages_of_other_sizes(platform, page):
    rng = np.random.default_rng(page)
    tile, small, length = reference_tile(platform), buckets(platform)[0], 3 * page - 10
    text, parents, pages = random_text(rng, length), random_parents(rng, ROWS), some_pages(rng)
    o = Pass(((text, parents, pages),), ROWS, page).call(tile)[0]
    for node in range(0, ROWS, 3):
        path = path_to(parents, node)
        k = np.concatenate([text.old_k, text.k[path]])
        v = np.concatenate([text.old_v, text.v[path]])
        assert np.abs(o[node] - softmax64(text.q[node], k, v)).max() <= TOLERANCE
        plain = Pass(((text.path_text(path), [-1], pages),), small, page).call(tile)
        assert same_bits(o[node], plain[0, 0])


def test_buckets_and_company_move_nothing(platform):
    rng = np.random.default_rng(3)
    tile, order = reference_tile(platform), rng.permutation(POOL).astype(np.int32)
    first = (random_text(rng, 70), random_parents(rng, 7), order[:4])
    second = (random_text(rng, 100), random_parents(rng, 6), order[4:8])
    alone = [Pass((one,), buckets(platform)[0]).call(tile)[0] for one in (first, second)]
    for size in buckets(platform):
        assert same_bits(Pass((first,), size).call(tile)[0, :7], alone[0][:7])
    size = buckets(platform)[0]
    for turn in ((first, second), (second, first)):
        for found, one in zip(Pass(turn, size).call(tile), turn, strict=True):
            n = len(one[1])
            assert same_bits(found[:n], alone[0 if one is first else 1][:n])


def test_rows_that_are_not_ancestors_move_nothing(platform):
    rng = np.random.default_rng(4)
    tile = reference_tile(platform)
    for length in (0, 40, 90):
        text, parents, pages = random_text(rng, length), random_parents(rng, ROWS), some_pages(rng)
        o = Pass(((text, parents, pages),), ROWS).call(tile)[0]
        for node in rng.integers(0, ROWS, 4).tolist():
            other = np.setdiff1d(np.arange(ROWS), path_to(parents, node))
            q, k, v = text.q.copy(), text.k.copy(), text.v.copy()
            q[other], k[other], v[other] = 100.0, -100.0, np.nan
            changed = Pass(((replace(text, q=q, k=k, v=v), parents, pages),), ROWS).call(tile)[0]
            assert same_bits(o[node], changed[node])


def test_the_window_begins_on_a_line_and_holds_at_most_63_keys():
    position = np.arange(400)
    start = np.asarray(window_start(position))
    assert (start % 32 == 0).all()
    assert (start[:31] == 0).all()
    assert (position - start + 1 <= 63).all()
    # Every key below the window is committed for a row up to 31 levels below its root.
    assert (start <= np.maximum(position - 31, 0)).all()
    assert start[[62, 63, 94, 95]].tolist() == [0, 32, 32, 64]


def test_shapes_that_do_not_fit_are_refused():
    rng = np.random.default_rng(5)
    text, pages = random_text(rng, 0), some_pages(rng)
    with pytest.raises(ValueError, match="56 rows a request do not fit the window of 64"):
        Pass(((text, [-1], pages),), 56).call(8)
    with pytest.raises(ValueError, match="a page of 320 tokens is not a multiple of 256"):
        Pass(((text, [-1], pages),), 8, page=320).call(8)


@pytest.mark.parametrize("start", [0, PAGE, 3 * PAGE])
def test_prefill_attention(platform, start):
    rng = np.random.default_rng(start)
    text, pages = random_text(rng, start, rows=PAGE), some_pages(rng)
    k_cache, v_cache = (cache_of(old, pages, PAGE) for old in (text.old_k, text.old_v))
    where = (np.int32(LAYER), pages, np.int32(start))
    o = np.asarray(run_prefill(text.q, text.k, text.v, k_cache, v_cache, *where))
    for row in range(PAGE):
        k = np.concatenate([text.old_k, text.k[: row + 1]])
        v = np.concatenate([text.old_v, text.v[: row + 1]])
        assert np.abs(o[row] - softmax64(text.q[row], k, v)).max() <= TOLERANCE
