"""Writes the plain twin of an NVFP4 checkpoint: the same numbers, every weight unquantised."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import ml_dtypes

from checkpoints.checkpoint import open_checkpoint
from checkpoints.modules import nvfp4_modules, part_names, read_weight
from checkpoints.shards import INDEX, SUFFIX
from checkpoints.writing import save_tensors


def write_dequantised(source: str | Path, directory: str | Path) -> Path:
    """Copy the checkpoint `source` to `directory` with bf16 in place of NVFP4; returns it.

    Where scale_2 is a power of two, as in our exports, bf16 holds every value exactly. Weights
    that were not quantised keep their dtype; vision tensors are left out. Raises CheckpointError
    for an unusable source, FileExistsError if the directory already holds weights.
    """
    opened, target = open_checkpoint(source), Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    if any(target.glob("*" + SUFFIX)):
        raise FileExistsError(f"{target} already holds weights")
    modules = nvfp4_modules(opened)
    inner = part_names(modules) - set(modules)
    tensors = {
        info.name_in_file: read_weight(opened, name, ml_dtypes.bfloat16, modules[name])
        if name in modules
        else opened.read(name)
        for name, info in opened.tensors.items()
        if name not in inner
    }
    for file in opened.path.iterdir():
        if file.is_file() and file.suffix != SUFFIX and file.name not in (INDEX, "config.json"):
            shutil.copyfile(file, target / file.name)
    config = {key: value for key, value in opened.config.items() if key != "quantization_config"}
    (target / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    save_tensors(tensors, target / ("model" + SUFFIX))
    return target
