"""The dense Qwen3.5 text model in numpy float64, written from its formulas: the parity oracle.

It shares no line with the JAX model, loops over tokens where that is the plainest form, and can
make eleven classic mistakes on purpose, so that a test can show that a tolerance catches each.

Letters: T tokens, D model width, V vocabulary, H heads, K key width, W convolution taps.
`Z(x, w) = x / rms(x) * (1 + w)` is the family's norm; the DeltaNet output norm alone has a plain w.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Tensors = Mapping[str, np.ndarray]  # canonical name -> value of any float dtype
Config = Mapping[str, Any]  # the text part of config.json

# Each with the symptom's place in the formulas.
MISTAKES = (
    "layer norm multiplies by w",
    "DeltaNet norm multiplies by 1 + w",
    "query and gate as two blocks",
    "convolution taps reversed",
    "query without 1/sqrt(key width)",
    "key heads tiled",
    "decay after the read",
    "sigmoid on z",
    "silu on the attention gate",
    "rotary over the full width",
    "rotary pairs interleaved",
)


@dataclass(frozen=True)
class Forward:
    """One pass over a prompt."""

    logits: np.ndarray  # [T, V] float64
    hidden: np.ndarray  # [T, D] float64, after the final norm: what the head and MTP see
    layers: np.ndarray  # [L, T, D] float64, residual stream after each layer


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-x))


def silu(x: np.ndarray) -> np.ndarray:
    return x * sigmoid(x)


def softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(0.0, x)


class Reader:
    """Float64 tensors under a name prefix, with the mistake to make."""

    def __init__(self, tensors: Tensors, at: str, config: Config, mistake: str | None) -> None:
        self.tensors, self.at, self.config, self.mistake = tensors, at, config, mistake

    def __getitem__(self, name: str) -> np.ndarray:
        return np.asarray(self.tensors[self.at + name]).astype(np.float64)

    def inside(self, name: str) -> Reader:
        return Reader(self.tensors, self.at + name, self.config, self.mistake)

    def linear(self, name: str, x: np.ndarray) -> np.ndarray:
        """x @ W^T for W [out, in]."""
        return x @ self[name + ".weight"].T

    def rms(self, x: np.ndarray) -> np.ndarray:
        return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + self.config["rms_norm_eps"])

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        """Z(x, w): the weight is stored as its distance from 1."""
        return self.rms(x) * (1.0 + self[name + ".weight"])

    def layer_norm(self, name: str, x: np.ndarray) -> np.ndarray:
        if self.mistake == "layer norm multiplies by w":
            return self.rms(x) * self[name + ".weight"]
        return self.norm(name, x)


def rotary(x: np.ndarray, positions: np.ndarray, config: Config, mistake: str | None) -> np.ndarray:
    """Rotate the first part of each head, x [T, H, K]; dim i pairs with dim i + half."""
    rope = config["rope_parameters"]
    width = int(x.shape[-1] * rope["partial_rotary_factor"])
    if mistake == "rotary over the full width":
        width = x.shape[-1]
    half = width // 2
    angles = positions[:, None] * rope["rope_theta"] ** (-np.arange(half) / half)  # [T, half]
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    first, second = slice(0, half), slice(half, width)
    if mistake == "rotary pairs interleaved":
        first, second = slice(0, width, 2), slice(1, width, 2)
    out = x.copy()
    out[..., first] = x[..., first] * cos - x[..., second] * sin
    out[..., second] = x[..., second] * cos + x[..., first] * sin
    return out


def attention(w: Reader, x: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Gated causal attention with grouped queries, x [T, D] -> [T, D]."""
    heads, kv_heads = w.config["num_attention_heads"], w.config["num_key_value_heads"]
    width, n_tokens = w.config["head_dim"], len(x)
    both = w.linear("q_proj", x)
    if w.mistake == "query and gate as two blocks":
        query, gate = np.split(both, 2, axis=-1)
        query, gate = (part.reshape(n_tokens, heads, width) for part in (query, gate))
    else:
        query, gate = np.split(both.reshape(n_tokens, heads, 2 * width), 2, axis=-1)
    key = w.linear("k_proj", x).reshape(n_tokens, kv_heads, width)
    value = w.linear("v_proj", x).reshape(n_tokens, kv_heads, width)
    query = rotary(w.norm("q_norm", query), positions, w.config, w.mistake)
    key = rotary(w.norm("k_norm", key), positions, w.config, w.mistake)
    key, value = (np.repeat(part, heads // kv_heads, axis=1) for part in (key, value))
    scores = np.einsum("thk,shk->hts", query, key) * width**-0.5
    scores = np.where(np.tri(n_tokens, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    mixed = np.einsum("hts,shk->thk", weights, value)
    gate_fn = silu if w.mistake == "silu on the attention gate" else sigmoid
    return w.linear("o_proj", (mixed * gate_fn(gate)).reshape(n_tokens, heads * width))


def short_convolution(w: Reader, x: np.ndarray) -> np.ndarray:
    """Causal depthwise convolution and silu over x [T, C]; the last tap meets the current token."""
    taps = w["conv1d.weight"][:, 0]  # [C, W]
    if w.mistake == "convolution taps reversed":
        taps = taps[:, ::-1]
    n_taps = taps.shape[1]
    padded = np.concatenate([np.zeros((n_taps - 1, x.shape[1])), x])
    return silu(sum(padded[j : j + len(x)] * taps[:, j] for j in range(n_taps)))


def delta_net(w: Reader, x: np.ndarray) -> np.ndarray:
    """Gated DeltaNet as its token-by-token recurrence, x [T, D] -> [T, D]."""
    k_heads, v_heads = w.config["linear_num_key_heads"], w.config["linear_num_value_heads"]
    k_dim, v_dim = w.config["linear_key_head_dim"], w.config["linear_value_head_dim"]
    mixed = short_convolution(w, w.linear("in_proj_qkv", x))
    query, key, value = np.split(mixed, [k_heads * k_dim, 2 * k_heads * k_dim], axis=-1)
    query, key = (part.reshape(-1, k_heads, k_dim) for part in (query, key))
    value = value.reshape(-1, v_heads, v_dim)
    # The sum, not the mean, and a constant of its own.
    query, key = (
        part / np.sqrt(np.sum(part * part, axis=-1, keepdims=True) + 1e-6) for part in (query, key)
    )
    if w.mistake != "query without 1/sqrt(key width)":
        query = query * k_dim**-0.5
    shared = v_heads // k_heads
    if w.mistake == "key heads tiled":
        query, key = (np.tile(part, (1, shared, 1)) for part in (query, key))
    else:
        query, key = (np.repeat(part, shared, axis=1) for part in (query, key))
    beta = sigmoid(w.linear("in_proj_b", x))  # [T, H]
    log_decay = -np.exp(w["A_log"]) * softplus(w.linear("in_proj_a", x) + w["dt_bias"])
    out = recurrence(query, key, value, beta, np.exp(log_decay), w.mistake)
    z = w.linear("in_proj_z", x).reshape(out.shape)
    weight = w["norm.weight"]
    if w.mistake == "DeltaNet norm multiplies by 1 + w":
        weight = 1.0 + weight
    gated = w.rms(out) * weight * (sigmoid(z) if w.mistake == "sigmoid on z" else silu(z))
    return w.linear("out_proj", gated.reshape(len(x), -1))


def recurrence(
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    beta: np.ndarray,
    decay: np.ndarray,
    mistake: str | None = None,
) -> np.ndarray:
    """S <- a S; u = b (v - S^T k); S <- S + k u^T; o = S^T q, per head; all [T, H, ...]."""
    n_tokens, heads, k_dim = key.shape
    state = np.zeros((heads, k_dim, value.shape[-1]))
    out = np.empty_like(value)
    for t in range(n_tokens):
        decayed = decay[t][:, None, None] * state
        read = state if mistake == "decay after the read" else decayed
        error = value[t] - np.einsum("hkv,hk->hv", read, key[t])
        state = decayed + np.einsum("hk,hv->hkv", key[t], beta[t][:, None] * error)
        out[t] = np.einsum("hkv,hk->hv", state, query[t])
    return out


def decoder_layer(w: Reader, kind: str, hidden: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """One pre-norm block on the residual stream [T, D]."""
    x = w.layer_norm("input_layernorm", hidden)
    if kind == "full_attention":
        hidden = hidden + attention(w.inside("self_attn."), x, positions)
    else:
        hidden = hidden + delta_net(w.inside("linear_attn."), x)
    x = w.layer_norm("post_attention_layernorm", hidden)
    mlp = w.inside("mlp.")
    return hidden + mlp.linear(
        "down_proj", silu(mlp.linear("gate_proj", x)) * mlp.linear("up_proj", x)
    )


def head(w: Reader, hidden: np.ndarray) -> np.ndarray:
    """Logits of normed hidden rows; the embedding is the head where no head is stored."""
    return w.linear("lm_head" if "lm_head.weight" in w.tensors else "embed_tokens", hidden)


def forward(
    tensors: Tensors, config: Config, ids: np.ndarray, *, mistake: str | None = None
) -> Forward:
    """The text model over one prompt, ids [T]; `mistake` is one of MISTAKES."""
    if mistake is not None and mistake not in MISTAKES:
        raise ValueError(f"unknown mistake {mistake!r}")
    text = config.get("text_config") or config
    w = Reader(tensors, "", text, mistake)
    positions = np.arange(len(ids))
    hidden = w["embed_tokens.weight"][ids]
    layers = []
    for layer, kind in enumerate(text["layer_types"]):
        hidden = decoder_layer(w.inside(f"layers.{layer}."), kind, hidden, positions)
        layers.append(hidden)
    normed = w.layer_norm("norm", hidden)
    return Forward(head(w, normed), normed, np.stack(layers))


def mtp_forward(
    tensors: Tensors,
    config: Config,
    hidden: np.ndarray,
    next_ids: np.ndarray,
    positions: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The multi-token-prediction head over a run of tokens: logits [T, V] and y [T, D].

    `hidden` [T, D] is the target's hidden after its final norm at token t (or the y of the step
    before, when chaining), `next_ids` [T] the tokens t + 1, `positions` [T] their positions, which
    must ascend: the head's one attention layer is causal over the run. Row t proposes token t + 2.
    """
    text = config.get("text_config") or config
    w = Reader(tensors, "mtp.", text, None)
    embedded = np.asarray(tensors["embed_tokens.weight"]).astype(np.float64)[next_ids]
    joined = np.concatenate(
        [w.norm("pre_fc_norm_embedding", embedded), w.norm("pre_fc_norm_hidden", hidden)], axis=-1
    )
    x = decoder_layer(w.inside("layers.0."), "full_attention", w.linear("fc", joined), positions)
    y = w.norm("norm", x)
    return head(Reader(tensors, "", text, None), y), y
