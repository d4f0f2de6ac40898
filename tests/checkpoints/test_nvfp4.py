"""NVFP4 against the tables of E2M1 and E4M3, worked out by hand, and the module detection."""

import json

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from checkpoints import errors, nvfp4_modules, open_checkpoint
from checkpoints.dequantised import write_dequantised
from checkpoints.nvfp4 import dequantise_nvfp4, quantise_nvfp4
from checkpoints.synthetic import tensor_values, tiny_dense_config, write_checkpoint
from checkpoints.writing import save_tensors

E4M3 = ml_dtypes.float8_e4m3fn
TABLE = [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]
UP_PROJ = "layers.0.mlp.up_proj.weight"


def unpacked(codes):
    """Codes [N, K] of packed bytes."""
    return np.stack([codes & 15, codes >> 4], -1).reshape(codes.shape[0], -1)


def restored(q):
    return dequantise_nvfp4(q.codes, q.scale, q.scale_2)


def same_bits(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def row(*values):
    """One row of 16 columns and one scale: the largest value, 2688, makes every scale known."""
    return np.array([[2688, *values, *[0] * (15 - len(values))]], np.float32)


def test_every_code_and_the_order_of_the_nibbles():
    codes = np.array([[low | (low + 1) << 4 for low in range(0, 16, 2)]], np.uint8)
    assert codes.tobytes().hex() == "1032547698badcfe"
    out = dequantise_nvfp4(codes, np.ones((1, 1), E4M3), np.float32(1))
    assert same_bits(out, np.array([TABLE], np.float32))


def test_scales_multiply():
    """Hand-made: 0x7E is 448, 0x01 the smallest subnormal 2**-9, 0x38 is 1."""
    codes = np.full((2, 16), 0x27, np.uint8)  # even columns 6, odd columns 1
    scale = np.array([[0x7E, 0x38], [0x01, 0xB8]], np.uint8).view(E4M3)
    out = dequantise_nvfp4(codes, scale, np.array([0.25], np.float32))
    np.testing.assert_array_equal(out[:, [0, 1, 16, 17]], [
        [6 * 448 / 4, 448 / 4, 1.5, 0.25],
        [6 * 2.0**-11, 2.0**-11, -1.5, -0.25],
    ])


def test_a_known_matrix():
    """scale_2: 2688 = 448 * 6 gives 1. Scales: 448 is 0x7E; 3/6 = 0.5 is 0x30; zeros get 1, 0x38.

    The second group has the scale 0.5, so its values divided by it are 6, -2, 0.9, -0.1, 2.6.
    """
    w = np.zeros((1, 48), np.float32)
    w[0, 0], w[0, 1], w[0, 2] = 2688, -448, 100  # 6, -1 and 0.22, which rounds to 0
    w[0, 16:21] = [3, -1, 0.45, -0.05, 1.3]
    q = quantise_nvfp4(w)
    assert (float(q.scale_2), q.scale_2.dtype, q.scale_2.shape) == (1.0, np.float32, ())
    assert (q.scale.dtype, q.scale.tobytes().hex()) == (np.dtype(E4M3), "7e3038")
    wanted = "a7" + "00" * 7 + "c7" + "82" + "05" + "00" * 5 + "00" * 8
    assert (q.codes.dtype, q.codes.shape) == (np.dtype(np.uint8), (1, 24))
    assert q.codes.tobytes().hex() == wanted
    np.testing.assert_array_equal(restored(q)[0, 16:21], [3, -1, 0.5, -0.0, 1.5])


def test_ties_go_to_the_even_code():
    """With the scale 448: the borders are 0.25, 0.75, 1.25, 1.75, 2.5, 3.5 and 5 times 448."""
    borders = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5], np.float32) * 448
    at = unpacked(quantise_nvfp4(row(*borders)).codes)[0]
    assert at[:8].tolist() == [7, 0, 2, 2, 4, 4, 6, 6]
    below, above = np.nextafter(borders, np.float32(0)), np.nextafter(borders, np.float32(9999))
    assert unpacked(quantise_nvfp4(row(*below)).codes)[0, 1:8].tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert unpacked(quantise_nvfp4(row(*above)).codes)[0, 1:8].tolist() == [1, 2, 3, 4, 5, 6, 7]
    negative = unpacked(quantise_nvfp4(row(*-borders)).codes)[0, 1:8]
    assert negative.tolist() == [8, 10, 10, 12, 12, 14, 14]


@pytest.mark.parametrize(
    ("largest", "code"),
    [
        (6 * 1.0625, 0x38),  # a tie between 1 and 1.125 goes to the even mantissa
        (6 * 1.1875, 0x3A),  # a tie between 1.125 and 1.25
        (6 * 1.07, 0x39),
        (6 * 2.0**-6, 0x08),  # the smallest normal
        (6 * 1.5 * 2.0**-9, 0x02),  # a tie between two subnormals
        (6 * 2.0**-11, 0x01),  # below the smallest: not 0, which would lose the group
    ],
)
def test_scales_are_rounded_to_e4m3(largest, code):
    w = np.zeros((1, 32), np.float32)
    w[0, 0], w[0, 16] = 2688, largest
    q = quantise_nvfp4(w)
    assert q.scale.view(np.uint8).tolist() == [[0x7E, code]]


@pytest.mark.parametrize(
    ("largest", "exponent"),
    [
        (2688, 0),
        (np.nextafter(np.float32(2688), np.float32(0)), 0),
        (np.nextafter(np.float32(2688), np.float32(9999)), 1),
        (1344, -1),
        (1.0, -11),
        (2.0**-20, -31),
        (3e38, 117),
        (1e-40, -110),  # kept where every product is a normal number
    ],
)
def test_the_tensor_scale_is_the_next_power_of_two(largest, exponent):
    w = np.zeros((1, 16), np.float32)
    w[0, 3] = -largest
    assert float(quantise_nvfp4(w).scale_2) == 2.0**exponent


def test_zeros():
    q = quantise_nvfp4(np.zeros((2, 32), np.float32))
    assert float(q.scale_2) == 1
    assert q.scale.astype(np.float32).tolist() == [[1, 1], [1, 1]]
    assert not q.codes.any()


@pytest.mark.parametrize(
    "w", [np.zeros(16), np.zeros((2, 24)), np.zeros((0, 16)), np.full((1, 16), np.nan)]
)
def test_matrices_that_have_no_such_form(w):
    with pytest.raises(ValueError):
        quantise_nvfp4(w.astype(np.float32))


MATRICES = array_shapes(min_dims=2, max_dims=2, max_side=4).flatmap(
    lambda shape: arrays(
        np.float32,
        (shape[0], 16 * shape[1]),
        elements=st.floats(-1e6, 1e6, width=32) | st.sampled_from([0.0, -0.0, 0.75, 2.5, 1e-20]),
    )
)


@given(MATRICES)
def test_restored_values_are_near_and_exact_in_bfloat16(w):
    q = quantise_nvfp4(w)
    out = restored(q)
    assert same_bits(out.astype(ml_dtypes.bfloat16).astype(np.float32), out)
    assert same_bits(np.signbit(out), np.signbit(w))
    group = np.abs(w).reshape(w.shape[0], -1, 16)
    # Half of the widest step (4 to 6), the scale's rounding, and groups below the smallest scale.
    limit = group.max(-1) * (1 / 6 + 1 / 15) + float(q.scale_2) * 2.0**-9
    error = np.abs(out - w).reshape(group.shape)
    assert (error <= limit[..., None]).all()


@pytest.mark.parametrize("seed", range(20))
def test_quantising_restored_values_gives_the_same_bytes(seed):
    rng = np.random.default_rng(seed)
    w = rng.standard_normal((24, 64)) * np.exp2(rng.integers(-4, 4, (24, 1)))
    w *= 2688 * 2.0 ** rng.integers(-40, 20) * rng.uniform(0.52, 1) / np.abs(w).max()
    q = quantise_nvfp4(w.astype(np.float32))
    again = quantise_nvfp4(restored(q))
    assert same_bits(again.codes, q.codes)
    assert same_bits(again.scale, q.scale)
    assert same_bits(again.scale_2, q.scale_2)


def test_a_largest_scale_that_rounds_down_halves_the_tensor_scale_but_no_value():
    """2688 * 0.51 / 6 = 228.5 rounds to 224 = 448 / 2: the restored matrix fits a smaller one."""
    w = np.linspace(-1, 1, 64, dtype=np.float32).reshape(2, 32) * np.float32(2688 * 0.51)
    q = quantise_nvfp4(w)
    again = quantise_nvfp4(restored(q))
    assert (float(q.scale_2), float(again.scale_2)) == (1.0, 0.5)
    assert same_bits(restored(again), restored(q))


def test_many_rows_are_restored_in_parts():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (5, 1 << 20), np.uint8)
    scale = rng.integers(0, 0x7E, (5, 1 << 17), np.uint8).view(E4M3)
    whole = dequantise_nvfp4(codes, scale, 1.0)
    for at in range(5):
        one = slice(at, at + 1)
        assert same_bits(dequantise_nvfp4(codes[one], scale[one], 1.0), whole[one])
    low = dequantise_nvfp4(codes, scale, 1.0, dtype=ml_dtypes.bfloat16)
    assert same_bits(low, whole.astype(ml_dtypes.bfloat16))


# Modules


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    directory = tmp_path_factory.mktemp("nvfp4") / "ck"
    return open_checkpoint(
        write_checkpoint(directory, tiny_dense_config(), seed=3, mtp=True, nvfp4=True)
    )


def edited(opened, directory, **changes):
    """A copy whose up_proj of layer 0 has other parts: weight, weight_scale=None to remove it."""
    tensors = {info.name_in_file: opened.read(name) for name, info in opened.tensors.items()}
    for part, value in changes.items():
        name = f"model.layers.0.mlp.up_proj.{part}"
        tensors = {key: held for key, held in tensors.items() if key != name}
        if value is not None:
            tensors[name] = value
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps(opened.config))
    save_tensors(tensors, directory / "model.safetensors")
    return open_checkpoint(directory)


def test_matrices_and_nothing_else_are_modules(opened):
    modules = nvfp4_modules(opened)
    # Six in each linear layer, seven in attention layers and in the MTP layer; fc and the head.
    assert len(modules) == 3 * 6 + 7 + 7 + 2
    assert modules[UP_PROJ].shape == (128, 64)
    assert not any("in_proj_a" in name or "embed" in name for name in modules)
    values = tensor_values(opened.config, seed=3, mtp=True)
    q = quantise_nvfp4(values[UP_PROJ])
    for part, wanted in zip(modules[UP_PROJ].parts, (q.codes, q.scale, q.scale_2), strict=True):
        assert same_bits(opened.read(part), wanted)


def test_the_plain_twin_holds_the_same_numbers(opened, tmp_path):
    twin = open_checkpoint(write_dequantised(opened.path, tmp_path / "twin"))
    assert "quantization_config" not in twin.config
    assert nvfp4_modules(twin) == {}
    modules = nvfp4_modules(opened)
    assert len(twin.tensors) == len(opened.tensors) - 2 * len(modules)
    for name in twin.tensors:
        if name not in modules:
            assert same_bits(twin.read(name), opened.read(name))
            continue
        assert twin.tensors[name].code == "BF16"
        values = dequantise_nvfp4(*map(opened.read, modules[name].parts))
        assert same_bits(twin.read(name).astype(np.float32), values)


def test_an_activation_scale_belongs_to_the_module(opened, tmp_path):
    scale = np.array(0.5, np.float32)
    module = nvfp4_modules(edited(opened, tmp_path / "ck", input_scale=scale))[UP_PROJ]
    assert module.input_scale == "layers.0.mlp.up_proj.input_scale"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"weight_scale": None}, ["up_proj.weight'", "weight_scale is not there"]),
        ({"weight_scale_2": None}, ["up_proj.weight'", "weight_scale_2 is not there"]),
        ({"weight_scale": None, "weight_scale_2": None}, ["up_proj.weight'", "are not there"]),
        ({"weight": None}, ["up_proj.weight_scale", "up_proj.weight is not there"]),
        ({"weight": np.ones((128, 64), np.float32)}, ["up_proj.weight_scale", "weight is F32"]),
        ({"weight_scale": np.ones((128, 2), E4M3)}, ["_scale'", "[128, 2] instead of [128, 4]"]),
        ({"weight_scale": np.ones((128, 4), np.uint8)}, ["_scale'", "is U8 instead of F8_E4M3"]),
        ({"weight_scale_2": np.ones(128, np.float32)}, ["weight_scale_2'", "F32 [128]"]),
        ({"weight": np.ones((128, 28), np.uint8)}, ["weight'", "[128, 28]", "multiple of 16"]),
        ({"weight_packed": np.ones((128, 32), np.uint8)}, ["weight_packed'", "later version"]),
        ({"weight": np.ones((128, 64), E4M3)}, ["up_proj.weight'", "FP8", "later version"]),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_parts_that_do_not_fit_are_refused_by_name(opened, tmp_path, changes, words):
    damaged = edited(opened, tmp_path / "ck", **changes)
    with pytest.raises(errors.ModuleFormatError) as caught:
        nvfp4_modules(damaged)
    assert caught.value.hint
    for word in words:
        assert word in str(caught.value)


def test_swizzled_scales_are_refused(opened, tmp_path):
    changes = {"weight": np.ones((100, 24), np.uint8), "weight_scale": np.ones((128, 4), E4M3)}
    damaged = edited(opened, tmp_path / "ck", **changes)
    with pytest.raises(errors.ModuleFormatError, match="swizzled.*expected .100, 3.") as caught:
        nvfp4_modules(damaged)
    assert caught.value.tensor == "model.layers.0.mlp.up_proj.weight_scale"
