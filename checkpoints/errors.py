"""Every way a checkpoint on disk can be wrong, one class each.

The text of an error names the file, the tensor where there is one, and the fault; `.hint` says what
to do about it. All of them are raised from headers and names alone, before any weight is read.
"""

from __future__ import annotations

from pathlib import Path


class CheckpointError(Exception):
    """A checkpoint cannot be used; `.file` and `.tensor` say where, `.hint` says what to do."""

    def __init__(
        self,
        problem: str,
        *,
        file: Path | None = None,
        tensor: str | None = None,
        hint: str = "",
    ) -> None:
        parts = [] if file is None else [str(file)]
        parts += [] if tensor is None else [f"tensor {tensor!r}"]
        super().__init__(": ".join([*parts, problem]))
        self.problem = problem
        self.file = file
        self.tensor = tensor
        self.hint = hint


# The directory


class NotFoundError(CheckpointError):
    """The path does not exist."""


class NotADirectoryError(CheckpointError):
    """The path is a file; a checkpoint is a directory."""


class NoSafetensorsError(CheckpointError):
    """The directory holds no safetensors file."""


class UnreadableFileError(CheckpointError):
    """The operating system refused to read a file."""


# config.json and generation_config.json


class ConfigMissingError(CheckpointError):
    """The directory has no config.json."""


class ConfigFormatError(CheckpointError):
    """A JSON file of the checkpoint is not one JSON object with unique keys."""


class ConfigKeyError(CheckpointError):
    """The config lacks a key, or a key has a value, that the tensor layout cannot be built from."""


# One safetensors file


class HeaderError(CheckpointError):
    """The header of a safetensors file is damaged, or the file does not match it."""


class EmptyFileError(HeaderError):
    """The file has no bytes."""


class ShortFileError(HeaderError):
    """The file is shorter than the 8 bytes that give the header's length."""


class LfsPointerError(HeaderError):
    """The file is a Git LFS pointer: the weights themselves were not downloaded."""


class HeaderLengthError(HeaderError):
    """The header's length is zero, beyond the file's end, or over the limit."""


class HeaderJsonError(HeaderError):
    """The header is not one JSON object."""


class DuplicateKeyError(HeaderError):
    """A key stands twice in the header; a reader that keeps the last would hide the first."""


class TensorEntryError(HeaderError):
    """A header entry lacks a field or has one of the wrong kind."""


class UnknownDtypeError(HeaderError):
    """A tensor has a dtype that this reader does not know."""


class ShapeError(HeaderError):
    """A shape is negative, overflows, or does not fit its packed dtype."""


class SizeMismatchError(HeaderError):
    """The bytes of a tensor are not shape times dtype."""


class TruncatedDataError(HeaderError):
    """A tensor ends beyond the file's end."""


class HoleError(HeaderError):
    """There are bytes between two tensors that belong to neither."""


class OverlapError(HeaderError):
    """Two tensors claim the same bytes."""


class TrailingBytesError(HeaderError):
    """There are bytes after the last tensor."""


class FileChangedError(HeaderError):
    """The file's length changed after its header was read."""


# Several files together


class ShardError(CheckpointError):
    """The files of a checkpoint do not fit together."""


class IndexFormatError(ShardError):
    """model.safetensors.index.json has no usable weight_map."""


class MissingShardError(ShardError):
    """A file that the index or the numbering promises is not there."""


class StrayFileError(ShardError):
    """A safetensors file lies in the directory but the index does not name it."""


class UnindexedTensorError(ShardError):
    """A shard holds a tensor that the index does not name."""


class MissingTensorError(ShardError):
    """The index names a tensor that no shard holds."""


class WrongShardError(ShardError):
    """A tensor lies in another shard than the index says."""


class DoubledNameError(ShardError):
    """One tensor name, as written or after removing the prefix, stands twice."""


# The set of tensors against a model's layout


class WrongDtypeError(CheckpointError):
    """Tensors have a dtype that the model cannot use as it is."""


class ModuleFormatError(CheckpointError):
    """The tensors of one quantised weight do not fit together, or are of an unread format."""


class TensorSetError(CheckpointError):
    """Tensors are missing, unexpected or of the wrong shape; the three fields hold all names."""

    def __init__(
        self,
        problem: str,
        *,
        missing: tuple[str, ...],
        unexpected: tuple[str, ...],
        wrong_shape: tuple[str, ...],
        file: Path | None = None,
        hint: str = "",
    ) -> None:
        super().__init__(problem, file=file, hint=hint)
        self.missing = missing
        self.unexpected = unexpected
        self.wrong_shape = wrong_shape
