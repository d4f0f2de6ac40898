"""Tensor names: one canonical name for the two text prefixes; vision skipped, MTP kept."""

from __future__ import annotations

from collections.abc import Iterable

from checkpoints.errors import DoubledNameError
from checkpoints.headers import TensorInfo

VL_PREFIX = "model.language_model."  # text part of a vision-language checkpoint
TEXT_PREFIX = "model."  # text-only export
PREFIXES = (VL_PREFIX, TEXT_PREFIX)  # in the order in which they are tried
MTP = "mtp."


def is_vision(name: str) -> bool:
    """True for a tensor of the vision tower, which the text forward does not use."""
    return name.startswith("visual.") or ".visual." in name


def canonical_name(name: str) -> str:
    """The name without its text prefix: "layers.0.mlp.up_proj.weight", "mtp.fc.weight"."""
    for prefix in PREFIXES:
        if name.startswith(prefix):
            return name[len(prefix) :]
    return name


def is_mtp(name: str) -> bool:
    """True for a tensor of the multi-token-prediction head."""
    return canonical_name(name).startswith(MTP)


def canonicalise(infos: Iterable[TensorInfo]) -> tuple[dict[str, TensorInfo], tuple[str, ...]]:
    """Canonical name -> tensor, and the names of the skipped vision tensors.

    Raises DoubledNameError when two names become one.
    """
    tensors: dict[str, TensorInfo] = {}
    skipped: list[str] = []
    for info in infos:
        if is_vision(info.name_in_file):
            skipped.append(info.name_in_file)
            continue
        name = canonical_name(info.name_in_file)
        if name in tensors:
            raise DoubledNameError(
                f"is the same tensor as {tensors[name].name_in_file!r} once the prefix is removed",
                file=info.file,
                tensor=info.name_in_file,
                hint="keep one of the two copies",
            )
        tensors[name] = info
    return tensors, tuple(skipped)
