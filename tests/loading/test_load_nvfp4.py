"""NVFP4 checkpoints: dequantised at load, said so, and the same numbers as their plain twin."""

import json
from dataclasses import replace

import jax
import ml_dtypes
import numpy as np
import pytest

from checkpoints import errors
from checkpoints.dequantised import write_dequantised
from checkpoints.synthetic import write_checkpoint
from checkpoints.writing import save_tensors
from tandem_jax.engine.steps import empty_state
from tandem_jax.errors import CheckpointError, ConfigError
from tandem_jax.loading import load_model, open_model
from tandem_jax.quant.dense import Dense
from tests.models.jax_forward import Runner

N_MATRICES = 6 + 7 + 7 + 2  # a linear layer, an attention layer, MTP; its fc, the head
UP_PROJ = "model.layers.0.mlp.up_proj.weight"


@pytest.fixture(scope="module")
def pair(tmp_path_factory, small):
    """(NVFP4 checkpoint, its bf16 twin)."""
    folder = tmp_path_factory.mktemp("pair")
    directory = write_checkpoint(
        folder / "nvfp4", small(), seed=1, mtp=True, dtype="bfloat16", nvfp4=True
    )
    return directory, write_dequantised(directory, folder / "plain")


@pytest.fixture
def directory(tmp_path, small):
    """A sound NVFP4 checkpoint, to be damaged."""
    return write_checkpoint(tmp_path / "ck", small(), seed=1, nvfp4=True)


def edit_config(directory, **changes):
    """Write keys into config.json; a value of ... removes one."""
    file = directory / "config.json"
    config = {**json.loads(file.read_text()), **changes}
    file.write_text(json.dumps({key: value for key, value in config.items() if value is not ...}))


def edit_tensors(directory, edit):
    """Rewrite the weights after `edit` changed their dict of name in the file -> array."""
    opened = open_model(directory)[0]
    tensors = {info.name_in_file: opened.read(name) for name, info in opened.tensors.items()}
    tensors = {name: np.array(value) for name, value in tensors.items()}
    edit(tensors)
    save_tensors(tensors, directory / "model.safetensors")


def refused(directory, kind):
    """The message of the error, which says what to do."""
    with pytest.raises(kind) as caught:
        load_model(directory)
    assert type(caught.value) is kind
    assert caught.value.hint
    return str(caught.value)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_twin_gives_the_same_bits(pair, dtype):
    nvfp4, plain = (load_model(path, dtype) for path in pair)
    assert isinstance(nvfp4.weights.mlp.up, Dense)
    assert nvfp4.weights.mlp.up.w.dtype == dtype
    assert (nvfp4.config, plain.warnings) == (plain.config, ())
    assert nvfp4.warnings == (
        f"{N_MATRICES} NVFP4 matrices are dequantised to {dtype} at load: "
        "this version has no four-bit kernel",
    )
    jax.tree.map(np.testing.assert_array_equal, nvfp4.weights, plain.weights)
    ids = np.random.default_rng(0).integers(0, 256, 90).astype(np.int32)
    logits, runner = [], Runner(nvfp4.config, nvfp4.weights, quick=True)
    for model in (nvfp4, plain):
        runner.weights = model.weights
        settings = replace(runner.engine, dtype=dtype)
        rows, state = runner.prefill(ids[:70], empty_state(model.config, settings, False))
        # Three rounds of up to eight rows.
        logits.append((rows, runner.decode(ids[70:], 8, state=state, start=70)))
    for left, right in zip(*logits, strict=True):
        assert np.isfinite(left).all()
        np.testing.assert_array_equal(left.view(np.int32), right.view(np.int32))


def test_values_are_those_of_the_formula(pair):
    model = load_model(pair[0], "float32")
    opened = model.checkpoint
    name = UP_PROJ.removeprefix("model.")
    codes, scale = opened.read(name), opened.read(name + "_scale").astype(np.float32)
    table = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
    every = np.stack([codes & 15, codes >> 4], -1).reshape(codes.shape[0], -1)
    signs = np.where(every & 8, np.float32(-1), np.float32(1))
    wanted = signs * table[every & 7] * np.repeat(scale, 16, 1) * opened.read(name + "_scale_2")
    np.testing.assert_array_equal(model.weights.mlp.up.w[0], wanted)


def test_quantised_gates_and_mixed_layers_are_read(directory):
    """Some exports quantise in_proj_a and in_proj_b too, and leave single layers unquantised."""
    name = "model.layers.0.linear_attn.in_proj_a.weight"

    def edit(tensors):
        for end in ("_scale", "_scale_2"):
            del tensors[UP_PROJ + end]
        tensors[UP_PROJ] = np.ones((128, 64), ml_dtypes.bfloat16)
        tensors[name] = np.full((6, 32), 0x22, np.uint8)
        tensors[name + "_scale"] = np.full((6, 4), 2, ml_dtypes.float8_e4m3fn)
        tensors[name + "_scale_2"] = np.array([3.0], np.float32)

    edit_tensors(directory, edit)
    weights = load_model(directory).weights
    np.testing.assert_array_equal(weights.delta.a.w[0], np.full((6, 64), 6.0))
    np.testing.assert_array_equal(weights.mlp.up.w[0], np.ones((128, 64)))


def test_activation_scales_are_told(directory):
    def edit(tensors):
        tensors[UP_PROJ.replace("weight", "input_scale")] = np.array(0.5, np.float32)

    edit_tensors(directory, edit)
    assert "1 input_scale tensors are not used" in load_model(directory).warnings[1]


def test_a_config_that_promises_what_the_tensors_are_not(directory, tmp_path, small):
    edit_config(directory, quantization_config=...)
    message = refused(directory, ConfigError)
    assert "14 tensors are NVFP4" in message  # without the MTP layer and its fc
    assert "has no quantization_config" in message
    plain = write_checkpoint(tmp_path / "plain", small(), seed=1)
    edit_config(plain, quantization_config={"quant_method": "modelopt", "quant_algo": "NVFP4"})
    assert "has a quantization_config, but no tensor" in refused(plain, ConfigError)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"quant_method": "fp8"}, "'fp8'"),
        ({"quant_method": "compressed-tensors"}, "'compressed-tensors'"),
        ({"quant_algo": "MIXED_PRECISION"}, "'MIXED_PRECISION'"),
        ({"quant_algo": None}, "None"),
        ({"group_size": 32}, "group_size = 32"),
        ({"group_size": 16.0}, "group_size = 16.0"),
        ({"ignore": "lm_head"}, "ignore must be a list"),
        ({"kv_cache_quant_algo": "FP8"}, "unknown keys: kv_cache_quant_algo"),
        ({"quantized_layers": {}}, "unknown keys: quantized_layers"),
    ],
)
@pytest.mark.parametrize("nested", [False, True])
def test_other_quantisations_are_refused_by_name(directory, changes, word, nested):
    config = json.loads((directory / "config.json").read_text())
    quantised = {**config.pop("quantization_config"), **changes}
    if nested:
        text = {**config, "quantization_config": quantised}
        config = {"architectures": text.pop("architectures"), "text_config": text}
    else:
        config["quantization_config"] = quantised
    (directory / "config.json").write_text(json.dumps(config))
    with pytest.raises(ConfigError) as caught:
        load_model(directory)
    assert "quantization_config" in str(caught.value)
    assert word in str(caught.value)


def test_an_embedding_cannot_be_quantised(directory):
    def edit(tensors):
        name = "model.embed_tokens.weight"
        tensors[name] = np.zeros((256, 32), np.uint8)
        tensors[name + "_scale"] = np.ones((256, 4), ml_dtypes.float8_e4m3fn)
        tensors[name + "_scale_2"] = np.array(1, np.float32)

    edit_tensors(directory, edit)
    assert "no linear layers (embed_tokens.weight)" in refused(directory, CheckpointError)


def test_codes_of_another_size(directory):
    def edit(tensors):
        tensors[UP_PROJ] = np.zeros((128, 24), np.uint8)
        tensors[UP_PROJ + "_scale"] = np.ones((128, 3), ml_dtypes.float8_e4m3fn)

    edit_tensors(directory, edit)
    message = refused(directory, CheckpointError)
    assert "layers.0.mlp.up_proj.weight [128, 48] instead of [128, 64]" in message


@pytest.mark.parametrize(
    ("end", "value", "words"),
    [
        ("_scale", None, "weight_scale is not there"),
        ("_scale_2", None, "weight_scale_2 is not there"),
        ("", None, "weight is not there"),
        ("_scale", np.ones((128, 2), ml_dtypes.float8_e4m3fn), "[128, 2] instead of [128, 4]"),
        ("_packed", np.ones((128, 32), np.uint8), "comes in a later version"),
    ],
)
def test_parts_that_do_not_fit_are_refused_before_anything_is_read(
    directory, no_device_memory, end, value, words
):
    def edit(tensors):
        tensors.pop(UP_PROJ + end, None)
        if value is not None:
            tensors[UP_PROJ + end] = value

    edit_tensors(directory, edit)
    message = refused(directory, CheckpointError)
    assert UP_PROJ in message
    assert words in message
    with pytest.raises(CheckpointError) as caught:
        open_model(directory)
    assert isinstance(caught.value.__cause__, errors.ModuleFormatError)
