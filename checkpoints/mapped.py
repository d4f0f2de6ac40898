"""Memory-mapped safetensors files: arrays that are views of the file, never copies."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np

from checkpoints.errors import FileChangedError, UnreadableFileError
from checkpoints.headers import TensorInfo


class MappedFile:
    """One file mapped read-only; its arrays keep the mapping alive."""

    def __init__(self, file: Path) -> None:
        self.file = file
        try:
            with file.open("rb") as stream:
                self._map = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise UnreadableFileError(
                f"cannot be mapped ({error})", file=file, hint="check that you may read it"
            ) from error

    def view(self, info: TensorInfo) -> np.ndarray:
        """The tensor as a read-only view of the mapping, in `info.shape` and `info.dtype`."""
        self._check_length(info)
        if info.start == info.stop:
            return np.empty(info.shape, info.dtype)
        return np.ndarray(info.shape, info.dtype, buffer=self._map, offset=info.start)

    def drop_pages(self, info: TensorInfo) -> None:
        """Let the system take back the memory of the tensor's pages; a later look reads again."""
        # Only whole pages inside the tensor: the edges belong to its neighbours too.
        first = -(-info.start // mmap.PAGESIZE) * mmap.PAGESIZE
        last = info.stop // mmap.PAGESIZE * mmap.PAGESIZE
        if last > first:
            self._map.madvise(mmap.MADV_DONTNEED, first, last - first)

    def _check_length(self, info: TensorInfo) -> None:
        # Touching a mapped page beyond the file's end kills the process with SIGBUS.
        try:
            size = self.file.stat().st_size
        except OSError as error:
            raise FileChangedError(
                "is gone", file=self.file, hint="keep the checkpoint in place while it loads"
            ) from error
        if size != len(self._map) or info.stop > size:
            raise FileChangedError(
                f"had at least {max(info.stop, len(self._map))} bytes when it was opened "
                f"and has {size} now",
                file=self.file,
                tensor=info.name_in_file,
                hint="keep the checkpoint unchanged while it loads",
            )
