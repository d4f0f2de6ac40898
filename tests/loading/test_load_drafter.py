"""A block drafter on disk: loaded whole, or refused by name before any device memory is used."""

import json

import jax
import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from checkpoints.nvfp4 import dequantise_nvfp4, modelopt_config, nvfp4_tensors
from checkpoints.synthetic_drafter import drafter_values, tiny_drafter_config, write_drafter
from checkpoints.writing import save_tensors
from tandem_jax import loading, loading_drafter
from tandem_jax.errors import CheckpointError, ConfigError
from tandem_jax.loading_drafter import default_drafter, open_drafter, resolve_drafter
from tandem_jax.models.qwen35 import QWEN35

WEIGHTS = "model.safetensors"
SEED = 9


@pytest.fixture
def target(small):
    """The target's shape."""
    return QWEN35.read_config(small())


@pytest.fixture
def config(small):
    """The drafter's config.json."""
    return tiny_drafter_config(small())


@pytest.fixture
def drafter(tmp_path, config):
    """A sound drafter, to be damaged."""
    return write_drafter(tmp_path / "drafter", config, seed=SEED)


@pytest.fixture
def edited(drafter):
    """edited(**changes): the drafter's directory with other keys in its config.json."""

    def edit(**changes):
        file = drafter / "config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
        return drafter

    return edit


def refused(path, target, kind, **options):
    with pytest.raises(kind) as caught:
        open_drafter(path, target, **options)
    assert type(caught.value) is kind
    assert caught.value.hint
    return str(caught.value)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_every_tensor_arrives(drafter, target, config, dtype):
    told = []
    opened = open_drafter(drafter, target)
    weights = opened.load(dtype, lambda *call: told.append(call)).weights
    values = drafter_values(config, seed=SEED)
    assert {leaf.dtype.name for leaf in jax.tree.leaves(weights)} == {dtype}
    assert sum(leaf.size for leaf in jax.tree.leaves(weights)) == sum(
        value.size for value in values.values()
    )
    kind = np.float32 if dtype == "float32" else ml_dtypes.bfloat16
    found = {
        "fc.weight": weights.fc.w,
        "candidate_selector.successor_codebook": weights.selector.successor,
        "layers.1.self_attn.o_proj.weight": weights.layers.out.w[1],
        "layers.0.attention_conv.base_kernel": weights.layers.attention_conv.base[0],
        "layers.1.mlp_conv.kernel_projection.weight": weights.layers.mlp_conv.kernel.w[1],
        "layers.0.post_attention_layernorm.weight": weights.layers.mlp_norm[0],
    }
    for name, array in found.items():
        np.testing.assert_array_equal(np.asarray(array), values[name].astype(kind), name)
    assert (opened.name, opened.warnings) == ("drafter", ())
    assert told[-1] == ("load drafter", len(values), len(values))


def test_an_nvfp4_body_is_dequantised_with_a_visible_line(tmp_path, target, config):
    body = ("fc.weight", "proj.weight")
    values = drafter_values(config, seed=SEED)
    packed = {name for name in values if name.endswith(body)}
    stored = {}
    for name, value in values.items():
        value = value.astype(np.float32)
        stored |= nvfp4_tensors(name, value) if name in packed else {name: value}
    (tmp_path / "config.json").write_text(
        json.dumps({**config, "quantization_config": modelopt_config(("*norm*", "*_conv*"))})
    )
    save_tensors(stored, tmp_path / WEIGHTS)
    opened = open_drafter(tmp_path, target, "float32")
    assert len(packed) == 15
    (line,) = opened.warnings
    assert line.startswith("drafter: 15 NVFP4 matrices are dequantised")
    parts = (stored["fc.weight" + end] for end in ("", "_scale", "_scale_2"))
    wanted = dequantise_nvfp4(*parts, dtype=np.float32)
    np.testing.assert_array_equal(np.asarray(opened.load().weights.fc.w), wanted)


@pytest.mark.usefixtures("no_device_memory")
class TestRefusals:
    """What does not fit is told by the headers alone."""

    def test_a_target_is_no_drafter(self, directory, target):
        message = refused(directory, target, ConfigError)
        assert "'Qwen3_5ForCausalLM' is no drafter" in message

    @pytest.mark.parametrize("names", [[], None, ["DSparkDraftModel"]])
    def test_an_unknown_architecture(self, edited, target, names):
        assert "is no drafter" in refused(edited(architectures=names), target, ConfigError)

    @pytest.mark.parametrize("key", ["vocab_size", "hidden_size", "num_target_layers"])
    def test_a_drafter_of_another_target(self, edited, target, key):
        message = refused(edited(**{key: 999}), target, ConfigError)
        assert f"{key} 999 (the target's: " in message

    def test_a_wrong_tap(self, drafter, target):
        assert "tap = 'both'" in refused(drafter, target, ConfigError, tap="both")

    @pytest.mark.parametrize(
        "name", ["norm.weight", "layers.1.mlp_conv.base_kernel", "fc.weight",
                 "candidate_selector.predecessor_codebook"]
    )  # fmt: skip
    def test_a_missing_tensor(self, drafter, target, name):
        tensors = load_file(drafter / WEIGHTS)
        del tensors[name]
        save_file(tensors, drafter / WEIGHTS)
        assert f"1 missing ({name})" in refused(drafter, target, CheckpointError)

    def test_an_unexpected_tensor(self, drafter, target):
        tensors = load_file(drafter / WEIGHTS)
        tensors["confidence_head.weight"] = np.zeros(4, np.float32)
        save_file(tensors, drafter / WEIGHTS)
        message = refused(drafter, target, CheckpointError)
        assert "1 unexpected (confidence_head.weight)" in message

    def test_more_layers_than_tensors(self, edited, target):
        raw = edited(num_hidden_layers=3, layer_types=["sliding_attention"] * 3)
        message = refused(raw, target, CheckpointError)
        assert "15 missing (layers.2." in message

    def test_a_v1_config_over_v2_tensors(self, edited, target, config):
        block = {"mask_token_id": 3, "target_layer_ids": [0, 1], "block_size": 8}
        raw = edited(architectures=["DFlashDraftModel"], dflash_config=block)
        assert "unexpected" in refused(raw, target, CheckpointError)

    def test_a_wrong_shape(self, drafter, target):
        tensors = load_file(drafter / WEIGHTS)
        tensors["fc.weight"] = tensors["fc.weight"][:, :64].copy()
        save_file(tensors, drafter / WEIGHTS)
        assert "fc.weight [64, 64] instead of" in refused(drafter, target, CheckpointError)

    def test_a_directory_that_is_not_there(self, tmp_path, target):
        assert "absent" in refused(tmp_path / "absent", target, CheckpointError)

    def test_a_shipped_name_that_is_not_installed(self, target, tmp_path, monkeypatch):
        monkeypatch.setattr(loading_drafter, "shipped_path", lambda name: tmp_path / name)
        monkeypatch.chdir(tmp_path)
        message = refused("mini-b16", target, ConfigError)
        assert "'mini-b16' is not part of this installation" in message


def test_the_drafter_that_ships_with_a_target(tmp_path, monkeypatch):
    """b16 before b8, only for shipped targets, found by the directory too."""
    for module in (loading, loading_drafter):
        monkeypatch.setattr(module, "shipped_path", lambda name: tmp_path / name)
    monkeypatch.chdir(tmp_path.parent)
    for name in ("mini", "nano", "nano-b8", "mini-b8", "other"):
        (tmp_path / name).mkdir()
    assert default_drafter(tmp_path / "mini") == tmp_path / "mini-b8"
    assert default_drafter(tmp_path / "nano") == tmp_path / "nano-b8"
    (tmp_path / "mini-b16").mkdir()
    assert default_drafter(tmp_path / "mini") == tmp_path / "mini-b16"
    assert default_drafter(tmp_path / "other") is None
    assert resolve_drafter("mini-b8") == tmp_path / "mini-b8"
    (tmp_path / "nano-b8").rmdir()
    assert default_drafter(tmp_path / "nano") is None
