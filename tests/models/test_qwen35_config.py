"""The config reader of the Qwen3.5 family: the real 27B's values and tensors."""

import copy
from collections import Counter

import pytest

from checkpoints.layouts import dense_shapes, is_tied
from checkpoints.synthetic import tiny_dense_config, tiny_vl_config
from tandem_jax.models.config import FULL, LINEAR
from tandem_jax.models.qwen35 import QWEN35
from tests.models.real_config import CONFIG_27B, TEXT_27B, edited

TIED = [  # tie_word_embeddings at the root, in text_config, and what they mean together
    (False, False, False),
    (True, True, True),
    (True, False, True),
    (False, True, False),
    (True, ..., True),
    (..., True, True),
    (..., ..., False),
]


def tensors(config):
    """Canonical name -> shape of every tensor the family asks for; no name may come twice."""
    read = QWEN35.read_config(config)
    named = [(name, leaf.shape) for leaf in QWEN35.leaves(read) for name in leaf.names]
    assert len(dict(named)) == len(named)
    return dict(named)


def test_the_real_27b_config():
    config = QWEN35.read_config(CONFIG_27B)
    assert config.family == "Qwen3_5ForConditionalGeneration"
    assert (config.vocab, config.width, config.hidden) == (248320, 5120, 17408)
    assert config.kinds == (LINEAR, LINEAR, LINEAR, FULL) * 16
    assert (config.period, config.n_delta, config.n_attention) == (4, 48, 16)
    assert (config.eps, config.max_position) == (1e-6, 262144)
    assert (config.tied, config.mtp) == (False, True)
    a, d = config.attention, config.delta
    assert (a.heads, a.kv_heads, a.width, a.rotary, a.theta) == (24, 4, 256, 64, 1e7)
    assert (d.key_heads, d.value_heads, d.key_dim, d.value_dim, d.taps) == (16, 48, 128, 128, 4)
    assert d.channels == 10240


def test_reading_does_not_change_the_config():
    before = copy.deepcopy(CONFIG_27B)
    QWEN35.read_config(CONFIG_27B)
    assert before == CONFIG_27B


def test_the_tensors_of_the_27b():
    named = tensors(CONFIG_27B)
    head = {name: shape for name, shape in named.items() if name.startswith("mtp.")}
    assert (len(named) - len(head), len(head)) == (851, 15)
    assert named == dense_shapes(CONFIG_27B, mtp=True)
    assert named["embed_tokens.weight"] == named["lm_head.weight"] == (248320, 5120)
    assert named["layers.0.linear_attn.in_proj_qkv.weight"] == (10240, 5120)
    assert named["layers.0.linear_attn.in_proj_z.weight"] == (6144, 5120)
    assert named["layers.0.linear_attn.in_proj_a.weight"] == (48, 5120)
    assert named["layers.0.linear_attn.conv1d.weight"] == (10240, 1, 4)
    assert named["layers.0.linear_attn.A_log"] == (48,)
    assert named["layers.0.linear_attn.norm.weight"] == (128,)
    assert named["layers.0.linear_attn.out_proj.weight"] == (5120, 6144)
    assert named["layers.3.self_attn.q_proj.weight"] == (12288, 5120)
    assert named["layers.3.self_attn.k_proj.weight"] == (1024, 5120)
    assert named["layers.3.self_attn.o_proj.weight"] == (5120, 6144)
    assert named["layers.63.self_attn.k_norm.weight"] == (256,)
    assert named["layers.63.mlp.down_proj.weight"] == (5120, 17408)
    assert named["mtp.fc.weight"] == (5120, 10240)
    assert named["mtp.layers.0.self_attn.q_proj.weight"] == (12288, 5120)
    assert round(sum(_size(shape) for shape in named.values()) / 1e9, 1) == 27.3


def _size(shape):
    total = 1
    for n in shape:
        total *= n
    return total


@pytest.mark.parametrize(
    "config",
    [
        edited(mtp_num_hidden_layers=0),
        tiny_dense_config(),
        tiny_dense_config(tie_word_embeddings=True),
        tiny_dense_config(mtp_num_hidden_layers=1),
        tiny_dense_config(num_hidden_layers=3, layer_types=[FULL, FULL, LINEAR]),
        tiny_vl_config(hidden_size=96, num_attention_heads=6, linear_value_head_dim=24),
        tiny_vl_config(tie_word_embeddings=True),
    ],
    ids=["27b", "tiny", "tied", "mtp", "odd layers", "odd widths", "vl tied"],
)
def test_the_family_asks_for_the_layout_of_the_checkpoints_room(config):
    mtp = (config.get("text_config") or config).get("mtp_num_hidden_layers", 0) > 0
    assert tensors(config) == dense_shapes(config, mtp=mtp)


def test_a_stack_holds_each_layer_of_its_kind_in_order():
    leaves = {leaf.field: leaf for leaf in QWEN35.leaves(QWEN35.read_config(tiny_dense_config()))}
    qkv = leaves["delta.qkv"]
    assert qkv.names == tuple(f"layers.{i}.linear_attn.in_proj_qkv.weight" for i in range(3))
    assert leaves["attention.q"].names == ("layers.3.self_attn.q_proj.weight",)
    assert len(leaves["mlp.up"].names) == 4
    assert leaves["delta.conv"].stored_shape == (160, 4)
    kept = Counter(leaf.float32 for leaf in leaves.values())
    assert kept[True] == 2
    assert leaves["delta.a_log"].float32
    assert leaves["delta.dt_bias"].float32


def test_the_text_export_reads_as_the_nested_form():
    flat = {**TEXT_27B, "architectures": ["Qwen3_5ForCausalLM"]}
    nested, text = QWEN35.read_config(CONFIG_27B), QWEN35.read_config(flat)
    assert text.family == "Qwen3_5ForCausalLM"
    assert (text.kinds, text.attention, text.delta) == (
        nested.kinds,
        nested.attention,
        nested.delta,
    )


@pytest.mark.parametrize("flat", [("rope_theta",), tuple(TEXT_27B["rope_parameters"])])
def test_rope_keys_may_be_flat(flat):
    rope = dict(TEXT_27B["rope_parameters"], rope_theta=5e5, partial_rotary_factor=0.5)
    rope["mrope_section"] = [22, 22, 20]
    moved = {key: rope.pop(key) for key in flat}
    config = QWEN35.read_config(edited(rope_parameters=rope if rope else ..., **moved))
    assert (config.attention.rotary, config.attention.theta) == (128, 5e5)


def test_layer_types_absent():
    assert QWEN35.read_config(edited(layer_types=...)).kinds == (LINEAR, LINEAR, LINEAR, FULL) * 16
    halves = QWEN35.read_config(edited(layer_types=..., full_attention_interval=2))
    assert halves.kinds == (LINEAR, FULL) * 32
    default = QWEN35.read_config(edited(layer_types=..., full_attention_interval=...))
    assert default.kinds[3::4] == (FULL,) * 16
    # layer_types is authoritative.
    assert QWEN35.read_config(edited(full_attention_interval=8)).period == 4


@pytest.mark.parametrize(("root", "text", "tied"), TIED)
def test_the_root_decides_whether_the_head_is_tied(root, text, tied):
    """As in transformers, where the text part's key has no say beside the root's."""
    config = edited(tie_word_embeddings=text)
    if root is ...:
        del config["tie_word_embeddings"]
    else:
        config["tie_word_embeddings"] = root
    assert QWEN35.read_config(config).tied == is_tied(config) == tied
