"""The layer stack of a dense hybrid model: weights, and the loop that visits the layers.

Layers of one kind are stacked. The loop runs over groups of the smallest repeating pattern (four
layers in the Qwen3.5 family): scanned where compile time counts, written out where a captured
graph needs it. Verify, prefill and the MTP head share the layer functions of this package.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby

import jax
import jax.numpy as jnp
from jax import lax

from tandem_jax.models.attention import AttentionWeights
from tandem_jax.models.config import FULL, LINEAR, HybridConfig
from tandem_jax.models.delta_net import DeltaWeights
from tandem_jax.models.mlp import MlpWeights
from tandem_jax.models.norms import centred_norm
from tandem_jax.ops.plan import Plan
from tandem_jax.quant import linear
from tandem_jax.quant.dense import Dense


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class MtpWeights:
    """The multi-token-prediction head: one attention layer that shares the target's head."""

    norm_embed: jax.Array  # [D] around zero
    norm_hidden: jax.Array  # [D] around zero
    fc: object  # [D, 2D]: embedding half first, hidden half second
    attention: AttentionWeights  # one layer, not stacked
    mlp: MlpWeights  # one layer, not stacked
    norm: jax.Array  # [D] around zero


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class HybridWeights:
    """All weights of a dense hybrid model."""

    embed: jax.Array  # [vocab, D] activation dtype
    norm: jax.Array  # [D] around zero, final norm
    head: object  # [vocab, D] any format; None = tied to the embedding
    delta: DeltaWeights  # stacked [L_delta, ...]
    attention: AttentionWeights  # stacked [L_attention, ...]
    mlp: MlpWeights  # stacked [L, ...]
    mtp: MtpWeights | None


@dataclass(frozen=True)
class Model:
    """A model an engine can run."""

    config: HybridConfig
    weights: HybridWeights


def head_logits(weights: HybridWeights, y: jax.Array) -> jax.Array:
    """Logits [R, vocab] float32 of normed hidden rows y [R, D]."""
    head = Dense(weights.embed) if weights.head is None else weights.head
    return linear(y, head)


def final_rows(cfg: HybridConfig, weights: HybridWeights, x: jax.Array) -> tuple[jax.Array, ...]:
    """Residual rows x [R, D] -> (normed hidden [R, D], logits [R, vocab] float32)."""
    y = centred_norm(x, weights.norm, cfg.eps).astype(x.dtype)
    return y, head_logits(weights, y)


def _runs(pattern: tuple[str, ...]) -> list[tuple[str, int, int]]:
    """Equal neighbours of a pattern: (kind, first place, how many)."""
    runs, start = [], 0
    for kind, same in groupby(pattern):
        size = len(list(same))
        runs.append((kind, start, size))
        start += size
    return runs


def _layer(stack, index: jax.Array):
    """One layer of a stack, cut out where it is used: a loop copies one layer at a time."""
    return jax.tree.map(lambda a: lax.dynamic_index_in_dim(a, index, keepdims=False), stack)


def visit_layers(
    cfg: HybridConfig,
    plan: Plan,
    weights: HybridWeights,
    x: jax.Array,
    delta_layer: Callable,
    attention_layer: Callable,
    delta_inputs,
) -> tuple[jax.Array, object, object]:
    """x [R, D] through all layers.

    delta_layer(w, mlp, x, inputs) and attention_layer(w, mlp, x, index) return (x, outputs);
    `delta_inputs` is a pytree of [L_delta, ...] arrays cut per layer, index counts the attention
    layers. Returns (x, delta outputs stacked [L_delta, ...], attention outputs [L_attention, ...]).
    """
    pattern = cfg.kinds[: cfg.period]
    groups = len(cfg.kinds) // cfg.period
    per_group = {kind: pattern.count(kind) for kind in (LINEAR, FULL)}

    def one(kind: str, x, layer, own):
        mlp_w = _layer(weights.mlp, layer)
        if kind == LINEAR:
            inputs = _layer(delta_inputs, own)
            return delta_layer(_layer(weights.delta, own), mlp_w, x, inputs)
        return attention_layer(_layer(weights.attention, own), mlp_w, x, own)

    def group(x, g):
        outs, seen = {LINEAR: [], FULL: []}, {LINEAR: 0, FULL: 0}
        for kind, start, size in _runs(pattern):

            def step(x, i, kind=kind, start=start, before=seen[kind]):
                return one(kind, x, g * len(pattern) + start + i, g * per_group[kind] + before + i)

            places = jnp.arange(size, dtype=jnp.int32)
            x, out = lax.scan(step, x, places, unroll=size if plan.unroll else 1)
            outs[kind].append(out)
            seen[kind] += size
        joined = [jax.tree.map(lambda *xs: jnp.concatenate(xs), *outs[k]) for k in (LINEAR, FULL)]
        return x, tuple(joined)

    order = jnp.arange(groups, dtype=jnp.int32)
    x, outs = lax.scan(group, x, order, unroll=groups if plan.unroll else 1)
    return x, *jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), outs)
