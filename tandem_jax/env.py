"""The environment variables Tandem-JAX reads, all of them, in one place."""

import os
from pathlib import Path

CACHE_DIR = "TANDEM_CACHE_DIR"  # where compiled executables are kept between runs


def cache_dir() -> Path:
    """Directory for compiled executables; created by JAX on first use."""
    chosen = os.environ.get(CACHE_DIR)
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tandem-jax"
