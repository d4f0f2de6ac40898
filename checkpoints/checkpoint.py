"""A checkpoint directory in Hugging Face layout, opened: config, tensor table, zero-copy reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from checkpoints import errors
from checkpoints.headers import TensorInfo
from checkpoints.json_files import read_object
from checkpoints.mapped import MappedFile
from checkpoints.names import MTP, canonicalise
from checkpoints.shards import read_shards


@dataclass(frozen=True)
class Checkpoint:
    """What a directory holds, known from its headers; weights stay on disk until `read`."""

    path: Path  # the directory
    config: dict[str, Any]  # config.json as written
    generation_config: dict[str, Any] | None  # generation_config.json, None if there is none
    tensors: dict[str, TensorInfo]  # canonical name -> where and what
    skipped: tuple[str, ...]  # names of the vision tensors, as written
    warnings: tuple[str, ...]  # lines that a user should see
    _maps: dict[Path, MappedFile] = field(default_factory=dict, repr=False, compare=False)

    @property
    def has_mtp(self) -> bool:
        """True if any tensor of a multi-token-prediction head is there."""
        return any(name.startswith(MTP) for name in self.tensors)

    @property
    def n_bytes(self) -> int:
        """Bytes of all tensors that a loader may read."""
        return sum(info.stop - info.start for info in self.tensors.values())

    def read(self, name: str) -> np.ndarray:
        """The tensor `name` as a read-only view of the mapped file, shape and dtype of its info.

        Raises KeyError for an unknown name, FileChangedError if the file's length changed.
        """
        info = self.tensors[name]
        return self._mapped(info).view(info)

    def drop_pages(self, name: str) -> None:
        """Give back the memory that reading `name` took; call it once the copy is on the device."""
        info = self.tensors[name]
        self._mapped(info).drop_pages(info)

    def _mapped(self, info: TensorInfo) -> MappedFile:
        if info.file not in self._maps:
            self._maps[info.file] = MappedFile(info.file)
        return self._maps[info.file]


def open_checkpoint(path: str | Path) -> Checkpoint:
    """Open a checkpoint directory: JSON files and headers are read and checked, weights are not.

    Raises a subclass of CheckpointError, with `.hint`, for everything that is wrong with it.
    """
    directory = Path(path)
    if not directory.exists():
        raise errors.NotFoundError(
            "does not exist", file=directory, hint="pass the directory of a checkpoint"
        )
    if not directory.is_dir():
        raise errors.NotADirectoryError(
            "is a file, not a directory",
            file=directory,
            hint=f"pass the directory that holds it: {directory.parent}",
        )
    config = read_object(directory / "config.json")
    generation = directory / "generation_config.json"
    infos, warnings = read_shards(directory)
    tensors, skipped = canonicalise(infos)
    return Checkpoint(
        path=directory,
        config=config,
        generation_config=read_object(generation) if generation.exists() else None,
        tensors=tensors,
        skipped=skipped,
        warnings=warnings,
    )
