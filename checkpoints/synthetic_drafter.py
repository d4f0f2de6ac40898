"""Tiny random block drafters (DFlash v1, DFlash2) in the public checkpoint layout, for tests.

Values are far from those of a fresh drafter, so that a wrong formula shows.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from checkpoints.shards import SUFFIX
from checkpoints.synthetic import DTYPES
from checkpoints.writing import save_tensors

V1, V2 = "DFlashDraftModel", "DFlash2DraftModel"
SIDES, TAPS = 2, 2  # of a dynamic convolution


def tiny_drafter_config(target: Mapping[str, Any], **overrides: Any) -> dict[str, Any]:
    """A DFlash2 config.json for a text-only target config; keys are overridden at will.

    Keys of `dflash_config` are merged into it; a value of ... removes a key.
    """
    layers = target["num_hidden_layers"]
    config: dict[str, Any] = {
        "architectures": [V2],
        "model_type": "qwen3",
        "hidden_size": target["hidden_size"],
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "vocab_size": target["vocab_size"],
        "num_target_layers": layers,
        "rms_norm_eps": 1e-6,
        "hidden_act": "silu",
        "attention_bias": False,
        "rope_parameters": {"rope_theta": 10000000.0, "rope_type": "default"},
        "layer_types": ["sliding_attention"] * 2,
        "sliding_window": 40,
        "is_causal": False,
        "max_position_embeddings": target["max_position_embeddings"],
        "tie_word_embeddings": False,
    }
    block: dict[str, Any] = {
        "block_size": 8,
        "mask_token_id": target["vocab_size"] - 1,
        "target_layer_ids": sorted({0, layers // 2, layers - 1}),
        "conv_kernel_size": 2,
        "conv_group_size": 16,
        "selector_rank": 8,
        "selector_top_k": 4,
    }
    block.update(overrides.pop("dflash_config", {}))
    config.update(overrides)
    config["dflash_config"] = {key: value for key, value in block.items() if value is not ...}
    return {key: value for key, value in config.items() if value is not ...}


def drafter_shapes(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every tensor of the drafter that `config` describes."""
    block, is_v2 = config["dflash_config"], config["architectures"] == [V2]
    width = config["hidden_size"]
    shapes: dict[str, tuple[int, ...]] = {
        "fc.weight": (width, len(block["target_layer_ids"]) * width),
        "hidden_norm.weight": (width,),
        "norm.weight": (width,),
    }
    for layer in range(config["num_hidden_layers"]):
        own = _layer_shapes(config) | (_conv_shapes(width, block) if is_v2 else {})
        shapes |= {f"layers.{layer}.{name}": shape for name, shape in own.items()}
    if is_v2:
        rank, at = block["selector_rank"], "candidate_selector."
        shapes[at + "hidden_projection.weight"] = (rank, width)
        for side in ("predecessor", "successor"):
            shapes[f"{at}{side}_codebook"] = (config["vocab_size"], rank)
    return shapes


def drafter_values(config: Mapping[str, Any], *, seed: int) -> dict[str, np.ndarray]:
    """Name -> float64 value of every tensor; a value depends on the seed and its name alone."""
    return {name: _value(name, shape, seed) for name, shape in drafter_shapes(config).items()}


def write_drafter(
    directory: str | Path,
    config: Mapping[str, Any],
    *,
    seed: int,
    dtype: str = "float32",
    nan: bool = False,
) -> Path:
    """Write config.json and model.safetensors of a random drafter; returns the directory.

    `nan` makes every weight NaN. Raises FileExistsError if the directory already holds weights.
    """
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    if any(target.glob("*" + SUFFIX)):
        raise FileExistsError(f"{target} already holds weights")
    values = drafter_values(config, seed=seed)
    if nan:
        values = {name: np.full_like(value, np.nan) for name, value in values.items()}
    stored = {name: value.astype(DTYPES[dtype]) for name, value in values.items()}
    (target / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    save_tensors(stored, target / ("model" + SUFFIX))
    return target


def _layer_shapes(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    width, inner, head = (config[key] for key in ("hidden_size", "intermediate_size", "head_dim"))
    q, kv = (config[f"num_{kind}_heads"] * head for kind in ("attention", "key_value"))
    shapes = {
        "input_layernorm": (width,),
        "post_attention_layernorm": (width,),
        "self_attn.q_proj": (q, width),
        "self_attn.k_proj": (kv, width),
        "self_attn.v_proj": (kv, width),
        "self_attn.o_proj": (width, q),
        "self_attn.q_norm": (head,),
        "self_attn.k_norm": (head,),
        "mlp.gate_proj": (inner, width),
        "mlp.up_proj": (inner, width),
        "mlp.down_proj": (width, inner),
    }
    return {f"{name}.weight": shape for name, shape in shapes.items()}


def _conv_shapes(width: int, block: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for conv in ("attention_conv", "mlp_conv"):
        shapes[f"{conv}.base_kernel"] = (SIDES, TAPS, width)
        wide = SIDES * TAPS * (width // block["conv_group_size"])
        shapes[f"{conv}.kernel_projection.weight"] = (wide, width)
    return shapes


def _value(name: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    normal = np.random.default_rng([seed, zlib.crc32(name.encode())]).standard_normal(shape)
    if name.endswith("base_kernel"):
        return 0.4 * normal + np.array([1.0, 0.3])[:, None]  # the row itself, the row before
    if name.endswith("_codebook"):
        return 0.5 * normal
    if len(shape) == 1:
        return 1.0 + 0.2 * normal  # plain weights
    return normal / np.sqrt(shape[1])
