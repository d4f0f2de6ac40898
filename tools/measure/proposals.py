"""Proposals of block drafters and of the MTP chain behind every anchor of many references.

Letters as in tools.train.drafter_model: B rows, T tokens, N anchors, L slots, D width, k.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from tools.measure.common import Target, padded
from tools.measure.rounds import Proposals
from tools.train.drafter_export import read_drafter
from tools.train.drafter_model import (
    block_hidden,
    candidates,
    context_of,
    lattice_scores,
    top_ids,
    walk,
)
from tools.train.drafter_shapes import DrafterShape
from tools.train.model import forward, logits_of
from tools.train.mtp_chain import chain_hidden
from tools.train.shapes import ModelShape

LENGTHS = 320  # rows are padded to a multiple of it: few shapes, few compilations
ANCHORS = 64  # anchors of a row whose blocks exist at one time
MTP_DEPTH = 4
TOP_K = 16


@dataclass(frozen=True)
class BlockDrafter:
    """One trained drafter."""

    name: str
    params: dict  # float32 tree
    shape: DrafterShape


def load_drafters(folders: list[Path], target: Target) -> list[BlockDrafter]:
    """Read drafters; named b8, b16, ... by block, or by folder where two blocks are equal.

    Raises ValueError when one is not made for the target.
    """
    found = [(folder, *read_drafter(folder)[:2]) for folder in folders]
    blocks = [shape.block for _, _, shape in found]
    drafters = []
    for folder, params, shape in found:
        for field, has, wants in (("hidden_size", target.shape.d_model, shape.d_model),
                                  ("vocab_size", target.shape.vocabulary, shape.vocabulary),
                                  ("num_hidden_layers", target.shape.n_layers,
                                   shape.target_layers)):
            if has != wants:
                raise ValueError(f"{folder.name}: target's {field} is {has}, it needs {wants}")
        name = f"b{shape.block}" if blocks.count(shape.block) == 1 else folder.name
        drafters.append(BlockDrafter(name, jax.tree.map(jnp.asarray, params), shape))
    return drafters


@partial(jax.jit, static_argnames=("shape", "dtype", "taps"))
def read_rows(params, tokens, *, shape: ModelShape, dtype, taps: tuple[int, ...]):
    """Return (hidden [B T D], taps [n B T D]) of rows that hold one document each."""
    out = forward(params, tokens, jnp.zeros_like(tokens), shape, dtype=dtype, remat=False,
                  taps=taps)
    return out if taps else (out, None)


def head_of(params):
    """The output head: its own, or the tied embedding."""
    return params["head"] if "head" in params else params["embed"]


@partial(jax.jit, static_argnames=("s", "which"))
def _block_part(p, target, taps, tokens, at, *, s: DrafterShape, which: tuple[int, ...]):
    """Return (chain [B N L], candidates [B N L k]) of blocks behind the anchors at [B N]."""
    ctx = context_of(p, s, taps[jnp.asarray(which)])
    anchor = jnp.take_along_axis(tokens, at, 1)
    hidden = block_hidden(p, s, target["embed"], ctx, jnp.zeros_like(tokens), anchor, at)[:, :, 1:]
    cand, unary = candidates(p, s, head_of(target), hidden)
    chosen = walk(lattice_scores(p, s, hidden, anchor, cand, unary))
    return jnp.take_along_axis(cand, chosen[..., None], -1)[..., 0], cand


@partial(jax.jit, static_argnames=("shape",))
def _mtp_part(target, hidden, tokens, at, *, shape: ModelShape):
    """Return candidates [B N depths k] of the head's chains behind the anchors at [B N].

    Each depth is fed the true tokens before it: where the chain's own tokens differ from them,
    it has been rejected already, so the accepted prefix is the same.
    """
    ahead = jnp.stack([jnp.pad(tokens[:, depth:], ((0, 0), (0, depth)))
                       for depth in range(1, MTP_DEPTH + 1)])
    out = chain_hidden(target["mtp"], target["embed"], hidden, ahead, jnp.zeros_like(tokens), shape)
    # The row before the anchor joins its hidden state and the anchor's embedding.
    rows = jnp.take_along_axis(out, (at - 1)[None, ..., None], 2)
    return jnp.moveaxis(top_ids(logits_of(target, rows), TOP_K)[1], 0, 2)


@dataclass(frozen=True)
class Row:
    """One prompt with its reference."""

    prompt: list[int]  # not empty
    reference: list[int]


def anchors_of(rows: list[Row]) -> np.ndarray:
    """Return [B N] indices of the anchors, N a multiple of ANCHORS; rows repeat their last one."""
    count = max(1, *(len(row.reference) - 1 for row in rows))
    steps = np.arange(-(-count // ANCHORS) * ANCHORS)
    return np.stack([len(row.prompt) + np.minimum(steps, max(0, len(row.reference) - 2))
                     for row in rows]).astype(np.int32)


class Proposer:
    """Runs the target and its drafters over batches of rows."""

    def __init__(self, target: Target, drafters: list[BlockDrafter], dtype) -> None:
        self.target, self.drafters, self.dtype = target, drafters, dtype
        self.taps = tuple(sorted({tap for drafter in drafters for tap in drafter.shape.taps}))

    def batch(self, rows: list[Row]) -> dict[str, list[Proposals]]:
        """Return proposals of each drafter, and of "mtp", for each of the rows."""
        params, shape = self.target.params, self.target.shape
        tokens = jnp.asarray(padded([row.prompt + row.reference for row in rows], LENGTHS))
        hidden, taps = read_rows(params, tokens, shape=shape, dtype=self.dtype, taps=self.taps)
        at = anchors_of(rows)
        parts = [jnp.asarray(part) for part in np.split(at, at.shape[1] // ANCHORS, 1)]
        found = {}
        for drafter in self.drafters:
            which = tuple(self.taps.index(tap) for tap in drafter.shape.taps)
            outs = [_block_part(drafter.params, params, taps, tokens, part, s=drafter.shape,
                                which=which) for part in parts]
            found[drafter.name] = _per_row(rows, *(
                np.concatenate(jax.device_get(side), 1) for side in zip(*outs, strict=True)))
        if "mtp" in params:
            cand = np.asarray(_mtp_part(params, hidden, tokens, jnp.asarray(at), shape=shape))
            found["mtp"] = _per_row(rows, cand[..., 0], cand)
        return found

    def all(self, rows: list[Row], size: int) -> Iterator[dict[str, Proposals]]:
        """Yield the proposals of each row in turn, `size` rows a batch."""
        for start in range(0, len(rows), size):
            part = rows[start:start + size]
            # A short last batch is filled up, so that its shapes are compiled already.
            found = self.batch(part + part[-1:] * (size - len(part)))
            for at in range(len(part)):
                yield {name: each[at] for name, each in found.items()}


def _per_row(rows: list[Row], chain: np.ndarray, cand: np.ndarray) -> list[Proposals]:
    return [Proposals(chain[at, :max(0, len(row.reference) - 1)],
                      cand[at, :max(0, len(row.reference) - 1)]) for at, row in enumerate(rows)]
