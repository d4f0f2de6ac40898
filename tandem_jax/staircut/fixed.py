"""One block width for every round: the baselines."""

from tandem_jax.staircut.budget import BudgetPolicy
from tandem_jax.staircut.policy import RoundInput


class Fixed8(BudgetPolicy):
    """Always the narrow head, a block of 8."""

    name = "fixed8"
    heads = ("narrow",)

    def _arm(self, given: RoundInput) -> str:
        return "narrow"


class Fixed16(BudgetPolicy):
    """Always the wide head, a block of 16."""

    name = "fixed16"
    heads = ("wide",)

    def _arm(self, given: RoundInput) -> str:
        return "wide"
