"""The dtype codes of safetensors, and the numpy or ml_dtypes dtype each is viewed as."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class DtypeCode:
    """How the elements of one safetensors dtype lie in memory."""

    view: np.dtype  # dtype of the array that a reader gets
    packed: int = 1  # elements in one item of `view`; 2 for 4-bit codes


def _plain(view: type) -> DtypeCode:
    return DtypeCode(np.dtype(view))


DTYPES: dict[str, DtypeCode] = {
    "BOOL": _plain(np.bool_),
    "U8": _plain(np.uint8),
    "I8": _plain(np.int8),
    "U16": _plain(np.uint16),
    "I16": _plain(np.int16),
    "U32": _plain(np.uint32),
    "I32": _plain(np.int32),
    "U64": _plain(np.uint64),
    "I64": _plain(np.int64),
    "F16": _plain(np.float16),
    "BF16": _plain(ml_dtypes.bfloat16),
    "F32": _plain(np.float32),
    "F64": _plain(np.float64),
    "F8_E4M3": _plain(ml_dtypes.float8_e4m3fn),
    "F8_E5M2": _plain(ml_dtypes.float8_e5m2),
    "F8_E8M0": _plain(ml_dtypes.float8_e8m0fnu),
    # Two 4-bit codes a byte, low nibble first; numpy has no half-byte stride, so bytes it is.
    "F4": DtypeCode(np.dtype(np.uint8), packed=2),
}
