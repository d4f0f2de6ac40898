"""What the draft heads do beside a step: sync their caches with the commit, draft, pack.

Both heads only read what the step computed anyway; their results ride in its packed result.
"""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from jax import lax

from tandem_jax.models import dflash2, mtp
from tandem_jax.models.config import DFlashConfig, HybridConfig
from tandem_jax.models.hybrid import HybridWeights
from tandem_jax.models.prefill import Chunk, write_page
from tandem_jax.ops.plan import Plan
from tandem_jax.state.model_state import ModelState, scatter_rows
from tandem_jax.tree.rows import TILE, RowTable


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Accepted:
    """The accepted path of each request of a round."""

    path: jax.Array  # [B, T] int32, accepted rows from the root down, zeros behind
    count: jax.Array  # [B] int32, how many
    bonus: jax.Array  # [B] int32, the model's own token behind them


def _bits(x: jax.Array) -> jax.Array:
    return lax.bitcast_convert_type(x, jnp.int32)


def mtp_after_round(
    config: HybridConfig,
    plan: Plan,
    weights: HybridWeights,
    state: ModelState,
    tree: RowTable,
    hidden: jax.Array,
    accepted: Accepted,
    depth: int,
) -> tuple[ModelState, jax.Array]:
    """Sync the MTP cache with the accepted path and draft, where wanted: (state, [B, 4K] int32)."""
    path, count, bonus = accepted.path, accepted.count, accepted.bonus
    b, t = tree.shape
    along = jnp.take_along_axis(tree.token.reshape(b, t), path, 1)
    line = jnp.arange(t, dtype=jnp.int32)[None]
    following = jnp.where(line == count[:, None] - 1, bonus[:, None], jnp.roll(along, -1, axis=1))
    rows = jnp.take_along_axis(hidden.reshape(b, t, -1), path[:, :, None], 1)
    synced = mtp.Synced(following, rows, tree.start, count, tree.pages)

    def draft():
        tokens, probs, k, v = mtp.draft_chain(config, plan, weights, state.mtp_kv, synced, depth)
        return _packed_chain(tokens, probs), k, v

    def sync():
        return jnp.zeros((b, chain_size(depth)), jnp.int32), *mtp.synced_rows(
            config, weights, synced
        )

    said, k, v = lax.cond(jnp.any(tree.draft > 0), draft, sync)
    kv = scatter_rows(state.mtp_kv, k[None], v[None], tree.pages, tree.start, count)
    return replace(state, mtp_kv=kv), said


def mtp_after_chunk(
    config: HybridConfig,
    plan: Plan,
    weights: HybridWeights,
    state: ModelState,
    chunk: Chunk,
    hidden: jax.Array,
    behind: jax.Array,
    depth: int,
) -> tuple[ModelState, jax.Array]:
    """Fill the MTP cache with a chunk whose next token is `behind`, and draft: (state, [4K])."""
    last = chunk.count - 1
    shifted = jnp.roll(chunk.token, -1).at[last].set(behind)
    kv = mtp.sync_chunk(config, weights, state.mtp_kv, replace(chunk, token=shifted), hidden)
    synced = mtp.Synced(
        token=jnp.zeros((1, TILE), jnp.int32).at[0, 0].set(behind),
        hidden=jnp.zeros((1, TILE, hidden.shape[1]), hidden.dtype).at[0, 0].set(hidden[last]),
        start=(chunk.start + last)[None],
        count=jnp.ones(1, jnp.int32),
        pages=chunk.pages[None],
    )
    tokens, probs, _, _ = mtp.draft_chain(config, plan, weights, kv, synced, depth)
    return replace(state, mtp_kv=kv), _packed_chain(tokens, probs)[0]


def _packed_chain(token: jax.Array, probs: jax.Array) -> jax.Array:
    """The two best tokens of each step and their probabilities [B, K, 2] as int32 [B, 4K]."""
    b = token.shape[0]
    return jnp.concatenate([token.reshape(b, -1), _bits(probs).reshape(b, -1)], axis=1)


def chain_size(depth: int) -> int:
    """Values of a packed MTP chain."""
    return 4 * depth


def _packed_lattice(token: jax.Array, scores: jax.Array) -> jax.Array:
    """Candidates [B, L, k] and scores [B, L, k, k] as int32 [B, L * k + L * k * k]."""
    b = token.shape[0]
    return jnp.concatenate([token.reshape(b, -1), _bits(scores).reshape(b, -1)], axis=1)


def block_after_round(
    config: DFlashConfig,
    weights: HybridWeights,
    state: ModelState,
    tree: RowTable,
    taps: jax.Array,
    accepted: Accepted,
) -> tuple[ModelState, jax.Array]:
    """Take the accepted path into the context, and draft behind the bonus token where wanted.

    Returns (state, lattice, or zeros where no request wants one). taps [n, R, D]: rejected rows are
    cut away before the drafter sees them.
    """
    b, t = tree.shape
    flat = (accepted.path + jnp.arange(b, dtype=jnp.int32)[:, None] * t).reshape(-1)
    at = (tree.start[:, None] + jnp.arange(t, dtype=jnp.int32)[None]).reshape(-1)
    rows = dflash2.context_rows(config, weights.draft, taps[:, flat], at)
    k, v = (a.reshape(a.shape[0], b, t, *a.shape[2:]) for a in rows)
    kv = scatter_rows(state.draft_kv, k, v, tree.pages, tree.start, accepted.count)
    anchors = dflash2.Anchors(accepted.bonus, tree.start + accepted.count, tree.pages)

    def draft():
        return _packed_lattice(*dflash2.draft_block(config, weights, kv, anchors))

    def nothing():
        return jnp.zeros((b, lattice_size(config)), jnp.int32)

    said = lax.cond(jnp.any(tree.draft > 0), draft, nothing)
    return replace(state, draft_kv=kv), said


def block_after_chunk(
    config: DFlashConfig,
    weights: HybridWeights,
    state: ModelState,
    chunk: Chunk,
    taps: jax.Array,
    pick: jax.Array,
    is_last: jax.Array,
) -> tuple[ModelState, jax.Array]:
    """Take a chunk into the context; behind the last one of a prompt also draft: (state, lattice).

    taps [n, C, D]; pick: int32 scalar, the first token of the answer if `is_last`.
    """
    k, v = dflash2.context_rows(config, weights.draft, taps, chunk.position)
    kv = write_page(state.draft_kv, k, v, chunk)
    anchors = dflash2.Anchors(pick[None], (chunk.start + chunk.count)[None], chunk.pages[None])

    def draft():
        return _packed_lattice(*dflash2.draft_block(config, weights, kv, anchors))[0]

    def nothing():
        return jnp.zeros(lattice_size(config), jnp.int32)

    return replace(state, draft_kv=kv), lax.cond(is_last, draft, nothing)


def lattice_size(config: DFlashConfig) -> int:
    """Values of a packed lattice."""
    return config.slots * config.top_k * (1 + config.top_k)
