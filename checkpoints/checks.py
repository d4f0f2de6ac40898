"""A checkpoint's tensor table against what a model needs, before anything is read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from checkpoints import errors
from checkpoints.checkpoint import Checkpoint
from checkpoints.modules import Nvfp4Module, part_names, stored_shapes

LISTED_NAMES = 8  # names shown of each kind of mismatch; the rest is counted
PLAIN_FLOATS = ("F32", "BF16", "F16")  # codes of weights that stand for themselves, unquantised


def check_shapes(
    checkpoint: Checkpoint,
    expected: Mapping[str, Sequence[int]],
    *,
    optional: Mapping[str, Sequence[int]] | None = None,
    modules: Mapping[str, Nvfp4Module] | None = None,
) -> None:
    """Compare the tensor table with a layout; names are canonical, shapes are those of `read`.

    `optional` tensors may be absent; the `modules` (see `nvfp4_modules`) count as the matrices
    they stand for. Raises TensorSetError naming every kind of mismatch at once.
    """
    known = {**(optional or {}), **expected}
    stored = stored_shapes(checkpoint, modules or {})
    missing = tuple(name for name in expected if name not in stored)
    unexpected = tuple(name for name in stored if name not in known)
    wrong = tuple(
        f"{name} {list(shape)} instead of {list(known[name])}"
        for name, shape in stored.items()
        if name in known and shape != tuple(known[name])
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


def check_dtypes(
    checkpoint: Checkpoint,
    allowed: Collection[str] = PLAIN_FLOATS,
    *,
    modules: Mapping[str, Nvfp4Module] | None = None,
) -> None:
    """Raise WrongDtypeError naming the tensors whose safetensors dtype code is not in `allowed`.

    A quantised weight without its scales has the right shape and would load as noise. The tensors
    of `modules` were checked when these were found.
    """
    inner = part_names(modules or {})
    wrong = tuple(
        f"{name} {info.code}"
        for name, info in checkpoint.tensors.items()
        if info.code not in allowed and name not in inner
    )
    if wrong:
        raise errors.WrongDtypeError(
            _listed("tensors of an unusable dtype", wrong),
            file=checkpoint.path,
            hint=f"usable dtypes: {', '.join(allowed)}; quantised weights need a known format",
        )


def check_quantised(
    checkpoint: Checkpoint, modules: Mapping[str, Nvfp4Module], matrices: Collection[str]
) -> None:
    """Raise ModuleFormatError naming the quantised weights that are not among the `matrices`.

    Embeddings are looked up row by row and norms multiply: only matrix products take codes.
    """
    wrong = tuple(name for name in modules if name not in matrices)
    if wrong:
        raise errors.ModuleFormatError(
            _listed("weights are stored as NVFP4 but are no linear layers", wrong),
            file=checkpoint.path,
            hint="export them in bf16",
        )


def _listed(kind: str, names: tuple[str, ...]) -> str:
    more = len(names) - LISTED_NAMES
    shown = ", ".join(names[:LISTED_NAMES]) + (f" and {more} more" if more > 0 else "")
    return f"{len(names)} {kind} ({shown})"
