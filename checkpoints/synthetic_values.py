"""Values of the tiny random checkpoints, and the vision tensors that a text model must skip."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np


def random_value(name: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """A float64 value that depends on the seed, the canonical name and the shape alone."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    if name.endswith("linear_attn.A_log"):
        return np.log(rng.uniform(0.5, 8.0, shape))
    normal = rng.standard_normal(shape)
    if name.endswith("linear_attn.dt_bias"):
        return 0.5 * normal - 2.0
    if name.endswith("linear_attn.norm.weight"):
        return 1.0 + 0.1 * normal  # the one norm that multiplies by w instead of 1 + w
    if name.endswith("linear_attn.conv1d.weight"):
        return 0.5 * normal
    if name == "embed_tokens.weight":
        return normal
    if len(shape) == 1:
        return 0.1 * normal
    return normal / np.sqrt(shape[1])


def _vision_shapes(vision: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the vision tower, which a text model must skip."""
    hidden, inner = vision["hidden_size"], vision["intermediate_size"]
    merged = hidden * vision["spatial_merge_size"] ** 2
    patch = vision["patch_size"]
    shapes: dict[str, tuple[int, ...]] = {
        "patch_embed.proj.weight": (
            hidden,
            vision["in_channels"],
            vision["temporal_patch_size"],
            patch,
            patch,
        ),
        "patch_embed.proj.bias": (hidden,),
        "pos_embed.weight": (vision["num_position_embeddings"], hidden),
    }
    linears = {
        "merger.linear_fc1": (merged, merged),
        "merger.linear_fc2": (vision["out_hidden_size"], merged),
    }
    norms = ["merger.norm"]
    for block in range(vision["depth"]):
        linears[f"blocks.{block}.attn.qkv"] = (3 * hidden, hidden)
        linears[f"blocks.{block}.attn.proj"] = (hidden, hidden)
        linears[f"blocks.{block}.mlp.linear_fc1"] = (inner, hidden)
        linears[f"blocks.{block}.mlp.linear_fc2"] = (hidden, inner)
        norms += [f"blocks.{block}.norm1", f"blocks.{block}.norm2"]
    for name, shape in linears.items():
        shapes[name + ".weight"] = shape
        shapes[name + ".bias"] = shape[:1]
    for name in norms:
        shapes[name + ".weight"] = shapes[name + ".bias"] = (hidden,)
    return shapes


def vision_values(
    vision: Mapping[str, Any], seed: int, dtype: np.dtype
) -> dict[str, np.ndarray]:
    """Name in the file -> value of every vision tensor."""
    named = {f"model.visual.{name}": shape for name, shape in _vision_shapes(vision).items()}
    return {name: random_value(name, shape, seed).astype(dtype) for name, shape in named.items()}
