"""Rows that the target wrote itself: what drafters and the MTP refit learn from."""

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

HELD_OUT_SHARE = 0.02


@dataclass(frozen=True)
class GeneratedRows:
    """All generated rows, on the device; the last `held_out` rows are for calibration."""

    tokens: jax.Array  # [M, T+1] uint16
    written: jax.Array  # [M, T+1] bool, the target picked this token
    held_out: int  # rows
    sha256: dict[str, str]  # of each file read

    @property
    def training(self) -> int:
        """Rows to train on."""
        return len(self.tokens) - self.held_out


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def load_generated(folder: Path) -> GeneratedRows:
    """Read rows.*.npz (tokens, written) below `folder` in the order of their names.

    Raises ValueError when there is none.
    """
    paths = sorted(folder.glob("rows.*.npz"))
    if not paths:
        raise ValueError(f"no rows.*.npz in {folder}: run tools.train.generate first")
    files = [np.load(path) for path in paths]
    tokens, written = (np.concatenate([file[key] for file in files])
                       for key in ("tokens", "written"))
    held_out = max(1, round(HELD_OUT_SHARE * len(tokens)))
    return GeneratedRows(jnp.asarray(tokens.astype(np.uint16)), jnp.asarray(written.astype(bool)),
                         held_out, {path.name: file_hash(path) for path in paths})


@lru_cache(maxsize=2)
def _order(seed: int, epoch: int, count: int) -> np.ndarray:
    return np.random.default_rng((seed, epoch)).permutation(count).astype(np.int32)


def rows_of_step(seed: int, step: int, count: int, rows: int) -> np.ndarray:
    """Return the row numbers [B] of a step: each epoch is a new order of all `count` rows.

    Raises ValueError when there are fewer rows than a step takes.
    """
    if count < rows:
        raise ValueError(f"{count} training rows are fewer than the {rows} rows of a step")
    epoch, at = divmod(step, count // rows)
    return _order(seed, epoch, count)[at * rows:(at + 1) * rows]
