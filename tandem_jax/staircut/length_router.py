"""The length router: narrow or wide blocks, decided once for each request."""

from collections.abc import Sequence

from tandem_jax.staircut.budget import BudgetPolicy
from tandem_jax.staircut.estimators import Est
from tandem_jax.staircut.policy import Outcome, PolicySetup, RoundInput

_LATCH_AFTER = 4  # wide rounds before anything else
_PROBES = 6  # most narrow probes
_OWN = 4  # narrow samples that are enough
_CEILING = 0.25  # share of wide rounds that fill a narrow block, from which wide is right
_MARGIN = 1.02  # how much more narrow must be worth
_SHORT = 15  # tokens left below which a narrow block does
_FULL = 7  # drafts of a narrow block


class LengthRouter(BudgetPolicy):
    """Four wide rounds, then narrow probes where wide blocks are rarely full, then a latch.

    An arm is worth (accepted + 1) / (verify + draft). The narrow one is taken if it was seen at
    least twice and is worth 2 % more. Rule and constants: the TandemLLM project's published
    description of its served router with StairCut off.
    """

    name = "length"
    heads = ("wide", "narrow")

    def __init__(self, setup: PolicySetup) -> None:
        super().__init__(setup)
        self._forget()

    def reset(self, prompt_ids: Sequence[int]) -> None:
        super().reset(prompt_ids)
        self._forget()

    def observe(self, outcome: Outcome) -> None:
        super().observe(outcome)
        arm, accepted = self._drafted, len(outcome.tokens) - 1
        if not outcome.rows or not arm:
            return
        self._blocks += 1
        self._accepted[arm].update(accepted)
        if arm == "wide":
            self._ceiling.update(float(accepted >= _FULL))
        else:
            self._probes += 1
        if self._latched is None and self._blocks >= _LATCH_AFTER and not self._wants_probe():
            narrow = self._accepted["narrow"].count >= 2
            narrow = narrow and self._worth("narrow") > _MARGIN * self._worth("wide")
            self._latched = "narrow" if narrow else "wide"

    def _forget(self) -> None:
        self._accepted = {"narrow": Est(3.2, warm=8), "wide": Est(3.6, warm=8)}
        self._ceiling = Est(0.0, warm=8)
        self._blocks = self._probes = 0
        self._latched: str | None = None

    def _arm(self, given: RoundInput) -> str:
        if self._latched is not None:
            return self._latched
        if given.max_depth < _SHORT:
            return "narrow"
        if self._blocks < _LATCH_AFTER:
            return "wide"
        return "narrow" if self._wants_probe() else "wide"

    def _wants_probe(self) -> bool:
        own = self._accepted["narrow"].count
        return self._ceiling.value < _CEILING and own < _OWN and self._probes < _PROBES

    def _worth(self, arm: str) -> float:
        curve = self.prices.verify_ms("tree", self._context)
        ms = curve[self.budget(arm) + 1] + self._costs[arm].ms(self._context)
        return (self._accepted[arm].value + 1.0) / ms
