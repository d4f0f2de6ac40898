"""A damaged, foreign or incomplete checkpoint is refused before any device memory is used."""

import json

import ml_dtypes
import numpy as np
import pytest

import checkpoints
from checkpoints.synthetic import tiny_vl_config, write_checkpoint
from tandem_jax import loading
from tandem_jax.errors import CheckpointError, ConfigError
from tandem_jax.loading import load_model

pytestmark = pytest.mark.usefixtures("no_device_memory")
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"


def refused(path, kind=CheckpointError):
    """The error of loading `path`, which must be exactly of `kind` and say what to do."""
    with pytest.raises(kind) as caught:
        load_model(path)
    assert type(caught.value) is kind
    assert "\n" not in str(caught.value)
    if kind is CheckpointError:
        assert caught.value.hint
        assert isinstance(caught.value.__cause__, checkpoints.CheckpointError)
    return str(caught.value)


def edit_config(directory, **changes):
    """Write keys into config.json; a value of ... removes one."""
    file = directory / "config.json"
    config = {**json.loads(file.read_text()), **changes}
    file.write_text(json.dumps({key: value for key, value in config.items() if value is not ...}))


def test_a_path_that_is_no_checkpoint(directory, tmp_path):
    assert str(tmp_path / "absent") in refused(tmp_path / "absent")
    assert "not a directory" in refused(directory / WEIGHTS)
    (tmp_path / "empty").mkdir()
    assert "config.json" in refused(tmp_path / "empty")
    (directory / WEIGHTS).rename(directory / "pytorch_model.bin")
    assert "no *.safetensors" in refused(directory)


def test_a_name_that_is_not_shipped(monkeypatch, tmp_path):
    monkeypatch.setattr(loading, "shipped_path", lambda name: tmp_path / name)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match="'mini' is not part of this installation") as caught:
        load_model("mini")
    assert caught.value.hint
    assert "gigantic" in refused("gigantic")


@pytest.mark.parametrize("keep", [0, 5, 200, -1, -100_000])
def test_a_truncated_file(directory, keep):
    raw = (directory / WEIGHTS).read_bytes()
    (directory / WEIGHTS).write_bytes(raw[:keep])
    assert WEIGHTS in refused(directory)


def test_bytes_that_are_no_weights(directory):
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    (directory / WEIGHTS).write_text(pointer)
    assert "Git LFS pointer" in refused(directory)
    (directory / WEIGHTS).write_bytes(np.random.default_rng(0).bytes(4096))
    assert WEIGHTS in refused(directory)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a": NaN}'])
def test_a_damaged_config(directory, text):
    (directory / "config.json").write_text(text)
    assert "config.json" in refused(directory)


def test_a_renamed_tensor(directory, edit_tensors):
    name = "model.layers.0.mlp.up_proj.weight"

    def rename(tensors):
        tensors[name + "s"] = tensors.pop(name)

    edit_tensors(directory, rename)
    message = refused(directory)
    assert "1 missing (layers.0.mlp.up_proj.weight)" in message
    assert "1 unexpected (layers.0.mlp.up_proj.weights)" in message


def test_a_wrong_shape(directory, edit_tensors):
    name = "model.layers.1.self_attn.q_proj.weight"

    def transpose(tensors):
        tensors[name] = np.ascontiguousarray(tensors[name].T)

    edit_tensors(directory, transpose)
    wanted = "layers.1.self_attn.q_proj.weight [64, 256] instead of [256, 64]"
    assert f"1 wrong shape ({wanted})" in refused(directory)


def test_weights_of_another_size(directory):
    edit_config(directory, intermediate_size=256)
    assert "9 wrong shape (" in refused(directory)  # three matrices in two layers and the MTP head
    edit_config(directory, intermediate_size=128, vocab_size=257)
    message = refused(directory)
    assert "2 wrong shape (" in message
    for name in ("embed_tokens.weight", "lm_head.weight"):
        assert f"{name} [256, 64] instead of [257, 64]" in message


def test_a_layer_too_many_or_too_few(directory):
    more = ["linear_attention", "full_attention", "linear_attention"]
    edit_config(directory, num_hidden_layers=3, layer_types=more)
    message = refused(directory)
    assert "14 missing (layers.2.input_layernorm.weight" in message
    assert "unexpected" not in message
    swapped = ["full_attention", "linear_attention"]
    edit_config(directory, num_hidden_layers=2, layer_types=swapped)
    message = refused(directory)
    assert "15 missing" in message
    assert "15 unexpected" in message


def test_an_incomplete_mtp_head(directory, edit_tensors):
    edit_tensors(directory, lambda tensors: tensors.pop("mtp.fc.weight"))
    assert "1 missing (mtp.fc.weight)" in refused(directory)


def test_one_tensor_under_both_prefixes(directory, edit_tensors):
    def double(tensors):
        tensors["model.language_model.norm.weight"] = tensors["model.norm.weight"]

    edit_tensors(directory, double)
    assert "is the same tensor as" in refused(directory)


@pytest.mark.parametrize(
    ("code", "dtype"), [("F8_E4M3", ml_dtypes.float8_e4m3fn), ("I8", np.int8), ("F64", np.float64)]
)
def test_weights_of_a_dtype_that_needs_a_format(directory, code, dtype):
    """Written by hand: the safetensors library knows no 8-bit float in numpy."""
    opened = checkpoints.open_checkpoint(directory)
    name = "layers.0.mlp.up_proj.weight"
    entries, data = {}, b""
    for key, info in opened.tensors.items():
        wanted, stored = (dtype, code) if key == name else (info.dtype, info.code)
        raw = opened.read(key).astype(wanted).tobytes()
        span = [len(data), len(data) + len(raw)]
        entry = {"dtype": stored, "shape": list(info.shape), "data_offsets": span}
        entries[info.name_in_file] = entry
        data += raw
    header = json.dumps(entries).encode()
    (directory / WEIGHTS).write_bytes(len(header).to_bytes(8, "little") + header + data)
    message = refused(directory)
    assert "1 tensors of an unusable dtype" in message
    assert f"{name} {code}" in message


def test_shards_that_do_not_fit_together(tmp_path, small):
    directory = write_checkpoint(tmp_path / "ck", small(), seed=1, shards=3)
    third = directory / "model-00003-of-00003.safetensors"
    raw = third.read_bytes()
    third.unlink()
    assert third.name in refused(directory)
    third.write_bytes(raw)
    (directory / "extra.safetensors").write_bytes(raw)
    assert "extra.safetensors" in refused(directory)
    (directory / "extra.safetensors").unlink()
    index = json.loads((directory / INDEX).read_text())
    name = next(key for key, file in index["weight_map"].items() if file == third.name)
    file = index["weight_map"].pop(name)
    (directory / INDEX).write_text(json.dumps(index))
    assert name in refused(directory)
    index["weight_map"][name] = "model-00001-of-00003.safetensors"
    (directory / INDEX).write_text(json.dumps(index))
    assert name in refused(directory)
    index["weight_map"][name] = file
    (directory / INDEX).write_text(json.dumps(index))
    assert len(checkpoints.open_checkpoint(directory).tensors) == len(index["weight_map"])


def test_an_unknown_config_key(directory):
    edit_config(directory, sliding_window=4096)
    assert "unknown keys: sliding_window" in refused(directory, ConfigError)


def test_a_quantised_release(directory):
    edit_config(directory, quantization_config={"quant_method": "fp8"})
    assert "quantization_config" in refused(directory, ConfigError)


@pytest.mark.parametrize("name", ["LlamaForCausalLM", "Qwen3_5MoeForCausalLM", None])
def test_another_family(directory, name):
    edit_config(directory, architectures=... if name is None else [name])
    assert f"the architecture {name!r} is not supported" in refused(directory, ConfigError)


def test_a_vision_checkpoint_with_text_missing(tmp_path):
    directory = write_checkpoint(
        tmp_path / "ck", tiny_vl_config(), seed=1, prefix="model.language_model.", vision=True
    )
    config = json.loads((directory / "config.json").read_text())
    config["text_config"]["sliding_window"] = 1
    (directory / "config.json").write_text(json.dumps(config))
    assert "text_config has unknown keys: sliding_window" in refused(directory, ConfigError)
