"""Writes safetensors files with every dtype that `headers` reads, 8-bit floats included.

The writer is our own because the library's numpy door knows no 8-bit float.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from checkpoints.dtypes import DTYPES

_CODES = {code.view: name for name, code in DTYPES.items() if code.packed == 1}


def save_tensors(tensors: Mapping[str, np.ndarray], file: str | Path) -> None:
    """Write name -> array as one safetensors file; the bytes depend on the tensors alone.

    Raises ValueError for a dtype that the format does not have.
    """
    # Wide elements first, so that every tensor is aligned to its own element.
    names = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name in names:
        value = tensors[name]
        if value.dtype not in _CODES:
            raise ValueError(f"{name}: safetensors has no dtype {value.dtype}")
        start, end = end, end + value.nbytes
        header[name] = {
            "dtype": _CODES[value.dtype],
            "shape": list(value.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    with Path(file).open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for name in names:
            stream.write(np.ascontiguousarray(tensors[name]).tobytes())
