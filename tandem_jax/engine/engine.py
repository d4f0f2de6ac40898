"""The one object that owns the device: state, executables, pages, and the loop of a request."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import jax
import numpy as np

from tandem_jax.config import EngineConfig
from tandem_jax.drafters import Drafter, HeadDraft, Lattice
from tandem_jax.engine.buckets import fit_bucket, prompt_chunks, row_buckets
from tandem_jax.engine.events import RoundEvent
from tandem_jax.engine.executables import Executables, Key, Shapes, pack_chunk
from tandem_jax.engine.round import Live, run_round
from tandem_jax.engine.steps import RoundResult, StepOptions, empty_state, read_head
from tandem_jax.errors import ContextLengthError, EmptyPromptError, RequestError
from tandem_jax.models.dflash2 import DraftModel
from tandem_jax.models.hybrid import Model
from tandem_jax.ops.plan import make_plan
from tandem_jax.sampling.params import SamplingParams
from tandem_jax.state.pages import PageTable
from tandem_jax.tree import DraftTree
from tandem_jax.tree.rows import Seat, pack_trees

DEFAULT_BUDGET = 16  # drafted nodes of a drafter that weighs no prices
OnTree = Callable[[DraftTree, Sequence[int]], None]  # (verified tree, accepted rows)


class Engine:
    """Runs requests on one device; one thread may use it at a time."""

    def __init__(
        self,
        model: Model,
        config: EngineConfig,
        *,
        node_budget: int | None = None,
        draft: DraftModel | None = None,
        use_mtp: bool = True,
        want_logits: bool = False,
        delta_scan: str | None = None,
        stop_ids: Sequence[int] = (),
    ):
        """`node_budget`: most drafted nodes a round; by default 16 where no prices decide, and as
        many as there are rows where they do. `stop_ids`: the model's.

        `draft` is a block drafter that runs beside every step, in place of the MTP head.
        `want_logits` keeps the logits of the last round in `last_logits` (tests); `delta_scan`
        names an implementation of the DeltaNet op instead of the best one.
        """
        platform = jax.default_backend()
        if draft is not None:
            model = replace(model, weights=replace(model.weights, draft=draft.weights))
        self.model, self.config = model, config
        self.plan = make_plan(platform, delta_scan=delta_scan)
        self.row_buckets = row_buckets(config, platform)
        most = self.row_buckets[-1] - 1
        self.node_budget = min(node_budget or DEFAULT_BUDGET, most)
        self.max_nodes = min(node_budget or most, most)
        self.stop_ids = frozenset(stop_ids)
        with_mtp = use_mtp and model.config.mtp and draft is None
        self.options = StepOptions(
            config.mtp_depth if with_mtp else 0, want_logits, draft.config if draft else None
        )
        self.state = empty_state(
            model.config, config, self.options.mtp_depth > 0, self.options.draft
        )
        self.pages = PageTable(
            config.slots, config.pages_per_slot, config.slots * config.pages_per_slot
        )
        shapes = Shapes(model.config, config, self.plan, self.options)
        self.executables = Executables(shapes, model.weights, self.state)
        self.last_logits: jax.Array | None = None  # of the last step, if `want_logits`
        self._free = list(range(config.slots))

    def warm_up(
        self, progress: Callable[[str, int, int], None] | None = None, *, smallest: bool = False
    ) -> None:
        """Compile every bucket, so that no later round does; with `smallest`, what plain steps use.

        The rest is left to `compile_one`, in idle moments.
        """
        if smallest:
            keys = [("round", 1, self.row_buckets[0]), ("prefill", 1, self.config.page_tokens)]
        else:
            keys = self._keys()
        self.executables.build(keys, progress)

    def compile_one(self) -> bool:
        """Compile a bucket that is missing, the smallest first; False if none is."""
        missing = [key for key in self._keys() if key not in self.executables.built]
        self.executables.build(missing[:1], None)
        return bool(missing)

    def missing_rows(self) -> dict[int, float]:
        """Row buckets not compiled yet, with the milliseconds that compiling one took so far."""
        seconds = [s for (kind, *_), s in self.executables.seconds.items() if kind == "round"]
        cost = 1e3 * max(seconds, default=0.0)
        built = self.executables.built
        return {rows: cost for rows in self.row_buckets if ("round", 1, rows) not in built}

    def _keys(self) -> list[Key]:
        rounds = [("round", 1, rows) for rows in self.row_buckets]
        return rounds + [("prefill", 1, size) for size in self.config.prefill_buckets]

    @property
    def device_kind(self) -> str:
        """Name of the device it runs on."""
        return jax.tree.leaves(self.model.weights)[0].devices().pop().device_kind

    @property
    def n_compiled(self) -> int:
        """Executables there are; it grows when a round had to compile its bucket."""
        return len(self.executables.built)

    def check(self, prompt_ids: Sequence[int], params: SamplingParams) -> int:
        """The most tokens the answer may have; raises RequestError for a prompt that cannot run."""
        room = self.config.max_context - len(prompt_ids)
        if not prompt_ids:
            raise EmptyPromptError()
        if room < 1:
            raise ContextLengthError(len(prompt_ids), self.config.max_context)
        vocab = self.model.config.vocab
        bad = next((t for t in prompt_ids if not 0 <= t < vocab), None)
        if bad is not None:
            raise RequestError(
                f"token id {bad} is outside the vocabulary of {vocab}", param="prompt"
            )
        return min(params.max_tokens or room, room)

    def run(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        drafter: Drafter,
        *,
        truth: Sequence[int] | None = None,
        on_tree: OnTree | None = None,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> Iterator[RoundEvent]:
        """Decode one request; closing the iterator frees its slot within one round.

        `truth` goes to drafters that need it; `on_tree` sees each verified tree. Raises
        RequestError before the first event, RuntimeError if no slot is free.
        """
        limit = self.check(prompt_ids, params)
        if not self._free:
            raise RuntimeError("no free slot: finish or close another request first")
        slot = self._free.pop()
        stop = frozenset(params.stop_token_ids)
        stop |= frozenset() if params.ignore_eos else self.stop_ids
        try:
            drafter.reset(prompt_ids, truth=truth)
            started = time.perf_counter()
            first, head = self.prefill(slot, np.asarray(prompt_ids, np.int32), progress)
            drafter.observe([first], head)
            reason = "stop" if first in stop else "length" if limit == 1 else None
            ms = (time.perf_counter() - started) * 1e3
            yield RoundEvent((first,), ("target",), 0, 0, 0, reason, ms)
            live = Live(slot, len(prompt_ids), first, limit - 1, stop)
            while reason is None:
                event, live = run_round(self, drafter, live, on_tree)
                reason = event.finish_reason
                yield event
        finally:
            self.pages.release(slot)
            self._free.append(slot)

    def verify(self, trees: Sequence[DraftTree], seats: Sequence[Seat]) -> list[RoundResult]:
        """One round on the device for the trees of B requests: one dispatch, one small read."""
        rows = fit_bucket(max(len(tree) for tree in trees), self.row_buckets)
        step = self.executables.get(("round", len(trees), rows))
        packed = pack_trees(trees, seats, rows)
        self.state, result, self.last_logits = step(self.model.weights, self.state, packed)
        lines = np.asarray(result)
        # One wish for a draft gives every request of the pass one.
        drafted = any(seat.draft for seat in seats)
        return [RoundResult.from_line(line, rows, self.options.draft, drafted) for line in lines]

    def seat(self, live: Live, rows: int, draft: bool) -> Seat:
        """The seat of a request, with pages for every token this round may commit.

        Without `draft` the head that guesses what follows is left out of the round.
        """
        limit = min(live.remaining, rows)
        last = min(live.length + max(limit, 1) - 1, self.config.max_context - 1)
        pages = self.pages.grow(live.slot, last // self.config.page_tokens + 1)
        return Seat(live.slot, live.length, limit, pages, draft)

    def prefill(
        self,
        slot: int,
        prompt: np.ndarray,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> tuple[int, HeadDraft | Lattice | None]:
        """Read a prompt (int32 [P], P >= 1) into a slot: (token behind it, the head's draft).

        The caller gives the slot's pages back. progress("prefill", tokens read, P) a chunk.
        """
        page, result = self.config.page_tokens, np.zeros(1, np.int32)
        for start, count, size in prompt_chunks(len(prompt), page, self.config.prefill_buckets):
            pages = self.pages.grow(slot, start // page + 1)
            end = start + count
            upcoming = int(prompt[end]) if end < len(prompt) else -1
            packed = pack_chunk(slot, start, prompt[start:end], upcoming, size, pages)
            step = self.executables.get(("prefill", 1, size))
            self.state, out, self.last_logits = step(self.model.weights, self.state, packed)
            result = np.asarray(out)
            if progress is not None:
                progress("prefill", end, len(prompt))
        return int(result[0]), read_head(result[1:], self.options.draft)
