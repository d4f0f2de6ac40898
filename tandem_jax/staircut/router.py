"""StairCut: the candidates of a round, each cut at the node count that pays best."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tandem_jax.staircut.calibrate import scaled
from tandem_jax.staircut.copy_rate import run_bin
from tandem_jax.staircut.cut import MAX_NODES, Costs, Cut, first_run, staircut
from tandem_jax.staircut.lattice_tree import lattice_nodes
from tandem_jax.staircut.policy import Decision, Outcome, PolicySetup, RoundInput
from tandem_jax.staircut.priced import PricedPolicy, Round
from tandem_jax.tree.draft_tree import SOURCE_CODE, SOURCES
from tandem_jax.tree.merge import NodeLists, united

_BLOCK = 16  # rows a wide block fills; what counts as a full round
_DEEP_RATE = 0.97  # rate of a copied token while a run lasts and nothing was counted
_HEAD_SOURCES = [SOURCE_CODE[name] for name in ("df2-greedy", "df2-tree")]


@dataclass(frozen=True)
class StairOptions:
    """What can be switched off to see what it brings."""

    deep_after: int = 2  # full rounds in a row before a deep line; a large number = never
    head_skip: bool = True  # leave out the head's draft on copy runs
    chain: bool = True  # the head's greedy walk is a candidate of its own
    merge: bool = True  # the union of head and lookup is a candidate
    calibrate: bool = True  # scores are scaled by what came of them
    sunk: bool = True  # a draft that was asked for burdens every candidate of its round


class StairCut(PricedPolicy):
    """Asks the lookup always and the block drafter unless a copy runs, cuts four candidates, and
    takes the best in expected tokens a millisecond.

    Candidates: the head's tree, its greedy chain, the lookup's tree, the union of both trees; the
    first of equals wins. Nodes are valued at score times calibration; where the lookup has a
    measured copy rate, that is the calibration. A plain step is taken where it is worth more than
    any of them, and where drafting has been losing (`NeverSlower`). After two full rounds in a row
    one deep line of the text itself may fill all rows.

    Procedure and constants: the TandemLLM project's published description. Ours differ where that
    one is at odds with itself: commit is priced once, every committed token is indexed, a draft's
    cost counts for all candidates of the round that asked for it, since it is spent, and a deep
    line is priced and cut like any other, by the copy rate.
    """

    name = "staircut"
    heads = ("wide", "narrow")

    def __init__(self, setup: PolicySetup, options: StairOptions | None = None) -> None:
        super().__init__(setup, setup.head)
        self.options = options or StairOptions()
        self._full_run = 0  # rounds in a row that committed their whole width

    def reset(self, prompt_ids: Sequence[int]) -> None:
        super().reset(prompt_ids)
        self._full_run = 0

    def observe(self, outcome: Outcome) -> None:
        decision = self._round.decision
        width = _BLOCK if outcome.rows > 8 else 8
        if decision.label == "deep":
            width = outcome.rows
        full = decision.tree is not None and len(outcome.tokens) >= width
        self._full_run = self._full_run + 1 if full else 0
        super().observe(outcome)

    def _choose(self, given: RoundInput, now: Round) -> Decision:
        deep = self._deep_line(given, now)
        if deep is not None:
            now.top = None
            return deep
        self._ask_lookup(given, now)
        now.skips_head = self.options.head_skip and self._copy_alone_wins(given, now)
        if given.paid or not now.skips_head:
            self._ask_head(given, now)
        return self._best(given, now)

    def _deep_line(self, given: RoundInput, now: Round) -> Decision | None:
        """One long copied line, if it is worth more than the head's usual tree."""
        if self._full_run < self.options.deep_after or now.room < _BLOCK:
            return None
        line = self._lookup.deep_line(given.anchor, now.room)
        if line is None:
            return None
        rate = self.copies.rate(self._lookup.match) or _DEEP_RATE
        q = [rate**depth for depth in range(len(line))]
        costs = Costs(self.prices.verify_ms("chain", given.context))
        cut = staircut(line, q, costs, snap=self._setup.snap, max_nodes=now.room)
        if cut is None or cut.step.value <= self._usual_value(given):
            return None
        return Decision(cut.tree, "deep", "", cut.step.value)

    def _usual_value(self, given: RoundInput) -> float:
        """Tokens a millisecond of the head's usual tree, its draft paid."""
        curve = self.prices.verify_ms("tree", given.context)
        ms = curve[min(_BLOCK, given.max_nodes + 1)] + self.draft_cost.ms(given.context)
        return (self.calibration.head_accepted.value + 1.0) / ms

    def _ask_head(self, given: RoundInput, now: Round) -> None:
        lattice = given.wide() if self._setup.head == "wide" else given.narrow()
        now.asked = lattice is not None
        if lattice is not None and lattice.is_finite:
            room = min(given.max_nodes, MAX_NODES)
            now.head = lattice_nodes(lattice.first(given.max_depth), given.anchor, room)

    def _copy_alone_wins(self, given: RoundInput, now: Round) -> bool:
        """Whether the lookup's tree alone is worth more than the head's usual one."""
        if now.lookup is None or run_bin(self.copies.copy_run) < 1:
            return False
        cut = self._cut(now.lookup, now, 0.0, given)
        return cut is not None and cut.step.value > self._usual_value(given)

    def _best(self, given: RoundInput, now: Round) -> Decision:
        head_ms = self.draft_cost.ms(given.context) if now.asked or given.paid else 0.0
        other_ms = head_ms if self.options.sunk else 0.0
        best: Cut | None = None
        label = "plain"
        for name, tree, ms in self._candidates(now, head_ms, other_ms):
            cut = self._cut(tree, now, ms, given)
            if cut is not None and (best is None or cut.step.value > best.step.value):
                best, label = cut, name
        head, plain = self._setup.head if now.asked else "", 1.0 / (now.plain_ms + other_ms)
        if best is None or best.step.value <= plain:
            return Decision(None, "plain", head, plain)
        return Decision(best.tree, label, head, best.step.value)

    def _candidates(
        self, now: Round, head_ms: float, other_ms: float
    ) -> Iterator[tuple[str, NodeLists, float]]:
        """(label, nodes, ms of the draft it has to pay for)."""
        if now.head is not None:
            yield "head", now.head, head_ms
            if self.options.chain and not now.head.is_chain:
                yield "chain", first_run(now.head), head_ms
        if now.lookup is not None:
            yield "lookup", now.lookup, other_ms
        if now.head is not None and now.lookup is not None and self.options.merge:
            yield "merged", united(now.head, now.lookup), head_ms

    def factors(self, now: Round) -> list[float]:
        """What scores are multiplied with, by source code."""
        factors = [1.0] * len(SOURCES)
        if self.options.calibrate:
            for code in _HEAD_SOURCES:
                factors[code] = self.calibration.head.value
            if not now.has_rate:
                factors[SOURCE_CODE["lookup"]] = self.calibration.lookup.value
        return factors

    def _cut(self, tree: NodeLists, now: Round, draft_ms: float, given: RoundInput) -> Cut | None:
        q = scaled(tree, self.factors(now))
        curve = self.prices.verify_ms("chain" if tree.is_chain else "tree", given.context)
        nodes = min(given.max_nodes, MAX_NODES)
        return staircut(tree, q, Costs(curve, draft_ms), snap=self._setup.snap, max_nodes=nodes)
