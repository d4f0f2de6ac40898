"""The synthetic writer: reproducible, in the real layouts, with values that expose mistakes."""

import json

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file

from checkpoints import check_shapes, open_checkpoint
from checkpoints.layouts import dense_shapes
from checkpoints.synthetic import (
    tensor_values,
    tiny_dense_config,
    tiny_vl_config,
    write_checkpoint,
)


def test_the_tiny_layout_is_the_documented_one(tmp_path):
    file = write_checkpoint(tmp_path, tiny_dense_config(), seed=1) / "model.safetensors"
    tensors = load_file(file)
    assert len(tensors) == 56
    documented = {
        "model.layers.0.linear_attn.conv1d.weight": (160, 1, 4),
        "model.layers.0.linear_attn.in_proj_a.weight": (6, 64),
        "model.layers.0.linear_attn.in_proj_z.weight": (96, 64),
        "model.layers.0.linear_attn.norm.weight": (16,),
        "model.layers.0.linear_attn.out_proj.weight": (64, 96),
        "model.layers.3.self_attn.q_proj.weight": (256, 64),
        "model.layers.3.self_attn.k_proj.weight": (64, 64),
        "model.layers.3.self_attn.o_proj.weight": (64, 128),
        "model.embed_tokens.weight": (256, 64),
        "lm_head.weight": (256, 64),
    }
    assert {name: tensors[name].shape for name in documented} == documented


def test_values_follow_the_rules_of_initialisation():
    values = tensor_values(tiny_dense_config(num_hidden_layers=24, hidden_size=128), seed=2)

    def pooled(ending):
        return np.concatenate([v.ravel() for name, v in values.items() if name.endswith(ending)])

    a_log = pooled("A_log")
    assert np.log(0.5) <= a_log.min() < np.log(1.5)
    assert np.log(7) < a_log.max() <= np.log(8)
    wanted = {  # ending -> (mean, standard deviation)
        "dt_bias": (-2.0, 0.5),
        "linear_attn.norm.weight": (1.0, 0.1),
        "input_layernorm.weight": (0.0, 0.1),
        "q_norm.weight": (0.0, 0.1),
        "conv1d.weight": (0.0, 0.5),
        "embed_tokens.weight": (0.0, 1.0),
        "mlp.down_proj.weight": (0.0, 128**-0.5),
        "lm_head.weight": (0.0, 128**-0.5),
    }
    for ending, (mean, deviation) in wanted.items():
        pool = pooled(ending)
        assert abs(pool.mean() - mean) < 5 * deviation / np.sqrt(pool.size)
        assert abs(pool.std() / deviation - 1) < 5 / np.sqrt(2 * pool.size)


def test_a_tensor_depends_on_the_seed_and_its_name_alone():
    plain = tensor_values(tiny_dense_config(), seed=7)
    more = tensor_values(tiny_vl_config(num_hidden_layers=8), seed=7, mtp=True)
    assert all(np.array_equal(plain[name], more[name]) for name in plain)
    other = tensor_values(tiny_dense_config(), seed=8)
    assert not any(np.array_equal(plain[name], other[name]) for name in plain)


def test_bfloat16_is_the_rounded_float32():
    exact = tensor_values(tiny_dense_config(), seed=7)
    for name, value in tensor_values(tiny_dense_config(), seed=7, dtype="bfloat16").items():
        assert value.dtype == ml_dtypes.bfloat16
        # float64 -> bfloat16 at once and through float32 may differ by one rounding.
        gap = np.abs(value.astype(np.float32) - exact[name])
        assert np.all(gap <= 2.0**-8 * np.abs(exact[name]))


@pytest.mark.parametrize("shards", [1, 2, 56])
def test_shards_hold_the_same_tensors(tmp_path, shards):
    directory = write_checkpoint(tmp_path, tiny_dense_config(), seed=1, shards=shards)
    checkpoint = open_checkpoint(directory)
    check_shapes(checkpoint, dense_shapes(checkpoint.config))
    assert len(list(directory.glob("*.safetensors"))) == shards
    assert (directory / "model.safetensors.index.json").exists() == (shards > 1)
    for name, value in tensor_values(tiny_dense_config(), seed=1).items():
        assert checkpoint.read(name).tobytes() == value.tobytes()


def test_mtp_is_announced_in_the_text_config(tmp_path):
    flat = write_checkpoint(tmp_path / "flat", tiny_dense_config(), seed=1, mtp=True)
    nested = write_checkpoint(tmp_path / "nested", tiny_vl_config(), seed=1, mtp=True)
    assert json.loads((flat / "config.json").read_text())["mtp_num_hidden_layers"] == 1
    nested_config = json.loads((nested / "config.json").read_text())
    assert nested_config["text_config"]["mtp_num_hidden_layers"] == 1
    assert "mtp_num_hidden_layers" not in nested_config
    for directory in (flat, nested):
        checkpoint = open_checkpoint(directory)
        check_shapes(checkpoint, dense_shapes(checkpoint.config, mtp=True))


def test_own_generation_config(tmp_path):
    own = {"eos_token_id": [5, 6]}
    directory = write_checkpoint(tmp_path, tiny_dense_config(), seed=1, generation_config=own)
    assert open_checkpoint(directory).generation_config == own


def test_options_that_make_no_checkpoint(tmp_path):
    config = tiny_dense_config()
    with pytest.raises(ValueError, match="prefix"):
        write_checkpoint(tmp_path, config, seed=1, prefix="transformer.")
    with pytest.raises(ValueError, match="vision_config"):
        write_checkpoint(tmp_path, config, seed=1, vision=True)
    with pytest.raises(ValueError, match="57 shards"):
        write_checkpoint(tmp_path, config, seed=1, shards=57)
    write_checkpoint(tmp_path, config, seed=1)
    with pytest.raises(FileExistsError):
        write_checkpoint(tmp_path, config, seed=1)
