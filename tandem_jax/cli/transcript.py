"""One answer, followed round by round."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tandem_jax.text.detokenize import Detokenizer

if TYPE_CHECKING:
    from tandem_jax.api import LLM
    from tandem_jax.engine.events import RoundEvent
    from tandem_jax.sampling.params import SamplingParams

OnPiece = Callable[[str, str], None]  # text that became complete, source of its last token


@dataclass(frozen=True)
class Transcript:
    """What one answer was and how it came about."""

    text: str  # without special tokens
    token_ids: tuple[int, ...]  # [N] every committed token
    sources: tuple[str, ...]  # [N] who guessed each of them
    prompt_tokens: int
    rounds: int  # calls of the model after the prefill
    drafted: int  # tokens guessed, over all rounds
    accepted: int  # guesses the model agreed with
    finish_reason: str | None  # "stop", "length", or None if the user stopped it
    seconds: float  # from the request to the last token

    @property
    def tokens_per_round(self) -> float:
        """Tokens committed by rounds, per round; plain decoding has exactly 1.0.

        The first token belongs to the prefill; an answer of that one token has 0.0.
        """
        return (len(self.token_ids) - 1) / self.rounds if self.rounds else 0.0

    @property
    def by_source(self) -> dict[str, int]:
        """Tokens each source contributed, the largest share first."""
        return dict(Counter(self.sources).most_common())


def follow(
    llm: "LLM", prompt_ids: list[int], params: "SamplingParams", on_piece: OnPiece
) -> Transcript:
    """Generate after `prompt_ids` [P] and hand every piece of text on as it becomes complete.

    Raises `RequestError` before the first piece if the prompt or the options do not fit the model.
    """
    started = time.perf_counter()
    detokenizer = Detokenizer(llm.tokenizer, skip_special=True)
    events: list[RoundEvent] = []
    pieces: list[str] = []

    def hand_on(piece: str, source: str) -> None:
        if piece:
            pieces.append(piece)
            on_piece(piece, source)

    for event in llm.stream_ids(prompt_ids, params):
        events.append(event)
        for token, source in zip(event.tokens, event.sources, strict=True):
            hand_on(detokenizer.push([token]), source)
    sources = [source for event in events for source in event.sources]
    hand_on(detokenizer.flush(), sources[-1] if sources else "target")
    return _summed("".join(pieces), events, len(prompt_ids), time.perf_counter() - started)


def _summed(
    text: str, events: list["RoundEvent"], prompt_tokens: int, seconds: float
) -> Transcript:
    return Transcript(
        text=text,
        token_ids=tuple(token for event in events for token in event.tokens),
        sources=tuple(source for event in events for source in event.sources),
        prompt_tokens=prompt_tokens,
        rounds=sum(event.rows > 0 for event in events),
        drafted=sum(event.drafted for event in events),
        accepted=sum(event.accepted for event in events),
        finish_reason=events[-1].finish_reason if events else None,
        seconds=seconds,
    )
