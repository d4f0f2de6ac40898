"""The DFlash and DFlash2 drafters in numpy float64, written from their formulas: the oracle.

One block at a time; no line is shared with the JAX model. Letters: T context tokens, N block rows,
D width, H heads, K head width, L slots, k candidates. Norms have plain weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Config = Mapping[str, Any]  # config.json of the drafter


class Reader:
    """Float64 tensors under a name prefix."""

    def __init__(self, tensors: Mapping[str, np.ndarray], eps: float, at: str = ""):
        self.tensors, self.eps, self.at = tensors, eps, at

    def __getitem__(self, name: str) -> np.ndarray:
        return np.asarray(self.tensors[self.at + name]).astype(np.float64)

    def inside(self, name: str) -> Reader:
        return Reader(self.tensors, self.eps, self.at + name)

    def linear(self, name: str, x: np.ndarray) -> np.ndarray:
        return x @ self[name + ".weight"].T

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        rms = np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + self.eps)
        return x / rms * self[name + ".weight"]


def rotary(x: np.ndarray, positions: np.ndarray, theta: float) -> np.ndarray:
    """Rotate whole heads, x [T, H, K]; dim i pairs with dim i + K/2."""
    half = x.shape[-1] // 2
    angles = positions[:, None] * theta ** (-np.arange(half) / half)
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def convolve(w: Reader, name: str, x: np.ndarray, side: int, y: np.ndarray) -> np.ndarray:
    """out[t] = c0[t] y[t] + c1[t] y[t-1], the coefficients from the sublayer's normed input x."""
    if w.at + name + ".base_kernel" not in w.tensors:
        return y
    base = w[name + ".base_kernel"]  # [side, tap, D]
    delta = w.linear(name + ".kernel_projection", x).reshape(len(x), 2, 2, -1)
    out = np.zeros_like(y)
    for tap in (0, 1):
        for t in range(tap, len(y)):
            change = np.repeat(delta[t, side, tap], y.shape[1] // delta.shape[-1])
            out[t] += (base[side, tap] + change) * y[t - tap]
    return out


def sees(config: Config, layer: int, query: int, key: int, anchor: int) -> bool:
    """Whether the row at position `query` sees the key at `key`; the block begins at `anchor`."""
    is_sliding = config["layer_types"][layer] == "sliding_attention"
    if is_sliding and abs(query - key) >= config["sliding_window"]:
        return False
    return key <= query or (not config.get("is_causal", is_sliding) and key >= anchor)


def attention(w: Reader, config: Config, layer: int, x: np.ndarray, context: np.ndarray):
    """Block rows x [N, D], convolved, over context [T, D] and themselves -> [N, H * K]."""
    width, theta = config["head_dim"], config["rope_parameters"]["rope_theta"]
    rows, anchor = np.concatenate([context, x]), len(context)
    at = np.arange(len(rows))

    def heads(name, x, positions=None):
        y = w.linear(name + "_proj", x).reshape(len(x), -1, width)
        return y if positions is None else rotary(w.norm(name + "_norm", y), positions, theta)

    query, key, value = heads("q", x, at[anchor:]), heads("k", rows, at), heads("v", rows)
    shared = query.shape[1] // key.shape[1]
    key, value = (np.repeat(a, shared, axis=1) for a in (key, value))
    scores = np.einsum("nhk,shk->hns", query, key) * width**-0.5
    mask = [[sees(config, layer, q, s, anchor) for s in at] for q in at[anchor:]]
    scores = np.where(mask, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return np.einsum("hns,shk->nhk", weights, value).reshape(len(x), -1)


def context_of(tensors, config: Config, taps: np.ndarray) -> np.ndarray:
    """[T, D] of the target's residual streams [taps, T, D]."""
    w = Reader(tensors, config["rms_norm_eps"])
    return w.norm("hidden_norm", w.linear("fc", np.concatenate(list(taps), axis=-1)))


def block_hidden(tensors, config: Config, embed, context, ids) -> np.ndarray:
    """Normed rows [N, D] of the block `ids`, which follows the context [T, D]."""
    w = Reader(tensors, config["rms_norm_eps"])
    h = np.asarray(embed).astype(np.float64)[ids]
    for layer in range(config["num_hidden_layers"]):
        own = w.inside(f"layers.{layer}.")
        x = own.norm("input_layernorm", h)
        y = convolve(own, "attention_conv", x, 0, x)
        y = attention(own.inside("self_attn."), config, layer, y, context)
        h = h + convolve(own, "attention_conv", x, 1, own.linear("self_attn.o_proj", y))
        x = own.norm("post_attention_layernorm", h)
        y = convolve(own, "mlp_conv", x, 0, x)
        gate, up = own.linear("mlp.gate_proj", y), own.linear("mlp.up_proj", y)
        y = own.linear("mlp.down_proj", gate / (1 + np.exp(-gate)) * up)
        h = h + convolve(own, "mlp_conv", x, 1, y)
    return w.norm("norm", h)


def selector_scores(tensors, hidden, anchor: int, cand, unary) -> np.ndarray:
    """score[l, p, c] = unary[l, c] + <A[p] * r_l, B[c]>; hidden [L, D], cand, unary [L, k]."""
    w = Reader(tensors, 0.0, "candidate_selector.")
    a, b = w["predecessor_codebook"], w["successor_codebook"]
    slots = zip(w.linear("hidden_projection", hidden), cand, unary, strict=True)
    before = [np.full_like(cand[0], anchor), *cand]
    return np.array([u + (a[before[at]] * r) @ b[c].T for at, (r, c, u) in enumerate(slots)])
