"""Which tensors a config promises: canonical name -> shape, [out, in] for every matrix.

The dense Qwen3.5 family: gated attention and gated DeltaNet layers, tied or untied head, MTP head.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from checkpoints.errors import ConfigKeyError

Shape = tuple[int, ...]
LINEAR = "linear_attention"
FULL = "full_attention"
HEAD = "lm_head.weight"
# The matrices that NVFP4 exports quantise; gates of a few rows, embedding, norms stay as they are.
_QUANTISED = tuple(
    f"{name}.weight"
    for name in (
        *("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
        *("in_proj_qkv", "in_proj_z", "out_proj", "mtp.fc", "lm_head"),
    )
)
UNQUANTISED = ("*embed_tokens*", "*norm*", "*conv1d*", "*in_proj_a*", "*in_proj_b*")  # as globs
_DEFAULT_FULL_INTERVAL = 4  # transformers' default: every fourth layer is attention


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The text part of a config.json: its `text_config`, or the config itself in a text export."""
    return config.get("text_config") or config


def is_tied(config: Mapping[str, Any]) -> bool:
    """True if the embedding is the head too; the root of config.json decides, then its text part.

    transformers' default for this family is False.
    """
    text = text_config(config)
    return bool(config.get("tie_word_embeddings", text.get("tie_word_embeddings", False)))


def is_quantised_matrix(name: str) -> bool:
    """True for the weights, by any of their names, that our NVFP4 exports quantise."""
    return name.endswith(_QUANTISED)


def layer_types(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The kind of each layer, "linear_attention" or "full_attention".

    `layer_types` is authoritative; `full_attention_interval` counts only where it is absent.
    Raises ConfigKeyError for another kind or a wrong number of them.
    """
    text = text_config(config)
    n_layers = _number(text, "num_hidden_layers")
    kinds = text.get("layer_types")
    if kinds is None:
        interval = text.get("full_attention_interval", _DEFAULT_FULL_INTERVAL)
        kinds = [LINEAR if (layer + 1) % interval else FULL for layer in range(n_layers)]
    for kind in kinds:
        if kind not in (LINEAR, FULL):
            raise ConfigKeyError(
                f"layer_types holds {kind!r}", hint=f"known kinds: {LINEAR}, {FULL}"
            )
    if len(kinds) != n_layers:
        raise ConfigKeyError(
            f"layer_types has {len(kinds)} entries, num_hidden_layers is {n_layers}",
            hint="download config.json again",
        )
    return tuple(kinds)


def dense_shapes(config: Mapping[str, Any], *, mtp: bool = False) -> dict[str, Shape]:
    """Canonical name -> shape of every tensor that a dense model must have.

    `mtp` adds the head of 15 tensors. Raises ConfigKeyError for an absent or non-positive number.
    """
    return dict(_dense(config, mtp))


def dense_optional(config: Mapping[str, Any]) -> dict[str, Shape]:
    """Tensors that a dense checkpoint may hold without need: the stored copy of a tied head."""
    if not is_tied(config):
        return {}
    text = text_config(config)
    return {HEAD: (_number(text, "vocab_size"), _number(text, "hidden_size"))}


def _dense(config: Mapping[str, Any], mtp: bool) -> Iterator[tuple[str, Shape]]:
    text = text_config(config)
    hidden = _number(text, "hidden_size")
    vocab = _number(text, "vocab_size")
    yield "embed_tokens.weight", (vocab, hidden)
    for layer, kind in enumerate(layer_types(config)):
        yield from _layer(text, f"layers.{layer}.", kind)
    yield "norm.weight", (hidden,)
    if not is_tied(config):
        yield HEAD, (vocab, hidden)
    if mtp:
        yield "mtp.fc.weight", (hidden, 2 * hidden)
        yield "mtp.pre_fc_norm_embedding.weight", (hidden,)
        yield "mtp.pre_fc_norm_hidden.weight", (hidden,)
        yield from _layer(text, "mtp.layers.0.", FULL)
        yield "mtp.norm.weight", (hidden,)


def _layer(text: Mapping[str, Any], at: str, kind: str) -> Iterator[tuple[str, Shape]]:
    hidden = _number(text, "hidden_size")
    inner = _number(text, "intermediate_size")
    yield at + "input_layernorm.weight", (hidden,)
    if kind == LINEAR:
        yield from _linear(text, at + "linear_attn.")
    else:
        yield from _full(text, at + "self_attn.")
    yield at + "post_attention_layernorm.weight", (hidden,)
    yield at + "mlp.gate_proj.weight", (inner, hidden)
    yield at + "mlp.up_proj.weight", (inner, hidden)
    yield at + "mlp.down_proj.weight", (hidden, inner)


def _linear(text: Mapping[str, Any], at: str) -> Iterator[tuple[str, Shape]]:
    hidden = _number(text, "hidden_size")
    v_heads = _number(text, "linear_num_value_heads")
    k_width = _number(text, "linear_num_key_heads") * _number(text, "linear_key_head_dim")
    v_head_dim = _number(text, "linear_value_head_dim")
    v_width = v_heads * v_head_dim
    channels = 2 * k_width + v_width  # rows: all q heads, all k heads, all v heads
    yield at + "in_proj_qkv.weight", (channels, hidden)
    yield at + "in_proj_z.weight", (v_width, hidden)
    yield at + "in_proj_a.weight", (v_heads, hidden)
    yield at + "in_proj_b.weight", (v_heads, hidden)
    yield at + "conv1d.weight", (channels, 1, _number(text, "linear_conv_kernel_dim"))
    yield at + "A_log", (v_heads,)
    yield at + "dt_bias", (v_heads,)
    yield at + "norm.weight", (v_head_dim,)
    yield at + "out_proj.weight", (hidden, v_width)


def _full(text: Mapping[str, Any], at: str) -> Iterator[tuple[str, Shape]]:
    hidden = _number(text, "hidden_size")
    head_dim = _number(text, "head_dim")
    q_width = _number(text, "num_attention_heads") * head_dim
    kv_width = _number(text, "num_key_value_heads") * head_dim
    # Per head: head_dim query rows, then head_dim gate rows.
    yield at + "q_proj.weight", (2 * q_width, hidden)
    yield at + "k_proj.weight", (kv_width, hidden)
    yield at + "v_proj.weight", (kv_width, hidden)
    yield at + "o_proj.weight", (hidden, q_width)
    yield at + "q_norm.weight", (head_dim,)
    yield at + "k_norm.weight", (head_dim,)


def _number(text: Mapping[str, Any], key: str) -> int:
    value = text.get(key)
    if type(value) is not int or value <= 0:
        found = "is absent" if key not in text else f"is {value!r}, not a positive whole number"
        raise ConfigKeyError(f"config.json: {key} {found}", hint="download config.json again")
    return value
