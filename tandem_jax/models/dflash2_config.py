"""The shape of a block drafter (DFlash v1 and DFlash2), read strictly from its config.json.

Facts: the public configs of z-lab's DFlash and DFlash2 checkpoints. Ours in `dflash_config` are
`tap`, what a target layer's index means, and `lattice_temperature`.
"""

from tandem_jax.errors import ConfigError
from tandem_jax.models.config import DFlashConfig, HybridConfig
from tandem_jax.models.family import StrictReader
from tandem_jax.quant.declared import KEY as QUANTISATION

V1, V2 = "DFlashDraftModel", "DFlash2DraftModel"
SLIDING, FULL = "sliding_attention", "full_attention"
OUTPUT, ENTRY = "output", "entry"  # a tap reads the residual stream behind a layer, or before it
FITS_HINT = "use a drafter that was trained for this target"

V1_TOP_K = 16  # candidates of a slot where the config names none
DEFAULT_TEMPERATURE = 1.4  # flattens the lattice's scores; source: TandemLLM's served profile
_NO_EFFECT = "does not change the drafter's forward"
IGNORED = {
    "architectures": "read by the loader",
    "model_type": "the architecture decides",
    "auto_map": "names the code of another library",
    "dtype": "the engine chooses its own dtype",
    "torch_dtype": "older name of dtype",
    "transformers_version": _NO_EFFECT,
    "attention_dropout": "training only",
    "initializer_range": "training only",
    "use_cache": _NO_EFFECT,
    "use_sliding_window": "layer_types is authoritative",
    "max_window_layers": "layer_types is authoritative",
    "max_position_embeddings": "the target's context is the limit",
    "tie_word_embeddings": "embedding and head are the target's",
    **{f"{kind}_token_id": "the target's tokenizer decides" for kind in ("bos", "eos", "pad")},
    QUANTISATION: "the loader compares it with the tensors",
}


def _either(root: StrictReader, inner: StrictReader, key: str, kind, default=...):
    """A key that releases keep beside or inside `dflash_config`; two different values are wrong."""
    outside, inside = root.take(key, kind, None), inner.take(key, kind, None)
    if outside is not None and inside is not None and outside != inside:
        raise ConfigError(
            f"{key} is {outside!r} in config.json, but {inside!r} in its dflash_config",
            hint="keep one of the two",
        )
    value = outside if inside is None else inside
    if value is None and default is ...:
        raise ConfigError(f"neither config.json nor its dflash_config has the key {key!r}")
    return default if value is None else value


def _read_rope(root: StrictReader) -> float:
    """The rotary base; keys may be nested or flat. Context extensions (yarn) are refused."""
    nested = root.take("rope_parameters", dict, None)
    scaling = root.take("rope_scaling", dict, None)
    flat = {key: root.take(key, object, None) for key in ("rope_theta", "rope_type")}
    values = {key: value for key, value in flat.items() if value is not None}
    values |= (scaling or {}) | (nested or {})
    kind = values.get("rope_type", values.get("type", "default"))
    if kind != "default":
        raise ConfigError(
            f"rope_parameters of type {kind!r} are not supported in a drafter",
            hint="only the default rotary embedding is read, without context extension",
        )
    rope = StrictReader(values, "rope_parameters")
    theta = rope.positive("rope_theta")
    rope.finish({"rope_type": "checked", "type": "older name"})
    return theta


def _read_layers(root: StrictReader, block: int) -> tuple[tuple, tuple]:
    """(windows, causal) of each layer.

    `is_causal` decides where it is present; where it is absent, a sliding layer is causal inside
    the block and a full one is not.
    """
    layers = root.size("num_hidden_layers")
    kinds = root.take("layer_types", list, None) or [FULL] * layers
    unknown = sorted({str(kind) for kind in kinds} - {SLIDING, FULL})
    if unknown or len(kinds) != layers:
        raise ConfigError(
            f"layer_types has {len(kinds)} entries for {layers} layers"
            + (f" and unknown kinds {', '.join(unknown)}" if unknown else "")
        )
    window = root.take("sliding_window", int, None)
    if SLIDING in kinds and (window is None or window < block):
        raise ConfigError(f"sliding_window must be at least block_size ({block}), not {window!r}")
    is_causal = root.take("is_causal", bool, None)
    causal = [kind == SLIDING if is_causal is None else is_causal for kind in kinds]
    return tuple(window if kind == SLIDING else None for kind in kinds), tuple(causal)


def default_tap_ids(target_layers: int, layers: int) -> list[int]:
    """Where a drafter that names no layers taps: evenly from layer 1 to the third from the end."""
    if layers < 2:
        raise ConfigError("a drafter of one layer must name its target_layer_ids")
    return [round(1 + i * (target_layers - 4) / (layers - 1)) for i in range(layers)]


def _read_taps(
    root: StrictReader, inner: StrictReader, target: HybridConfig, layers: int, tap: str | None
) -> tuple[tuple[int, ...], str]:
    """(taps as entries, what the checkpoint's numbers mean); checked against the target."""
    total = len(target.kinds)
    ids = _either(root, inner, "target_layer_ids", list, None)
    ids = default_tap_ids(total, layers) if ids is None else ids
    if not ids or any(type(i) is not int for i in ids) or list(ids) != sorted(set(ids)):
        raise ConfigError(f"target_layer_ids must be ascending layer numbers, not {ids!r}")
    if ids[0] < 0 or ids[-1] >= total:
        raise ConfigError(
            f"target_layer_ids {ids} go beyond the target, which has layers 0 to {total - 1}",
            hint=FITS_HINT,
        )
    written = inner.take("tap", str, OUTPUT)
    for where, value in (("dflash_config", written), ("option", tap)):
        if value not in (OUTPUT, ENTRY, None):
            raise ConfigError(
                f"tap = {value!r} ({where}) is not supported",
                hint=f"{OUTPUT!r}: behind the named layers, {ENTRY!r}: before them",
            )
    meaning = written if tap is None else tap
    return tuple(i + (meaning == OUTPUT) for i in ids), meaning


def _read_selector(inner: StrictReader, family: str, width: int, vocab: int) -> dict[str, int]:
    """Fields of the convolutions and of the selector; v1 has neither."""
    if family == V1:
        return {"rank": 0, "top_k": min(V1_TOP_K, vocab), "conv_group": 0}
    inner.demand("conv_kernel_size", (2,), 2)
    found = {
        "rank": inner.size("selector_rank"),
        "top_k": inner.size("selector_top_k"),
        "conv_group": inner.size("conv_group_size"),
    }
    if found["top_k"] > vocab:
        raise ConfigError(f"selector_top_k {found['top_k']} is more than the {vocab} tokens")
    if width % found["conv_group"]:
        raise ConfigError(
            f"conv_group_size {found['conv_group']} does not divide hidden_size {width}"
        )
    return found


def _check_fit(root: StrictReader, target: HybridConfig) -> None:
    """Take the sizes that drafter and target share; raise ConfigError naming those that differ."""
    layers = len(target.kinds)
    wanted = {"vocab_size": target.vocab, "hidden_size": target.width, "num_target_layers": layers}
    found = {key: root.size(key) for key in ("vocab_size", "hidden_size")}
    found["num_target_layers"] = root.size("num_target_layers", layers)
    wrong = [f"{key} {n} (the target's: {wanted[key]})" for key, n in found.items()
             if n != wanted[key]]
    if wrong:
        raise ConfigError(f"the drafter is of another model: {', '.join(wrong)}", hint=FITS_HINT)


def _read_heads(root: StrictReader) -> dict[str, int]:
    """Fields of the attention layers."""
    root.demand("hidden_act", ("silu",), "silu")
    root.demand("attention_bias", (False,), False)
    heads, kv_heads, head = (
        root.size(key) for key in ("num_attention_heads", "num_key_value_heads", "head_dim")
    )
    if heads % kv_heads or head % 2:
        raise ConfigError(
            f"num_attention_heads {heads}, num_key_value_heads {kv_heads} and head_dim {head} "
            "make no attention layer"
        )
    return {"heads": heads, "kv_heads": kv_heads, "head": head}


def _read_block(root: StrictReader, inner: StrictReader, vocab: int) -> dict[str, int]:
    """Fields of the block and its masks."""
    inner.demand("sample_from_anchor", (False,), False)
    block = _either(root, inner, "block_size", int)
    mask_id = _either(root, inner, "mask_token_id", int)
    if block < 2:
        raise ConfigError(f"block_size must be at least 2, not {block}")
    if not 0 <= mask_id < vocab:
        raise ConfigError(f"mask_token_id {mask_id} is outside the vocabulary of {vocab}")
    return {"block": block, "mask_id": mask_id}


def _read_scales(root: StrictReader, inner: StrictReader) -> dict[str, float]:
    """Factors on the way in and out, all of them optional."""
    number = (int, float)
    return {
        "temperature": inner.positive("lattice_temperature", DEFAULT_TEMPERATURE),
        "embed_scale": float(_either(root, inner, "input_embedding_scale", number, 1.0)),
        "output_scale": float(_either(root, inner, "output_multiplier", number, 1.0)),
        "softcap": float(_either(root, inner, "final_logit_softcapping", number, 0.0)),
    }


def read_draft_config(raw: dict, target: HybridConfig, *, tap: str | None = None) -> DFlashConfig:
    """The shape of the drafter a config.json describes; `tap` overrides its own meaning of taps.

    Raises ConfigError for an unknown key, a missing one, a value that is not implemented, or a
    drafter that was not made for `target`.
    """
    family = raw["architectures"][0]
    root = StrictReader(raw, "the drafter's config.json")
    inner = StrictReader(root.take("dflash_config", dict, {}), "dflash_config")
    _check_fit(root, target)
    block = _read_block(root, inner, target.vocab)
    windows, causal = _read_layers(root, block["block"])
    taps, meaning = _read_taps(root, inner, target, len(windows), tap)
    config = DFlashConfig(
        family=family,
        width=target.width,
        hidden=root.size("intermediate_size"),
        windows=windows,
        causal=causal,
        eps=root.positive("rms_norm_eps"),
        theta=_read_rope(root),
        vocab=target.vocab,
        taps=taps,
        tap=meaning,
        **block,
        **_read_heads(root),
        **_read_selector(inner, family, target.width, target.vocab),
        **_read_scales(root, inner),
    )
    root.finish(IGNORED)
    inner.finish({})
    return config
