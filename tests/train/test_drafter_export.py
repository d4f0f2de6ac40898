"""Drafters in the public DFlash2 layout: names, shapes, and the way back."""

import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from checkpoints import open_checkpoint
from tools.train.drafter_export import drafter_tensors, export_drafter, read_drafter
from tools.train.drafter_loop import fake_quant_body
from tools.train.drafter_model import init_drafter
from tools.train.drafter_shapes import DRAFTERS, DrafterShape

SHAPE = DrafterShape(d_model=32, n_layers=2, d_ffn=48, heads=4, kv_heads=2, d_head=16, block=4,
                     taps=(0, 2), target_layers=4, window=7, rank=4, top_k=4, mask_id=63,
                     vocabulary=64)


@pytest.fixture(scope="module")
def params():
    tree = init_drafter(jax.random.key(0), SHAPE)
    leaves, kind = jax.tree.flatten(tree)
    keys = jax.random.split(jax.random.key(1), len(leaves))
    return jax.tree.unflatten(kind, [leaf + 0.1 * jax.random.normal(key, leaf.shape)
                                     for leaf, key in zip(leaves, keys, strict=True)])


def test_five_layers_make_the_public_inventory():
    shape = replace(DRAFTERS["mini-b8"], n_layers=5)
    tree = jax.tree.map(lambda leaf: np.zeros(leaf.shape, np.float32),
                        jax.eval_shape(lambda: init_drafter(jax.random.key(0), shape)))
    tensors = drafter_tensors(tree, shape)
    assert len(tensors) == 81
    shapes = {"fc.weight": (384, 1920), "hidden_norm.weight": (384,), "norm.weight": (384,),
              "candidate_selector.hidden_projection.weight": (32, 384),
              "candidate_selector.predecessor_codebook": (8192, 32),
              "candidate_selector.successor_codebook": (8192, 32),
              "layers.4.input_layernorm.weight": (384,),
              "layers.4.post_attention_layernorm.weight": (384,),
              "layers.0.self_attn.q_proj.weight": (384, 384),
              "layers.0.self_attn.k_proj.weight": (128, 384),
              "layers.0.self_attn.v_proj.weight": (128, 384),
              "layers.0.self_attn.o_proj.weight": (384, 384),
              "layers.3.self_attn.q_norm.weight": (64,), "layers.3.self_attn.k_norm.weight": (64,),
              "layers.1.mlp.gate_proj.weight": (768, 384),
              "layers.1.mlp.up_proj.weight": (768, 384),
              "layers.1.mlp.down_proj.weight": (384, 768),
              "layers.2.attention_conv.base_kernel": (2, 2, 384),
              "layers.2.attention_conv.kernel_projection.weight": (96, 384),
              "layers.2.mlp_conv.base_kernel": (2, 2, 384),
              "layers.2.mlp_conv.kernel_projection.weight": (96, 384)}
    assert {name: tensors[name].shape for name in shapes} == shapes


@pytest.mark.parametrize("nvfp4", [False, True])
def test_export_reads_back_equal(params, tmp_path, nvfp4):
    export_drafter(params, SHAPE, tmp_path, nvfp4=nvfp4, temperature=1.25)
    back, shape, config = read_drafter(tmp_path)
    assert shape == SHAPE
    rounded = jax.tree.map(lambda x: np.asarray(x).astype(ml_dtypes.bfloat16).astype(np.float32),
                           params)
    stored = jax.tree.map(np.asarray, fake_quant_body(params, jnp.float32(1)))
    wanted = dict(rounded)
    if nvfp4:
        packed = ("q", "k", "v", "o", "gate", "up", "down")
        wanted |= {"fc": stored["fc"],
                   "layers": rounded["layers"] | {key: stored["layers"][key] for key in packed}}
    jax.tree.map(np.testing.assert_array_equal, back, wanted)
    assert len(open_checkpoint(tmp_path).tensors) == 6 + 2 * 15 + nvfp4 * 2 * (1 + 2 * 7)
    assert config == json.loads((tmp_path / "config.json").read_text())
    assert config["architectures"] == ["DFlash2DraftModel"]
    assert config["dflash_config"] == {
        "block_size": 4, "conv_kernel_size": 2, "conv_group_size": 16, "mask_token_id": 63,
        "selector_rank": 4, "selector_top_k": 4, "target_layer_ids": [0, 2], "tap": "entry",
        "lattice_temperature": 1.25}
    assert ("quantization_config" in config) == nvfp4
