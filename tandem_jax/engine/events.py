"""What one round tells the outside world."""

from dataclasses import dataclass


@dataclass(frozen=True)
class RoundEvent:
    """The tokens one round committed, already cut at the stop or the limit."""

    tokens: tuple[int, ...]  # committed token ids, in order
    sources: tuple[str, ...]  # who guessed each of them; "target" = the model's own pick
    rows: int  # tree rows verified, the anchor included; 0 for the prefill's first token
    drafted: int  # nodes proposed (rows - 1)
    accepted: int  # drafted nodes on the accepted path, before any cut
    finish_reason: str | None  # None while running, "stop" or "length" on the last event
    round_ms: float  # host wall clock of the round, milliseconds
