"""Writes trained parameters as a Hugging Face checkpoint with the canonical Qwen3.5 names."""

import hashlib
import json
import shutil
from pathlib import Path

import ml_dtypes
import numpy as np

from checkpoints.layouts import is_quantised_matrix
from checkpoints.nvfp4 import nvfp4_tensors
from checkpoints.writing import save_tensors
from tools.train.chat import TEMPLATE_PATH
from tools.train.shapes import ModelShape, hf_config
from tools.train.tokenizer import load_tokenizer, tokenizer_config

_MLP = {"gate": "gate_proj", "up": "up_proj", "down": "down_proj"}
_ATTENTION = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "o_proj"}
_DELTA = {"qkv": "in_proj_qkv", "z": "in_proj_z", "a": "in_proj_a", "b": "in_proj_b",
          "out": "out_proj"}
HEAD = "lm_head.weight"


def _common(prefix: str, p: dict) -> dict:
    named = {f"{prefix}.mlp.{name}.weight": p["mlp"][key].T for key, name in _MLP.items()}
    return {**named, f"{prefix}.input_layernorm.weight": p["input_norm"],
            f"{prefix}.post_attention_layernorm.weight": p["post_norm"]}


def _full(prefix: str, p: dict) -> dict:
    named = {f"{prefix}.self_attn.{name}.weight": p[key].T for key, name in _ATTENTION.items()}
    return {**_common(prefix, p), **named, f"{prefix}.self_attn.q_norm.weight": p["q_norm"],
            f"{prefix}.self_attn.k_norm.weight": p["k_norm"]}


def _linear(prefix: str, p: dict) -> dict:
    named = {f"{prefix}.linear_attn.{name}.weight": p[key].T for key, name in _DELTA.items()}
    inner = f"{prefix}.linear_attn"
    return {**_common(prefix, p), **named, f"{inner}.conv1d.weight": p["conv"].T[:, None, :],
            f"{inner}.A_log": p["A_log"], f"{inner}.dt_bias": p["dt_bias"],
            f"{inner}.norm.weight": p["norm"]}


def _pick(tree, *index):
    if isinstance(tree, dict):
        return {key: _pick(value, *index) for key, value in tree.items()}
    return tree[index]


def named_tensors(params: dict, shape: ModelShape) -> dict[str, np.ndarray]:
    """Return the checkpoint's tensors by file name, [out, in], float32; a head if it has its own.
    """
    tree = _numpy(params)
    named = {"model.embed_tokens.weight": tree["embed"], "model.norm.weight": tree["norm"]}
    for layer in range(shape.n_layers):
        group, at = divmod(layer, 4)
        prefix = f"model.layers.{layer}"
        named |= (_full(prefix, _pick(tree["full"], group)) if at == 3
                  else _linear(prefix, _pick(tree["linear"], group, at)))
    mtp = tree["mtp"]
    named |= {"mtp.fc.weight": mtp["fc"].T, "mtp.norm.weight": mtp["norm"],
              "mtp.pre_fc_norm_embedding.weight": mtp["embed_norm"],
              "mtp.pre_fc_norm_hidden.weight": mtp["hidden_norm"]}
    head = {HEAD: tree["head"]} if "head" in tree else {}
    return named | head | _full("mtp.layers.0", mtp["layer"])


def _numpy(tree):
    if isinstance(tree, dict):
        return {key: _numpy(value) for key, value in tree.items()}
    return np.asarray(tree, np.float32)


def params_from_tensors(read, shape: ModelShape, *, tied: bool = True) -> dict:
    """Rebuild the training tree from tensors: `read(name)` returns a float32 array [out, in].

    Without `tied` the tree has the leaf "head" [V, D].
    """
    def full(prefix):
        return {"input_norm": read(f"{prefix}.input_layernorm.weight"),
                "post_norm": read(f"{prefix}.post_attention_layernorm.weight"),
                "q_norm": read(f"{prefix}.self_attn.q_norm.weight"),
                "k_norm": read(f"{prefix}.self_attn.k_norm.weight"),
                "mlp": {key: read(f"{prefix}.mlp.{name}.weight").T for key, name in _MLP.items()},
                **{key: read(f"{prefix}.self_attn.{name}.weight").T
                   for key, name in _ATTENTION.items()}}

    def linear(prefix):
        inner = f"{prefix}.linear_attn"
        return {"input_norm": read(f"{prefix}.input_layernorm.weight"),
                "post_norm": read(f"{prefix}.post_attention_layernorm.weight"),
                "mlp": {key: read(f"{prefix}.mlp.{name}.weight").T for key, name in _MLP.items()},
                "conv": read(f"{inner}.conv1d.weight")[:, 0].T, "A_log": read(f"{inner}.A_log"),
                "dt_bias": read(f"{inner}.dt_bias"), "norm": read(f"{inner}.norm.weight"),
                **{key: read(f"{inner}.{name}.weight").T for key, name in _DELTA.items()}}

    groups = range(shape.n_groups)
    linears = [_stack([linear(f"model.layers.{4 * group + at}") for at in range(3)])
               for group in groups]
    head = {} if tied else {"head": read(HEAD)}
    return {"embed": read("model.embed_tokens.weight"), "norm": read("model.norm.weight"), **head,
            "linear": _stack(linears),
            "full": _stack([full(f"model.layers.{4 * group + 3}") for group in groups]),
            "mtp": {"fc": read("mtp.fc.weight").T, "norm": read("mtp.norm.weight"),
                    "embed_norm": read("mtp.pre_fc_norm_embedding.weight"),
                    "hidden_norm": read("mtp.pre_fc_norm_hidden.weight"),
                    "layer": full("mtp.layers.0")}}


def _stack(trees: list[dict]) -> dict:
    return {key: _stack([tree[key] for tree in trees]) if isinstance(value, dict)
            else np.stack([tree[key] for tree in trees]) for key, value in trees[0].items()}


def _write_json(path: Path, content: dict) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")


def stored_tensors(params: dict, shape: ModelShape, *, nvfp4: bool = False) -> dict:
    """Return what the weights file holds: bf16, or NVFP4 for the matrices and a head of its own."""
    named = named_tensors(params, shape)
    if nvfp4:
        named.setdefault(HEAD, named["model.embed_tokens.weight"])
    stored = {}
    for name, value in named.items():
        if nvfp4 and is_quantised_matrix(name):
            stored |= nvfp4_tensors(name, value)
        else:
            stored[name] = np.ascontiguousarray(value).astype(ml_dtypes.bfloat16)
    return stored


def export(params: dict, shape: ModelShape, tokenizer_path: Path, folder: Path, *,
           nvfp4: bool = False) -> None:
    """Write config, generation config, tokenizer, chat template and weights to `folder`.

    The weights are bf16; with `nvfp4` the matrices and an untied copy of the head are NVFP4.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ids = load_tokenizer(tokenizer_path).token_to_id
    end, stop, pad = ids("<|endoftext|>"), ids("<|im_end|>"), ids("<|pad|>")
    _write_json(folder / "config.json", hf_config(shape, end_of_text=end, pad=pad, nvfp4=nvfp4,
                                                  tied="head" not in params))
    _write_json(folder / "generation_config.json", {
        "bos_token_id": None, "eos_token_id": [stop, end], "pad_token_id": pad,
        "do_sample": True, "temperature": 0.7, "top_k": 20, "top_p": 0.8})
    _write_json(folder / "tokenizer_config.json", tokenizer_config(shape.max_context))
    shutil.copyfile(tokenizer_path, folder / "tokenizer.json")
    shutil.copyfile(TEMPLATE_PATH, folder / "chat_template.jinja")
    save_tensors(stored_tensors(params, shape, nvfp4=nvfp4), folder / "model.safetensors")


def sha256_table(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file of a checkpoint folder except the model card."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(folder.iterdir()) if path.name != "MODEL_CARD.md"}
