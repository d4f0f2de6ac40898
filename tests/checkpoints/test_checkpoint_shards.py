"""The rules for several files: index, numbering, stray files, doubled names, the MTP exception."""

import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from checkpoints import errors, open_checkpoint
from checkpoints.shards import INDEX
from checkpoints.synthetic import tiny_dense_config, write_checkpoint

NORM = "model.norm.weight"  # the tensor that the tests below move about


def shard(part: int, parts: int = 3) -> str:
    return f"model-{part:05d}-of-{parts:05d}.safetensors"


@pytest.fixture
def sharded(tmp_path):
    """A sound checkpoint of three shards with an MTP head."""
    return write_checkpoint(tmp_path / "ck", tiny_dense_config(), seed=3, mtp=True, shards=3)


def read_index(directory):
    return json.loads((directory / INDEX).read_text())


def edit_index(directory, edit):
    index = read_index(directory)
    edit(index["weight_map"])
    (directory / INDEX).write_text(json.dumps(index))


def edit_shard(file, edit):
    tensors = load_file(file)
    edit(tensors)
    save_file(tensors, file)


def refused(directory, error, *words):
    with pytest.raises(errors.CheckpointError) as caught:
        open_checkpoint(directory)
    assert type(caught.value) is error
    assert caught.value.hint
    for word in words:
        assert word in str(caught.value)
    return caught.value


def test_shards_with_and_without_an_index_hold_the_same(sharded):
    with_index = open_checkpoint(sharded)
    assert {info.file.name for info in with_index.tensors.values()} == {
        shard(1),
        shard(2),
        shard(3),
    }
    assert with_index.warnings == ()
    (sharded / INDEX).unlink()
    without = open_checkpoint(sharded)
    assert without.tensors == with_index.tensors


def test_a_shard_that_the_index_names_is_missing(sharded):
    (sharded / shard(2)).unlink()
    refused(sharded, errors.MissingShardError, shard(2))


def test_a_numbered_file_without_an_index_misses_its_sibling(sharded):
    (sharded / INDEX).unlink()
    (sharded / shard(3)).unlink()
    refused(sharded, errors.MissingShardError, shard(3))


def test_a_stray_file(sharded):
    save_file({"x": np.zeros(1, np.float32)}, sharded / "other.safetensors")
    error = refused(sharded, errors.StrayFileError, "other.safetensors")
    assert error.file == sharded / "other.safetensors"


def test_a_tensor_outside_the_index(sharded):
    home = read_index(sharded)["weight_map"][NORM]
    edit_index(sharded, lambda weight_map: weight_map.pop(NORM))
    error = refused(sharded, errors.UnindexedTensorError, NORM)
    assert (error.tensor, error.file) == (NORM, sharded / home)


def test_mtp_tensors_outside_the_index_are_loaded_with_a_warning(sharded):
    """Case G7: releases exist whose index omits every mtp.* tensor."""
    sound = open_checkpoint(sharded)
    names = [name for name in read_index(sharded)["weight_map"] if name.startswith("mtp.")]
    assert len(names) == 15
    edit_index(sharded, lambda weight_map: [weight_map.pop(name) for name in names])
    checkpoint = open_checkpoint(sharded)
    assert checkpoint.tensors == sound.tensors
    assert checkpoint.has_mtp
    assert len(checkpoint.warnings) == 1
    assert "15 mtp.* tensors" in checkpoint.warnings[0]


def test_a_tensor_of_the_index_is_missing_in_its_shard(sharded):
    home = sharded / read_index(sharded)["weight_map"][NORM]
    edit_shard(home, lambda tensors: tensors.pop(NORM))
    error = refused(sharded, errors.MissingTensorError, NORM)
    assert (error.tensor, error.file) == (NORM, home)


def test_a_tensor_lies_in_another_shard_than_the_index_says(sharded):
    home = read_index(sharded)["weight_map"][NORM]
    other = next(shard(part) for part in (1, 2, 3) if shard(part) != home)
    edit_index(sharded, lambda weight_map: weight_map.update({NORM: other}))
    refused(sharded, errors.WrongShardError, NORM, home, other)


def test_one_name_in_two_shards(sharded):
    home = read_index(sharded)["weight_map"][NORM]
    value = load_file(sharded / home)[NORM]
    other = next(shard(part) for part in (1, 2, 3) if shard(part) != home)
    edit_shard(sharded / other, lambda tensors: tensors.update({NORM: value}))
    refused(sharded, errors.DoubledNameError, NORM, home, other)


def test_one_name_in_two_files_without_an_index(tmp_path):
    directory = write_checkpoint(tmp_path / "ck", tiny_dense_config(), seed=3)
    shutil.copy(directory / "model.safetensors", directory / "copy.safetensors")
    refused(directory, errors.DoubledNameError, "copy.safetensors", "model.safetensors")


def test_a_damaged_shard_is_named(sharded):
    file = sharded / shard(2)
    file.write_bytes(file.read_bytes()[:-1])
    assert refused(sharded, errors.TruncatedDataError, shard(2)).file == file


INDEXES = {
    "not JSON": ("{", errors.ConfigFormatError),
    "a list": ("[]", errors.ConfigFormatError),
    "a name twice": ('{"weight_map": {"a": "x", "a": "y"}}', errors.ConfigFormatError),
    "no weight_map": ("{}", errors.IndexFormatError),
    "empty weight_map": ('{"weight_map": {}}', errors.IndexFormatError),
    "weight_map is a list": ('{"weight_map": []}', errors.IndexFormatError),
    "file is a number": ('{"weight_map": {"a": 1}}', errors.IndexFormatError),
    "file in a parent": ('{"weight_map": {"a": "../x.safetensors"}}', errors.IndexFormatError),
    "file elsewhere": ('{"weight_map": {"a": "/x.safetensors"}}', errors.IndexFormatError),
    "file of another kind": ('{"weight_map": {"a": "x.bin"}}', errors.IndexFormatError),
}


@pytest.mark.parametrize("case", INDEXES)
def test_a_damaged_index(case, sharded):
    text, error = INDEXES[case]
    (sharded / INDEX).write_text(text)
    assert refused(sharded, error, INDEX).file == sharded / INDEX
