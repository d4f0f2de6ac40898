"""The layer stack of a dense hybrid model: weights, and the loop that visits the layers.

Layers of one kind are stacked. The loop runs over groups of the smallest repeating pattern (four
layers in the Qwen3.5 family): scanned where compile time counts, written out where a captured
graph needs it. Verify, prefill and the MTP head share the layer functions of this package.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import groupby

import jax
import jax.numpy as jnp
from jax import lax

from tandem_jax.models.attention import AttentionWeights
from tandem_jax.models.config import FULL, LINEAR, HybridConfig
from tandem_jax.models.delta_net import DeltaWeights
from tandem_jax.models.dflash2_weights import DFlashWeights
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
    draft: DFlashWeights | None = None  # of the block drafter that runs beside the model


@dataclass(frozen=True)
class Model:
    """A model an engine can run."""

    config: HybridConfig
    weights: HybridWeights


def assemble(config: HybridConfig, fields: Mapping[str, object]) -> HybridWeights:
    """The weights dataclass of a flat table of fields ("delta.qkv" -> array or format)."""

    def part(kind, prefix: str, **extra):
        own = {
            name.removeprefix(prefix): value
            for name, value in fields.items()
            if name.startswith(prefix) and "." not in name.removeprefix(prefix)
        }
        return kind(**own, **extra)

    mtp = None
    if config.mtp:
        mtp = part(
            MtpWeights,
            "mtp.",
            attention=part(AttentionWeights, "mtp.attention."),
            mlp=part(MlpWeights, "mtp.mlp."),
        )
    return HybridWeights(
        embed=fields["embed"],
        norm=fields["norm"],
        head=fields.get("head"),
        delta=part(DeltaWeights, "delta."),
        attention=part(AttentionWeights, "attention."),
        mlp=part(MlpWeights, "mlp."),
        mtp=mtp,
    )


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


class _Taps:
    """Keeps the rows that enter some layers; without any it leaves no trace in the program."""

    def __init__(self, taps: tuple[int, ...], layers: int):
        self.count = len(taps)
        # Layers that nobody taps write to a spare place: one cheap form for every layer.
        places = {layer: place for place, layer in enumerate(taps)}
        self.place = [places.get(layer, self.count) for layer in range(layers + 1)]

    def empty(self, x: jax.Array) -> jax.Array | None:
        """Room for the taps of rows x [R, D] and the spare place."""
        return jnp.zeros((self.count + 1, *x.shape), x.dtype) if self.count else None

    def put(self, kept: jax.Array | None, x: jax.Array, layer: jax.Array) -> jax.Array | None:
        """Note the rows that enter `layer`."""
        if kept is None:
            return None
        place = jnp.asarray(self.place, jnp.int32)[layer]
        return lax.dynamic_update_index_in_dim(kept, x, place, 0)

    def cut(self, kept: jax.Array | None) -> jax.Array | None:
        """The taps alone."""
        return None if kept is None else kept[: self.count]


def visit_layers(
    cfg: HybridConfig,
    plan: Plan,
    weights: HybridWeights,
    x: jax.Array,
    delta_layer: Callable,
    attention_layer: Callable,
    delta_inputs,
    taps: tuple[int, ...] = (),
) -> tuple[jax.Array, object, object, jax.Array | None]:
    """x [R, D] through all layers.

    delta_layer(w, mlp, x, inputs) and attention_layer(w, mlp, x, index) return (x, outputs);
    `delta_inputs` is a pytree of [L_delta, ...] arrays cut per layer, index counts the attention
    layers. `taps` names the layers whose entering rows are kept; the number of layers means the
    rows behind the last one. Returns (x, delta outputs stacked [L_delta, ...], attention outputs
    [L_attention, ...], kept rows [taps, R, D] or None without taps).
    """
    pattern = cfg.kinds[: cfg.period]
    groups = len(cfg.kinds) // cfg.period
    per_group = {kind: pattern.count(kind) for kind in (LINEAR, FULL)}
    keep = _Taps(taps, len(cfg.kinds))

    def one(kind: str, carry, layer, own):
        x, kept = carry
        kept = keep.put(kept, x, layer)
        mlp_w = _layer(weights.mlp, layer)
        if kind == LINEAR:
            inputs = _layer(delta_inputs, own)
            x, out = delta_layer(_layer(weights.delta, own), mlp_w, x, inputs)
        else:
            x, out = attention_layer(_layer(weights.attention, own), mlp_w, x, own)
        return (x, kept), out

    def group(carry, g):
        outs, seen = {LINEAR: [], FULL: []}, {LINEAR: 0, FULL: 0}
        for kind, start, size in _runs(pattern):

            def step(carry, i, kind=kind, start=start, before=seen[kind]):
                layer, own = g * len(pattern) + start + i, g * per_group[kind] + before + i
                return one(kind, carry, layer, own)

            places = jnp.arange(size, dtype=jnp.int32)
            carry, out = lax.scan(step, carry, places, unroll=size if plan.unroll else 1)
            outs[kind].append(out)
            seen[kind] += size
        joined = [jax.tree.map(lambda *xs: jnp.concatenate(xs), *outs[k]) for k in (LINEAR, FULL)]
        return carry, tuple(joined)

    order = jnp.arange(groups, dtype=jnp.int32)
    carry = (x, keep.empty(x))
    (x, kept), outs = lax.scan(group, carry, order, unroll=groups if plan.unroll else 1)
    outs = jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), outs)
    return x, *outs, keep.cut(keep.put(kept, x, jnp.int32(len(cfg.kinds))))
