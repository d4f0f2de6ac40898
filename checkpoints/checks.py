"""A checkpoint's tensor table against what a model needs, before anything is read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from checkpoints import errors
from checkpoints.checkpoint import Checkpoint

LISTED_NAMES = 8  # names shown of each kind of mismatch; the rest is counted
PLAIN_FLOATS = ("F32", "BF16", "F16")  # codes of weights that stand for themselves, unquantised


def check_shapes(
    checkpoint: Checkpoint,
    expected: Mapping[str, Sequence[int]],
    *,
    optional: Mapping[str, Sequence[int]] | None = None,
) -> None:
    """Compare the tensor table with a layout; names are canonical, shapes are those of `read`.

    `optional` tensors may be absent. Raises TensorSetError naming every kind of mismatch at once.
    """
    known = {**(optional or {}), **expected}
    missing = tuple(name for name in expected if name not in checkpoint.tensors)
    unexpected = tuple(name for name in checkpoint.tensors if name not in known)
    wrong = tuple(
        f"{name} {list(info.shape)} instead of {list(known[name])}"
        for name, info in checkpoint.tensors.items()
        if name in known and info.shape != tuple(known[name])
    )
    kinds = {"missing": missing, "unexpected": unexpected, "wrong shape": wrong}
    lines = [_listed(kind, names) for kind, names in kinds.items() if names]
    if lines:
        raise errors.TensorSetError(
            "tensors do not match config.json: " + "; ".join(lines),
            missing=missing,
            unexpected=unexpected,
            wrong_shape=tuple(line.split(" ", 1)[0] for line in wrong),
            file=checkpoint.path,
            hint="config.json and the weights must come from the same checkpoint",
        )


def check_dtypes(checkpoint: Checkpoint, allowed: Collection[str] = PLAIN_FLOATS) -> None:
    """Raise WrongDtypeError naming the tensors whose safetensors dtype code is not in `allowed`.

    A quantised weight without its scales has the right shape and would load as noise.
    """
    wrong = tuple(
        f"{name} {info.code}"
        for name, info in checkpoint.tensors.items()
        if info.code not in allowed
    )
    if wrong:
        raise errors.WrongDtypeError(
            _listed("tensors of an unusable dtype", wrong),
            file=checkpoint.path,
            hint=f"usable dtypes: {', '.join(allowed)}; quantised weights need a known format",
        )


def _listed(kind: str, names: tuple[str, ...]) -> str:
    more = len(names) - LISTED_NAMES
    shown = ", ".join(names[:LISTED_NAMES]) + (f" and {more} more" if more > 0 else "")
    return f"{len(names)} {kind} ({shown})"
