"""NVFP4 in the ModelOpt layout: four-bit codes, an e4m3 scale for 16 of them, a float32 scale.

Letters: N rows (outputs), K columns (inputs). W = e2m1(code) * scale * scale_2; a group is 16
consecutive columns of a row, and two codes share a byte, low nibble first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

GROUP = 16  # columns that share a scale
E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)
SCALE_MIN, SCALE_MAX = 2.0**-9, 448.0  # smallest and largest positive e4m3
MIN_EXPONENT = -110  # of scale_2: keeps every product of the format a normal float32
SIXTH = np.float32(1 / 6)  # multiplied, because compilers replace a division by 6
MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # E2M1 by the low three bits of a code
# Where rounding moves to the next magnitude, and whether a tie does: ties go to the even code.
BORDERS = (
    (0.25, False),
    (0.75, True),
    (1.25, False),
    (1.75, True),
    (2.5, False),
    (3.5, True),
    (5.0, False),
)
_NIBBLES = np.array([*MAGNITUDES, *(-m for m in MAGNITUDES)], np.float32)
# [256] by code byte: the two float32 values, low nibble first, looked up as one eight-byte item.
_PAIRS = np.stack([np.tile(_NIBBLES, 16), np.repeat(_NIBBLES, 16)], -1).view(np.uint64)[:, 0]
_CHUNK_VALUES = 1 << 22  # values dequantised at a time


@dataclass(frozen=True)
class Nvfp4:
    """One quantised matrix of N rows and K columns."""

    codes: np.ndarray  # [N, K/2] uint8, low nibble = even column
    scale: np.ndarray  # [N, K/16] float8_e4m3fn
    scale_2: np.ndarray  # [] float32, of the whole matrix


def quantise_nvfp4(w: np.ndarray) -> Nvfp4:
    """Round w [N, K] float32 to NVFP4 with a power of two as scale_2.

    scale_2 = 2**ceil(log2(max|W| / (448 * 6))), so that the dequantised values are exact in
    bfloat16; a group's scale is max|group| / 6 / scale_2 in e4m3. Matrices and groups of zeros
    have scale 1. Raises ValueError for another rank, K % 16, infinities and NaN.
    Source: NVIDIA ModelOpt's convention.
    """
    w = np.asarray(w, np.float32)
    if w.ndim != 2 or w.shape[1] % GROUP or not w.size:
        raise ValueError(f"shape {w.shape} is not [N, K] with K a positive multiple of {GROUP}")
    groups = np.abs(w).reshape(w.shape[0], -1, GROUP)
    largest = groups.max(-1)  # [N, K/16]
    if not np.isfinite(largest).all():
        raise ValueError("the matrix holds infinities or NaN")
    exponent = _exponent(largest.max())
    scale_2 = np.ldexp(np.float32(1), exponent)
    scale = np.clip(largest * np.ldexp(np.float32(1), -exponent) * SIXTH, SCALE_MIN, SCALE_MAX)
    scale = np.where(largest == 0, np.float32(1), scale).astype(E4M3)
    unit = scale.astype(np.float32) * scale_2
    index = np.signbit(w).reshape(groups.shape).astype(np.uint8) << 3
    for border, tie_moves in BORDERS:
        limit = (unit * np.float32(border))[..., None]  # exact: seven significant bits
        index += groups >= limit if tie_moves else groups > limit
    index = index.reshape(w.shape)
    return Nvfp4(index[:, 0::2] | index[:, 1::2] << 4, scale, np.asarray(scale_2, np.float32))


def _exponent(largest: np.float32) -> int:
    """ceil(log2(largest / 2688)) without rounding; 0 for 0."""
    if largest == 0:
        return 0
    mantissa, exponent = np.frexp(largest)  # mantissa in [0.5, 1); 2688 = 0.65625 * 2**12
    return max(int(exponent) - 12 + int(mantissa > 0.65625), MIN_EXPONENT)


def dequantise_nvfp4(
    codes: np.ndarray, scale: np.ndarray, scale_2: np.ndarray | float, *, dtype: Any = np.float32
) -> np.ndarray:
    """W [N, K] in `dtype` of codes [N, K/2] uint8, scale [N, K/16] e4m3, scale_2 float32 scalar.

    Products in float32 (code * scale is exact), then cast, some rows at a time.
    """
    rows, columns = codes.shape[0], 2 * codes.shape[1]
    factor = np.float32(np.asarray(scale_2).item())
    out = np.empty((rows, columns), dtype)
    step = max(1, _CHUNK_VALUES // columns)
    for start in range(0, rows, step):
        part = slice(start, start + step)
        values = _PAIRS.take(codes[part]).view(np.float32).reshape(-1, columns // GROUP, GROUP)
        values *= scale[part].astype(np.float32)[..., None]
        values *= factor
        out[part] = values.reshape(-1, columns)
    return out


def modelopt_config(ignore: Sequence[str]) -> dict[str, Any]:
    """The `quantization_config` of a config.json; `ignore` are globs of the unquantised modules."""
    return {
        "quant_method": "modelopt",
        "quant_algo": "NVFP4",
        "group_size": GROUP,
        "ignore": list(ignore),
    }


def nvfp4_tensors(name: str, w: np.ndarray) -> dict[str, np.ndarray]:
    """The three tensors that store w [N, K] under `name` ("....weight"), by name."""
    q = quantise_nvfp4(w)
    return {name: q.codes, name + "_scale": q.scale, name + "_scale_2": q.scale_2}
