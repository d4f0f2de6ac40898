"""A policy at the place of a drafter: what the round computed in, what it verifies out."""

import logging
from collections.abc import Callable, Mapping, Sequence

from tandem_jax.drafters import Drafter, HeadDraft, Lattice, RoundTime
from tandem_jax.engine.round_clock import RoundClock
from tandem_jax.staircut.policy import Decision, Outcome, Policy, RoundInput
from tandem_jax.staircut.price_model import PriceModel
from tandem_jax.tree import DraftTree

log = logging.getLogger("tandem_jax")

NARROW_SLOTS = 7  # of the one block drafter that is loaded: its first slots stand for a block of 8


class PolicyDrafter(Drafter):
    """Feeds one policy for the life of the program; a request starts with `reset`.

    The head drafts at the end of a round, so the policy says one round ahead whether it wants a
    draft, and a draft that is there is already paid for.
    """

    name = "policy"
    takes_all_rows = True

    def __init__(
        self,
        policy: Policy,
        prices: PriceModel,
        *,
        draft_ms: Callable[[int], float] = lambda context: 0.0,
        missing_rows: Callable[[], Mapping[int, float]] = dict,
        row_buckets: tuple[int, ...] = (),
    ) -> None:
        """`draft_ms`: cost of a draft by context length as far as it is known beforehand;
        `missing_rows`: row buckets that are not compiled, with the ms that would take.
        """
        self.policy, self.prices = policy, prices
        self.decision = Decision(None)  # of the round at hand
        self._missing_rows, self._row_buckets = missing_rows, row_buckets
        self._clock = RoundClock(draft_ms)
        self._head: HeadDraft | Lattice | None = None
        self._time: RoundTime | None = None
        self._length = 0  # tokens committed
        self._is_open = False  # a round was proposed and has not ended
        self._broken = False

    def reset(self, prompt_ids: Sequence[int], *, truth: Sequence[int] | None = None) -> None:
        self.policy.reset(prompt_ids)
        self.decision, self._head, self._time = Decision(None), None, None
        self._length, self._is_open, self._broken = len(prompt_ids), False, False

    def propose(self, anchor: int, max_nodes: int, max_depth: int) -> DraftTree | None:
        self.prices.charge(self._missing_rows(), self._row_buckets)
        given = RoundInput(
            anchor=anchor,
            context=self._length,
            max_nodes=max_nodes,
            max_depth=max_depth,
            wide=self._lattice,
            narrow=self._narrow,
            mtp=self._chain,
            paid=self._head is not None,
        )
        self.decision = self.policy.propose(given)
        self._is_open = True
        return self.decision.tree

    @property
    def wants_head(self) -> bool:
        return self.policy.wants_draft

    def measured(self, time: RoundTime) -> None:
        self._time = time

    def observe(self, tokens: Sequence[int], head: HeadDraft | Lattice | None) -> None:
        time, self._time = self._time, None
        verify_ms, draft_ms = (None, None) if time is None else self._clock.split(time)
        tree = self.decision.tree
        rows = 0 if not self._is_open else 1 if tree is None else len(tree)
        self.policy.observe(Outcome(tokens, rows, verify_ms, draft_ms))
        self._head = self._sound(head)
        self._length += len(tokens)
        self._is_open = False

    def _sound(self, head: HeadDraft | Lattice | None) -> HeadDraft | Lattice | None:
        if not isinstance(head, Lattice) or head.is_finite:
            return head
        if not self._broken:
            log.warning("the drafter's scores are not finite: it proposes nothing")
        self._broken = True
        return None

    def _lattice(self) -> Lattice | None:
        return self._head if isinstance(self._head, Lattice) else None

    def _narrow(self) -> Lattice | None:
        lattice = self._lattice()
        return None if lattice is None else lattice.first(NARROW_SLOTS)

    def _chain(self) -> HeadDraft | None:
        return self._head if isinstance(self._head, HeadDraft) else None
