"""What part of a round's time was the verify and what part the draft behind it.

One dispatch holds both, so the parts are told apart by comparing rounds: the same shape with and
without a draft.
"""

from collections.abc import Callable

from tandem_jax.drafters import RoundTime
from tandem_jax.staircut.estimators import Est
from tandem_jax.staircut.price_model import context_class


class RoundClock:
    """Splits measured rounds; estimates start from the price table's draft cost."""

    def __init__(self, draft_ms: Callable[[int], float]) -> None:
        """`draft_ms`: cost of a draft by context length before any was told apart, 0 if unknown."""
        self._prior = draft_ms
        self._alone: dict[tuple[int, bool, int], Est] = {}  # (class, chain, rows) -> ms, no draft
        self._draft: dict[int, Est] = {}  # class -> ms

    def split(self, time: RoundTime) -> tuple[float, float | None]:
        """(ms of the verify, ms of the draft or None if the round says nothing of it)."""
        cls = context_class(time.length)
        shape = (cls, time.is_chain, time.rows)
        if not time.drafted:
            self._alone.setdefault(shape, Est(time.ms, 0.1, 3)).update(time.ms)
            return time.ms, None
        if shape not in self._alone:
            draft = self._draft[cls].value if cls in self._draft else self._prior(time.length)
            return max(time.ms - draft, 0.1 * time.ms), None
        alone = self._alone[shape].value
        draft = max(time.ms - alone, 0.0)
        self._draft.setdefault(cls, Est(draft, 0.1, 3)).update(draft)
        return min(alone, time.ms), draft
