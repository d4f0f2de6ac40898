"""Plain decoding as a policy: one token a round."""

from collections.abc import Sequence

from tandem_jax.staircut.policy import Decision, Outcome, Policy, PolicySetup, RoundInput


class PlainPolicy(Policy):
    """Drafts nothing; the baseline and the oracle of every other policy."""

    name = "none"

    def __init__(self, setup: PolicySetup) -> None:
        self._prices = setup.prices

    def reset(self, prompt_ids: Sequence[int]) -> None:
        pass

    def propose(self, given: RoundInput) -> Decision:
        return Decision(None)

    def observe(self, outcome: Outcome) -> None:
        pass
