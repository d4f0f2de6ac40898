"""Inputs of the kernel contracts: delta-rule rows and paged attention rows."""

from dataclasses import dataclass

import numpy as np

from tandem_jax.config import EngineConfig
from tandem_jax.engine.buckets import row_buckets
from tandem_jax.ops.plan import make_plan

ROWS = 32  # the largest bucket


def reference_tile(platform: str) -> int | None:
    """Rows a reference op works on at a time there."""
    return make_plan(platform).tile


def buckets(platform: str) -> tuple[int, ...]:
    """Row counts an engine compiles for there; plain decoding runs in the first."""
    return row_buckets(EngineConfig(), platform)


def relative_error(found: np.ndarray, wanted: np.ndarray) -> float:
    """Largest difference as a share of the largest wanted value."""
    return float(np.abs(np.asarray(found) - wanted).max() / np.abs(wanted).max())


@dataclass(frozen=True)
class DeltaCase:
    """Rows of one request for the gated delta rule."""

    q: np.ndarray  # [T, H, K] float32, scaled unit queries
    k: np.ndarray  # [T, H, K] float32, unit keys
    v: np.ndarray  # [T, H, V] float32
    g: np.ndarray  # [T, H] float32, log decay
    beta: np.ndarray  # [T, H] float32, write strength
    s0: np.ndarray  # [H, K, V] float32

    @property
    def rows(self) -> tuple[np.ndarray, ...]:
        """q, k, v, g, beta."""
        return self.q, self.k, self.v, self.g, self.beta

    def at(self, nodes: list[int]) -> tuple[np.ndarray, ...]:
        """The rows of `nodes`, in that order."""
        return tuple(x[nodes] for x in self.rows)


def delta_case(
    rng: np.random.Generator,
    n_tokens: int,
    *,
    heads: int = 3,
    key: int = 16,
    value: int = 16,
    correlated: bool = False,
) -> DeltaCase:
    """Random rows; correlated: neighbouring keys at a cosine of 0.9, hardly any decay, beta 0.97.

    The second kind is what trained models feed the rule with, and what breaks naive inverses.
    """
    spread = 1 / 3 if correlated else 1.0  # cos = 1 / (1 + spread^2)
    shared = rng.standard_normal((1, heads, key)) if correlated else 0.0
    unit = np.linalg.norm(shared, axis=-1, keepdims=True) if correlated else 1.0
    noise = rng.standard_normal((n_tokens, heads, key))
    noise /= np.linalg.norm(noise, axis=-1, keepdims=True)
    keys = shared / unit + spread * noise
    keys /= np.linalg.norm(keys, axis=-1, keepdims=True)
    q = rng.standard_normal((n_tokens, heads, key))
    q *= key**-0.5 / np.linalg.norm(q, axis=-1, keepdims=True)
    g = -rng.uniform(0, 1e-3 if correlated else 1.0, (n_tokens, heads))
    low, high = (0.96, 0.98) if correlated else (0.0, 1.0)
    beta = rng.uniform(low, high, (n_tokens, heads))
    v = rng.standard_normal((n_tokens, heads, value))
    s0 = rng.standard_normal((heads, key, value))
    return DeltaCase(*(x.astype(np.float32) for x in (q, keys, v, g, beta, s0)))


def poison(x: np.ndarray, used: int) -> np.ndarray:
    """A copy with NaN in every row from `used` on."""
    x = x.copy()
    x[used:] = np.nan
    return x
