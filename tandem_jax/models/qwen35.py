"""The dense Qwen3.5 / 3.6 / 3.8 family: config keys and tensor names.

3.5, 3.6 and 3.8 dense are one architecture. Facts: the family's public configs and tensor lists.
"""

from collections.abc import Iterator

from tandem_jax.errors import ConfigError
from tandem_jax.models.config import FULL, LINEAR, AttentionShape, DeltaShape, HybridConfig
from tandem_jax.models.family import Family, Leaf, StrictReader
from tandem_jax.quant.declared import KEY as QUANTISATION
from tandem_jax.quant.declared import declared_format

_NO_EFFECT = "does not change the forward of text"
IGNORED_ROOT = {
    "architectures": "read by the loader to find the family",
    "model_type": "the architecture decides",
    "vision_config": "the vision tower is not built; image input is refused",
    "language_model_only": _NO_EFFECT,
    "dtype": "the engine chooses its own dtype",
    "torch_dtype": "older name of dtype",
    "transformers_version": _NO_EFFECT,
    "text_config": "read separately",
    QUANTISATION: "checked by declared_format; the loader compares it with the tensors",
    **{
        f"{kind}_token_id": "vision markers, unused by text"
        for kind in ("image", "video", "vision_start", "vision_end")
    },
}
IGNORED_TEXT = {
    "model_type": "the architecture decides",
    "architectures": "read by the loader to find the family",
    "dtype": "the engine chooses its own dtype",
    "torch_dtype": "older name of dtype",
    "transformers_version": _NO_EFFECT,
    "mamba_ssm_dtype": "the recurrent state is always float32",
    "full_attention_interval": "layer_types is authoritative; used only when that is absent",
    "attention_dropout": "training only",
    "initializer_range": "training only",
    "mlp_only_layers": "empty in dense models",
    "use_cache": _NO_EFFECT,
    "bos_token_id": "the tokenizer side decides",
    "eos_token_id": "generation_config decides, the text side reads it",
    "pad_token_id": "rows are padded by count, not by id",
    "mtp_use_dedicated_embeddings": "checked by the tensor list",
    "router_aux_loss_coef": "mixture models only",
    "cache_implementation": _NO_EFFECT,
    QUANTISATION: "checked by declared_format; the loader compares it with the tensors",
}
_ROPE_KEYS = (
    "rope_type",
    "rope_theta",
    "partial_rotary_factor",
    "mrope_section",
    "mrope_interleaved",
)


def _read_rope(text: StrictReader, width: int) -> tuple[int, float]:
    """(rotated channels, base); keys may be nested or flat, re-saved configs flatten some."""
    nested = text.take("rope_parameters", dict, None) or text.take("rope_scaling", dict, None) or {}
    flat = {key: text.take(key, object, None) for key in _ROPE_KEYS}
    values = {key: value for key, value in flat.items() if value is not None} | nested
    rope = StrictReader(values, "rope_parameters")
    kind = values.get("rope_type", values.get("type", "default"))
    if kind != "default":
        raise ConfigError(
            f"rope_parameters of type {kind!r} are not supported",
            hint="only the default rotary embedding is read, without context extension",
        )
    factor = rope.positive("partial_rotary_factor") if "partial_rotary_factor" in values else 0.25
    rotary = int(width * factor)
    if rotary % 2 or not 0 < rotary <= width:
        raise ConfigError(f"partial_rotary_factor {factor!r} gives {rotary} rotated channels")
    section = rope.take("mrope_section", list, None)
    if section is not None and (
        any(type(part) is not int for part in section) or 2 * sum(section) != rotary
    ):
        raise ConfigError(f"mrope_section {section} does not sum to half of {rotary} channels")
    theta = rope.positive("rope_theta")
    rope.finish({"rope_type": "checked", "type": "older name", "mrope_interleaved": _NO_EFFECT})
    return rotary, theta


def _read_kinds(text: StrictReader, layers: int) -> tuple[str, ...]:
    kinds = text.take("layer_types", list, None)
    interval = text.size("full_attention_interval", 4)
    if kinds is None:
        kinds = [FULL if (i + 1) % interval == 0 else LINEAR for i in range(layers)]
    unknown = sorted({str(k) for k in kinds} - {LINEAR, FULL})
    if unknown or len(kinds) != layers:
        raise ConfigError(
            f"layer_types has {len(kinds)} entries for {layers} layers"
            + (f" and unknown kinds {', '.join(unknown)}" if unknown else "")
        )
    if len(set(kinds)) < 2:
        raise ConfigError("layer_types must hold both linear_attention and full_attention layers")
    return tuple(kinds)


def _read_text(raw: dict, family: str, tied_at_root: bool | None) -> HybridConfig:
    text = StrictReader(raw, "text_config")
    width = text.size("head_dim")
    rotary, theta = _read_rope(text, width)
    text.demand("hidden_act", ("silu",), "silu")
    text.demand("attention_bias", (False,), False)
    text.demand("attn_output_gate", (True,), True)
    text.demand("output_gate_type", ("swish", "silu"), "swish")
    delta = DeltaShape(
        key_heads=text.size("linear_num_key_heads"),
        value_heads=text.size("linear_num_value_heads"),
        key_dim=text.size("linear_key_head_dim"),
        value_dim=text.size("linear_value_head_dim"),
        taps=text.size("linear_conv_kernel_dim"),
    )
    attention = AttentionShape(
        heads=text.size("num_attention_heads"),
        kv_heads=text.size("num_key_value_heads"),
        width=width,
        rotary=rotary,
        theta=theta,
    )
    for name, many, few in (
        ("linear value", delta.value_heads, delta.key_heads),
        ("attention", attention.heads, attention.kv_heads),
    ):
        if few < 1 or many % few:
            raise ConfigError(f"{many} {name} heads are not a multiple of {few} key heads")
    own_tie = text.take("tie_word_embeddings", bool, False)
    config = HybridConfig(
        family=family,
        vocab=text.size("vocab_size"),
        width=text.size("hidden_size"),
        hidden=text.size("intermediate_size"),
        kinds=_read_kinds(text, text.size("num_hidden_layers")),
        eps=text.positive("rms_norm_eps"),
        attention=attention,
        delta=delta,
        tied=own_tie if tied_at_root is None else tied_at_root,
        mtp=text.take("mtp_num_hidden_layers", int, 0) > 0,
        max_position=text.size("max_position_embeddings"),
    )
    text.finish(IGNORED_TEXT)
    return config


def read_config(raw: dict) -> HybridConfig:
    """The shape of the model a config.json describes, nested (VL) or flat (text only).

    Raises ConfigError for an unknown key, a missing one, or a value this engine does not
    implement. Whether an MTP head is there is settled by the loader from the tensors.
    """
    family = raw["architectures"][0]
    inside = raw.get("text_config", {})
    if not isinstance(inside, dict):
        raise ConfigError(f"config.json: text_config must be an object, not {inside!r}")
    declared_format(raw)  # raises for a format that is not read
    if "text_config" not in raw:
        return _read_text(raw, family, tied_at_root=None)
    root = StrictReader(raw, "config.json")
    # As in transformers, the key beside text_config wins over the one inside.
    tied = root.take("tie_word_embeddings", bool, None)
    root.finish(IGNORED_ROOT)
    return _read_text(raw["text_config"], family, tied)


def _attention_leaves(c: HybridConfig, field: str, stems: list[str], stacked: bool):
    a, d = c.attention, c.width
    rows = {
        "norm": ("input_layernorm", (d,)),
        "q": ("self_attn.q_proj", (2 * a.heads * a.width, d)),
        "k": ("self_attn.k_proj", (a.kv_heads * a.width, d)),
        "v": ("self_attn.v_proj", (a.kv_heads * a.width, d)),
        "q_norm": ("self_attn.q_norm", (a.width,)),
        "k_norm": ("self_attn.k_norm", (a.width,)),
        "out": ("self_attn.o_proj", (d, a.heads * a.width)),
    }
    for name, (tensor, shape) in rows.items():
        names = tuple(f"{stem}.{tensor}.weight" for stem in stems)
        yield Leaf(f"{field}.{name}", names, shape, len(shape) == 2, stacked)


def _mlp_leaves(c: HybridConfig, field: str, stems: list[str], stacked: bool):
    rows = {
        "norm": ("post_attention_layernorm", (c.width,)),
        "gate": ("mlp.gate_proj", (c.hidden, c.width)),
        "up": ("mlp.up_proj", (c.hidden, c.width)),
        "down": ("mlp.down_proj", (c.width, c.hidden)),
    }
    for name, (tensor, shape) in rows.items():
        names = tuple(f"{stem}.{tensor}.weight" for stem in stems)
        yield Leaf(f"{field}.{name}", names, shape, len(shape) == 2, stacked)


def _delta_leaves(c: HybridConfig, stems: list[str]):
    s, d = c.delta, c.width
    values = s.value_heads * s.value_dim
    rows = {
        "norm": ("input_layernorm.weight", (d,)),
        "qkv": ("linear_attn.in_proj_qkv.weight", (s.channels, d)),
        "z": ("linear_attn.in_proj_z.weight", (values, d)),
        "a": ("linear_attn.in_proj_a.weight", (s.value_heads, d)),
        "b": ("linear_attn.in_proj_b.weight", (s.value_heads, d)),
        "conv": ("linear_attn.conv1d.weight", (s.channels, 1, s.taps)),
        "a_log": ("linear_attn.A_log", (s.value_heads,)),
        "dt_bias": ("linear_attn.dt_bias", (s.value_heads,)),
        "out_norm": ("linear_attn.norm.weight", (s.value_dim,)),
        "out": ("linear_attn.out_proj.weight", (d, values)),
    }
    for name, (tensor, shape) in rows.items():
        yield Leaf(
            f"delta.{name}",
            tuple(f"{stem}.{tensor}" for stem in stems),
            shape,
            matrix=len(shape) == 2,
            stacked=True,
            float32=name in ("a_log", "dt_bias"),
            flat=name == "conv",
        )


def leaves(c: HybridConfig) -> Iterator[Leaf]:
    """Every weight of the model with its canonical tensor names."""
    stems = [f"layers.{i}" for i in range(len(c.kinds))]
    yield Leaf("embed", ("embed_tokens.weight",), (c.vocab, c.width), False, False)
    yield Leaf("norm", ("norm.weight",), (c.width,), False, False)
    if not c.tied:
        yield Leaf("head", ("lm_head.weight",), (c.vocab, c.width), True, False)
    yield from _delta_leaves(c, [s for s, k in zip(stems, c.kinds, strict=True) if k == LINEAR])
    full = [s for s, k in zip(stems, c.kinds, strict=True) if k == FULL]
    yield from _attention_leaves(c, "attention", full, stacked=True)
    yield from _mlp_leaves(c, "mlp", stems, stacked=True)
    if c.mtp:
        for name, tensor in (
            ("norm_embed", "pre_fc_norm_embedding"),
            ("norm_hidden", "pre_fc_norm_hidden"),
            ("norm", "norm"),
        ):
            yield Leaf(f"mtp.{name}", (f"mtp.{tensor}.weight",), (c.width,), False, False)
        yield Leaf("mtp.fc", ("mtp.fc.weight",), (c.width, 2 * c.width), True, False)
        yield from _attention_leaves(c, "mtp.attention", ["mtp.layers.0"], stacked=False)
        yield from _mlp_leaves(c, "mtp.mlp", ["mtp.layers.0"], stacked=False)


QWEN35 = Family(read_config, leaves)
