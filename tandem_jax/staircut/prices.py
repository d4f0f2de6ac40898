"""Price tables: what a verify of so many rows costs at a context length, read from JSON.

    {"1024": {"chain": {"2": 74.5, ...}, "tree": {...}, "plain": 72.8, "spec": 21.0, "prime": 0.0},
     ..., "draft": {"wide": {"1024": 15.0}, ...}, "step_ms": 3.7, "measured": "how and when"}

All figures are milliseconds; rows include the anchor, verify includes the commit. `plain` is one
plain step, `spec` a drafted round per token, `prime` the draft head per row it has not read yet,
`draft` what each head's draft costs. Format: the TandemLLM project's published price files.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tandem_jax.errors import ConfigError

MAX_ROWS = 32  # most rows of a tree, the anchor included
KINDS = ("chain", "tree")
HEADS = ("wide", "narrow", "mtp")  # draft heads a price may name
PACKAGED = Path(__file__).parent / "tables"

_SCALARS = ("plain", "spec", "prime")
_TOP = ("draft", "step_ms", "measured")
_MAX_MS = 10_000.0
_NUMBER = re.compile("0|[1-9][0-9]{0,8}")  # a row count or context length as a key
_HINT = "docs/staircut.md has the format; tools.measure.verify_curve writes such a file"


@dataclass(frozen=True)
class ContextPrices:
    """Prices at one context length."""

    verify: Mapping[str, np.ndarray]  # kind -> [MAX_ROWS + 1] float64 ms by rows, index 0 unused
    plain: float | None = None  # ms of a plain step
    spec: float | None = None  # ms per token of drafted rounds
    prime: float | None = None  # ms per unread row of the draft head


@dataclass(frozen=True)
class PriceTable:
    """Prices of one model on one device."""

    name: str  # of the file, for log lines
    contexts: tuple[int, ...]  # tokens, ascending
    prices: tuple[ContextPrices, ...]  # at each of them
    draft: Mapping[str, Mapping[int, float]] = field(default_factory=dict)  # head -> context -> ms
    rows: tuple[int, ...] = ()  # row counts that were measured, ascending; others are interpolated
    measured: str = ""  # how and when

    def verify_ms(self, kind: str, context: int) -> np.ndarray:
        """[MAX_ROWS + 1] ms by rows at a context of so many tokens.

        Linear in log2(context) between two lengths, flat below the first. Past the last one the
        last two lengths' line in tokens goes on: what grows there is the read of the cache.
        """
        curves = [at.verify[kind] for at in self.prices]
        return _between(self.contexts, curves, context)

    def plain_ms(self, context: int) -> float:
        """Ms of a plain step: the table's own figure, else a chain of one row."""
        if all(at.plain is not None for at in self.prices):
            return float(_between(self.contexts, [at.plain for at in self.prices], context))
        return float(self.verify_ms("chain", context)[1])

    def spec_ms(self, context: int) -> float | None:
        """Ms per token of drafted rounds, if the table says it."""
        if any(at.spec is None for at in self.prices):
            return None
        return float(_between(self.contexts, [at.spec for at in self.prices], context))

    def draft_ms(self, head: str, context: int) -> float | None:
        """Ms of one draft of a head, None if the table has none."""
        if head not in self.draft:
            return None
        by_context = self.draft[head]
        return float(_between(tuple(by_context), list(by_context.values()), context))


# Accepted tokens of so many rows before anything is known of a text: the priors of the TandemLLM
# project's length router. A wide draft may be cut to eight rows, a narrow one has no more.
_ACCEPTED = {8: 3.2, 16: 3.6}
_BLOCK = {"wide": 16, "narrow": 8}
_USUAL_CONTEXT = 1024


def preferred_head(table: PriceTable | None) -> str:
    """Which block drafter is worth more at these prices, "wide" (16 rows) or "narrow" (8).

    The best (accepted + 1) / (verify of the rows + draft) over the rows that a head can fill, with
    acceptances that hold before any text was seen. The wide one unless its draft costs enough
    more; the wide one without a table.
    """
    if table is None:
        return "wide"
    verify = table.verify_ms("tree", _USUAL_CONTEXT)

    def value(head: str) -> float:
        draft = table.draft_ms(head, _USUAL_CONTEXT) or 0.0
        fits = (rows for rows in _ACCEPTED if rows <= _BLOCK[head])
        return max((_ACCEPTED[rows] + 1.0) / (float(verify[rows]) + draft) for rows in fits)

    return max(_BLOCK, key=value)


def _between(contexts: tuple[int, ...], values: list, context: int):
    """Value at `context` of a curve given at ascending `contexts`."""
    if context <= contexts[0] or len(contexts) == 1:
        return values[0]
    high = next((i for i, c in enumerate(contexts) if c >= context), None)
    if high is None:
        a, b = contexts[-2:]
        slope = (values[-1] - values[-2]) / (b - a)
        return values[-1] + np.maximum(slope, 0.0) * (context - b)
    a, b = contexts[high - 1], contexts[high]
    share = (math.log2(context) - math.log2(a)) / (math.log2(b) - math.log2(a))
    return values[high - 1] + share * (values[high] - values[high - 1])


def load_prices(prices: str | Path) -> PriceTable:
    """A packaged table by name ("gb10", ...) or a JSON file; raises ConfigError naming the key."""
    path = Path(prices)
    if not path.exists():
        path = PACKAGED / f"{prices}.json"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in PACKAGED.glob("*.json")))
        raise ConfigError(f"no price file {str(prices)!r}", hint=f"a JSON file, or one of: {known}")
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"the price file {path.name} cannot be read: {error}") from error
    return read_prices(raw, path.stem)


def read_prices(raw: object, name: str = "prices") -> PriceTable:
    """The table of a parsed JSON object; raises ConfigError that names the key at fault."""
    place = f"price file {name}"
    if not isinstance(raw, dict):
        raise ConfigError(f"{place}: must hold one JSON object", hint=_HINT)
    unknown = [key for key in raw if key not in _TOP and not _NUMBER.fullmatch(key)]
    if unknown:
        raise ConfigError(f"{place}: unknown key {unknown[0]!r}", hint=_HINT)
    step = raw.get("step_ms")
    if step is not None:
        step = _ms(step, f"{place}: step_ms", least=0.0)
    if not isinstance(raw.get("measured", ""), str):
        raise ConfigError(f"{place}: measured must be a text", hint=_HINT)
    contexts = sorted(int(key) for key in raw if key not in _TOP)
    if not contexts:
        raise ConfigError(f"{place}: has no context length", hint=_HINT)
    if contexts[0] < 1:
        raise ConfigError(f"{place}: the context length {contexts[0]} is not positive", hint=_HINT)
    prices = tuple(_at_context(raw[str(c)], step, f"{place}: {c}") for c in contexts)
    draft = _drafts(raw.get("draft", {}), f"{place}: draft")
    kinds = [raw[str(c)][kind] for c in contexts for kind in KINDS if kind in raw[str(c)]]
    rows = sorted({int(n) for by_rows in kinds for n in by_rows})
    return PriceTable(name, tuple(contexts), prices, draft, tuple(rows), raw.get("measured", ""))


def _at_context(raw: object, step: float | None, place: str) -> ContextPrices:
    if not isinstance(raw, dict):
        raise ConfigError(f"{place} must be an object", hint=_HINT)
    unknown = [key for key in raw if key not in KINDS and key not in _SCALARS]
    if unknown:
        raise ConfigError(f"{place}: unknown key {unknown[0]!r}", hint=_HINT)
    curves = {kind: _curve(raw[kind], step, f"{place}: {kind}") for kind in KINDS if kind in raw}
    if not curves:
        raise ConfigError(f"{place} has neither 'chain' nor 'tree'", hint=_HINT)
    for kind in KINDS:
        curves.setdefault(kind, next(iter(curves.values())))
    scalars = {key: _ms(raw[key], f"{place}: {key}", least=0.0) for key in _SCALARS if key in raw}
    return ContextPrices(curves, **scalars)


def _curve(raw: object, step: float | None, place: str) -> np.ndarray:
    """Ms by rows: flat below the first count, linear between, then `step` or the last slope."""
    by_rows = _by_number(raw, place)
    rows, ms = np.array(list(by_rows)), np.array(list(by_rows.values()))
    if step is None:
        step = (ms[-1] - ms[-2]) / (rows[-1] - rows[-2]) if len(rows) > 1 else 0.0
    every = np.arange(MAX_ROWS + 1)
    return np.interp(every, rows, ms) + np.maximum(every - rows[-1], 0) * max(step, 0.0)


def _drafts(raw: object, place: str) -> dict[str, dict[int, float]]:
    if not isinstance(raw, dict):
        raise ConfigError(f"{place} must be an object", hint=_HINT)
    unknown = [head for head in raw if head not in HEADS]
    if unknown:
        raise ConfigError(f"{place}: unknown head {unknown[0]!r}", hint=f"one of {HEADS}")
    return {head: _by_number(raw[head], f"{place}: {head}") for head in raw}


def _by_number(raw: object, place: str) -> dict[int, float]:
    """{row count or context length: ms}, ascending."""
    if not isinstance(raw, dict) or not raw:
        raise ConfigError(f"{place} must be an object of numbers", hint=_HINT)
    bad = [key for key in raw if not _NUMBER.fullmatch(key) or int(key) < 1]
    if bad:
        raise ConfigError(f"{place}: the key {bad[0]!r} is no positive number", hint=_HINT)
    return {int(key): _ms(raw[key], f"{place}: {key}") for key in sorted(raw, key=int)}


def _ms(value: object, place: str, least: float = 1e-6) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool)
    if not good or not least <= value < _MAX_MS:
        raise ConfigError(f"{place}: {value!r} is no time in milliseconds", hint=_HINT)
    return float(value)
