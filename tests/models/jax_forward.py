"""Our JAX model run over a whole prompt, by prefill chunks or by verify rows with commits."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from tandem_jax.config import EngineConfig
from tandem_jax.engine.buckets import prompt_chunks
from tandem_jax.engine.steps import empty_state
from tandem_jax.loading import load_model
from tandem_jax.models.config import HybridConfig
from tandem_jax.models.hybrid import HybridWeights, head_logits
from tandem_jax.models.prefill import Chunk, prefill_chunk
from tandem_jax.models.verify import commit, verify_rows
from tandem_jax.ops.plan import make_plan
from tandem_jax.state.model_state import ModelState
from tandem_jax.tree import DraftTree
from tandem_jax.tree.rows import Seat, pack_trees, unpack_trees

PARITY = Path(__file__).resolve().parents[1] / "fixtures" / "parity"


def load_parity(case: str) -> tuple[HybridConfig, HybridWeights, dict[str, np.ndarray]]:
    """(config, float32 weights, reference arrays) of a fixture."""
    model = load_model(PARITY / case, "float32")
    with np.load(PARITY / case / "reference.npz") as arrays:
        return model.config, model.weights, dict(arrays)


def largest(a: np.ndarray, b: np.ndarray) -> float:
    """Largest absolute difference."""
    return float(np.abs(np.asarray(a, np.float64) - b).max())


@dataclass
class Runner:
    """One model's compiled functions; a new Runner traces everything anew, patches included.

    The pages of a slot are handed out backwards, so that a page is never at its own index.
    """

    config: HybridConfig
    weights: HybridWeights
    page: int = 64  # tokens of a KV page
    slots: int = 1
    max_context: int = 128
    quick: bool = False  # True: compile without optimisation, for functions that run once or twice
    compiled: dict[str, Callable] = field(default_factory=dict)

    @property
    def engine(self) -> EngineConfig:
        """Engine settings with one prefill bucket, the page."""
        return EngineConfig(
            max_context=self.max_context,
            slots=self.slots,
            page_tokens=self.page,
            prefill_buckets=(self.page,),
        )

    def state(self) -> ModelState:
        """An empty state whose unwritten KV rows would show: they are NaN."""
        state = empty_state(self.config, self.engine, mtp_cache=False)
        return replace(state, kv=jax.tree.map(lambda a: jnp.full_like(a, jnp.nan), state.kv))

    def pages(self, slot: int) -> np.ndarray:
        """Page list of a slot."""
        each = self.engine.pages_per_slot
        return np.arange(each, dtype=np.int32)[::-1] + np.int32(slot * each)

    def jitted(self, name: str, function: Callable) -> Callable:
        """`function` with config and plan bound, compiled once for this Runner."""
        if name not in self.compiled:
            bound = partial(function, self.config, make_plan(jax.default_backend()))
            options = {"xla_backend_optimization_level": 0} if self.quick else None
            self.compiled[name] = jax.jit(bound, compiler_options=options)
        return self.compiled[name]

    def prefill(self, ids: np.ndarray, state: ModelState, slot: int = 0):
        """(logits [T, V], state) of a prompt in chunks on the page grid."""
        step, logits = self.jitted("prefill", _prefill_logits), []
        for start, count, size in prompt_chunks(len(ids), self.page, (self.page,)):
            token = np.zeros(size, np.int32)
            token[:count] = ids[start : start + count]
            places = (np.int32(count), np.int32(start), np.int32(slot), self.pages(slot))
            rows, state = step(self.weights, state, Chunk(token, *places))
            logits.append(np.asarray(rows)[:count])
        return np.concatenate(logits), state

    def chains(self, lines: list[np.ndarray], starts: list[int], state: ModelState, rows: int):
        """One pass over a chain for each slot, fully committed: (logits of each chain, state)."""
        trees, seats = [], []
        for slot, (line, start) in enumerate(zip(lines, starts, strict=True)):
            trees.append(DraftTree.chain(int(line[0]), line[1:].tolist(), source="random"))
            seats.append(Seat(slot, start, len(line), self.pages(slot)))
        step = self.jitted(f"rows {len(lines)}x{rows}", partial(_rows_logits, rows))
        logits, state = step(self.weights, state, pack_trees(trees, seats, rows))
        cut = [np.asarray(part)[: len(line)] for part, line in zip(logits, lines, strict=True)]
        return cut, state

    def decode(
        self,
        ids: np.ndarray,
        rows: int,
        *,
        first: int | None = None,
        length: int | None = None,
        state: ModelState | None = None,
        start: int = 0,
    ) -> np.ndarray:
        """Logits [T, V] of ids [T] decoded as chains in a bucket of `rows`.

        The first chain has `first` tokens, the others `length`; both default to `rows`. `start`
        tokens are already in `state`.
        """
        length = rows if length is None else length
        cuts = np.arange(length if first is None else first, len(ids), length)
        state, logits, at = self.state() if state is None else state, [], start
        for line in np.split(ids, cuts):
            (part,), state = self.chains([line], [at], state, rows)
            logits.append(part)
            at += len(line)
        return np.concatenate(logits)


def _prefill_logits(config, plan, weights, state, chunk):
    hidden, state, _ = prefill_chunk(config, plan, weights, state, chunk)
    return head_logits(weights, hidden), state


def _rows_logits(rows, config, plan, weights, state, packed):
    """Verify and commit chains; every row of a chain is accepted."""
    tree = unpack_trees(packed, rows)
    _, logits, passed = verify_rows(config, plan, weights, state, tree)
    b, t = tree.shape
    path = jnp.broadcast_to(jnp.arange(t, dtype=jnp.int32)[None], (b, t))
    return logits.reshape(b, t, -1), commit(config, state, passed, tree, path, tree.rows)
