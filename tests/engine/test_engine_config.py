"""Settings are checked once, with a line that says what is wrong; buckets fit what they must."""

import pytest

from tandem_jax.config import EngineConfig
from tandem_jax.engine.buckets import fit_bucket, prompt_chunks, row_buckets
from tandem_jax.errors import ConfigError


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dtype": "float16"}, "dtype 'float16' is unknown"),
        ({"max_context": 1}, "max_context must be at least 2, not 1"),
        ({"slots": 0}, "slots must be at least 1, not 0"),
        ({"page_tokens": 32}, "page_tokens must be a power of two of at least 64, not 32"),
        ({"page_tokens": 192}, "page_tokens must be a power of two of at least 64, not 192"),
        ({"row_buckets": ()}, "row_buckets must be ascending multiples of 8"),
        ({"row_buckets": (16, 8)}, "row_buckets must be ascending multiples of 8"),
        ({"row_buckets": (8, 8)}, "row_buckets must be ascending multiples of 8"),
        ({"row_buckets": (4, 8)}, "row_buckets must be ascending multiples of 8"),
        ({"row_buckets": (8, 40)}, "a tree has at most 32 rows, not 40"),
        ({"prefill_buckets": (100, 1024)}, "prefill_buckets must be ascending multiples of 64"),
        ({"prefill_buckets": (128,)}, "the largest prefill bucket must be the page of 1024"),
    ],
)
def test_refusals(settings, message):
    with pytest.raises(ConfigError, match=message):
        EngineConfig(**settings)


def test_pages_per_slot_round_up():
    sizes = [(2, 1), (1024, 1), (1025, 2), (4096, 4)]
    assert [EngineConfig(max_context=n).pages_per_slot for n, _ in sizes] == [p for _, p in sizes]


def test_one_row_bucket_where_rows_are_not_tiled():
    config = EngineConfig()
    assert row_buckets(config, "cpu") == (8, 16, 32)
    assert row_buckets(config, "gpu") == (32,)


def test_fit_bucket():
    assert [fit_bucket(n, (8, 16, 32)) for n in (1, 8, 9, 16, 17, 32)] == [8, 8, 16, 16, 32, 32]
    with pytest.raises(ValueError, match="33 is more than the largest bucket of 32"):
        fit_bucket(33, (8, 16, 32))


def test_prompt_chunks_lie_on_the_grid():
    assert prompt_chunks(1, 128, (64, 128)) == [(0, 1, 64)]
    assert prompt_chunks(64, 128, (64, 128)) == [(0, 64, 64)]
    assert prompt_chunks(128, 128, (64, 128)) == [(0, 128, 128)]
    assert prompt_chunks(300, 128, (64, 128)) == [(0, 128, 128), (128, 128, 128), (256, 44, 64)]
