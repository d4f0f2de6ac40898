"""Never slower than the plain step: by context class, whether drafting pays at all."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tandem_jax.staircut.estimators import Est
from tandem_jax.staircut.price_model import context_class

_FIRST_PROBE, _LAST_PROBE = 16, 256  # plain rounds before a probe, first and at most
_AGE = 0.98  # what a drafted estimate keeps of its distance to the prior, a plain round
_TRIAL = 8  # drafted rounds before a class may be called losing


@dataclass
class _Class:
    """What one context class has shown."""

    plain: Est = field(default_factory=lambda: Est(0.0, 0.1, 3))  # ms a plain step
    ms: Est = field(default_factory=lambda: Est(0.0, 0.1, 8))  # ms a drafted round
    tokens: Est = field(default_factory=lambda: Est(0.0, 0.1, 8))  # tokens a drafted round
    interval: int = _FIRST_PROBE  # plain rounds between probes
    waited: int = 0  # plain rounds since the last probe

    @property
    def spec(self) -> float:
        """Ms a token of drafted rounds; of the means, which is what a long answer pays."""
        return self.ms.value / max(self.tokens.value, 1e-9)


class NeverSlower:
    """Takes the plain step where drafted rounds cost more a token, and probes again.

    A losing class drafts one round in 16, the interval doubling up to 256 while it keeps losing.
    While it runs plain, its drafted estimate ages towards break-even, so that one slow request
    does not close a class for good. Rule of the TandemLLM project's page; the trial of eight
    rounds before a first verdict is ours.
    """

    def __init__(self) -> None:
        self._classes: dict[int, _Class] = {}

    def is_losing(self, context: int, plain_ms: float) -> bool:
        """Whether drafted rounds cost more a token than plain steps, as far as is known.

        plain_ms: price of a plain step, for a class that has taken none.
        """
        at = self._at(context)
        plain = at.plain.value if at.plain.count else plain_ms
        return at.tokens.count >= _TRIAL and at.spec > plain

    def wants_draft(self, context: int, plain_ms: float) -> bool:
        """Whether the next round should draft: the class does not lose, or a probe is due."""
        at = self._at(context)
        return not self.is_losing(context, plain_ms) or at.waited >= at.interval

    def is_probe_next(self, context: int) -> bool:
        """Whether the round after the one that runs plain now is to be a probe."""
        at = self._at(context)
        return at.waited + 1 >= at.interval

    def pays_turn(
        self, context: int, plain_ms: float, backlog: int, prime_ms: float, expected: int
    ) -> bool:
        """Whether drafting an answer of `expected` tokens pays for the head's unread rows.

        backlog: rows the head has yet to read, prime_ms each. Without any it does.
        """
        if not backlog:
            return True
        at = self._at(context)
        spec = at.spec if at.tokens.count else 0.5 * plain_ms
        return (plain_ms - spec) * expected > backlog * prime_ms

    def observe_plain(self, context: int, ms: float | None) -> None:
        """A plain step was taken; ms None if its time is not known."""
        at = self._at(context)
        at.waited += 1
        if ms is not None:
            at.plain.update(ms)
        if at.tokens.count >= _TRIAL and at.plain.count and at.spec > at.plain.value:
            even = at.plain.value * at.tokens.value
            at.ms.value = even + _AGE * (at.ms.value - even)

    def observe_drafted(self, context: int, ms: float, tokens: int, plain_ms: float) -> None:
        """A drafted round took `ms`, its draft included, and committed `tokens`."""
        at = self._at(context)
        probing = self.is_losing(context, plain_ms)
        at.ms.update(ms)
        at.tokens.update(tokens)
        at.waited = 0
        if not self.is_losing(context, plain_ms):
            at.interval = _FIRST_PROBE
        elif probing:
            at.interval = min(2 * at.interval, _LAST_PROBE)

    def to_dict(self) -> dict:
        """What each class has shown, as plain data for JSON."""
        return {
            str(cls): [
                *(x for est in (at.plain, at.ms, at.tokens) for x in (est.value, est.count)),
                at.interval,
                at.waited,
            ]
            for cls, at in sorted(self._classes.items())
        }

    def load_dict(self, state: Mapping) -> None:
        """Go on from `to_dict`; raises TypeError or ValueError for something else."""
        classes = {}
        for cls, (p, pn, m, mn, t, tn, interval, waited) in state.items():
            at = _Class(interval=int(interval), waited=int(waited))
            for est, value, count in ((at.plain, p, pn), (at.ms, m, mn), (at.tokens, t, tn)):
                est.value, est.count = float(value), int(count)
            classes[int(cls)] = at
        self._classes = classes

    def _at(self, context: int) -> _Class:
        return self._classes.setdefault(context_class(context), _Class())
