"""The tiny hybrid model on the bench: single steps, forked states, and what plain decoding leaves.

Every step is one of the engine's own executables. Whatever a request has not committed is NaN
before each step, so a result that reads it cannot pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from tempfile import TemporaryDirectory

import numpy as np

from checkpoints.layouts import FULL, LINEAR
from checkpoints.synthetic import tiny_dense_config, write_checkpoint
from checkpoints.synthetic_drafter import tiny_drafter_config, write_drafter
from tandem_jax.config import EngineConfig
from tandem_jax.engine.buckets import fit_bucket, prompt_chunks
from tandem_jax.engine.engine import Engine
from tandem_jax.engine.executables import pack_chunk
from tandem_jax.engine.steps import RoundResult
from tandem_jax.loading import LoadedModel, load_model
from tandem_jax.loading_drafter import open_drafter
from tandem_jax.models.dflash2 import DraftModel
from tandem_jax.state.model_state import ModelState
from tandem_jax.tree import DraftTree
from tandem_jax.tree.rows import Seat, pack_trees
from tests.laws.bits import same_bits
from tests.laws.states import (
    CONTEXT,
    HOME,
    PAGE,
    SLOTS,
    Committed,
    Place,
    committed,
    fork,
    full_of_nan,
    poison_unused,
)

N_PLAIN = 48  # tokens of a plain run, unless a test asks for more
SEED = 3

# Two groups of two DeltaNet layers and one attention layer, and an MTP head.
CONFIG = tiny_dense_config(
    num_hidden_layers=6, layer_types=[LINEAR, LINEAR, FULL] * 2, max_position_embeddings=1024
)
VOCAB = CONFIG["vocab_size"]
DRAFTER = tiny_drafter_config(CONFIG)


@cache
def tiny_model(dtype: str = "float32") -> LoadedModel:
    """The synthetic model on the device; equal seeds make equal models."""
    with TemporaryDirectory() as folder:
        write_checkpoint(folder, CONFIG, seed=SEED, mtp=True)
        return load_model(folder, dtype)


@cache
def tiny_drafter(dtype: str = "float32", *, nan: bool = False) -> DraftModel:
    """A random DFlash2 drafter for `tiny_model`; with `nan` every weight of it is NaN."""
    with TemporaryDirectory() as folder:
        write_drafter(folder, DRAFTER, seed=SEED, nan=nan)
        return open_drafter(folder, tiny_model(dtype).config).load(dtype)


def new_engine(dtype: str = "float32", **options) -> Engine:
    """An engine of two slots with pages of 64 tokens, its state full of NaN; compiles nothing."""
    buckets = (8, 16, 32) if dtype == "float32" else (8, 32)
    config = EngineConfig(
        max_context=CONTEXT,
        slots=SLOTS,
        page_tokens=PAGE,
        row_buckets=buckets,
        prefill_buckets=(PAGE,),
        dtype=dtype,
    )
    engine = Engine(tiny_model(dtype), config, node_budget=31, want_logits=True, **options)
    engine.state = full_of_nan(engine.state)
    return engine


@cache
def tiny_engine(dtype: str = "float32") -> Engine:
    """The engine that laws and engine tests share; bfloat16 leaves the MTP head out."""
    return new_engine(dtype, use_mtp=dtype == "float32")


@cache
def drafted_engine(dtype: str = "float32") -> Engine:
    """An engine with a random block drafter beside the model."""
    return new_engine(dtype, draft=tiny_drafter(dtype))


def random_prompt(n_tokens: int) -> list[int]:
    """Random token ids, the same ones for one length."""
    return np.random.default_rng([SEED, n_tokens]).integers(0, VOCAB, n_tokens).tolist()


@dataclass(frozen=True)
class PlainRun:
    """A prompt and what one-token decoding makes of it."""

    start: ModelState  # after the prompt; see `fork`
    n_prompt: int
    tokens: list[int]  # [n+1], the prefill's pick and then the pick of each step
    logits: np.ndarray  # [n, vocab] float32, row i after feeding tokens[i]
    s: list[np.ndarray]  # [n+1], recurrent state after i steps
    conv: list[np.ndarray]  # [n+1], conv tail after i steps
    k: np.ndarray  # [L, n_prompt + n, G, D] keys after the last step
    v: np.ndarray  # [L, n_prompt + n, G, D]

    @property
    def steps(self) -> int:
        """Tokens fed after the prompt."""
        return len(self.logits)

    def fork(self) -> ModelState:
        """The state after the prompt, to be consumed."""
        return fork(self.start)

    def committed(self, fed: int) -> Committed:
        """What the request had left after `fed` steps."""
        length = self.n_prompt + fed
        return Committed(self.s[fed], self.conv[fed], self.k[:, :length], self.v[:, :length])


class Bench:
    """Steps of one engine on states of the caller's own; requests live at HOME unless told."""

    def __init__(self, engine: Engine):
        self.engine = engine
        self._plain: dict[tuple[int, int], PlainRun] = {}

    @property
    def buckets(self) -> tuple[int, ...]:
        """Row counts this platform compiles for."""
        return self.engine.row_buckets

    def poisoned(self) -> ModelState:
        """A state that holds NaN everywhere."""
        return full_of_nan(self.engine.state)

    def chunk(
        self, state: ModelState, prompt: Sequence[int], start: int, place: Place = HOME
    ) -> tuple[ModelState, int]:
        """The prompt's chunk that begins at `start`: (state, pick)."""
        chunks = prompt_chunks(len(prompt), PAGE, (PAGE,))
        _, count, size = next(chunk for chunk in chunks if chunk[0] == start)
        end = start + count
        upcoming = prompt[end] if end < len(prompt) else -1
        tokens = np.array(prompt[start:end], np.int32)
        packed = pack_chunk(place.slot, start, tokens, upcoming, size, place.pages)
        step = self.engine.executables.get(("prefill", 1, size))
        state, out, _ = step(self.engine.model.weights, state, packed)
        return state, int(np.asarray(out)[0])

    def prefill(
        self, state: ModelState, prompt: Sequence[int], place: Place = HOME
    ) -> tuple[ModelState, int]:
        """The whole prompt: (state, the first token of the answer)."""
        pick = -1
        for start in range(0, len(prompt), PAGE):
            state, pick = self.chunk(state, prompt, start, place)
        return state, pick

    def dispatch(
        self, state: ModelState, packed: np.ndarray, rows: int
    ) -> tuple[ModelState, list[RoundResult], np.ndarray]:
        """One round of a packed pass: (state, result of each request, logits [B, T, vocab])."""
        step = self.engine.executables.get(("round", len(packed), rows))
        state, out, logits = step(self.engine.model.weights, state, packed)
        draft = self.engine.options.draft
        results = [RoundResult.from_line(line, rows, draft) for line in np.asarray(out)]
        return state, results, np.array(logits)

    def round(
        self,
        state: ModelState,
        tree: DraftTree,
        length: int,
        *,
        place: Place = HOME,
        limit: int | None = None,
        rows: int | None = None,
    ) -> tuple[ModelState, RoundResult, np.ndarray]:
        """One request's round: (state, result, logits [T, vocab])."""
        rows = rows or fit_bucket(len(tree), self.buckets)
        seat = Seat(place.slot, length, limit or len(tree), place.pages)
        state, (result,), logits = self.dispatch(state, pack_trees([tree], [seat], rows), rows)
        return state, result, logits[0]

    def step(
        self, state: ModelState, token: int, length: int, place: Place = HOME
    ) -> tuple[ModelState, int, np.ndarray]:
        """Plain decoding of one token: (state, pick, logits [vocab])."""
        state, result, logits = self.round(
            state, DraftTree.root_only(token), length, place=place, rows=self.buckets[0]
        )
        return state, result.bonus, logits[0]

    def plain(self, n_prompt: int, n_steps: int = N_PLAIN) -> PlainRun:
        """Plain decoding after a random prompt, made once and kept."""
        if (n_prompt, n_steps) not in self._plain:
            self._plain[n_prompt, n_steps] = self._decode(random_prompt(n_prompt), n_steps)
        return self._plain[n_prompt, n_steps]

    def _decode(self, prompt: Sequence[int], n_steps: int) -> PlainRun:
        n_prompt = len(prompt)
        state, anchor = self.prefill(self.poisoned(), prompt)
        start = poison_unused(state, [(HOME, n_prompt)])
        before = committed(start, HOME, n_prompt)
        tokens, logits, s, conv = [anchor], [], [before.s], [before.conv]
        state = fork(start)
        for fed in range(n_steps):
            state, pick, row = self.step(state, tokens[-1], n_prompt + fed)
            now = committed(state, HOME, n_prompt + fed + 1)
            tokens.append(pick)
            logits.append(row)
            s.append(now.s)
            conv.append(now.conv)
        assert same_bits(before.k, now.k[:, :n_prompt])
        assert same_bits(before.v, now.v[:, :n_prompt])
        assert all(np.isfinite(x.astype(np.float32)).all() for x in (now.s, now.k, now.v))
        return PlainRun(start, n_prompt, tokens, np.stack(logits), s, conv, now.k, now.v)


@cache
def tiny_bench(dtype: str = "float32") -> Bench:
    """The bench around `tiny_engine`."""
    return Bench(tiny_engine(dtype))


@cache
def drafted_bench(dtype: str = "float32") -> Bench:
    """The bench around `drafted_engine`."""
    return Bench(drafted_engine(dtype))
