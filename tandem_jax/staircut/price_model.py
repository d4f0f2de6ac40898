"""Prices that follow the rounds: a table to start from, corrected by what rounds really took."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from tandem_jax.staircut.estimators import Est
from tandem_jax.staircut.prices import KINDS, MAX_ROWS, PriceTable

log = logging.getLogger("tandem_jax")

ALPHA = 0.1  # weight of a new sample
_WARM = 3  # samples of a count that weigh alike
_FADE = 0.995  # trust that a count keeps while a round of its class runs at another one
_OUTLIER = 3.0  # a sample counts as at most so many times what was expected
_LEAST = 1e-3  # ms, what a price is at least, however fast rounds were
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
        self._live: dict[tuple[int, str], dict[int, _Count]] = {}  # (class, kind) -> by rows
        self._offset: dict[int, Est] = {}  # class -> deviation from the table, ms
        self._charges: tuple[tuple[int, float], ...] = ()  # (bucket rows, ms), ascending
        self._cache: dict[tuple[str, int], list[float]] = {}  # live curves, until the next sample
        self._priors: dict[tuple[str, int], list[float]] = {}  # the table's own, which stay

    def verify_ms(self, kind: str, context: int) -> list[float]:
        """[MAX_ROWS + 1] ms by rows, verify and commit together; index 0 is not used."""
        key = (kind, (context - 1) >> 8)  # no two classes share one
        if key not in self._cache:
            if len(self._cache) > 64:
                self._cache.clear()
            self._cache[key] = self._curve(kind, context)
        return self._cache[key]

    def plain_ms(self, context: int) -> float:
        """Ms of a plain step: one row, or the table's own figure as far as nothing was learned."""
        cls = context_class(context)
        if self.table is None or 1 in self._live.get((cls, "chain"), {}):
            return self.verify_ms("chain", context)[1]
        return max(self._prior("plain", context)[0] + self._shift(cls), _LEAST)

    def observe(self, kind: str, context: int, rows: int, ms: float) -> None:
        """Take in what verifying `rows` rows took."""
        cls = context_class(context)
        counts = self._live.setdefault((cls, kind), {})
        prior = self._prior(kind, context)[rows]
        if self.table is not None or rows in counts:
            ms = min(ms, _OUTLIER * max(self.verify_ms(kind, context)[rows], prior))
        for count in counts.values():
            count.trust *= _FADE
        at = counts.setdefault(rows, _Count(Est(ms, ALPHA, _WARM)))
        at.ms.update(ms)
        at.trust = 1.0
        self._offset.setdefault(cls, Est(0.0, ALPHA, _WARM)).update(ms - prior)
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
            [cls, kind, rows, at.ms.value, at.ms.count, at.trust]
            for (cls, kind), counts in sorted(self._live.items())
            for rows, at in sorted(counts.items())
        ]
        offset = [[cls, est.value, est.count] for cls, est in sorted(self._offset.items())]
        return {"live": live, "offset": offset}

    def load_dict(self, state: Mapping) -> None:
        """Go on from `to_dict`; raises KeyError, TypeError or ValueError for something else."""
        live: dict[tuple[int, str], dict[int, _Count]] = {}
        for cls, kind, rows, value, count, trust in state["live"]:
            if kind not in KINDS or not 1 <= int(rows) <= MAX_ROWS:
                raise ValueError(f"no price: {kind} of {rows} rows")
            est = Est(float(value), ALPHA, _WARM, int(count))
            live.setdefault((int(cls), kind), {})[int(rows)] = _Count(est, float(trust))
        offset = {
            int(cls): Est(float(value), ALPHA, _WARM, int(count))
            for cls, value, count in state["offset"]
        }
        self._live, self._offset = live, offset
        self._cache.clear()

    def _prior(self, kind: str, context: int) -> list[float]:
        """The table's curve of a kind, or, of the kind "plain", one figure."""
        if self.table is None:
            return [1.0] * (MAX_ROWS + 1)
        key = (kind, context >> 8)
        if key not in self._priors:
            if len(self._priors) > 64:
                self._priors.clear()
            plain = kind == "plain"
            self._priors[key] = (
                [self.table.plain_ms(context)]
                if plain
                else self.table.verify_ms(kind, context).tolist()
            )
        return self._priors[key]

    def _shift(self, cls: int) -> float:
        return self._offset[cls].value if cls in self._offset else 0.0

    def _curve(self, kind: str, context: int) -> list[float]:
        cls = context_class(context)
        shift, counts = self._shift(cls), self._live.get((cls, kind), {})
        prices, highest = [], _LEAST
        for rows, prior in enumerate(self._prior(kind, context)):
            ms = prior + shift
            if rows in counts:
                at = counts[rows]
                ms = at.trust * at.ms.value + (1.0 - at.trust) * ms
            if ms > highest:
                highest = ms
            prices.append(highest)
        low = 0
        for bucket, ms in self._charges:
            if ms:
                for rows in range(low, min(bucket, MAX_ROWS) + 1):
                    prices[rows] += ms
            low = bucket + 1
        return prices


@dataclass
class _Count:
    """What one row count was measured at."""

    ms: Est  # live average
    trust: float = 1.0  # weight of it against the table's price with the learned deviation
