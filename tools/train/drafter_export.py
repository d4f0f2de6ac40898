"""Writes drafters in the public DFlash2 checkpoint layout, and reads them back."""

import json
from pathlib import Path

import jax
import ml_dtypes
import numpy as np

from checkpoints import nvfp4_modules, open_checkpoint, read_weight
from checkpoints.nvfp4 import nvfp4_tensors
from checkpoints.writing import save_tensors
from tools.train.drafter_shapes import DrafterShape

_MATRICES = {"self_attn.q_proj": "q", "self_attn.k_proj": "k", "self_attn.v_proj": "v",
             "self_attn.o_proj": "o", "mlp.gate_proj": "gate", "mlp.up_proj": "up",
             "mlp.down_proj": "down"}
_VECTORS = {"input_layernorm": "input_norm", "post_attention_layernorm": "post_norm",
            "self_attn.q_norm": "q_norm", "self_attn.k_norm": "k_norm"}
_CONVOLUTIONS = ("attention_conv", "mlp_conv")
UNQUANTISED = ("*norm*", "*_conv*", "candidate_selector*")


def body_matrices(shape: DrafterShape) -> frozenset[str]:
    """Return the modules that become NVFP4: fc and every projection."""
    layers = range(shape.n_layers)
    return frozenset({"fc"} | {f"layers.{at}.{name}" for at in layers for name in _MATRICES})


def hf_drafter_config(shape: DrafterShape, *, nvfp4: bool, temperature: float) -> dict:
    """Return config.json of a `DFlash2DraftModel` with our two settings, tap and temperature."""
    config = {
        "architectures": ["DFlash2DraftModel"], "model_type": "qwen3",
        "hidden_size": shape.d_model, "intermediate_size": shape.d_ffn,
        "num_hidden_layers": shape.n_layers, "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads, "head_dim": shape.d_head,
        "vocab_size": shape.vocabulary, "num_target_layers": shape.target_layers,
        "rms_norm_eps": shape.eps, "hidden_act": "silu", "attention_bias": False,
        "rope_parameters": {"rope_theta": shape.rope_theta, "rope_type": "default"},
        "layer_types": ["sliding_attention"] * shape.n_layers, "sliding_window": shape.window,
        "is_causal": False, "max_position_embeddings": 8_192, "tie_word_embeddings": False,
        "dtype": "bfloat16",
        "dflash_config": {
            "block_size": shape.block, "conv_kernel_size": 2, "conv_group_size": shape.conv_group,
            "mask_token_id": shape.mask_id, "selector_rank": shape.rank,
            "selector_top_k": shape.top_k, "target_layer_ids": list(shape.taps),
            "tap": "entry", "lattice_temperature": round(temperature, 4)}}
    if nvfp4:
        config["quantization_config"] = {"quant_method": "modelopt", "quant_algo": "NVFP4",
                                         "group_size": 16, "ignore": list(UNQUANTISED)}
    return config


def shape_of_config(config: dict) -> DrafterShape:
    """Return the shape that `hf_drafter_config` described."""
    block = config["dflash_config"]
    return DrafterShape(
        d_model=config["hidden_size"], n_layers=config["num_hidden_layers"],
        d_ffn=config["intermediate_size"], heads=config["num_attention_heads"],
        kv_heads=config["num_key_value_heads"], d_head=config["head_dim"],
        block=block["block_size"], taps=tuple(block["target_layer_ids"]),
        target_layers=config["num_target_layers"], window=config["sliding_window"],
        rank=block["selector_rank"], top_k=block["selector_top_k"], mask_id=block["mask_token_id"],
        conv_group=block["conv_group_size"], rope_theta=config["rope_parameters"]["rope_theta"],
        eps=config["rms_norm_eps"], vocabulary=config["vocab_size"])


def drafter_tensors(params: dict, shape: DrafterShape) -> dict[str, np.ndarray]:
    """Return the checkpoint's tensors by file name, matrices as [out, in], float32."""
    tree = jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), params)
    layers, selector = tree["layers"], tree["selector"]
    named = {"fc.weight": tree["fc"].T, "hidden_norm.weight": tree["hidden_norm"],
             "norm.weight": tree["norm"],
             "candidate_selector.hidden_projection.weight": selector["hidden"].T,
             "candidate_selector.predecessor_codebook": selector["predecessor"],
             "candidate_selector.successor_codebook": selector["successor"]}
    for at in range(shape.n_layers):
        prefix = f"layers.{at}"
        named |= {f"{prefix}.{name}.weight": layers[key][at].T for name, key in _MATRICES.items()}
        named |= {f"{prefix}.{name}.weight": layers[key][at] for name, key in _VECTORS.items()}
        for name in _CONVOLUTIONS:
            named[f"{prefix}.{name}.base_kernel"] = layers[name]["base"][at]
            named[f"{prefix}.{name}.kernel_projection.weight"] = layers[name]["kernel"][at].T
    return named


def params_from_drafter_tensors(read, shape: DrafterShape) -> dict:
    """Rebuild the training tree; `read(name)` returns a float32 array."""
    def stacked(name, turn=False):
        parts = [read(f"layers.{at}.{name}") for at in range(shape.n_layers)]
        return np.stack([part.T if turn else part for part in parts])

    layers = {key: stacked(f"{name}.weight", turn=True) for name, key in _MATRICES.items()}
    layers |= {key: stacked(f"{name}.weight") for name, key in _VECTORS.items()}
    layers |= {name: {"base": stacked(f"{name}.base_kernel"),
                      "kernel": stacked(f"{name}.kernel_projection.weight", turn=True)}
               for name in _CONVOLUTIONS}
    selector = "candidate_selector"
    return {"fc": read("fc.weight").T, "hidden_norm": read("hidden_norm.weight"),
            "norm": read("norm.weight"), "layers": layers,
            "selector": {"hidden": read(f"{selector}.hidden_projection.weight").T,
                         "predecessor": read(f"{selector}.predecessor_codebook"),
                         "successor": read(f"{selector}.successor_codebook")}}


def export_drafter(params: dict, shape: DrafterShape, folder: Path, *, nvfp4: bool,
                   temperature: float) -> None:
    """Write config.json and model.safetensors: bf16, with `nvfp4` an NVFP4 body."""
    folder.mkdir(parents=True, exist_ok=True)
    packed, tensors = body_matrices(shape) if nvfp4 else frozenset(), {}
    for name, value in drafter_tensors(params, shape).items():
        if name.removesuffix(".weight") in packed:
            tensors |= nvfp4_tensors(name, value)
        else:
            tensors[name] = np.ascontiguousarray(value).astype(ml_dtypes.bfloat16)
    save_tensors(tensors, folder / "model.safetensors")
    config = hf_drafter_config(shape, nvfp4=nvfp4, temperature=temperature)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def read_drafter(folder: Path) -> tuple[dict, DrafterShape, dict]:
    """Return (parameters in float32, shape, config.json) of a folder of `export_drafter`."""
    opened = open_checkpoint(folder)
    modules, shape = nvfp4_modules(opened), shape_of_config(opened.config)

    def read(name):
        return read_weight(opened, name, np.float32, modules.get(name))

    return params_from_drafter_tensors(read, shape), shape, opened.config
