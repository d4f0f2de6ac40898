"""Pictures of StairCut: a round's staircase, where tokens came from, how prices are learned.

    python -m tools.measure.staircut_report --records FOLDER --prices gb10 --plots docs/images
Replays the policy over recorded heads (tools.measure.record), one policy for all workloads.
"""

import argparse
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tandem_jax.staircut.calibrate import scaled
from tandem_jax.staircut.copy_rate import PACKAGED_PRIOR
from tandem_jax.staircut.cut import Costs, Step, curve
from tandem_jax.staircut.policy import Decision, PolicySetup
from tandem_jax.staircut.price_model import PriceModel
from tandem_jax.staircut.prices import ContextPrices, PriceTable, load_prices
from tandem_jax.staircut.router import StairCut
from tandem_jax.tree import DraftTree
from tandem_jax.tree.render import COLOURS
from tools.measure.record import Record
from tools.measure.replay import Priced, replay
from tools.measure.report import pyplot_headless, save_figure
from tools.measure.router_replay import read_folder, setup_of

WRONG, NOISE = 0.5, 0.03  # the table a model starts from against the truth, and a round's jitter


@dataclass(frozen=True)
class Candidate:
    """One candidate of a round, valued at every node count."""

    label: str
    steps: list[Step]  # node counts as they come in


@dataclass(frozen=True)
class Staircase:
    """One round: what each candidate would earn, and what was decided."""

    candidates: list[Candidate]
    decision: Decision
    verify: list[float]  # ms of a tree by rows


class Watched(StairCut):
    """StairCut that notes the candidates of the round it decides."""

    seen: Staircase | None = None

    def _best(self, given, now) -> Decision:
        decision = super()._best(given, now)
        head_ms = self.draft_cost.ms(given.context) if now.asked or given.paid else 0.0
        found = []
        for label, nodes, ms in self._candidates(now, head_ms, head_ms):
            kind = "chain" if nodes.is_chain else "tree"
            costs = Costs(self.prices.verify_ms(kind, given.context), ms)
            q = scaled(nodes, self.factors(now))
            found.append(Candidate(label, curve(DraftTree.of_lists(nodes), _ordered(nodes, q),
                                                costs, snap=self._setup.snap)))
        self.seen = Staircase(found, decision, self.prices.verify_ms("tree", given.context))
        return decision


def _ordered(nodes, q: list[float]) -> list[float]:
    """q in the order in which a tree keeps its nodes."""
    from tandem_jax.tree.merge import preorder

    return [q[i] for i in preorder(nodes.parents, nodes.scores)]


def staircase_of(record: Record, table: PriceTable, wanted: int) -> Staircase:
    """Of a replay, the round from number `wanted` on that has most candidates, the first such."""
    policy, found = Watched(setup_of(table, PACKAGED_PRIOR)), []

    def note(decision, tokens, verify_ms, draft_ms) -> None:
        if policy.seen is not None and policy.seen.decision is decision:
            found.append(policy.seen)

    replay(policy, record, Priced(table), note)
    return max(found[min(wanted, len(found) - 1):], key=lambda one: len(one.candidates))


def sources_of(records: dict[str, list[Record]], table: PriceTable) -> dict[str, Counter]:
    """{workload: tokens by source} of a replay."""
    policy = StairCut(setup_of(table, PACKAGED_PRIOR))
    found: dict[str, Counter] = {}
    for workload, items in records.items():
        found[workload] = Counter()
        for record in items:
            found[workload].update(replay(policy, record, Priced(table)).sources)
    return found


def price_errors(records: list[Record], truth: PriceTable, seed: int = 0) -> list[float]:
    """|price - truth| / truth of each round's rows, for a model that starts from a wrong table.

    The table it starts from is the truth times WRONG; a round's time has a jitter of NOISE.
    """
    wrong = PriceTable("wrong", truth.contexts, tuple(
        ContextPrices({k: WRONG * v for k, v in at.verify.items()}) for at in truth.prices),
        truth.draft, truth.rows)
    model, rng = PriceModel(wrong), np.random.default_rng(seed)
    policy = StairCut(PolicySetup(model, truth.draft))
    errors: list[float] = []

    class Jittered(Priced):
        def round_ms(self, decision: Decision, context: int) -> tuple[float, float]:
            verify, draft = super().round_ms(decision, context)
            kind = "chain" if decision.tree is None or decision.tree.is_chain else "tree"
            rows = 1 if decision.tree is None else len(decision.tree)
            errors.append(abs(model.verify_ms(kind, context)[rows] - verify) / verify)
            return verify * (1.0 + NOISE * rng.standard_normal()), draft

    for record in records:
        replay(policy, record, Jittered(truth))
    return errors


def draw_staircase(found: Staircase, title: str, folder: Path) -> Path:
    """Prices above, expected tokens a second below, the cut marked."""
    pyplot = pyplot_headless()
    figure, (above, below) = pyplot.subplots(2, 1, figsize=(8.0, 6.0), sharex=True,
                                             height_ratios=(1, 2))
    nodes = range(1, 32)
    above.step(nodes, [found.verify[n + 1] for n in nodes], where="mid", color="0.3")
    above.set(ylabel="ms of a verify", title=title)
    above.grid(alpha=0.3)
    for at, candidate in enumerate(found.candidates):
        steps = candidate.steps
        below.plot([s.nodes for s in steps], [1e3 * s.value for s in steps], color=f"C{at}",
                   label=candidate.label, linewidth=1.2)
        ends = [s for s in steps if s.eligible]
        below.plot([s.nodes for s in ends], [1e3 * s.value for s in ends], "o", color=f"C{at}",
                   markersize=4)
    if found.decision.tree is not None:
        x, y = found.decision.tree.n_draft, 1e3 * found.decision.value
        below.plot([x], [y], "*", color="black", markersize=15, zorder=5,
                   label=f"taken: {found.decision.label}, {x} nodes")
    below.set(xlabel="drafted nodes (dots: where a cut may end)", ylabel="expected tokens a second")
    below.grid(alpha=0.3)
    below.legend(fontsize=8)
    path = save_figure(figure, folder / "staircut-staircase.png")
    pyplot.close(figure)
    return path


def draw_sources(found: dict[str, Counter], folder: Path) -> Path:
    """One stacked bar a workload."""
    pyplot = pyplot_headless()
    names = [name for name in COLOURS if any(by[name] for by in found.values())]
    figure, axis = pyplot.subplots(figsize=(8.0, 6.5))
    left = np.zeros(len(found))
    for name in names:
        share = np.array([by[name] / max(sum(by.values()), 1) for by in found.values()])
        axis.barh(list(found), share, left=left, color=COLOURS[name], label=name)
        left += share
    axis.invert_yaxis()
    axis.set(xlabel="share of the tokens", xlim=(0, 1), title="who guessed the tokens (StairCut)")
    axis.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.4, -0.08), ncols=len(names))
    path = save_figure(figure, folder / "staircut-sources.png")
    pyplot.close(figure)
    return path


def draw_errors(errors: list[float], folder: Path) -> Path:
    """The error round by round, and its median over the last 25."""
    pyplot = pyplot_headless()
    figure, axis = pyplot.subplots(figsize=(8.0, 3.6))
    rolling = [float(np.median(errors[max(0, i - 24): i + 1])) for i in range(len(errors))]
    axis.plot(range(1, len(errors) + 1), errors, ".", markersize=2, color="0.7", label="a round")
    axis.plot(range(1, len(errors) + 1), rolling, color="C0", label="median of the last 25")
    axis.set(xlabel="round", ylabel="|price - truth| / truth", xscale="log", ylim=(0, None),
             title=f"prices learned from a table that says {WRONG:.0%} of the truth")
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    path = save_figure(figure, folder / "staircut-price-error.png")
    pyplot.close(figure)
    return path


def main() -> None:
    """Replay and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=Path, required=True)
    parser.add_argument("--prices", default="gb10")
    parser.add_argument("--workload", default="edit_diff", help="whose round is drawn")
    parser.add_argument("--round", type=int, default=3, help="drawn: the fullest from here on")
    parser.add_argument("--limit", type=int, help="records of a workload")
    parser.add_argument("--plots", type=Path, required=True)
    args = parser.parse_args()
    records, table = read_folder(args.records, args.limit), load_prices(args.prices)
    found = staircase_of(records[args.workload][0], table, args.round)
    title = f"one round of {args.workload}, prices {table.name}"
    every = [record for items in records.values() for record in items]
    for path in (draw_staircase(found, title, args.plots),
                 draw_sources(sources_of(records, table), args.plots),
                 draw_errors(price_errors(every, table), args.plots)):
        print(path)


if __name__ == "__main__":
    main()
