"""Opening a directory: what is wrong with the path or its JSON files, and the checks of the set."""

import json

import pytest

from checkpoints import check_dtypes, check_shapes, errors, open_checkpoint
from checkpoints.layouts import dense_optional, dense_shapes
from checkpoints.synthetic import tiny_dense_config, write_checkpoint


@pytest.fixture
def directory(tmp_path):
    return write_checkpoint(tmp_path / "ck", tiny_dense_config(), seed=0)


def refused(path, error):
    with pytest.raises(errors.CheckpointError) as caught:
        open_checkpoint(path)
    assert type(caught.value) is error
    assert caught.value.hint
    return str(caught.value)


def test_a_sound_directory(directory):
    checkpoint = open_checkpoint(str(directory))
    assert checkpoint.path == directory
    assert checkpoint.config == tiny_dense_config()
    assert checkpoint.generation_config == json.loads(
        (directory / "generation_config.json").read_text()
    )
    assert checkpoint.generation_config["eos_token_id"] == [2]
    assert len(checkpoint.tensors) == 56
    assert (checkpoint.skipped, checkpoint.warnings, checkpoint.has_mtp) == ((), (), False)
    info = checkpoint.tensors["layers.0.linear_attn.in_proj_qkv.weight"]
    assert info.name_in_file == "model.layers.0.linear_attn.in_proj_qkv.weight"
    assert (info.shape, info.code) == ((160, 64), "F32")
    assert info.stop - info.start == 160 * 64 * 4
    assert info.file == directory / "model.safetensors"


def test_wrong_paths(directory, tmp_path):
    assert str(tmp_path / "absent") in refused(tmp_path / "absent", errors.NotFoundError)
    refused(directory / "config.json", errors.NotADirectoryError)
    refused(directory / "model.safetensors", errors.NotADirectoryError)
    (directory / "model.safetensors").rename(directory / "model.bin")
    assert "no *.safetensors" in refused(directory, errors.NoSafetensorsError)


def test_no_config(directory):
    (directory / "config.json").unlink()
    assert "config.json" in refused(directory, errors.ConfigMissingError)


@pytest.mark.parametrize("text", ["", "{", "[1]", "3", "null", '{"a": 1, "a": 2}', '{"a": NaN}'])
@pytest.mark.parametrize("name", ["config.json", "generation_config.json"])
def test_damaged_json(directory, name, text):
    (directory / name).write_text(text)
    assert name in refused(directory, errors.ConfigFormatError)


def test_json_that_is_not_text(directory):
    (directory / "config.json").write_bytes(b"\xff\xfe")
    refused(directory, errors.ConfigFormatError)


def test_config_is_a_directory(directory):
    (directory / "config.json").unlink()
    (directory / "config.json").mkdir()
    refused(directory, errors.UnreadableFileError)


def test_generation_config_may_be_absent(directory):
    (directory / "generation_config.json").unlink()
    assert open_checkpoint(directory).generation_config is None


def test_unknown_tensor_name(directory):
    with pytest.raises(KeyError):
        open_checkpoint(directory).read("model.norm.weight")


def test_check_shapes_names_every_kind_of_mismatch(directory):
    checkpoint = open_checkpoint(directory)
    expected = dense_shapes(checkpoint.config)
    check_shapes(checkpoint, expected)
    expected["extra.weight"] = (1,)
    expected["norm.weight"] = (65,)
    del expected["layers.1.mlp.up_proj.weight"]
    with pytest.raises(errors.TensorSetError) as caught:
        check_shapes(checkpoint, expected)
    assert caught.value.missing == ("extra.weight",)
    assert caught.value.unexpected == ("layers.1.mlp.up_proj.weight",)
    assert caught.value.wrong_shape == ("norm.weight",)
    assert str(caught.value) == (
        f"{directory}: tensors do not match config.json: 1 missing (extra.weight); "
        "1 unexpected (layers.1.mlp.up_proj.weight); "
        "1 wrong shape (norm.weight [64] instead of [65])"
    )
    assert caught.value.hint


def test_check_shapes_lists_eight_names_and_counts_the_rest(directory):
    checkpoint = open_checkpoint(directory)
    with pytest.raises(errors.TensorSetError) as caught:
        check_shapes(checkpoint, {f"w{n}": (1,) for n in range(11)})
    assert "11 missing (w0, w1, w2, w3, w4, w5, w6, w7 and 3 more)" in str(caught.value)
    assert len(caught.value.missing) == 11
    assert len(caught.value.unexpected) == 56


def test_a_tied_head_may_be_stored_but_must_fit(directory):
    checkpoint = open_checkpoint(directory)
    tied = tiny_dense_config(tie_word_embeddings=True)
    with pytest.raises(errors.TensorSetError, match=r"1 unexpected \(lm_head.weight\)"):
        check_shapes(checkpoint, dense_shapes(tied))
    check_shapes(checkpoint, dense_shapes(tied), optional=dense_optional(tied))
    with pytest.raises(errors.TensorSetError, match="1 wrong shape"):
        check_shapes(checkpoint, dense_shapes(tied), optional={"lm_head.weight": (1, 1)})


def test_check_dtypes_names_weights_that_need_a_format(tmp_path, raw_file):
    (tmp_path / "config.json").write_text("{}")
    entries = {
        "a.weight": {"dtype": "F8_E4M3", "shape": [2], "data_offsets": [0, 2]},
        "b.weight": {"dtype": "BF16", "shape": [1], "data_offsets": [2, 4]},
    }
    raw_file(tmp_path / "model.safetensors", entries, bytes(4))
    checkpoint = open_checkpoint(tmp_path)
    check_dtypes(checkpoint, ("F8_E4M3", "BF16"))
    with pytest.raises(errors.WrongDtypeError, match="1 tensors of an unusable dtype") as caught:
        check_dtypes(checkpoint)
    assert "a.weight F8_E4M3" in str(caught.value)
