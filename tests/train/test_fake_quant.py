"""Rounding in the training forward is what the stored checkpoint holds, bit for bit."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from checkpoints.nvfp4 import dequantise_nvfp4, nvfp4_tensors, quantise_nvfp4
from tools.train.export import named_tensors, params_from_tensors, stored_tensors
from tools.train.fake_quant import QUANTISED, _round_e4m3, fake_quant, fake_quant_params
from tools.train.model import init_params
from tools.train.shapes import ModelShape

# The bits must be equal where the training runs, too.
pytestmark = pytest.mark.usefixtures("platform")

SHAPE = ModelShape(d_model=32, n_layers=4, d_ffn=64, key_heads=1, value_heads=3, d_delta=32,
                   query_heads=2, kv_heads=1, d_head=32, vocabulary=48)
COMPILED = {True: jax.jit(fake_quant), False: fake_quant}
# Zeros, ties of codes and scales, numbers near the ends of float32 and of the format.
VALUES = st.floats(width=32, allow_nan=False, allow_infinity=False) | st.sampled_from(
    [0.0, -0.0, 0.25, 0.75, 1.25, 2.5, 3.5, 5.0, 6.375, -448.0, 2688.0, 1e-38, 1e-45, 3e38])


@pytest.fixture(scope="module")
def params():
    """A training tree of random float32 arrays."""
    rng = np.random.default_rng(0)
    shapes = jax.eval_shape(lambda: init_params(jax.random.key(0), SHAPE))
    return jax.tree.map(lambda leaf: rng.standard_normal(leaf.shape).astype(np.float32), shapes)


@pytest.fixture(scope="module")
def rounded(params):
    """rounded(amount): the tree at 0 or 1, compiled once."""
    compiled = jax.jit(fake_quant_params)
    return {amount: jax.tree.map(np.asarray, compiled(params, jnp.float32(amount)))
            for amount in (0, 1)}


def stored(w):
    q = quantise_nvfp4(w)
    return dequantise_nvfp4(q.codes, q.scale, q.scale_2)


def assert_same_bits(a, b):
    a, b = np.asarray(a), np.asarray(b)
    assert a.dtype == b.dtype == np.float32
    np.testing.assert_array_equal(a.view(np.int32), b.view(np.int32))


@given(arrays(np.float32, (3, 32), elements=VALUES))
def test_any_numbers(w):
    assert_same_bits(COMPILED[True](w.T).T, stored(w))


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_matrices_of_many_sizes_of_numbers(compiled, seed):
    rng = np.random.default_rng(seed)
    w = rng.standard_normal((16, 64)) * np.exp2(rng.integers(-12, 12, (16, 64)))
    w = np.round(w * 4) / 4 if seed % 2 else w  # many ties
    w[:, 16:32] = 0
    w = (w * 2.0 ** rng.integers(-90, 90)).astype(np.float32)
    assert_same_bits(COMPILED[compiled](jnp.asarray(w.T)).T, stored(w))


def test_each_matrix_of_a_stack_has_its_own_scale():
    w = np.random.default_rng(0).standard_normal((2, 3, 8, 32)).astype(np.float32)
    w *= np.exp2(np.arange(6, dtype=np.float32)).reshape(2, 3, 1, 1)
    out = np.asarray(COMPILED[True](jnp.asarray(w.swapaxes(-1, -2)))).swapaxes(-1, -2)
    for at in np.ndindex(2, 3):
        assert_same_bits(out[at], stored(w[at]))


def test_e4m3_rounding_is_that_of_ml_dtypes():
    every = np.arange(1, 0x7F, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    ties = (every[1:] + every[:-1]) / 2
    x = np.concatenate([every, ties, np.nextafter(ties, np.float32(0)),
                        np.nextafter(ties, np.float32(999))])
    assert_same_bits(jax.jit(_round_e4m3)(x), x.astype(ml_dtypes.float8_e4m3fn).astype(np.float32))


def test_the_gradient_passes_straight_through():
    w, factor = np.random.default_rng(1).standard_normal((2, 2, 32, 8)).astype(np.float32)
    params = {"embed": w[0].T, "layer": {"q": w, "norm": w[0, 0]}}

    def loss(params):
        out = fake_quant_params(params, jnp.float32(1))
        return jnp.sum(out["head"]) + jnp.sum(out["layer"]["q"] * factor)

    gradient = jax.jit(jax.grad(loss))(params)
    assert_same_bits(gradient["embed"], np.ones((8, 32), np.float32))
    assert_same_bits(gradient["layer"]["q"], factor)
    assert_same_bits(gradient["layer"]["norm"], np.zeros(8, np.float32))


def test_amount_switches_between_the_values_and_the_stored_values(params, rounded):
    off, on = dict(rounded[0]), dict(rounded[1])
    assert_same_bits(off.pop("head"), params["embed"])
    jax.tree.map(assert_same_bits, off, params)
    assert_same_bits(on.pop("head"), stored(params["embed"]))
    for path, value in jax.tree_util.tree_leaves_with_path(on):
        old = params
        for key in path:
            old = old[key.key]
        changed = not np.array_equal(value, old)
        assert changed == (path[-1].key in QUANTISED), path


def test_the_export_reads_back_as_the_rounded_parameters(params, rounded):
    tensors = stored_tensors(params, SHAPE, nvfp4=True)
    assert tensors["lm_head.weight"].dtype == tensors["mtp.fc.weight"].dtype == np.uint8
    assert tensors["model.embed_tokens.weight"].dtype == ml_dtypes.bfloat16

    def read(name):
        value = tensors[name]
        if value.dtype == np.uint8:
            return dequantise_nvfp4(value, tensors[name + "_scale"], tensors[name + "_scale_2"])
        return value.astype(np.float32)

    rebuilt = params_from_tensors(read, SHAPE, tied=False)
    for path, value in jax.tree_util.tree_leaves_with_path(rounded[1]):
        found = rebuilt
        for key in path:
            found = found[key.key]
        if path[-1].key not in {*QUANTISED, "head"}:
            value = value.astype(ml_dtypes.bfloat16).astype(np.float32)
        assert_same_bits(found, value)


def test_rounded_parameters_export_to_the_same_numbers(rounded):
    for name, value in named_tensors(rounded[1], SHAPE).items():
        if name.endswith("_proj.weight") or name == "lm_head.weight":
            assert_same_bits(dequantise_nvfp4(*nvfp4_tensors(name, value).values()), value)
