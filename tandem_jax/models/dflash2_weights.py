"""The weights of a block drafter and where each of them lives in a checkpoint.

Embedding and head are the target's. Facts: the public tensor lists of DFlash and DFlash2.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import jax

from tandem_jax.models.config import DFlashConfig
from tandem_jax.models.family import Leaf

SIDES = 2  # of a convolution: into the sublayer and out of it
TAPS = 2  # of a convolution: the row itself and the one before


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ConvWeights:
    """A dynamic convolution around a sublayer, stacked over the layers."""

    base: jax.Array  # [L, side, tap, D]
    kernel: object  # [L, side * tap * groups, D], the part that depends on the input


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class BlockWeights:
    """The layers of the drafter, stacked; every norm has a plain weight."""

    norm: jax.Array  # [L, D] before attention
    q: object  # [L, H * D', D]
    k: object  # [L, G * D', D]
    v: object  # [L, G * D', D]
    q_norm: jax.Array  # [L, D']
    k_norm: jax.Array  # [L, D']
    out: object  # [L, D, H * D']
    mlp_norm: jax.Array  # [L, D] before the feed-forward part
    gate: object  # [L, F, D]
    up: object  # [L, F, D]
    down: object  # [L, D, F]
    attention_conv: ConvWeights | None  # None in v1
    mlp_conv: ConvWeights | None


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SelectorWeights:
    """What scores a candidate by the token before it: a bigram of low rank, led by the row."""

    hidden: object  # [rank, D]
    predecessor: jax.Array  # [vocab, rank]
    successor: jax.Array  # [vocab, rank]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class DFlashWeights:
    """All weights of a block drafter."""

    fc: object  # [D, taps * D], joins the target's residual streams
    hidden_norm: jax.Array  # [D] of the joined context
    norm: jax.Array  # [D] final
    layers: BlockWeights
    selector: SelectorWeights | None  # None in v1


def _layer_rows(c: DFlashConfig) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Field -> (tensor inside a layer, shape)."""
    d, q, kv = c.width, c.heads * c.head, c.kv_heads * c.head
    rows = {
        "norm": ("input_layernorm.weight", (d,)),
        "q": ("self_attn.q_proj.weight", (q, d)),
        "k": ("self_attn.k_proj.weight", (kv, d)),
        "v": ("self_attn.v_proj.weight", (kv, d)),
        "q_norm": ("self_attn.q_norm.weight", (c.head,)),
        "k_norm": ("self_attn.k_norm.weight", (c.head,)),
        "out": ("self_attn.o_proj.weight", (d, q)),
        "mlp_norm": ("post_attention_layernorm.weight", (d,)),
        "gate": ("mlp.gate_proj.weight", (c.hidden, d)),
        "up": ("mlp.up_proj.weight", (c.hidden, d)),
        "down": ("mlp.down_proj.weight", (d, c.hidden)),
    }
    if c.conv_group:
        wide = SIDES * TAPS * (d // c.conv_group)
        for conv in ("attention_conv", "mlp_conv"):
            rows[f"{conv}.base"] = (f"{conv}.base_kernel", (SIDES, TAPS, d))
            rows[f"{conv}.kernel"] = (f"{conv}.kernel_projection.weight", (wide, d))
    return rows


def draft_leaves(c: DFlashConfig) -> Iterator[Leaf]:
    """Every weight of the drafter with its canonical tensor names."""
    d = c.width
    yield Leaf("fc", ("fc.weight",), (d, len(c.taps) * d), True, False)
    yield Leaf("hidden_norm", ("hidden_norm.weight",), (d,), False, False)
    yield Leaf("norm", ("norm.weight",), (d,), False, False)
    for field, (tensor, shape) in _layer_rows(c).items():
        names = tuple(f"layers.{i}.{tensor}" for i in range(c.layers))
        yield Leaf(f"layers.{field}", names, shape, len(shape) == 2, True)
    if c.rank:
        stem, table = "candidate_selector", (c.vocab, c.rank)
        name = f"{stem}.hidden_projection.weight"
        yield Leaf("selector.hidden", (name,), (c.rank, d), True, False)
        for side in ("predecessor", "successor"):
            yield Leaf(f"selector.{side}", (f"{stem}.{side}_codebook",), table, False, False)


def assemble_draft(fields: Mapping[str, object]) -> DFlashWeights:
    """The weights of a flat table of fields ("layers.q" -> array or format)."""

    def part(prefix: str) -> dict[str, object]:
        inside = {name.removeprefix(prefix): x for name, x in fields.items()
                  if name.startswith(prefix)}
        return {name: x for name, x in inside.items() if "." not in name}

    convs = {name: part(f"layers.{name}.") for name in ("attention_conv", "mlp_conv")}
    made = {name: ConvWeights(**own) if own else None for name, own in convs.items()}
    selector = part("selector.")
    return DFlashWeights(
        **part(""),
        layers=BlockWeights(**part("layers."), **made),
        selector=SelectorWeights(**selector) if selector else None,
    )
