"""The two jitted functions that touch the device: one round, one prefill chunk.

Each takes the weights, the donated state and one packed int32 array, and returns the new state
and one packed int32 array: one dispatch and one small read. Packed result of a round, per request:

    path length n | bonus token | path T | what the draft head says

A head says nothing, or, as the MTP head, the two best tokens of K steps | their probabilities, or,
as a block drafter, a lattice: L * k candidates | L * k * k scores. Probabilities and scores are
float32 bits. In a round that asks for no draft the head only syncs its cache and says zeros.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tandem_jax.config import EngineConfig
from tandem_jax.drafters import HeadDraft, Lattice
from tandem_jax.engine import heads
from tandem_jax.models.config import DFlashConfig, HybridConfig
from tandem_jax.models.hybrid import HybridWeights, head_logits
from tandem_jax.models.prefill import Chunk, prefill_chunk
from tandem_jax.models.verify import commit, verify_rows
from tandem_jax.ops.plan import Plan
from tandem_jax.state.model_state import DeltaState, KvCache, ModelState
from tandem_jax.tree.accept import accepted_path
from tandem_jax.tree.rows import TILE, unpack_trees

TRACES: Counter[str] = Counter()  # how often each step was traced; must stand still after warm-up


@dataclass(frozen=True)
class StepOptions:
    """Static options of a step."""

    mtp_depth: int = 0  # tokens the MTP head drafts behind the bonus token, 0 = head unused
    want_logits: bool = False  # also return the rows' logits, which stay on the device
    draft: DFlashConfig | None = None  # the block drafter that runs beside the steps

    def __post_init__(self):
        if self.mtp_depth and self.draft is not None:
            raise ValueError("a step drafts with the MTP head or with a block drafter, not both")

    @property
    def taps(self) -> tuple[int, ...]:
        """Layers whose entering rows the drafter needs."""
        return () if self.draft is None else self.draft.taps


def empty_state(
    config: HybridConfig,
    engine: EngineConfig,
    mtp_cache: bool,
    draft: DFlashConfig | None = None,
) -> ModelState:
    """A zeroed state for all slots; `mtp_cache` and `draft` add the KV pages of a draft head."""
    dtype = jnp.dtype(engine.dtype)
    d, a = config.delta, config.attention
    pages = engine.slots * engine.pages_per_slot

    def cache(layers: int, heads: int = a.kv_heads, width: int = a.width) -> KvCache:
        shape = (layers, pages, engine.page_tokens, heads, width)
        return KvCache(jnp.zeros(shape, dtype), jnp.zeros(shape, dtype))

    head = (config.n_delta, engine.slots)
    s = jnp.zeros((*head, d.value_heads, d.key_dim, d.value_dim), jnp.float32)
    conv = jnp.zeros((*head, d.taps - 1, d.channels), dtype)
    return ModelState(
        DeltaState(s, conv),
        cache(config.n_attention),
        mtp_kv=cache(1) if mtp_cache else None,
        draft_kv=cache(draft.layers, draft.kv_heads, draft.head) if draft else None,
    )


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
    [B, 2 + T + what the head says], logits [B, T, vocab] float32 or None).
    """
    TRACES[f"round {packed.shape[0]}x{rows}"] += 1
    tree = unpack_trees(packed, rows)
    hidden, logits, passed = verify_rows(config, plan, weights, state, tree, options.taps)
    pick = jnp.argmax(logits, axis=-1).astype(jnp.int32).reshape(tree.shape)
    token = tree.token.reshape(tree.shape)
    accepted = heads.Accepted(*accepted_path(token, tree.parent, tree.rows, pick, tree.limit))
    state = commit(config, state, passed, tree, accepted.path, accepted.count)
    parts = [accepted.count[:, None], accepted.bonus[:, None], accepted.path]
    if options.mtp_depth:
        state, said = heads.mtp_after_round(
            config, plan, weights, state, tree, hidden, accepted, options.mtp_depth
        )
        parts.append(said)
    if options.draft is not None:
        state, said = heads.block_after_round(
            options.draft, weights, state, tree, passed.taps, accepted
        )
        parts.append(said)
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
    """One prompt chunk: forward, pick the token after it, sync the draft head and draft.

    packed int32: slot, start, count, next prompt token (-1 behind the last chunk) | tokens `size` |
    page list. Returns (state, result int32: picked token, what the head says; logits [vocab]).
    """
    TRACES[f"prefill {size}"] += 1
    slot, start, count, upcoming = (packed[i] for i in range(4))
    chunk = Chunk(packed[4 : 4 + size], count, start, slot, packed[4 + size :])
    hidden, state, taps = prefill_chunk(config, plan, weights, state, chunk, options.taps)
    last = lax.dynamic_slice_in_dim(hidden, count - 1, 1)
    logits = head_logits(weights, jnp.pad(last, ((0, TILE - 1), (0, 0))))[0]
    pick = jnp.argmax(logits).astype(jnp.int32)
    parts = [pick[None]]
    if options.mtp_depth:
        behind = jnp.where(upcoming < 0, pick, upcoming)
        state, said = heads.mtp_after_chunk(
            config, plan, weights, state, chunk, hidden, behind, options.mtp_depth
        )
        parts.append(said)
    if options.draft is not None:
        state, said = heads.block_after_chunk(
            options.draft, weights, state, chunk, taps, pick, upcoming < 0
        )
        parts.append(said)
    return state, jnp.concatenate(parts), logits if options.want_logits else None


def compiled(step: Callable, config: HybridConfig, plan: Plan, size: int, options: StepOptions):
    """The jitted form of a step for one bucket; the state argument is donated."""
    return jax.jit(partial(step, config, plan, size, options), donate_argnums=1)


def read_head(said: np.ndarray, draft: DFlashConfig | None) -> HeadDraft | Lattice | None:
    """What a draft head said in a packed result, None if none ran."""
    if draft is not None:
        slots, k = draft.slots, draft.top_k
        token, scores = np.split(said, [slots * k])
        scores = scores.view(np.float32).reshape(slots, k, k)
        return Lattice(token.reshape(slots, k), scores, draft.temperature)
    if not len(said):
        return None
    tokens, probs = np.split(said, 2)
    return HeadDraft.of_pairs(tokens.reshape(-1, 2), probs.view(np.float32).reshape(-1, 2))


@dataclass(frozen=True)
class RoundResult:
    """One request's line of a round's packed result, on the host."""

    path: np.ndarray  # [n] int32, accepted rows of the tree, root first
    bonus: int  # the model's own token behind the path
    head: HeadDraft | Lattice | None  # what the draft head says about the tokens behind the bonus

    @classmethod
    def from_line(
        cls,
        line: np.ndarray,
        rows: int,
        draft: DFlashConfig | None = None,
        drafted: bool = True,
    ) -> "RoundResult":
        """Cut a line of `round_step`'s result; `draft` as in the step's options.

        `drafted`: the round was asked for a draft, so that there is one to read.
        """
        n = int(line[0])
        head = read_head(line[2 + rows :], draft) if drafted else None
        return cls(line[2 : 2 + n], int(line[1]), head)
