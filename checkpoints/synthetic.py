"""Tiny random checkpoints in the real layouts, for tests and fixtures.

The values are chosen so that a wrong formula shows: norms, gates and taps are far from the 0 or 1
of a fresh model, and logits of the untied model have a standard deviation of about 1.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from checkpoints.layouts import (
    FULL,
    LINEAR,
    UNQUANTISED,
    dense_shapes,
    is_quantised_matrix,
    text_config,
)
from checkpoints.names import MTP, PREFIXES
from checkpoints.nvfp4 import modelopt_config, nvfp4_tensors
from checkpoints.shards import INDEX, SUFFIX
from checkpoints.synthetic_values import random_value, vision_values
from checkpoints.writing import save_tensors

DTYPES = {"float32": np.dtype(np.float32), "bfloat16": np.dtype(ml_dtypes.bfloat16)}


def tiny_dense_config(**overrides: Any) -> dict[str, Any]:
    """A text-only config.json of about 50 thousand values a layer; keys are overridden at will."""
    config: dict[str, Any] = {
        "architectures": ["Qwen3_5ForCausalLM"],
        "model_type": "qwen3_5_text",
        "vocab_size": 256,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,  # x head_dim = 128, which differs from hidden_size
        "num_key_value_heads": 2,
        "head_dim": 32,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 6,  # three per key head, as in the 27B
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000000.0,
            "partial_rotary_factor": 0.25,
            "mrope_section": [2, 1, 1],
            "mrope_interleaved": True,
        },
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-6,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "eos_token_id": 2,
        "bos_token_id": None,
        "pad_token_id": None,
    }
    config.update(overrides)
    if "layer_types" not in overrides:
        layers = range(config["num_hidden_layers"])
        config["layer_types"] = [FULL if layer % 4 == 3 else LINEAR for layer in layers]
    return config


def tiny_vl_config(**overrides: Any) -> dict[str, Any]:
    """The same model inside a vision-language config.json; overrides go to its text part."""
    text = tiny_dense_config(**overrides)
    del text["architectures"]
    return {
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        "model_type": "qwen3_5",
        "image_token_id": 250,
        "video_token_id": 251,
        "vision_start_token_id": 252,
        "vision_end_token_id": 253,
        "tie_word_embeddings": text["tie_word_embeddings"],
        "text_config": text,
        "vision_config": {
            "model_type": "qwen3_5",
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_heads": 2,
            "in_channels": 3,
            "patch_size": 4,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "out_hidden_size": text["hidden_size"],
            "num_position_embeddings": 16,
            "deepstack_visual_indexes": [],
            "hidden_act": "gelu_pytorch_tanh",
        },
    }


def write_checkpoint(
    directory: str | Path,
    config: Mapping[str, Any],
    *,
    seed: int,
    prefix: str = "model.",
    dtype: str = "float32",
    mtp: bool = False,
    vision: bool = False,
    shards: int = 1,
    nvfp4: bool = False,
    generation_config: Mapping[str, Any] | None = None,
) -> Path:
    """Write config.json, generation_config.json and safetensors files; returns the directory.

    A tensor's values depend on `seed` and its canonical name alone, so the same seed gives the same
    model under both prefixes, any number of shards, with or without `mtp` and `vision`. `mtp` also
    writes the two config keys that announce the head. With `nvfp4` the matrices, whose columns must
    be a multiple of 16, are rounded and stored in that format. Raises FileExistsError if the
    directory already holds weights, ValueError for an option that makes no checkpoint.
    """
    target = Path(directory)
    if prefix not in PREFIXES:
        raise ValueError(f"prefix {prefix!r} is none of {PREFIXES}")
    if vision and "vision_config" not in config:
        raise ValueError("vision tensors need a config with a vision_config")
    target.mkdir(parents=True, exist_ok=True)
    if any(target.glob("*" + SUFFIX)):
        raise FileExistsError(f"{target} already holds weights")
    written = copy.deepcopy(dict(config))
    if mtp:
        text = written.get("text_config") or written
        text.update(mtp_num_hidden_layers=1, mtp_use_dedicated_embeddings=False)
    if nvfp4:
        written["quantization_config"] = modelopt_config(UNQUANTISED)
    tensors: dict[str, np.ndarray] = {}
    for name, value in tensor_values(written, seed=seed, dtype=dtype, mtp=mtp).items():
        stored = _name_in_file(name, prefix)
        quantised = nvfp4 and is_quantised_matrix(name)
        tensors |= nvfp4_tensors(stored, value) if quantised else {stored: value}
    if vision:
        tensors.update(vision_values(written["vision_config"], seed, DTYPES[dtype]))
    _write_json(target / "config.json", written)
    _write_json(target / "generation_config.json", generation_config or _generation(written))
    _write_weights(target, tensors, shards)
    return target


def tensor_values(
    config: Mapping[str, Any], *, seed: int, dtype: str = "float32", mtp: bool = False
) -> dict[str, np.ndarray]:
    """Canonical name -> value of every text tensor of the synthetic model."""
    shapes = dense_shapes(config, mtp=mtp)
    kind = DTYPES[dtype]
    return {name: random_value(name, shape, seed).astype(kind) for name, shape in shapes.items()}


def _name_in_file(name: str, prefix: str) -> str:
    # The head and the MTP tensors stand at top level in every release.
    return name if name.startswith((MTP, "lm_head.")) else prefix + name


def _generation(config: Mapping[str, Any]) -> dict[str, Any]:
    """Sampling values of the family's releases, and a list of stop ids as they have."""
    text = text_config(config)
    eos = text.get("eos_token_id")
    return {
        "bos_token_id": text.get("bos_token_id"),
        "eos_token_id": [] if eos is None else [eos],
        "pad_token_id": text.get("pad_token_id"),
        "do_sample": True,
        "temperature": 1.0,
        "top_k": 20,
        "top_p": 0.95,
    }


def _write_json(file: Path, value: Mapping[str, Any]) -> None:
    file.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def _write_weights(directory: Path, tensors: dict[str, np.ndarray], shards: int) -> None:
    if not 1 <= shards <= len(tensors):
        raise ValueError(f"{len(tensors)} tensors do not fill {shards} shards")
    if shards == 1:
        save_tensors(tensors, directory / ("model" + SUFFIX))
        return
    weight_map: dict[str, str] = {}
    for part, names in enumerate(np.array_split(np.array(list(tensors)), shards), start=1):
        file_name = f"model-{part:05d}-of-{shards:05d}{SUFFIX}"
        held = {str(name): tensors[str(name)] for name in names}
        save_tensors(held, directory / file_name)
        weight_map.update(dict.fromkeys(held, file_name))
    total = sum(value.nbytes for value in tensors.values())
    _write_json(directory / INDEX, {"metadata": {"total_size": total}, "weight_map": weight_map})
