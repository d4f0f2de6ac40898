"""What a request has cost, counted from committed tokens only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any


class Tally:
    """Counts of one request over all its rounds."""

    def __init__(self) -> None:
        self._rounds = 0  # verify rounds; the prefill that picks the first token is none
        self._round_tokens = 0  # tokens those rounds committed
        self._by_source: Counter[str] = Counter()
        self._rows: Counter[int] = Counter()

    def add(self, event: Any) -> None:
        """Count one RoundEvent."""
        self._by_source.update(event.sources)
        if event.rows:
            self._rounds += 1
            self._round_tokens += len(event.tokens)
            self._rows[event.rows] += 1

    @property
    def completion_tokens(self) -> int:
        """Tokens committed so far."""
        return self._by_source.total()

    def report(self) -> dict[str, Any]:
        """The `tandem` object of an answer; `rows` says how many rounds verified how many rows."""
        return {
            "rounds": self._rounds,
            "tokens_per_round": round(self._round_tokens / max(self._rounds, 1), 4),
            "by_source": dict(sorted(self._by_source.items())),
            "rows": {str(rows): count for rows, count in sorted(self._rows.items())},
        }


def usage(prompt_ids: Iterable[tuple[int, ...]], tally: Tally) -> dict[str, Any]:
    """The `usage` object; its parts never exceed its totals."""
    prompt_tokens = sum(map(len, prompt_ids))
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": tally.completion_tokens,
        "total_tokens": prompt_tokens + tally.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }
