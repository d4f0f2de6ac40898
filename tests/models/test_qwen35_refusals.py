"""Configs that the Qwen3.5 family must refuse: unknown keys, wrong values, other families."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_jax.errors import ConfigError
from tandem_jax.loading import find_family
from tandem_jax.models import MODELS
from tandem_jax.models.config import FULL, LINEAR
from tandem_jax.models.qwen35 import IGNORED_ROOT, IGNORED_TEXT, QWEN35
from tests.models.real_config import CONFIG_27B, TEXT_27B, edited

ROPE = TEXT_27B["rope_parameters"]
KNOWN = {*CONFIG_27B, *TEXT_27B, *ROPE, *IGNORED_ROOT, *IGNORED_TEXT}
KNOWN |= {"rope_scaling", "quantization_config", "type"}
KEYS = st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True).filter(lambda key: key not in KNOWN)


def refused(config):
    """The message of the ConfigError that reading `config` raises."""
    with pytest.raises(ConfigError) as caught:
        find_family(config).read_config(config)
    return str(caught.value)


@given(key=KEYS, value=st.sampled_from([None, 0, True, "x", [], {}]), inside=st.booleans())
def test_an_unknown_key_fails_with_its_name(key, value, inside):
    config = copy.deepcopy(CONFIG_27B)
    (config["text_config"] if inside else config)[key] = value
    message = refused(config)
    assert key in message.replace(",", " ").split()
    assert ("text_config" if inside else "config.json") in message


@given(key=KEYS)
def test_an_unknown_rope_key_fails_with_its_name(key):
    rope = {**TEXT_27B["rope_parameters"], key: 1}
    assert key in refused(edited(rope_parameters=rope)).replace(")", " ").split()


def test_several_unknown_keys_are_named_at_once():
    message = refused(edited(hc_count=4, ple_layer_ids=[2], indexer_budget=16))
    for key in ("hc_count", "ple_layer_ids", "indexer_budget"):
        assert key in message


NUMBERS = [key for key, value in TEXT_27B.items() if type(value) is int and key not in IGNORED_TEXT]
REQUIRED = [key for key in NUMBERS if key != "mtp_num_hidden_layers"] + ["rms_norm_eps"]


@pytest.mark.parametrize("value", ["16", 1.5, True, None, [], {}], ids=repr)
@pytest.mark.parametrize("key", NUMBERS)
def test_a_number_of_a_wrong_type(key, value):
    message = refused(edited(**{key: value}))
    assert key in message
    assert repr(value) in message


@pytest.mark.parametrize("key", REQUIRED)
def test_a_missing_number(key):
    assert repr(key) in refused(edited(**{key: ...}))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("attention_bias", True),
        ("attn_output_gate", False),
        ("hidden_act", "gelu"),
        ("output_gate_type", "sigmoid"),
        ("tie_word_embeddings", "yes"),
        ("rms_norm_eps", "1e-6"),
        ("layer_types", "linear_attention"),
        ("rope_parameters", [1]),
    ],
)
def test_a_value_this_engine_does_not_implement(key, value):
    message = refused(edited(**{key: value}))
    assert key in message
    assert repr(value) in message


def test_heads_that_cannot_share():
    assert "24 attention heads" in refused(edited(num_key_value_heads=5))
    assert "48 linear value heads" in refused(edited(linear_num_key_heads=7))


@pytest.mark.parametrize(
    ("kinds", "told"),
    [
        ([LINEAR] * 64, "must hold both"),
        ([FULL] * 64, "must hold both"),
        ([LINEAR, FULL] * 31, "62 entries for 64 layers"),
        ([LINEAR, "sliding_attention"] * 32, "sliding_attention"),
        ([LINEAR, 1] * 32, "unknown kinds 1"),
    ],
)
def test_layer_types_that_make_no_hybrid(kinds, told):
    message = refused(edited(layer_types=kinds))
    assert "layer_types" in message
    assert told in message


@pytest.mark.parametrize("interval", [0, -4])
def test_an_interval_that_counts_nothing(interval):
    config = edited(layer_types=..., full_attention_interval=interval)
    assert "full_attention_interval" in refused(config)


def test_yarn_and_other_extensions_of_the_context():
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 262144}
    for config in (
        edited(rope_parameters={**ROPE, **yarn}),
        edited(rope_parameters=..., rope_scaling=yarn, rope_theta=1e7),
        edited(rope_parameters=..., rope_scaling={"type": "yarn", "factor": 4.0}),
        edited(rope_parameters={**ROPE, "rope_type": "linear"}),
    ):
        message = refused(config)
        assert "yarn" in message or "linear" in message
    assert "rope_scaling" in refused(edited(rope_scaling=yarn))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rope_theta", "1e7"),
        ("rope_theta", 0),
        ("rope_theta", -1.0),
        ("rope_theta", True),
        ("partial_rotary_factor", "0.25"),
        ("partial_rotary_factor", []),
        ("partial_rotary_factor", 2),
        ("partial_rotary_factor", 0.0),
        ("mrope_section", 32),
        ("mrope_section", ["a"]),
        ("mrope_section", [11, 11, 11]),
        ("rope_type", []),
    ],
)
def test_a_wrong_rope_value(key, value):
    message = refused(edited(rope_parameters={**ROPE, key: value}))
    assert key in message or key == "rope_type"


def test_a_missing_rope_base():
    """Families differ in their default, so none is assumed."""
    rope = {key: value for key, value in ROPE.items() if key != "rope_theta"}
    assert "rope_theta" in refused(edited(rope_parameters=rope))


@pytest.mark.parametrize("value", [0, -1e-6, True])
def test_an_epsilon_that_is_no_small_positive_number(value):
    assert "rms_norm_eps" in refused(edited(rms_norm_eps=value))


@pytest.mark.parametrize("key", [key for key in REQUIRED if key != "num_hidden_layers"])
@pytest.mark.parametrize("value", [0, -8])
def test_a_size_below_one(key, value):
    assert key in refused(edited(**{key: value}))


def test_quantised_checkpoints():
    method = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    for config in (
        {**CONFIG_27B, "quantization_config": method},
        edited(quantization_config=method),
    ):
        assert "quantization_config" in refused(config)


@pytest.mark.parametrize("value", [None, [], "x", 3], ids=repr)
def test_a_text_config_that_is_no_object(value):
    assert "text_config" in refused({**CONFIG_27B, "text_config": value})


@pytest.mark.parametrize(
    "value",
    [
        *(None, [], "Qwen3_5ForCausalLM", {}, [None], [["Qwen3_5ForCausalLM"]], [{}]),
        *(["LlamaForCausalLM"], ["Qwen3_5MoeForConditionalGeneration"], ["Qwen3NextForCausalLM"]),
    ],
    ids=repr,
)
def test_an_unknown_architecture_lists_the_known_ones(value):
    config = {**CONFIG_27B, "architectures": value}
    with pytest.raises(ConfigError, match="architecture") as caught:
        find_family(config)
    for name in MODELS:
        assert name in caught.value.hint


def test_a_config_without_architectures():
    config = {key: value for key, value in CONFIG_27B.items() if key != "architectures"}
    assert "architecture" in refused(config)


def test_both_architectures_are_of_one_family():
    assert {find_family({"architectures": [name]}) for name in MODELS} == {QWEN35}
