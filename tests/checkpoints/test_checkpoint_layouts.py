"""The dense layout against the published tensor list of the 27B and its configs' corner cases."""

import math

import pytest

from checkpoints import errors
from checkpoints.layouts import dense_optional, dense_shapes, is_tied, layer_types
from checkpoints.synthetic import tiny_dense_config, tiny_vl_config

# Geometry of the 27B release.
LARGE = tiny_dense_config(
    vocab_size=248320,
    hidden_size=5120,
    intermediate_size=17408,
    num_hidden_layers=64,
    num_attention_heads=24,
    num_key_value_heads=4,
    head_dim=256,
    linear_num_key_heads=16,
    linear_num_value_heads=48,
    linear_key_head_dim=128,
    linear_value_head_dim=128,
)


def test_the_27b_has_its_published_tensors():
    shapes = dense_shapes(LARGE)
    assert len(shapes) == 851
    listed = {
        "embed_tokens.weight": (248320, 5120),
        "lm_head.weight": (248320, 5120),
        "norm.weight": (5120,),
        "layers.0.input_layernorm.weight": (5120,),
        "layers.63.post_attention_layernorm.weight": (5120,),
        "layers.5.mlp.gate_proj.weight": (17408, 5120),
        "layers.5.mlp.up_proj.weight": (17408, 5120),
        "layers.5.mlp.down_proj.weight": (5120, 17408),
        "layers.0.linear_attn.in_proj_qkv.weight": (10240, 5120),
        "layers.0.linear_attn.in_proj_z.weight": (6144, 5120),
        "layers.0.linear_attn.in_proj_a.weight": (48, 5120),
        "layers.0.linear_attn.in_proj_b.weight": (48, 5120),
        "layers.0.linear_attn.conv1d.weight": (10240, 1, 4),
        "layers.0.linear_attn.A_log": (48,),
        "layers.0.linear_attn.dt_bias": (48,),
        "layers.0.linear_attn.norm.weight": (128,),
        "layers.0.linear_attn.out_proj.weight": (5120, 6144),
        "layers.3.self_attn.q_proj.weight": (12288, 5120),
        "layers.3.self_attn.k_proj.weight": (1024, 5120),
        "layers.3.self_attn.v_proj.weight": (1024, 5120),
        "layers.3.self_attn.o_proj.weight": (5120, 6144),
        "layers.3.self_attn.q_norm.weight": (256,),
        "layers.3.self_attn.k_norm.weight": (256,),
    }
    assert {name: shapes[name] for name in listed} == listed
    assert 26.8e9 < sum(map(math.prod, shapes.values())) < 27.0e9


def test_the_mtp_head_has_fifteen_tensors():
    head = {
        name: shape
        for name, shape in dense_shapes(LARGE, mtp=True).items()
        if name.startswith("mtp.")
    }
    assert len(head) == 15
    assert head["mtp.fc.weight"] == (5120, 10240)
    assert head["mtp.layers.0.self_attn.q_proj.weight"] == (12288, 5120)
    assert set(dense_shapes(LARGE, mtp=True)) == set(dense_shapes(LARGE)) | set(head)


def test_tied_head():
    tied = tiny_dense_config(tie_word_embeddings=True)
    assert set(dense_shapes(tiny_dense_config())) - set(dense_shapes(tied)) == {"lm_head.weight"}
    assert dense_optional(tied) == {"lm_head.weight": (256, 64)}
    assert dense_optional(tiny_dense_config()) == {}
    assert is_tied(tiny_vl_config(tie_word_embeddings=True))
    # The root decides where the two parts of a config disagree.
    assert not is_tied({"tie_word_embeddings": False, "text_config": tied})
    assert is_tied({"text_config": tied})


def test_nested_and_flat_configs_promise_the_same():
    assert dense_shapes(tiny_vl_config()) == dense_shapes(tiny_dense_config())


def test_layer_types_are_authoritative_and_the_interval_fills_in():
    assert [at for at, kind in enumerate(layer_types(LARGE)) if kind == "full_attention"] == list(
        range(3, 64, 4)
    )
    own = ["full_attention", "linear_attention"]
    config = tiny_dense_config(num_hidden_layers=2, layer_types=own, full_attention_interval=4)
    assert layer_types(config) == tuple(own)
    for interval, full in ((None, [3, 7]), (2, [1, 3, 5, 7]), (1, list(range(8)))):
        config = tiny_dense_config(num_hidden_layers=8, full_attention_interval=interval)
        del config["layer_types"]
        if interval is None:
            del config["full_attention_interval"]
        kinds = layer_types(config)
        assert [at for at, kind in enumerate(kinds) if kind == "full_attention"] == full


def test_a_config_that_gives_no_layout():
    with pytest.raises(errors.ConfigKeyError, match="hidden_size is absent"):
        dense_shapes({})
    for value in (0, -1, 1.5, "64", None, True):
        with pytest.raises(errors.ConfigKeyError, match="head_dim is"):
            dense_shapes(tiny_dense_config(head_dim=value))
    with pytest.raises(errors.ConfigKeyError, match="'sliding_attention'"):
        layer_types(tiny_dense_config(layer_types=["sliding_attention"] * 4))
    with pytest.raises(errors.ConfigKeyError, match="3 entries, num_hidden_layers is 4"):
        layer_types(tiny_dense_config(layer_types=["full_attention"] * 3))
