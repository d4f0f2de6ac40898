"""A float64 numpy forward from a checkpoint's own tensors: the oracle of the exported weights.

Written from the formulas alone (token-by-token DeltaNet, dense attention), sharing no code with
the training model. Letters: T tokens, D width, H heads, K key/value width.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Weights:
    """Reads tensors by file name as float64."""

    read: Callable[[str], np.ndarray]  # name -> float64 array
    config: dict  # config.json

    def dot(self, x: np.ndarray, name: str) -> np.ndarray:
        """Return x [T, in] times the transposed matrix [out, in] of that name."""
        return x @ self.read(name).T

    def norm(self, x: np.ndarray, name: str) -> np.ndarray:
        """Return n(x) (1 + w)."""
        return self.plain_norm(x) * (1 + self.read(name))

    def plain_norm(self, x: np.ndarray) -> np.ndarray:
        """Return x over its root mean square."""
        return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + self.config["rms_norm_eps"])


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _silu(x):
    return x * _sigmoid(x)


def _unit(x):
    return x / np.sqrt(np.sum(x * x, -1, keepdims=True) + 1e-6)


def _delta_net(w: Weights, prefix: str, x: np.ndarray) -> np.ndarray:
    c, length = w.config, len(x)
    key_heads, heads = c["linear_num_key_heads"], c["linear_num_value_heads"]
    width = c["linear_key_head_dim"]
    mixed = w.dot(x, f"{prefix}.in_proj_qkv.weight")
    taps = w.read(f"{prefix}.conv1d.weight")[:, 0]
    padded = np.concatenate([np.zeros((3, mixed.shape[1])), mixed])
    mixed = _silu(sum(taps[:, tap] * padded[tap:tap + length] for tap in range(4)))
    q, k, v = (part.reshape(length, -1, width) for part in
               np.split(mixed, [key_heads * width, 2 * key_heads * width], -1))
    q, k = _unit(q) * width**-0.5, _unit(k)
    beta = _sigmoid(w.dot(x, f"{prefix}.in_proj_b.weight"))
    step = np.logaddexp(0, w.dot(x, f"{prefix}.in_proj_a.weight") + w.read(f"{prefix}.dt_bias"))
    decay = np.exp(-np.exp(w.read(f"{prefix}.A_log")) * step)
    out = np.zeros((length, heads, width))
    for head in range(heads):
        source, state = head * key_heads // heads, np.zeros((width, width))
        for t in range(length):
            state = decay[t, head] * state
            u = beta[t, head] * (v[t, head] - state.T @ k[t, source])
            state = state + np.outer(k[t, source], u)
            out[t, head] = state.T @ q[t, source]
    gate = _silu(w.dot(x, f"{prefix}.in_proj_z.weight").reshape(out.shape))
    out = w.plain_norm(out) * w.read(f"{prefix}.norm.weight") * gate
    return w.dot(out.reshape(length, -1), f"{prefix}.out_proj.weight")


def _rotate(x: np.ndarray, rope: dict) -> np.ndarray:
    width = int(x.shape[-1] * rope["partial_rotary_factor"])
    angle = np.arange(len(x))[:, None] * rope["rope_theta"] ** (-2 * np.arange(width // 2) / width)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    a, b, rest = np.split(x, [width // 2, width], -1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin, rest], -1)


def _attention(w: Weights, prefix: str, x: np.ndarray) -> np.ndarray:
    c, length = w.config, len(x)
    heads, kv_heads, width = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
    query, gate = np.split(
        w.dot(x, f"{prefix}.q_proj.weight").reshape(length, heads, 2 * width), 2, -1)
    key = w.dot(x, f"{prefix}.k_proj.weight").reshape(length, kv_heads, width)
    value = w.dot(x, f"{prefix}.v_proj.weight").reshape(length, kv_heads, width)
    query = _rotate(w.norm(query, f"{prefix}.q_norm.weight"), c["rope_parameters"])
    key = _rotate(w.norm(key, f"{prefix}.k_norm.weight"), c["rope_parameters"])
    out = np.zeros((length, heads, width))
    for head in range(heads):
        source = head * kv_heads // heads
        scores = query[:, head] @ key[:, source].T * width**-0.5
        scores = np.where(np.tri(length, dtype=bool), scores, -np.inf)
        chances = np.exp(scores - scores.max(-1, keepdims=True))
        out[:, head] = chances / chances.sum(-1, keepdims=True) @ value[:, source]
    return w.dot((out * _sigmoid(gate)).reshape(length, -1), f"{prefix}.o_proj.weight")


def reference_logits(read: Callable[[str], np.ndarray], config: dict, ids) -> np.ndarray:
    """Return float64 logits [T, V] of token ids [T]; file names with `model.`."""
    w = Weights(lambda name: np.asarray(read(name), np.float64), config)
    h = w.read("model.embed_tokens.weight")[np.asarray(ids)]
    for layer, kind in enumerate(config["layer_types"]):
        prefix = f"model.layers.{layer}"
        x = w.norm(h, f"{prefix}.input_layernorm.weight")
        h = h + (_attention(w, f"{prefix}.self_attn", x) if kind == "full_attention"
                 else _delta_net(w, f"{prefix}.linear_attn", x))
        x = w.norm(h, f"{prefix}.post_attention_layernorm.weight")
        gated = _silu(w.dot(x, f"{prefix}.mlp.gate_proj.weight"))
        h = h + w.dot(gated * w.dot(x, f"{prefix}.mlp.up_proj.weight"),
                      f"{prefix}.mlp.down_proj.weight")
    head = "model.embed_tokens.weight" if config["tie_word_embeddings"] else "lm_head.weight"
    return w.dot(w.norm(h, "model.norm.weight"), head)
