"""What every policy with prices shares: the lookup, what rounds taught, and the plain step."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tandem_jax.staircut.calibrate import Calibration, DraftCost, put_to_test
from tandem_jax.staircut.copy_rate import CopyRate
from tandem_jax.staircut.cut import MAX_NODES
from tandem_jax.staircut.policy import (
    Decision,
    Outcome,
    Policy,
    PolicySetup,
    RoundInput,
    load_parts,
)
from tandem_jax.staircut.skip import NeverSlower
from tandem_jax.tree.merge import NodeLists


@dataclass
class Round:
    """What one round has seen, from its proposal to its outcome."""

    context: int = 0  # committed tokens before it
    room: int = 0  # drafted nodes and depth that fit
    head: NodeLists | None = None  # the head's tree, before any cut
    lookup: NodeLists | None = None  # the lookup's tree, before any cut
    top: tuple[int, ...] | None = ()  # the lookup's heaviest line; None if it was not asked
    has_rate: bool = False  # the lookup's scores hold a measured copy rate
    asked: bool = False  # the head's draft was asked for and there was one
    skips_head: bool = False  # the lookup alone is worth more than the head's usual tree
    plain_ms: float = 0.0  # price of a plain step
    losing: bool = False  # a plain step, because drafting has been losing here
    decision: Decision = field(default_factory=lambda: Decision(None))  # what came of it


class PricedPolicy(Policy):
    """A policy that weighs its candidates against each other and against the plain step.

    A subclass says what a round drafts (`_choose`). This class keeps the books: the lookup and its
    copy rates, calibrations, the draft's cost, live prices, and whether drafting loses at all.
    """

    def __init__(self, setup: PolicySetup, head: str) -> None:
        self._setup, self.prices = setup, setup.prices
        self._lookup = setup.lookup()
        self.calibration = Calibration()
        self.copies = CopyRate(setup.copy_prior)
        self.draft_cost = DraftCost(setup.draft_ms.get(head))
        self.slower = NeverSlower()
        self._round = Round()
        self._is_new = True  # no round of the request was proposed yet
        self._plain_turn = False  # the whole answer runs plain

    @abstractmethod
    def _choose(self, given: RoundInput, now: Round) -> Decision:
        """What a round drafts that has room for at least one node."""

    def reset(self, prompt_ids: Sequence[int]) -> None:
        self._lookup.reset(prompt_ids)
        self.copies.reset()
        self._round, self._is_new, self._plain_turn = Round(), True, False

    def propose(self, given: RoundInput) -> Decision:
        room = min(given.max_nodes, given.max_depth, MAX_NODES)
        plain_ms = self.prices.plain_ms(given.context)
        self._round = now = Round(given.context, room, plain_ms=plain_ms)
        if self._is_new:
            self._is_new = False
            self._plain_turn = not self.slower.pays_turn(
                given.context, plain_ms, given.backlog, given.prime_ms, given.max_depth
            )
        if room > 0:
            now.losing = self._plain_turn or not self.slower.wants_draft(given.context, plain_ms)
            if now.losing:
                self._ask_lookup(given, now)
            else:
                now.decision = self._choose(given, now)
        return now.decision

    def observe(self, outcome: Outcome) -> None:
        now, tokens = self._round, outcome.tokens
        if now.head is not None:
            got, promised = put_to_test(now.head, tokens)
            self.calibration.head.update(got, promised)
            self.calibration.head_accepted.update(got, 1)
        if now.lookup is not None and not now.has_rate:
            self.calibration.lookup.update(*put_to_test(now.lookup, tokens))
        if outcome.rows:
            self.copies.observe(now.top, tokens)
            self._learn_costs(outcome, now)
        self._lookup.observe(tokens, None)
        self._round = Round()

    @property
    def wants_draft(self) -> bool:
        now = self._round
        if now.losing:
            return not self._plain_turn and self.slower.is_probe_next(now.context)
        return not (now.skips_head or now.decision.label == "deep")

    def state(self) -> dict:
        return {key: part.to_dict() for key, part in self._parts().items()}

    def load_state(self, state: Mapping) -> None:
        load_parts(state, self._parts(), self.name)

    def _parts(self) -> dict:
        return {
            "calibration": self.calibration,
            "copies": self.copies,
            "draft_cost": self.draft_cost,
            "slower": self.slower,
            "prices": self.prices,
        }

    def _ask_lookup(self, given: RoundInput, now: Round) -> None:
        def rho(match):
            rate = self.copies.rate(match)
            now.has_rate = rate is not None
            return rate

        nodes = min(given.max_nodes, MAX_NODES)
        now.lookup = self._lookup.propose_nodes(given.anchor, nodes, given.max_depth, rho)
        now.top = self._lookup.top

    def _learn_costs(self, outcome: Outcome, now: Round) -> None:
        if outcome.draft_ms is not None:
            self.draft_cost.observe(now.context, outcome.draft_ms)
        ms, tree = outcome.verify_ms, now.decision.tree
        if ms is None:
            return
        kind = "chain" if tree is None or tree.is_chain else "tree"
        self.prices.observe(kind, now.context, outcome.rows, ms)
        if tree is None and not now.asked:
            self.slower.observe_plain(now.context, ms)
        else:
            ms += self.draft_cost.ms(now.context) if now.asked else 0.0
            self.slower.observe_drafted(now.context, ms, len(outcome.tokens), now.plain_ms)
