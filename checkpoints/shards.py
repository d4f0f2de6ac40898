"""The safetensors files of a directory as one set of tensors, with or without an index."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePath

from checkpoints import errors
from checkpoints.headers import TensorInfo, read_header
from checkpoints.json_files import read_object
from checkpoints.names import is_mtp

INDEX = "model.safetensors.index.json"
SUFFIX = ".safetensors"
_NUMBERED = re.compile(r"(?P<stem>.*)-(?P<part>\d{5})-of-(?P<parts>\d{5})\.safetensors")


def read_shards(directory: Path) -> tuple[list[TensorInfo], tuple[str, ...]]:
    """Every tensor of the directory's files, and warnings worth showing.

    Raises subclasses of ShardError, HeaderError, and NoSafetensorsError.
    """
    found = sorted(path.name for path in directory.glob("*" + SUFFIX))
    index = directory / INDEX
    if not index.exists():
        if not found:
            raise errors.NoSafetensorsError(
                "holds no *.safetensors file",
                file=directory,
                hint="pass a directory with safetensors weights; .bin and .gguf are not read",
            )
        _check_numbering(directory, found)
        return list(_headers(directory, found).values()), ()
    weight_map = _weight_map(index)
    named = sorted(set(weight_map.values()))
    _check_files(directory, named, found)
    tensors = _headers(directory, named)
    _check_promises(directory, weight_map, tensors)
    return list(tensors.values()), _unindexed(index, weight_map, tensors)


def _headers(directory: Path, names: list[str]) -> dict[str, TensorInfo]:
    """The union of the files' headers; a name may stand in one file only."""
    tensors: dict[str, TensorInfo] = {}
    for file_name in names:
        for name, info in read_header(directory / file_name).items():
            if name in tensors:
                raise errors.DoubledNameError(
                    f"stands in {tensors[name].file.name} too",
                    file=info.file,
                    tensor=name,
                    hint="the directory mixes two exports: keep the files of one",
                )
            tensors[name] = info
    return tensors


def _weight_map(index: Path) -> dict[str, str]:
    """The index's map from tensor name to file name, checked."""
    weight_map = read_object(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise errors.IndexFormatError(
            "has no weight_map object", file=index, hint="download the index again"
        )
    for name, file_name in weight_map.items():
        plain = isinstance(file_name, str) and PurePath(file_name).name == file_name
        if not plain or not file_name.endswith(SUFFIX):
            raise errors.IndexFormatError(
                f"{file_name!r} is not the name of a safetensors file beside the index",
                file=index,
                tensor=name,
                hint="download the index again",
            )
    return weight_map


def _check_files(directory: Path, named: list[str], found: list[str]) -> None:
    for file_name in named:
        if file_name not in found:
            raise errors.MissingShardError(
                f"the index names {file_name}, which is not there",
                file=directory,
                hint="download the missing file",
            )
    for file_name in found:
        if file_name not in named:
            raise errors.StrayFileError(
                "lies beside the shards but the index does not name it",
                file=directory / file_name,
                hint="move it elsewhere, or download the index that belongs to it",
            )


def _check_numbering(directory: Path, found: list[str]) -> None:
    """Without an index, `x-00001-of-00003.safetensors` still promises three files."""
    for match in filter(None, map(_NUMBERED.fullmatch, found)):
        for part in range(1, int(match["parts"]) + 1):
            sibling = f"{match['stem']}-{part:05d}-of-{match['parts']}{SUFFIX}"
            if sibling not in found:
                raise errors.MissingShardError(
                    f"{match[0]} promises {sibling}, which is not there",
                    file=directory,
                    hint=f"download the missing file and {INDEX}",
                )


def _check_promises(
    directory: Path, weight_map: Mapping[str, str], tensors: Mapping[str, TensorInfo]
) -> None:
    """Every tensor of the index must lie in the shard that the index says."""
    for name, file_name in weight_map.items():
        info = tensors.get(name)
        if info is None:
            raise errors.MissingTensorError(
                "the index names it, but the shard does not hold it",
                file=directory / file_name,
                tensor=name,
                hint="download this shard and the index from the same revision",
            )
        if info.file.name != file_name:
            raise errors.WrongShardError(
                f"the index says {file_name}",
                file=info.file,
                tensor=name,
                hint="download the shards and the index from the same revision",
            )


def _unindexed(
    index: Path, weight_map: Mapping[str, str], tensors: Mapping[str, TensorInfo]
) -> tuple[str, ...]:
    """A warning for MTP tensors outside the index, which real releases have; others are errors."""
    outside = [info for name, info in tensors.items() if name not in weight_map]
    for info in outside:
        if not is_mtp(info.name_in_file):
            raise errors.UnindexedTensorError(
                f"lies in the shard, but {index.name} does not name it",
                file=info.file,
                tensor=info.name_in_file,
                hint="download the shards and the index from the same revision",
            )
    if not outside:
        return ()
    return (
        f"{index.name} omits {len(outside)} mtp.* tensors that the shards hold; they are loaded",
    )
