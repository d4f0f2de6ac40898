"""Tandem-JAX: lossless tree speculation for hybrid (Gated DeltaNet + attention) language models.

Public names are imported on first use, so that `import tandem_jax` costs nothing and touches
neither JAX nor any of the generically named sibling rooms.
"""

from importlib import import_module

__version__ = "0.1.0"

_LAZY = {
    "LLM": "tandem_jax.api",
    "Completion": "tandem_jax.api",
    "LosslessReport": "tandem_jax.api",
    "Engine": "tandem_jax.engine.engine",
    "RoundEvent": "tandem_jax.engine.events",
    "DraftTree": "tandem_jax.tree.draft_tree",
    "SamplingParams": "tandem_jax.sampling.params",
    "TandemError": "tandem_jax.errors",
}

__all__ = [*_LAZY, "__version__"]


def __getattr__(name: str):
    if name not in _LAZY:
        raise AttributeError(f"module 'tandem_jax' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
