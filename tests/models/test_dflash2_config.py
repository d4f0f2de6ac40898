"""The configs of block drafters: what is read, from where, and what is refused by name."""

import copy
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoints.synthetic_drafter import drafter_shapes, tiny_drafter_config
from tandem_jax.errors import ConfigError
from tandem_jax.models.dflash2_config import IGNORED, default_tap_ids, read_draft_config
from tandem_jax.models.dflash2_weights import draft_leaves
from tandem_jax.models.qwen35 import QWEN35
from tests.models.drafter_pair import TARGET
from tests.models.real_config import CONFIG_27B

SMALL = QWEN35.read_config(TARGET)
LARGE = QWEN35.read_config(CONFIG_27B)
SLIDING, FULL = "sliding_attention", "full_attention"

# z-lab/Qwen3.8-27B-DFlash2, the keys of the public config.
DFLASH2_27B = {
    "architectures": ["DFlash2DraftModel"],
    "model_type": "qwen3",
    "hidden_size": 5120,
    "intermediate_size": 17408,
    "num_hidden_layers": 5,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 248320,
    "num_target_layers": 64,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_theta": 10000000, "rope_type": "default"},
    "layer_types": [SLIDING] * 5,
    "sliding_window": 2048,
    "is_causal": False,
    "tie_word_embeddings": False,
    "dflash_config": {
        "block_size": 8,
        "conv_kernel_size": 2,
        "conv_group_size": 16,
        "mask_token_id": 248070,
        "selector_rank": 256,
        "selector_top_k": 16,
        "target_layer_ids": [5, 19, 33, 47, 61],
    },
}
# Qwen3.6-27B-DFlash: block size and rope beside the rest, no convolutions, no selector.
DFLASH_27B = {
    **{key: value for key, value in DFLASH2_27B.items() if key not in ("is_causal",)},
    "architectures": ["DFlashDraftModel"],
    "block_size": 16,
    "rope_theta": 10000000,
    "rope_parameters": None,
    "layer_types": [*[SLIDING] * 4, FULL],
    "dflash_config": {"mask_token_id": 248070, "target_layer_ids": [1, 16, 31, 46, 61]},
}


def tiny(**overrides):
    """A small drafter's config for `SMALL`."""
    return tiny_drafter_config(TARGET, **overrides)


def inside(**block):
    """The same with other keys of `dflash_config`."""
    return tiny(dflash_config=block)


def refused(raw, target=SMALL, **options):
    """The error of reading `raw`."""
    with pytest.raises(ConfigError) as caught:
        read_draft_config(raw, target, **options)
    return caught.value


def test_the_published_dflash2_of_the_27b():
    config = read_draft_config(DFLASH2_27B, LARGE)
    assert (config.block, config.slots, config.mask_id, config.layers) == (8, 7, 248070, 5)
    assert (config.windows, config.causal) == ((2048,) * 5, (False,) * 5)
    assert (config.tap, config.taps) == ("output", (6, 20, 34, 48, 62))
    assert (config.rank, config.top_k, config.conv_group) == (256, 16, 16)
    assert (config.heads, config.kv_heads, config.head, config.theta) == (32, 8, 128, 1e7)
    assert (config.temperature, config.softcap) == (1.4, 0.0)
    assert (config.embed_scale, config.output_scale) == (1.0, 1.0)


def test_its_81_tensors():
    """Names, shapes and the published number of parameters, without any memory."""
    leaves = list(draft_leaves(read_draft_config(DFLASH2_27B, LARGE)))
    shapes = {name: leaf.shape for leaf in leaves for name in leaf.names}
    assert len(shapes) == 81
    assert sum(map(prod, shapes.values())) == 1_924_404_480
    selector = {name for name in shapes if name.startswith("candidate_selector.")}
    backbone = sum(prod(shape) for name, shape in shapes.items() if name not in selector)
    assert backbone == 1_795_953_920
    layer = [prod(shape) for name, shape in shapes.items() if name.startswith("layers.3.")]
    assert (len(layer), sum(layer)) == (15, 332_974_336)
    assert shapes["fc.weight"] == (5120, 25600)
    assert shapes["candidate_selector.hidden_projection.weight"] == (256, 5120)
    assert shapes["candidate_selector.predecessor_codebook"] == (248320, 256)
    assert shapes["layers.4.attention_conv.base_kernel"] == (2, 2, 5120)
    assert shapes["layers.0.mlp_conv.kernel_projection.weight"] == (1280, 5120)
    assert shapes["layers.2.self_attn.q_norm.weight"] == (128,)
    assert shapes == drafter_shapes(DFLASH2_27B)


def test_the_published_dflash_v1():
    config = read_draft_config(DFLASH_27B, LARGE)
    assert (config.block, config.theta, config.rank, config.conv_group) == (16, 1e7, 0, 0)
    assert config.windows == (2048, 2048, 2048, 2048, None)
    assert config.causal == (True, True, True, True, False)
    assert config.taps == (2, 17, 32, 47, 62)
    leaves = list(draft_leaves(config))
    assert len({name for leaf in leaves for name in leaf.names}) == 3 + 5 * 11


def test_default_taps():
    """round(1 + i (T - 4) / (L - 1)), the published ids of the 27B among them."""
    assert default_tap_ids(64, 5) == [1, 16, 31, 46, 61]
    assert default_tap_ids(12, 3) == [1, 5, 9]
    block = {"mask_token_id": 0}
    raw = {**DFLASH_27B, "dflash_config": block}
    assert read_draft_config(raw, LARGE).taps == (2, 17, 32, 47, 62)
    with pytest.raises(ConfigError, match="target_layer_ids"):
        default_tap_ids(64, 1)


@pytest.mark.parametrize("key", ["block_size", "mask_token_id", "target_layer_ids"])
def test_a_key_may_stand_at_either_place(key):
    raw = tiny()
    value = raw["dflash_config"][key]
    wanted = read_draft_config(raw, SMALL)
    both = {**raw, key: value}
    moved = copy.deepcopy(both)
    del moved["dflash_config"][key]
    assert read_draft_config(both, SMALL) == read_draft_config(moved, SMALL) == wanted
    other = [1] if isinstance(value, list) else value - 1
    message = str(refused({**raw, key: other}))
    assert key in message
    assert f"{other!r} in config.json" in message
    assert f"{value!r} in its dflash_config" in message


@pytest.mark.parametrize(("written", "asked", "taps"), [
    (..., None, (1, 3, 4)),
    ("output", None, (1, 3, 4)),
    ("entry", None, (0, 2, 3)),
    ("output", "entry", (0, 2, 3)),
    ("entry", "output", (1, 3, 4)),
])  # fmt: skip
def test_what_a_tap_means(written, asked, taps):
    raw = inside(target_layer_ids=[0, 2, 3], tap=written)
    assert read_draft_config(raw, SMALL, tap=asked).taps == taps


def test_a_wrong_tap_is_named():
    for error in (refused(inside(tap="input")), refused(tiny(), tap="input")):
        assert "tap = 'input'" in str(error)
        assert "'output'" in error.hint
        assert "'entry'" in error.hint


REFUSED = {
    "vocab_size": tiny(vocab_size=300),
    "hidden_size": tiny(hidden_size=128),
    "num_target_layers": tiny(num_target_layers=12),
    "target_layer_ids [0, 4]": inside(target_layer_ids=[0, 4]),
    "target_layer_ids [-1, 2]": inside(target_layer_ids=[-1, 2]),
    "target_layer_ids must be ascending": inside(target_layer_ids=[2, 0]),
    "not [1, 1]": inside(target_layer_ids=[1, 1]),
    "not []": inside(target_layer_ids=[]),
    "conv_kernel_size = 3": inside(conv_kernel_size=3),
    "conv_group_size 48": inside(conv_group_size=48),
    "mask_token_id 256": inside(mask_token_id=256),
    "mask_token_id -1": inside(mask_token_id=-1),
    "block_size must be at least 2": inside(block_size=1),
    "'block_size'": inside(block_size=...),
    "'mask_token_id'": inside(mask_token_id=...),
    "'selector_rank'": inside(selector_rank=...),
    "selector_top_k 257": inside(selector_top_k=257),
    "lattice_temperature": inside(lattice_temperature=0.0),
    "sample_from_anchor": inside(sample_from_anchor=True),
    "sliding_window": tiny(sliding_window=7),
    "at least block_size (8), not None": tiny(sliding_window=...),
    "3 entries for 2 layers": tiny(layer_types=[SLIDING] * 3),
    "unknown kinds linear_attention": tiny(layer_types=[SLIDING, "linear_attention"]),
    "'yarn'": tiny(rope_parameters={"rope_type": "yarn", "rope_theta": 1e7, "factor": 4.0}),
    "'linear'": tiny(rope_parameters=..., rope_theta=1e7, rope_scaling={"type": "linear"}),
    "'rope_theta'": tiny(rope_parameters={"rope_type": "default"}),
    "hidden_act = 'gelu'": tiny(hidden_act="gelu"),
    "attention_bias": tiny(attention_bias=True),
    "num_key_value_heads 3": tiny(num_key_value_heads=3),
    "head_dim 15": tiny(head_dim=15),
    "rms_norm_eps": tiny(rms_norm_eps=0),
    "is_causal": tiny(is_causal="no"),
}


@pytest.mark.parametrize("words", REFUSED)
def test_refusals_name_the_field(words):
    assert words in str(refused(REFUSED[words]))


@pytest.mark.parametrize("key", ["vocab_size", "hidden_size", "num_target_layers"])
def test_a_drafter_of_another_target_is_told_what_differs(key):
    error = refused(REFUSED[key])
    assert "the target's: " in str(error)
    assert "trained for this target" in error.hint


KEYS = st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True)
KEYS = KEYS.filter(lambda key: key not in {*DFLASH_27B, *DFLASH2_27B["dflash_config"], *IGNORED})


@given(key=KEYS, value=st.sampled_from([0, True, "x", [], {}]), within=st.booleans())
def test_an_unknown_key_fails_with_its_name(key, value, within):
    raw = tiny()
    (raw["dflash_config"] if within else raw)[key] = value
    message = str(refused(raw))
    assert key in message.replace(",", " ").split()
    assert ("dflash_config" if within else "config.json") in message
