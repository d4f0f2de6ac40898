"""How each weight is stored: as plain floats or as NVFP4, told from the tensors' names and dtypes.

config.json has no say here: published sets mix formats within a layer. Letters: N rows, K columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from checkpoints import errors
from checkpoints.checkpoint import Checkpoint
from checkpoints.headers import TensorInfo
from checkpoints.nvfp4 import GROUP, dequantise_nvfp4

WEIGHT = ".weight"
SCALE, SCALE_2, INPUT_SCALE = "_scale", "_scale_2", ".input_scale"
PACKED = ".weight_packed"


@dataclass(frozen=True)
class Nvfp4Module:
    """The tensors of one matrix in ModelOpt's NVFP4 layout."""

    weight: str  # canonical name of the codes, "....weight"
    shape: tuple[int, int]  # (N, K) of the matrix
    parts: tuple[str, ...]  # names of codes, scale and scale_2
    input_scale: str | None  # name of the activations' scale, unused by four-bit weights alone


def nvfp4_modules(checkpoint: Checkpoint) -> dict[str, Nvfp4Module]:
    """Name of the weight -> module, for every matrix stored as NVFP4.

    Raises ModuleFormatError naming the tensor for codes without scales, scales without codes, a
    wrong dtype or shape, and for formats that look alike.
    """
    found = {}
    for name, info in checkpoint.tensors.items():
        _refuse_other_formats(checkpoint, name, info)
        if name.endswith(WEIGHT) and info.code == "U8":
            found[name] = _module(checkpoint, name, info)
    _refuse_orphans(checkpoint, found)
    return found


def stored_shapes(
    checkpoint: Checkpoint, modules: Mapping[str, Nvfp4Module]
) -> dict[str, tuple[int, ...]]:
    """Canonical name -> shape of the weights that the tensors stand for; scales have no entry."""
    inner = part_names(modules)
    plain = {n: info.shape for n, info in checkpoint.tensors.items() if n not in inner}
    return plain | {name: module.shape for name, module in modules.items()}


def part_names(modules: Mapping[str, Nvfp4Module]) -> set[str]:
    """Names of all tensors that belong to an NVFP4 matrix."""
    return {part for module in modules.values() for part in _with_input(module)}


def read_weight(
    checkpoint: Checkpoint, name: str, dtype: Any, module: Nvfp4Module | None = None
) -> np.ndarray:
    """The weight `name` in `dtype` in memory of its own; with a `module`, dequantised [N, K].

    Products are taken in float32. Raises what `Checkpoint.read` raises.
    """
    if module is None:
        return checkpoint.read(name).astype(dtype)
    return dequantise_nvfp4(*(checkpoint.read(part) for part in module.parts), dtype=dtype)


def drop_weight(checkpoint: Checkpoint, name: str, module: Nvfp4Module | None = None) -> None:
    """Give back the mapped pages of a weight and of its scales."""
    for part in (name,) if module is None else module.parts:
        checkpoint.drop_pages(part)


def _with_input(module: Nvfp4Module) -> Iterator[str]:
    yield from module.parts
    if module.input_scale is not None:
        yield module.input_scale


def _module(checkpoint: Checkpoint, name: str, info: TensorInfo) -> Nvfp4Module:
    tensors, parts = checkpoint.tensors, (name, name + SCALE, name + SCALE_2)
    absent = [part for part in parts if part not in tensors]
    if absent:
        raise _error(
            info,
            f"is uint8, but {' and '.join(absent)} {'is' if len(absent) == 1 else 'are'} not there",
            "NVFP4 codes are useless without both of their scales: download them again",
        )
    if len(info.shape) != 2 or 2 * info.shape[1] % GROUP or 0 in info.shape:
        raise _error(
            info,
            f"{list(info.shape)} holds no codes [N, K/2] with K a multiple of {GROUP}",
            "NVFP4 scales cover 16 columns each",
        )
    rows, columns = info.shape[0], 2 * info.shape[1]
    _check_scale(tensors[parts[1]], rows, columns)
    scale_2 = tensors[parts[2]]
    if scale_2.code != "F32" or scale_2.shape not in ((), (1,)):
        raise _error(
            scale_2,
            f"is {scale_2.code} {list(scale_2.shape)} instead of one F32 number",
            "the tensor scale of ModelOpt's NVFP4 is a float32 scalar",
        )
    input_scale = name.removesuffix(WEIGHT) + INPUT_SCALE
    known = input_scale if input_scale in tensors else None
    return Nvfp4Module(name, (rows, columns), parts, known)


def _check_scale(scale: TensorInfo, rows: int, columns: int) -> None:
    if scale.code != "F8_E4M3":
        raise _error(
            scale,
            f"is {scale.code} instead of F8_E4M3",
            "uint8 or E8M0 scales mean MXFP4, which is not read",
        )
    wanted, padded = (rows, columns // GROUP), (_up(rows, 128), _up(columns // GROUP, 4))
    if scale.shape == wanted:
        return
    if scale.shape == padded:
        raise _error(
            scale,
            f"{list(padded)} is padded, as in the swizzled layout of tensor cores; "
            f"expected {list(wanted)}",
            "export the scales row by row, as ModelOpt does for Hugging Face",
        )
    raise _error(
        scale,
        f"{list(scale.shape)} instead of {list(wanted)}",
        f"one scale for {GROUP} columns of a row: codes and scales are of different exports",
    )


def _up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple


def _refuse_other_formats(checkpoint: Checkpoint, name: str, info: TensorInfo) -> None:
    if name.endswith(PACKED):
        raise _error(
            info,
            "is a packed weight of compressed-tensors, which comes in a later version",
            "use the bf16 release, or an NVFP4 export of ModelOpt",
        )
    if name.endswith(WEIGHT) and info.code.startswith("F8") and _scales_of(checkpoint, name):
        raise _error(
            info,
            f"is a scaled FP8 weight ({info.code}), which comes in a later version",
            "use the bf16 release, or an NVFP4 export of ModelOpt",
        )


def _scales_of(checkpoint: Checkpoint, name: str) -> list[str]:
    names = (name + SCALE, name + SCALE_2, name + "_scale_inv")
    return [scale for scale in names if scale in checkpoint.tensors]


def _refuse_orphans(checkpoint: Checkpoint, found: Mapping[str, Nvfp4Module]) -> None:
    """A scale that no codes belong to would be ignored, and its weight would load as noise."""
    used = part_names(found)
    ends = (WEIGHT + SCALE, WEIGHT + SCALE_2, INPUT_SCALE)
    for name, info in checkpoint.tensors.items():
        if not name.endswith(ends) or name in used:
            continue
        weight = name[: name.rindex(".")] + WEIGHT
        held = checkpoint.tensors.get(weight)
        problem = "is not there" if held is None else f"is {held.code}"
        raise _error(
            info,
            f"{weight} {problem}, but a scale needs uint8 codes",
            "weights and scales must come from the same checkpoint",
        )


def _error(info: TensorInfo, problem: str, hint: str) -> errors.ModuleFormatError:
    return errors.ModuleFormatError(problem, file=info.file, tensor=info.name_in_file, hint=hint)
