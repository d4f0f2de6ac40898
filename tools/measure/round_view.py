"""One round of StairCut in the terminal: candidates, prices, the tree that was verified.

    python -m tools.measure.round_view --records FOLDER --workload code_go --round 4
Replays the policy over a recorded prompt (tools.measure.record) up to that round. A tick marks what
the reference accepted.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tandem_jax.loading import resolve_model
from tandem_jax.staircut.copy_rate import PACKAGED_PRIOR
from tandem_jax.staircut.policy import Decision
from tandem_jax.staircut.prices import PriceTable, load_prices
from tandem_jax.text import Tokenizer
from tandem_jax.tree.render import TreeView
from tools.measure.record import Record, read_records
from tools.measure.replay import Priced, accepted_nodes, replay
from tools.measure.router_replay import setup_of
from tools.measure.staircut_report import Staircase, Watched


@dataclass(frozen=True)
class RoundView:
    """What a round looked like."""

    decision: Decision
    seen: Staircase | None  # its candidates; None for a deep line or a round that asked nobody
    tokens: list[int]  # committed
    verify_ms: float
    draft_ms: float


def round_of(record: Record, table: PriceTable, number: int) -> RoundView:
    """Round `number` (from 0) of a replay; raises IndexError if it has fewer."""
    policy, rounds = Watched(setup_of(table, PACKAGED_PRIOR)), []

    def note(decision, tokens, verify_ms, draft_ms) -> None:
        seen = policy.seen
        own = seen if seen is not None and seen.decision is decision else None
        rounds.append(RoundView(decision, own, list(tokens), verify_ms, draft_ms))

    replay(policy, record, Priced(table), note)
    return rounds[number]


def candidates_table(view: RoundView) -> Table:
    """Each candidate at its best count; the one taken is marked."""
    table = Table("candidate", "nodes", "expected tokens", "ms", "tokens a second", "")
    for candidate in view.seen.candidates if view.seen else ():
        best = max((s for s in candidate.steps if s.eligible), key=lambda s: s.value)
        taken = "taken" if candidate.label == view.decision.label else ""
        table.add_row(candidate.label, str(best.nodes), f"{min(best.gain, best.nodes) + 1:.2f}",
                      f"{best.ms:.1f}", f"{1e3 * best.value:.1f}", taken)
    return table


def show(view: RoundView, decode: Callable[[int], str], console: Console) -> None:
    """Print the round."""
    decision = view.decision
    ms = view.verify_ms + view.draft_ms
    console.print(f"{decision.label}: {len(view.tokens)} tokens in {ms:.1f} ms "
                  f"(verify {view.verify_ms:.1f}, draft {view.draft_ms:.1f})")
    if view.seen is not None:
        console.print(candidates_table(view))
    if decision.tree is not None:
        path = accepted_nodes(decision.tree, view.tokens)
        console.print(repr(TreeView(decision.tree, decode, (0, *path))), markup=False,
                      highlight=False)
    console.print("committed: " + " ".join(repr(decode(token)) for token in view.tokens),
                  markup=False, highlight=False)


def main() -> None:
    """Replay up to the round and show it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=Path, required=True)
    parser.add_argument("--workload", default="code_go")
    parser.add_argument("--item", type=int, default=0)
    parser.add_argument("--round", type=int, default=4)
    parser.add_argument("--prices", default="gb10")
    parser.add_argument("--model", default="mini", help="whose tokenizer decodes the tokens")
    args = parser.parse_args()
    record = read_records(args.records / f"{args.workload}.npz")[args.item]
    tokenizer = Tokenizer.from_directory(resolve_model(args.model))
    view = round_of(record, load_prices(args.prices), args.round)
    show(view, lambda token: tokenizer.decode([token]), Console())


if __name__ == "__main__":
    main()
