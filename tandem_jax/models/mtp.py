"""The multi-token-prediction head as a chain drafter on the device.

Its row t combines the target's hidden state h_t with the embedding of token t + 1 and predicts
token t + 2; one attention layer with its own cache, row t rotated at position t + 1. The cache is
kept in step with the target's commits; the chain feeds each output back as the next hidden state.
Its numbers only change how fast text arrives, so nothing here needs to be bit-exact.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax

from tandem_jax.models import attention
from tandem_jax.models.config import HybridConfig
from tandem_jax.models.hybrid import HybridWeights, head_logits
from tandem_jax.models.mlp import mlp
from tandem_jax.models.norms import centred_norm
from tandem_jax.models.prefill import Chunk, write_page
from tandem_jax.ops.plan import Plan
from tandem_jax.ops.tree_attention import tree_attention
from tandem_jax.quant import linear
from tandem_jax.state.model_state import KvCache
from tandem_jax.tree.rows import TILE, RowTable, chain_table


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Synced:
    """Rows the target has committed and the MTP cache lacks, as B chains of T rows."""

    token: jax.Array  # [B, T] int32, the token after each row
    hidden: jax.Array  # [B, T, D] activation dtype, the target's hidden state of each row
    start: jax.Array  # [B] int32, first row's index in the cache
    count: jax.Array  # [B] int32, rows in use, at least 1
    pages: jax.Array  # [B, N] int32 page lists


def _inputs(
    cfg: HybridConfig, weights: HybridWeights, token: jax.Array, hidden: jax.Array, at: jax.Array
) -> tuple[jax.Array, ...]:
    """(x [R, D], q, gate, k, v) of rows at cache index `at`; token [R] follows hidden [R, D]."""
    w = weights.mtp
    embed = centred_norm(weights.embed[token], w.norm_embed, cfg.eps)
    both = jnp.concatenate([embed, centred_norm(hidden, w.norm_hidden, cfg.eps)], axis=-1)
    x = linear(both.astype(hidden.dtype), w.fc).astype(hidden.dtype)
    return x, *attention.attention_inputs(cfg.attention, w.attention, x, at + 1, cfg.eps)


def _layer(
    cfg: HybridConfig,
    plan: Plan,
    weights: HybridWeights,
    kv: KvCache,
    table: RowTable,
    hidden: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The head's layer over chain rows: (normed outputs [R, D], k, v [R, G, D'])."""
    w = weights.mtp
    x, q, gate, k, v = _inputs(cfg, weights, table.token, hidden, table.position)
    where = (table.pages, table.position, table.length, table.request, table.path)
    o = tree_attention(q, k, v, kv.k, kv.v, jnp.int32(0), *where, table.used_tiles, tile=plan.tile)
    x = mlp(w.mlp, attention.attention_output(w.attention, x, o, gate), cfg.eps)
    return centred_norm(x, w.norm, cfg.eps).astype(x.dtype), k, v


def _pick(weights: HybridWeights, y: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The two best tokens [B, 2] int32, best first, and their probabilities of rows y [B, D]."""
    b = y.shape[0]
    logits = head_logits(weights, jnp.pad(y, ((0, -b % TILE), (0, 0))))[:b]
    first = jnp.argmax(logits, axis=-1)
    # Two argmaxes: cheaper than a sort of the vocabulary, and ties fall as in plain decoding.
    others = jnp.where(jnp.arange(logits.shape[-1])[None] == first[:, None], -jnp.inf, logits)
    token = jnp.stack([first, jnp.argmax(others, axis=-1)], axis=-1).astype(jnp.int32)
    top = jnp.take_along_axis(logits, token, axis=-1)
    return token, jnp.exp(top - jax.nn.logsumexp(logits, axis=-1, keepdims=True))


def draft_chain(
    cfg: HybridConfig,
    plan: Plan,
    weights: HybridWeights,
    kv: KvCache,
    synced: Synced,
    depth: int,
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Take in the synced rows and draft `depth` tokens greedily behind them.

    Step i of the loop forwards the synced rows and the i tokens drafted so far; rows are cheap and
    one loop body keeps the module small. The cache is only read: the caller writes the returned
    rows, so that a donated cache is updated in place.
    Returns (the two best tokens of each step [B, depth, 2] int32, of which the first continues the
    chain, their probabilities [B, depth, 2] float32, k, v [B, T, G, D'] of the synced rows).
    Raises ValueError for a depth outside 1..8.
    """
    if not 1 <= depth <= TILE:
        raise ValueError(f"the MTP chain drafts 1 to {TILE} tokens, not {depth}")
    b, t = synced.token.shape
    line = jnp.arange(b, dtype=jnp.int32)

    def step(carry, i):
        token, hidden, _, _ = carry
        count = synced.count + i
        table = chain_table(token, synced.start, count, synced.pages, line)
        flat = hidden.reshape(-1, hidden.shape[-1])
        y, k, v = _layer(cfg, plan, weights, kv, table, flat)
        last = y.reshape(hidden.shape)[line, count - 1]
        pick, p = _pick(weights, last)
        carry = token.at[line, count].set(pick[:, 0]), hidden.at[line, count].set(last), k, v
        return carry, (pick, p)

    a = cfg.attention
    empty = jnp.zeros((b * (t + TILE), a.kv_heads, a.width), synced.hidden.dtype)
    room = ((0, 0), (0, TILE))
    carry = jnp.pad(synced.token, room), jnp.pad(synced.hidden, (*room, (0, 0))), empty, empty
    steps = jnp.arange(depth, dtype=jnp.int32)
    (_, _, k, v), (picks, probs) = lax.scan(step, carry, steps, unroll=depth if plan.unroll else 1)
    k, v = (rows.reshape(b, t + TILE, *rows.shape[1:])[:, :t] for rows in (k, v))
    return jnp.swapaxes(picks, 0, 1), jnp.swapaxes(probs, 0, 1), k, v


def synced_rows(
    cfg: HybridConfig, weights: HybridWeights, synced: Synced
) -> tuple[jax.Array, jax.Array]:
    """Keys and values [B, T, G, D'] of the synced rows alone, where nothing is to be drafted."""
    b, t = synced.token.shape
    at = (synced.start[:, None] + jnp.arange(t, dtype=jnp.int32)[None]).reshape(-1)
    hidden = synced.hidden.reshape(b * t, -1)
    _, _, _, k, v = _inputs(cfg, weights, synced.token.reshape(-1), hidden, at)
    return k.reshape(b, t, *k.shape[1:]), v.reshape(b, t, *v.shape[1:])


def sync_chunk(
    cfg: HybridConfig, weights: HybridWeights, kv: KvCache, chunk: Chunk, hidden: jax.Array
) -> KvCache:
    """Fill the MTP cache for a prefill chunk; hidden [C, D], `chunk.token` the token after each.

    Only keys and values are needed: nobody reads the outputs of these rows.
    """
    _, _, _, k, v = _inputs(cfg, weights, chunk.token, hidden, chunk.position)
    return write_page(kv, k[None], v[None], chunk)
