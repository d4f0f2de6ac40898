"""Settings of the engine: frozen, checked once, the same object for notebooks and the server."""

from dataclasses import dataclass

from tandem_jax.errors import ConfigError


@dataclass(frozen=True)
class EngineConfig:
    """How much one engine holds and which shapes it compiles. Raises `ConfigError`."""

    max_context: int = 4096  # most tokens a request may span, prompt and answer together
    slots: int = 1  # requests that can live on the device at once
    page_tokens: int = 1024  # tokens of a KV page; also the grid that prefill chunks start on
    row_buckets: tuple[int, ...] = (8, 16, 32)  # tree rows an executable is compiled for
    prefill_buckets: tuple[int, ...] = (128, 1024)  # prefill chunk lengths compiled for
    dtype: str = "float32"  # weights, activations and KV: "float32" or "bfloat16"
    mtp_depth: int = 4  # tokens the MTP head drafts a round, 0 = head unused

    def __post_init__(self):
        if self.dtype not in ("float32", "bfloat16"):
            raise ConfigError(f"dtype {self.dtype!r} is unknown", hint="float32 or bfloat16")
        if self.max_context < 2:
            raise ConfigError(f"max_context must be at least 2, not {self.max_context}")
        if self.slots < 1:
            raise ConfigError(f"slots must be at least 1, not {self.slots}")
        if self.page_tokens < 64 or self.page_tokens & (self.page_tokens - 1):
            raise ConfigError(
                f"page_tokens must be a power of two of at least 64, not {self.page_tokens}"
            )
        for name, step in (("row_buckets", 8), ("prefill_buckets", 64)):
            sizes = getattr(self, name)
            if not sizes or list(sizes) != sorted(set(sizes)) or any(s % step for s in sizes):
                raise ConfigError(f"{name} must be ascending multiples of {step}, not {sizes}")
        if self.row_buckets[-1] > 32:
            raise ConfigError(f"a tree has at most 32 rows, not {self.row_buckets[-1]}")
        if self.prefill_buckets[-1] != self.page_tokens:
            raise ConfigError(
                f"the largest prefill bucket must be the page of {self.page_tokens} tokens"
            )

    @property
    def pages_per_slot(self) -> int:
        """KV pages that hold one request of full length."""
        return -(-self.max_context // self.page_tokens)
