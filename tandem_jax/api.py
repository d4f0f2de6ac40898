"""The front door for notebooks and scripts: open a model, generate, stream, check losslessness."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from tandem_jax.config import EngineConfig
from tandem_jax.drafters import Drafter, drafter_class, make_drafter
from tandem_jax.drafters.corpus import CorpusStore
from tandem_jax.drafters.suffix_store import SuffixStore
from tandem_jax.engine.available import head_warnings, refusal
from tandem_jax.engine.describe import describe
from tandem_jax.engine.engine import Engine
from tandem_jax.engine.events import RoundEvent
from tandem_jax.engine.executables import keep_executables
from tandem_jax.errors import ConfigError
from tandem_jax.loading import load_model, open_model
from tandem_jax.loading_drafter import drafter_for
from tandem_jax.routing import (
    AUTO,
    Routing,
    load_learned,
    policy_for,
    preferred_block,
    route,
    routing_warnings,
    save_learned,
)
from tandem_jax.sampling.params import SamplingParams
from tandem_jax.text import ChatTemplate, Detokenizer, Tokenizer, stop_token_ids
from tandem_jax.tree import DraftTree
from tandem_jax.tree.render import TreeView

log = logging.getLogger("tandem_jax")

DEFAULT_CONTEXT = 4096  # tokens, unless the model holds fewer or the caller asks otherwise
Progress = Callable[[str, int, int], None]  # (phase, done, total)


@dataclass(frozen=True)
class Completion:
    """One finished answer."""

    text: str  # without special tokens
    token_ids: tuple[int, ...]  # every new token, the end token included
    sources: tuple[str, ...]  # who guessed each of them
    finish_reason: str  # "stop" or "length"
    prompt_tokens: int
    completion_tokens: int
    rounds: int  # verify passes after the prefill
    seconds: float
    trace: tuple[TreeView, ...] = ()  # the verified tree of each round, if asked for

    @property
    def tokens_per_round(self) -> float:
        """Tokens committed by rounds, per round; plain decoding has exactly 1.0."""
        return (self.completion_tokens - 1) / self.rounds if self.rounds else 0.0

    @property
    def by_source(self) -> dict[str, int]:
        """Tokens each source contributed, the largest share first."""
        return dict(Counter(self.sources).most_common())


@dataclass(frozen=True)
class LosslessReport:
    """Drafted text beside plain text of the same prompt."""

    lossless: bool  # every token equal
    drafted: tuple[int, ...]  # token ids with the drafter
    plain: tuple[int, ...]  # token ids of one-token decoding
    first_difference: int | None  # index of the first differing token, None if equal
    rounds: int  # of the drafted run
    drafter: str


class LLM:
    """A model ready to write.

    model: directory of a checkpoint in Hugging Face layout, or "mini" / "nano" (shipped).
    drafter: a name of `tandem_jax.drafters.DRAFTERS`; with "auto" a policy decides (`policy`, a
    name of `tandem_jax.staircut.policy.POLICIES`; by default StairCut). draft_model: directory of a
    block drafter (DFlash2, DFlash), or the name of a shipped one; a shipped model takes its own, if
    there is one, unless told. tap: "output" or "entry", against what that checkpoint says.
    prices: price file or name of a packaged one, by default that of the model and device.
    corpus, suffix_store: a directory and a file that the lookup copies from, the second one also
    kept up to date unless `suffix_store_readonly`. learned: a file that the policy's experience is
    read from, if it exists, and written to by `close`. node_budget: most drafted nodes a round.
    dtype "auto" is float32 on a CPU and bfloat16 elsewhere. warmup False compiles buckets on first
    use, "lazy" those of plain steps at once and the others in idle moments. progress(phase, done,
    total) is called while loading, compiling and prefilling. Raises CheckpointError or ConfigError.
    """

    def __init__(
        self,
        model: str | Path,
        *,
        drafter: str = AUTO,
        policy: str = AUTO,
        draft_model: str | Path | None = None,
        tap: str | None = None,
        prices: str | Path | None = None,
        corpus: str | Path | None = None,
        suffix_store: str | Path | None = None,
        suffix_store_readonly: bool = False,
        learned: str | Path | None = None,
        max_context: int | None = None,
        dtype: str = "auto",
        node_budget: int | None = None,
        warmup: bool | str = True,
        progress: Progress | None = None,
        **engine_options: Any,
    ):
        kind = drafter_class(drafter)
        dtype = _checked(dtype, node_budget)
        opened, config, _, warnings = open_model(model, dtype)
        name, block = _draft_choice(drafter, policy, draft_model, opened.path, prices)
        draft = drafter_for(
            name, draft_model, opened.path, config, dtype=dtype, tap=tap, block=block
        )
        chosen = policy_for(drafter, policy, draft is not None, config.mtp and draft is None)
        self.warnings = (
            *warnings,
            *head_warnings(drafter, config.mtp, draft is not None),
            *(() if draft is None else draft.warnings),
            *routing_warnings(chosen, draft.config.block if draft else None),
        )
        for line in self.warnings:
            log.warning("%s: %s", opened.path.name, line)
        self.tokenizer = _tokenizer(opened.path, config.vocab)
        self._chat = ChatTemplate.from_directory(opened.path, self.tokenizer)
        stop_ids = stop_token_ids(opened.generation_config, opened.config)
        self.max_context = _context(max_context, config.max_position)
        settings = EngineConfig(max_context=self.max_context, dtype=dtype, **engine_options)
        keep_executables()
        self.model_name, self.drafter_name = opened.path.resolve().name, drafter
        self.draft_model = None if draft is None else draft.name
        self._progress = progress
        self.engine = Engine(
            load_model(model, dtype, progress),
            settings,
            node_budget=node_budget,
            draft=None if draft is None else draft.load(dtype, progress),
            use_mtp=kind.uses_model_head,
            stop_ids=stop_ids,
        )
        self._stores = _stores(
            self.tokenizer, corpus, suffix_store, read_only=suffix_store_readonly
        )
        self.routing, self._learned = self._route(chosen, prices, learned)
        if warmup:
            self.engine.warm_up(progress, smallest=warmup == "lazy")

    def _route(
        self, policy: str | None, prices: str | Path | None, learned: str | Path | None
    ) -> tuple[Routing | None, Path | None]:
        """The policy with its prices and its experience, and where that is kept."""
        path = None if learned is None else Path(learned)
        try:
            if policy is None:
                if prices is None and path is None:
                    return None, None
                raise ConfigError(
                    f"the drafter {self.drafter_name!r} weighs no prices and learns nothing",
                    hint="leave the drafter at 'auto', or leave out prices and learned",
                )
            routing = route(
                self.engine, policy, model=self.model_name, prices=prices, stores=self._stores
            )
            if path is not None and path.exists():
                load_learned(routing, path)
        except ConfigError:
            self._close_stores()
            raise
        return routing, path

    @property
    def vocab_size(self) -> int:
        """Rows of the model's head."""
        return self.engine.model.config.vocab

    def encode_chat(self, messages: Sequence[Mapping[str, Any]], **template_kwargs) -> list[int]:
        """Prompt ids of a conversation, through the checkpoint's own template."""
        return self._chat.encode(messages, **template_kwargs)

    def stream_ids(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams | None = None,
        *,
        drafter: str | None = None,
        on_tree: Callable[[DraftTree, Sequence[int]], None] | None = None,
    ) -> Iterator[RoundEvent]:
        """Decode token ids round by round; close the iterator to stop early.

        Raises RequestError before the first event.
        """
        params = params or SamplingParams()
        chosen = self._drafter(drafter or self.drafter_name)
        self.engine.check(prompt_ids, params)
        truth = None
        if chosen.needs_truth:
            plain = self.engine.run(prompt_ids, params, self._drafter("none"))
            truth = [token for event in plain for token in event.tokens]
        written: list[int] = []
        try:
            for event in self.engine.run(
                prompt_ids, params, chosen, truth=truth, on_tree=on_tree, progress=self._progress
            ):
                written += event.tokens
                yield event
        finally:
            self._remember([*prompt_ids, *written])

    def stream(self, prompt: str, params: SamplingParams | None = None) -> Iterator[str]:
        """The answer as pieces of text, each ending on a whole character."""
        detokenizer = Detokenizer(self.tokenizer, skip_special=True)
        for event in self.stream_ids(self.tokenizer.encode(prompt), params):
            piece = detokenizer.push(event.tokens)
            if piece:
                yield piece
        rest = detokenizer.flush()
        if rest:
            yield rest

    def generate(
        self,
        prompts: str | Sequence[str],
        params: SamplingParams | None = None,
        *,
        trace: bool = False,
    ) -> Completion | list[Completion]:
        """Complete one prompt, or a list of them one after the other."""
        if isinstance(prompts, str):
            return self._complete(self.tokenizer.encode(prompts), params, trace)
        return [self._complete(self.tokenizer.encode(p), params, trace) for p in prompts]

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        params: SamplingParams | None = None,
        *,
        trace: bool = False,
        **template_kwargs,
    ) -> Completion:
        """Answer a conversation."""
        return self._complete(self.encode_chat(messages, **template_kwargs), params, trace)

    def verify_lossless(
        self, prompt: str | Sequence[int], params: SamplingParams | None = None
    ) -> LosslessReport:
        """Decode with the drafter and plainly, and compare every token."""
        ids = self.tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt)
        events = list(self.stream_ids(ids, params))
        drafted = tuple(token for event in events for token in event.tokens)
        plain = tuple(
            token for e in self.stream_ids(ids, params, drafter="none") for token in e.tokens
        )
        pairs = zip(drafted, plain, strict=False)
        first = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
        if first is None and len(drafted) != len(plain):
            first = min(len(drafted), len(plain))
        rounds = sum(event.rows > 0 for event in events)
        return LosslessReport(first is None, drafted, plain, first, rounds, self.drafter_name)

    def compile_one(self) -> bool:
        """Compile one bucket that is missing, for idle moments; False if none is."""
        return self.engine.compile_one()

    def close(self) -> None:
        """Write what was learned where `learned` said, and let go of the stores."""
        if self._learned is not None:
            save_learned(self._routed(), self._learned)
        self._close_stores()

    def save_learned(self, path: str | Path) -> None:
        """Write what the policy learned so far; raises ConfigError if no policy decides."""
        save_learned(self._routed(), path)

    def load_learned(self, path: str | Path) -> None:
        """Go on from a file of `save_learned`; raises ConfigError if it does not fit."""
        load_learned(self._routed(), path)

    def describe(self) -> dict[str, Any]:
        """What is running and how: JSON-serialisable facts, with reasons for what was not used."""
        return {
            "model": self.model_name,
            "drafter": self.drafter_name,
            "draft_model": self.draft_model,
            **describe(self.engine),
            "routing": None if self.routing is None else self.routing.describe(),
            "warnings": list(self.warnings),
        }

    def _drafter(self, name: str) -> Drafter:
        error = refusal(self.engine, name)
        if error is not None:
            raise error
        if name == AUTO and self.routing is not None:
            return self.routing.drafter
        return make_drafter(name, vocab_size=self.tokenizer.vocab_size)

    def _routed(self) -> Routing:
        if self.routing is None:
            raise ConfigError(
                f"the drafter {self.drafter_name!r} decides nothing, so learns nothing"
            )
        return self.routing

    def _close_stores(self) -> None:
        for store in self._stores:
            if isinstance(store, SuffixStore):
                store.close()

    def _remember(self, tokens: list[int]) -> None:
        for store in self._stores:
            if isinstance(store, SuffixStore):
                try:
                    store.append(tokens)
                except OSError as error:  # a full disk: the answer is written all the same
                    log.warning("suffix store %s: not added: %s", store.path.name, error)

    def _complete(
        self, ids: Sequence[int], params: SamplingParams | None, trace: bool
    ) -> Completion:
        started = time.perf_counter()
        trees: list[TreeView] = []

        def keep(tree: DraftTree, accepted: Sequence[int]) -> None:
            trees.append(
                TreeView(tree, decode=lambda t: self.tokenizer.decode([t]), accepted=accepted)
            )

        events = list(self.stream_ids(ids, params, on_tree=keep if trace else None))
        tokens = tuple(token for event in events for token in event.tokens)
        return Completion(
            text=self.tokenizer.decode(tokens, skip_special=True),
            token_ids=tokens,
            sources=tuple(source for event in events for source in event.sources),
            finish_reason=events[-1].finish_reason or "length",
            prompt_tokens=len(ids),
            completion_tokens=len(tokens),
            rounds=sum(event.rows > 0 for event in events),
            seconds=time.perf_counter() - started,
            trace=tuple(trees),
        )


def _draft_choice(
    drafter: str,
    policy: str,
    draft_model: str | Path | None,
    path: Path,
    prices: str | Path | None,
) -> tuple[str, int | None]:
    """Whose draft model is loaded, and the rows of the block to prefer where several ship."""
    if drafter != AUTO or draft_model is not None:
        return drafter, None
    # The MTP head drafts alone, and plain steps need nobody: no block drafter beside them.
    if policy in ("mtp", "none"):
        return "mtp", None
    device = jax.devices()[0].device_kind
    return drafter, preferred_block(policy, path.resolve().name, device, prices)


def _checked(asked: str, node_budget: int | None) -> str:
    """The dtype asked for, or the device's own; raises ConfigError for a budget of nothing."""
    if node_budget is not None and node_budget < 1:
        raise ConfigError(f"node_budget must be at least 1, not {node_budget}")
    if asked != "auto":
        return asked
    return "float32" if jax.default_backend() == "cpu" else "bfloat16"


def _tokenizer(path: Path, vocab: int) -> Tokenizer:
    """The checkpoint's tokenizer; raises ConfigError if it has more ids than the model has rows."""
    tokenizer = Tokenizer.from_directory(path)
    if tokenizer.vocab_size > vocab:
        raise ConfigError(
            f"the tokenizer has {tokenizer.vocab_size} ids, the model {vocab} rows",
            hint="tokenizer.json and the weights must come from the same checkpoint",
        )
    return tokenizer


def _context(asked: int | None, model: int) -> int:
    if asked is not None and asked > model:
        raise ConfigError(
            f"max_context {asked} is more than the {model} positions the model was made for"
        )
    return min(model, DEFAULT_CONTEXT) if asked is None else asked


def _stores(
    tokenizer: Tokenizer,
    corpus: str | Path | None,
    suffix_store: str | Path | None,
    *,
    read_only: bool,
) -> tuple[CorpusStore | SuffixStore, ...]:
    """The texts a lookup may copy from; raises ConfigError for one that does not fit."""
    if suffix_store is None and read_only:
        raise ConfigError("suffix_store_readonly was given without a suffix_store")
    found: list[CorpusStore | SuffixStore] = []
    if corpus is not None:
        found.append(CorpusStore(corpus, tokenizer.fingerprint))
    if suffix_store is not None:
        found.append(SuffixStore(suffix_store, tokenizer.fingerprint, read_only=read_only))
    return tuple(found)
