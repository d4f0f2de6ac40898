"""Whole requests through the engine, and the plain text to compare them with."""

from collections.abc import Sequence
from dataclasses import dataclass

from tandem_jax.drafters import Drafter, make_drafter
from tandem_jax.engine.engine import Engine, OnTree
from tandem_jax.engine.events import RoundEvent
from tandem_jax.sampling.params import SamplingParams
from tests.laws.bench import VOCAB


@dataclass(frozen=True)
class Answer:
    """What one request brought."""

    events: list[RoundEvent]  # the first one is the prefill's

    @property
    def tokens(self) -> list[int]:
        """All token ids."""
        return [token for event in self.events for token in event.tokens]

    @property
    def sources(self) -> list[str]:
        """Who guessed each token."""
        return [source for event in self.events for source in event.sources]

    @property
    def drafted(self) -> int:
        """Nodes proposed."""
        return sum(event.drafted for event in self.events)

    @property
    def accepted(self) -> int:
        """Proposed nodes that were accepted."""
        return sum(event.accepted for event in self.events)

    @property
    def reason(self) -> str | None:
        """Why it ended."""
        return self.events[-1].finish_reason


def answer(
    engine: Engine,
    prompt: Sequence[int],
    params: SamplingParams | int,
    drafter: Drafter | None = None,
    *,
    truth: Sequence[int] | None = None,
    on_tree: OnTree | None = None,
) -> Answer:
    """Run a request to its end; `params` may be the number of tokens, no drafter is plain."""
    params = SamplingParams(max_tokens=params) if isinstance(params, int) else params
    drafter = drafter or make_drafter("none", vocab_size=VOCAB)
    events = list(engine.run(prompt, params, drafter, truth=truth, on_tree=on_tree))
    assert all(event.finish_reason is None for event in events[:-1])
    assert all(len(event.tokens) == len(event.sources) for event in events)
    return Answer(events)


class PlainTexts:
    """Plain decoding of one engine, each text made once."""

    def __init__(self, engine: Engine):
        self._engine = engine
        self._made: dict[tuple[int, ...], list[int]] = {}

    def __call__(self, prompt: Sequence[int], n_tokens: int) -> list[int]:
        """The first `n_tokens` tokens after the prompt."""
        key = (*prompt, n_tokens)
        if key not in self._made:
            self._made[key] = answer(self._engine, prompt, n_tokens).tokens
        return self._made[key]
