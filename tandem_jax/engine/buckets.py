"""The shapes an engine compiles, and how a round or a prompt is fitted to them."""

from tandem_jax.config import EngineConfig


def row_buckets(config: EngineConfig, platform: str) -> tuple[int, ...]:
    """Row counts to compile for.

    On a CPU the reference ops work in tiles of eight rows, so any bucket gives the same bits.
    Elsewhere XLA's own row-wise ops change with the shape, so the largest bucket serves every
    round, plain decoding included, until kernels with a fixed row order replace them.
    """
    return config.row_buckets if platform == "cpu" else config.row_buckets[-1:]


def fit_bucket(size: int, buckets: tuple[int, ...]) -> int:
    """The smallest bucket that holds `size`; raises ValueError if none does."""
    for bucket in buckets:
        if size <= bucket:
            return bucket
    raise ValueError(f"{size} is more than the largest bucket of {buckets[-1]}")


def prompt_chunks(n_tokens: int, page: int, buckets: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """Chunks of a prompt on the page grid: (start, tokens, bucket) each."""
    starts = range(0, n_tokens, page)
    sizes = [(start, min(page, n_tokens - start)) for start in starts]
    return [(start, size, fit_bucket(size, buckets)) for start, size in sizes]
