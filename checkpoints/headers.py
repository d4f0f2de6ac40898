"""The header of one safetensors file: 8 bytes of length, JSON, then the tensors' bytes.

The reader is our own because the library's numpy door copies every tensor, knows no 8-bit or 4-bit
float, and keeps the last of two equal keys. Nothing here reads a weight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from checkpoints import errors
from checkpoints.dtypes import DTYPES, DtypeCode
from checkpoints.json_files import DuplicateKey, parse_strict

MAX_HEADER_BYTES = 100_000_000  # the limit of the safetensors format
MAX_TENSOR_BYTES = 2**63 - 1
DAMAGED = "the file is damaged or not a safetensors file: download it again"
INCOMPLETE = "the download is incomplete: download the file again"


@dataclass(frozen=True)
class TensorInfo:
    """Where one tensor lies and what it is; `shape` and `dtype` are those of the array read."""

    name_in_file: str  # the name in the header, with its prefix
    shape: tuple[int, ...]  # 4-bit codes: last axis in bytes, half the header's
    dtype: np.dtype  # numpy or ml_dtypes dtype of the view
    file: Path  # the safetensors file
    start: int  # first byte, from the start of the file
    stop: int  # one past the last byte, from the start of the file
    code: str  # dtype code in the header, such as "BF16" or "F4"


def read_header(file: Path) -> dict[str, TensorInfo]:
    """Tensor name in the file -> TensorInfo, in the order of the bytes.

    Raises a subclass of HeaderError for every damage, UnreadableFileError if it cannot be opened.
    """
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            raw, data_start = _read_json(file, stream, size)
    except OSError as error:
        raise errors.UnreadableFileError(
            f"cannot be read ({error.strerror})", file=file, hint="check that you may read it"
        ) from error
    metadata = raw.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise errors.HeaderJsonError(
            "__metadata__ is not a map of strings", file=file, hint=DAMAGED
        )
    tensors = [_entry(file, name, entry, data_start, size) for name, entry in raw.items()]
    tensors.sort(key=lambda info: (info.start, info.stop))
    _check_cover(file, tensors, data_start, size)
    return {info.name_in_file: info for info in tensors}


def _read_json(file: Path, stream: BinaryIO, size: int) -> tuple[dict[str, Any], int]:
    """The header's JSON object and the offset of the first data byte."""
    if size == 0:
        raise errors.EmptyFileError("is empty (0 bytes)", file=file, hint=INCOMPLETE)
    head = stream.read(8)
    if len(head) < 8:
        raise errors.ShortFileError(
            f"has {size} bytes, fewer than the 8 of a safetensors length",
            file=file,
            hint=INCOMPLETE,
        )
    if head == b"version ":
        raise errors.LfsPointerError(
            "is a Git LFS pointer, not the weights", file=file, hint="run `git lfs pull`"
        )
    length = int.from_bytes(head, "little")
    if length > MAX_HEADER_BYTES:
        raise errors.HeaderLengthError(
            f"header length {length} is over the limit of {MAX_HEADER_BYTES} bytes",
            file=file,
            hint=DAMAGED,
        )
    if 8 + length > size:
        raise errors.HeaderLengthError(
            f"header of {length} bytes does not fit in a file of {size} bytes",
            file=file,
            hint=INCOMPLETE,
        )
    text = stream.read(length)
    try:
        raw = parse_strict(text)
    except DuplicateKey as error:
        raise errors.DuplicateKeyError(
            "stands twice in the header", file=file, tensor=error.key, hint="write the file again"
        ) from error
    except ValueError as error:
        raise errors.HeaderJsonError(
            f"header is not JSON ({error})", file=file, hint=DAMAGED
        ) from error
    # The format wants the object at byte 8; padding may only follow it.
    if not isinstance(raw, dict) or not text.startswith(b"{"):
        raise errors.HeaderJsonError("header is not a JSON object", file=file, hint=DAMAGED)
    return raw, 8 + length


def _entry(file: Path, name: str, entry: Any, data_start: int, size: int) -> TensorInfo:
    """One checked header entry; `size` is the file's length in bytes."""
    where = {"file": file, "tensor": name, "hint": DAMAGED}
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise errors.TensorEntryError(
            "its entry is not exactly dtype, shape and data_offsets", **where
        )
    code = DTYPES.get(entry["dtype"]) if isinstance(entry["dtype"], str) else None
    if code is None:
        raise errors.UnknownDtypeError(
            f"unknown dtype {entry['dtype']!r}",
            file=file,
            tensor=name,
            hint=f"known dtypes: {', '.join(DTYPES)}",
        )
    shape, n_bytes = _shape(entry["shape"], code, where)
    offsets = entry["data_offsets"]
    if not _whole_numbers(offsets) or len(offsets) != 2 or not 0 <= offsets[0] <= offsets[1]:
        raise errors.TensorEntryError(f"data_offsets {_short(offsets)} are not a range", **where)
    if offsets[1] - offsets[0] != n_bytes:
        raise errors.SizeMismatchError(
            f"has {offsets[1] - offsets[0]} bytes, but {entry['dtype']} {entry['shape']} "
            f"takes {n_bytes}",
            **where,
        )
    start, stop = data_start + offsets[0], data_start + offsets[1]
    if stop > size:
        raise errors.TruncatedDataError(
            f"ends at byte {stop}, but the file has {size}",
            file=file,
            tensor=name,
            hint=INCOMPLETE,
        )
    return TensorInfo(name, shape, code.view, file, start, stop, entry["dtype"])


def _shape(shape: Any, code: DtypeCode, where: dict[str, Any]) -> tuple[tuple[int, ...], int]:
    """The shape of the view and its bytes."""
    if not _whole_numbers(shape):
        raise errors.ShapeError(f"shape {_short(shape)} is not a list of whole numbers", **where)
    if any(n < 0 for n in shape):
        raise errors.ShapeError(f"shape {_short(shape)} is negative", **where)
    if any(n > MAX_TENSOR_BYTES for n in shape) or math.prod(shape) > MAX_TENSOR_BYTES:
        raise errors.ShapeError(f"shape {_short(shape)} overflows", **where)
    if code.packed > 1:
        if not shape or shape[-1] % code.packed:
            raise errors.ShapeError(
                f"shape {_short(shape)}: the last axis of a packed dtype must be a multiple of "
                f"{code.packed}",
                **where,
            )
        shape = [*shape[:-1], shape[-1] // code.packed]
    n_bytes = math.prod(shape) * code.view.itemsize
    if n_bytes > MAX_TENSOR_BYTES:
        raise errors.ShapeError(f"shape {_short(shape)} overflows", **where)
    return tuple(shape), n_bytes


def _whole_numbers(value: Any) -> bool:
    # bool is an int to Python, but not to the format.
    return isinstance(value, list) and all(type(n) is int for n in value)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _check_cover(file: Path, tensors: list[TensorInfo], data_start: int, size: int) -> None:
    """The tensors, in the order of their bytes, must cover the data exactly once."""
    end = data_start
    for info in tensors:
        where = {"file": file, "tensor": info.name_in_file, "hint": DAMAGED}
        if info.start > end:
            raise errors.HoleError(f"{info.start - end} unused bytes lie before it", **where)
        if info.start < end:
            raise errors.OverlapError(
                f"shares {end - info.start} bytes with the tensor before it", **where
            )
        end = info.stop
    if end != size:
        raise errors.TrailingBytesError(
            f"{size - end} bytes follow the last tensor", file=file, hint=DAMAGED
        )
