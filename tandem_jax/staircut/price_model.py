"""Prices that follow the rounds: a table to start from, corrected by what rounds really took."""

import logging
from collections.abc import Mapping

import numpy as np

from tandem_jax.staircut.estimators import Est
from tandem_jax.staircut.prices import KINDS, MAX_ROWS, PriceTable

log = logging.getLogger("tandem_jax")

ALPHA = 0.1  # weight of a new sample
_WARM = 3  # samples of a count that weigh alike
_FADE = 0.995  # trust that a count keeps while a round of its class runs at another one
_OUTLIER = 3.0  # a sample counts as at most so many times what was expected
_CLASSES = (1024, 262_144)  # smallest and largest context class, tokens


def context_class(context: int) -> int:
    """The power of two at or above a context length, between 1,024 and 262,144 tokens."""
    low, high = _CLASSES
    return min(max(1 << max(context - 1, 0).bit_length(), low), high)


class PriceModel:
    """verify(rows) by kind and context: the table, plus what live rounds say.

    Each measured count keeps an exponential average (0.1, the first three samples alike). Counts
    not measured move with the class: the table's price plus the mean deviation learned there. A
    measured count's own figure fades towards that while other counts run, so that one slow round
    does not close a count for good. Prices never fall with more rows. Without a table every count
    starts at 1 ms, so cuts go deep until rounds have priced them. The learning rule is that of the
    TandemLLM project's shared price files, with our fading added.
    """

    def __init__(self, table: PriceTable | None, *, missing: str = "") -> None:
        """`missing`: the name or path that was looked for in vain, told once in the log."""
        self.table = table
        if table is None and missing:
            log.warning("no prices for this device (%s): every row count starts at 1 ms", missing)
        self._live: dict[tuple[int, str, int], Est] = {}  # (class, kind, rows)
        self._trust: dict[tuple[int, str, int], float] = {}
        self._offset: dict[int, Est] = {}  # class -> deviation from the table, ms
        self._charges: tuple[tuple[int, float], ...] = ()  # (bucket rows, ms), ascending
        self._cache: dict[tuple[str, int], list[float]] = {}  # live curves, until the next sample
        self._priors: dict[tuple[str, int], np.ndarray | float] = {}  # the table's own, which stay

    def verify_ms(self, kind: str, context: int) -> list[float]:
        """[MAX_ROWS + 1] ms by rows, verify and commit together; index 0 is not used."""
        key = (kind, context >> 8)
        if key not in self._cache:
            if len(self._cache) > 64:
                self._cache.clear()
            self._cache[key] = self._curve(kind, context)
        return self._cache[key]

    def plain_ms(self, context: int) -> float:
        """Ms of a plain step: one row, or the table's own figure as far as nothing was learned."""
        cls = context_class(context)
        if self.table is None or (cls, "chain", 1) in self._live:
            return self.verify_ms("chain", context)[1]
        return self._prior("plain", context) + self._shift(cls)

    def observe(self, kind: str, context: int, rows: int, ms: float) -> None:
        """Take in what verifying `rows` rows took."""
        cls, key = context_class(context), (context_class(context), kind, rows)
        prior = float(self._prior(kind, context)[rows])
        if self.table is not None or key in self._live:
            ms = min(ms, _OUTLIER * max(self.verify_ms(kind, context)[rows], prior))
        self._live.setdefault(key, Est(ms, ALPHA, _WARM)).update(ms)
        self._offset.setdefault(cls, Est(0.0, ALPHA, _WARM)).update(ms - prior)
        for other in self._trust:
            if other[0] == cls and other[1] == kind:
                self._trust[other] *= _FADE
        self._trust[key] = 1.0
        self._cache.clear()

    def charge(self, missing: Mapping[int, float], buckets: tuple[int, ...]) -> None:
        """Add to each row count the ms that compiling its bucket would take, if it is missing.

        missing: bucket -> ms of those not compiled; buckets: all of them, ascending.
        """
        charges = tuple((bucket, missing.get(bucket, 0.0)) for bucket in buckets)
        if charges != self._charges:
            self._charges = charges
            self._cache.clear()

    def to_dict(self) -> dict:
        """What was learned, as plain data for JSON."""
        live = [
            [cls, kind, rows, est.value, est.count, self._trust[cls, kind, rows]]
            for (cls, kind, rows), est in sorted(self._live.items())
        ]
        offset = [[cls, est.value, est.count] for cls, est in sorted(self._offset.items())]
        return {"live": live, "offset": offset}

    def load_dict(self, state: Mapping) -> None:
        """Go on from `to_dict`; raises KeyError, TypeError or ValueError for something else."""
        live, trust = {}, {}
        for cls, kind, rows, value, count, weight in state["live"]:
            if kind not in KINDS or not 1 <= int(rows) <= MAX_ROWS:
                raise ValueError(f"no price: {kind} of {rows} rows")
            key = (int(cls), kind, int(rows))
            live[key] = Est(float(value), ALPHA, _WARM, int(count))
            trust[key] = float(weight)
        offset = {
            int(cls): Est(float(value), ALPHA, _WARM, int(count))
            for cls, value, count in state["offset"]
        }
        self._live, self._trust, self._offset = live, trust, offset
        self._cache.clear()

    def _prior(self, kind: str, context: int) -> np.ndarray | float:
        """The table's curve of a kind, or its plain step."""
        if self.table is None:
            return np.ones(MAX_ROWS + 1)
        key = (kind, context >> 8)
        if key not in self._priors:
            if len(self._priors) > 64:
                self._priors.clear()
            ask = self.table
            plain = kind == "plain"
            self._priors[key] = ask.plain_ms(context) if plain else ask.verify_ms(kind, context)
        return self._priors[key]

    def _shift(self, cls: int) -> float:
        return self._offset[cls].value if cls in self._offset else 0.0

    def _curve(self, kind: str, context: int) -> list[float]:
        cls = context_class(context)
        prices = self._prior(kind, context) + self._shift(cls)
        for (c, k, rows), est in self._live.items():
            if c == cls and k == kind:
                trust = self._trust[c, k, rows]
                prices[rows] = trust * est.value + (1.0 - trust) * prices[rows]
        prices = np.maximum.accumulate(np.maximum(prices, 1e-3))
        low = 0
        for bucket, ms in self._charges:
            prices[low : bucket + 1] += ms
            low = bucket + 1
        return prices.tolist()
