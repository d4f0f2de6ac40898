"""The two jitted functions that touch the device: one round, one prefill chunk.

Each takes the weights, the donated state and one packed int32 array, and returns the new state
and one packed int32 array: one dispatch and one small read. Packed result of a round, per request:

    path length n | bonus token | path T | MTP tokens K | MTP probabilities K (float32 bits)
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tandem_jax.config import EngineConfig
from tandem_jax.models import mtp
from tandem_jax.models.config import HybridConfig
from tandem_jax.models.hybrid import HybridWeights, head_logits
from tandem_jax.models.prefill import Chunk, prefill_chunk
from tandem_jax.models.verify import commit, verify_rows
from tandem_jax.ops.plan import Plan
from tandem_jax.state.model_state import DeltaState, KvCache, ModelState, scatter_rows
from tandem_jax.tree.accept import accepted_path
from tandem_jax.tree.rows import TILE, RowTable, unpack_trees

TRACES: Counter[str] = Counter()  # how often each step was traced; must stand still after warm-up


@dataclass(frozen=True)
class StepOptions:
    """Static options of a step."""

    mtp_depth: int = 0  # tokens the MTP head drafts behind the bonus token, 0 = head unused
    want_logits: bool = False  # also return the rows' logits, which stay on the device


def empty_state(config: HybridConfig, engine: EngineConfig, mtp_cache: bool) -> ModelState:
    """A zeroed state for all slots; `mtp_cache` adds the MTP layer's KV pages."""
    dtype = jnp.dtype(engine.dtype)
    d, a = config.delta, config.attention
    pages = engine.slots * engine.pages_per_slot

    def cache(layers: int) -> KvCache:
        shape = (layers, pages, engine.page_tokens, a.kv_heads, a.width)
        return KvCache(jnp.zeros(shape, dtype), jnp.zeros(shape, dtype))

    head = (config.n_delta, engine.slots)
    s = jnp.zeros((*head, d.value_heads, d.key_dim, d.value_dim), jnp.float32)
    conv = jnp.zeros((*head, d.taps - 1, d.channels), dtype)
    return ModelState(
        DeltaState(s, conv), cache(config.n_attention), cache(1) if mtp_cache else None
    )


def _bits(x: jax.Array) -> jax.Array:
    return lax.bitcast_convert_type(x, jnp.int32)


def _mtp_after_round(
    config: HybridConfig,
    plan: Plan,
    weights: HybridWeights,
    state: ModelState,
    tree: RowTable,
    hidden: jax.Array,
    accepted: tuple[jax.Array, jax.Array, jax.Array],
    depth: int,
) -> tuple[ModelState, jax.Array]:
    """Sync the MTP cache with the accepted path and draft: (state, [B, 2K] int32)."""
    path, count, bonus = accepted
    b, t = tree.shape
    along = jnp.take_along_axis(tree.token.reshape(b, t), path, 1)
    line = jnp.arange(t, dtype=jnp.int32)[None]
    following = jnp.where(line == count[:, None] - 1, bonus[:, None], jnp.roll(along, -1, axis=1))
    rows = jnp.take_along_axis(hidden.reshape(b, t, -1), path[:, :, None], 1)
    synced = mtp.Synced(following, rows, tree.start, count, tree.pages)
    tokens, probs, k, v = mtp.draft_chain(config, plan, weights, state.mtp_kv, synced, depth)
    kv = scatter_rows(state.mtp_kv, k[None], v[None], tree.pages, tree.start, count)
    return replace(state, mtp_kv=kv), jnp.concatenate([tokens, _bits(probs)], axis=1)


def _mtp_after_chunk(
    config: HybridConfig,
    plan: Plan,
    weights: HybridWeights,
    state: ModelState,
    chunk: Chunk,
    hidden: jax.Array,
    behind: jax.Array,
    depth: int,
) -> tuple[ModelState, jax.Array]:
    """Fill the MTP cache with a chunk whose next token is `behind`, and draft: (state, [2K])."""
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
    return replace(state, mtp_kv=kv), jnp.concatenate([tokens[0], _bits(probs[0])])


def round_step(
    config: HybridConfig,
    plan: Plan,
    rows: int,
    options: StepOptions,
    weights: HybridWeights,
    state: ModelState,
    packed: jax.Array,
) -> tuple[ModelState, jax.Array, jax.Array | None]:
    """Verify the trees of B requests, accept, commit and draft: the whole round.

    packed int32 [B, ...] as `pack_trees` writes it for T = `rows`. Returns (state, result int32
    [B, 2 + T + 2K], logits [B, T, vocab] float32 or None).
    """
    TRACES[f"round {packed.shape[0]}x{rows}"] += 1
    tree = unpack_trees(packed, rows)
    hidden, logits, passed = verify_rows(config, plan, weights, state, tree)
    pick = jnp.argmax(logits, axis=-1).astype(jnp.int32).reshape(tree.shape)
    accepted = accepted_path(
        tree.token.reshape(tree.shape), tree.parent, tree.rows, pick, tree.limit
    )
    path, count, bonus = accepted
    state = commit(config, state, passed, tree, path, count)
    parts = [count[:, None], bonus[:, None], path]
    if options.mtp_depth:
        state, draft = _mtp_after_round(
            config, plan, weights, state, tree, hidden, accepted, options.mtp_depth
        )
        parts.append(draft)
    kept = logits.reshape(*tree.shape, -1) if options.want_logits else None
    return state, jnp.concatenate(parts, axis=1), kept


def prefill_step(
    config: HybridConfig,
    plan: Plan,
    size: int,
    options: StepOptions,
    weights: HybridWeights,
    state: ModelState,
    packed: jax.Array,
) -> tuple[ModelState, jax.Array, jax.Array | None]:
    """One prompt chunk: forward, pick the token after it, sync and draft with the MTP head.

    packed int32: slot, start, count, next prompt token (-1 behind the last chunk) | tokens `size` |
    page list. Returns (state, result int32 [1 + 2K]: picked token, MTP draft; logits [vocab]).
    """
    TRACES[f"prefill {size}"] += 1
    slot, start, count, upcoming = (packed[i] for i in range(4))
    chunk = Chunk(packed[4 : 4 + size], count, start, slot, packed[4 + size :])
    hidden, state = prefill_chunk(config, plan, weights, state, chunk)
    last = lax.dynamic_slice_in_dim(hidden, count - 1, 1)
    logits = head_logits(weights, jnp.pad(last, ((0, TILE - 1), (0, 0))))[0]
    pick = jnp.argmax(logits).astype(jnp.int32)
    parts = [pick[None]]
    if options.mtp_depth:
        behind = jnp.where(upcoming < 0, pick, upcoming)
        state, draft = _mtp_after_chunk(
            config, plan, weights, state, chunk, hidden, behind, options.mtp_depth
        )
        parts.append(draft)
    return state, jnp.concatenate(parts), logits if options.want_logits else None


def compiled(step: Callable, config: HybridConfig, plan: Plan, size: int, options: StepOptions):
    """The jitted form of a step for one bucket; the state argument is donated."""
    return jax.jit(partial(step, config, plan, size, options), donate_argnums=1)


@dataclass(frozen=True)
class RoundResult:
    """One request's line of a round's packed result, on the host."""

    path: np.ndarray  # [n] int32, accepted rows of the tree, root first
    bonus: int  # the model's own token behind the path
    mtp_tokens: np.ndarray  # [K] int32, K = 0 without the head
    mtp_probs: np.ndarray  # [K] float32

    @classmethod
    def from_line(cls, line: np.ndarray, rows: int) -> "RoundResult":
        """Cut a line of `round_step`'s result."""
        n, tail = int(line[0]), line[2 + rows :]
        k = len(tail) // 2
        return cls(line[2 : 2 + n], int(line[1]), tail[:k], tail[k:].view(np.float32))
