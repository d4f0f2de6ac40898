"""How many tokens rounds commit, and how many rows they verify: histograms of one policy.

    python -m tools.measure.accept_hist --records FOLDER --prices gb10 [--policy staircut]
Replays the policy over recorded heads (tools.measure.record). Prints a table; --plots FOLDER also
draws staircut-accept-hist.png.
"""

import argparse
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tandem_jax.staircut.copy_rate import PACKAGED_PRIOR
from tandem_jax.staircut.policy import POLICIES, make_policy
from tandem_jax.staircut.prices import PriceTable, load_prices
from tools.measure.record import Record
from tools.measure.replay import Priced, replay
from tools.measure.report import pyplot_headless, save_figure
from tools.measure.router_replay import read_folder, setup_of


@dataclass
class Histogram:
    """Rounds of a policy, counted."""

    tokens: Counter = field(default_factory=Counter)  # committed tokens -> rounds
    rows: Counter = field(default_factory=Counter)  # verified rows -> rounds
    labels: Counter = field(default_factory=Counter)  # kind of decision -> rounds

    @property
    def rounds(self) -> int:
        """Rounds in all."""
        return sum(self.tokens.values())


def histogram(name: str, records: list[Record], table: PriceTable) -> Histogram:
    """Counts over the replay of a policy, kept over all records."""
    policy, found = make_policy(name, setup_of(table, PACKAGED_PRIOR)), Histogram()

    def note(decision, tokens, verify_ms, draft_ms) -> None:
        found.tokens[len(tokens)] += 1
        found.rows[1 if decision.tree is None else len(decision.tree)] += 1
        found.labels[decision.label] += 1

    for record in records:
        replay(policy, record, Priced(table), note)
    return found


def table_of(found: Histogram, name: str) -> Table:
    """Shares of rounds by committed tokens and by rows."""
    table = Table("count", "rounds with so many tokens", "rounds with so many rows",
                  title=f"{name}: {found.rounds} rounds")
    for count in sorted({*found.tokens, *found.rows}):
        table.add_row(str(count), *(f"{by[count]} ({by[count] / found.rounds:.1%})"
                                    for by in (found.tokens, found.rows)))
    return table


def draw(found: Histogram, name: str, folder: Path) -> Path:
    """Two bar charts side by side."""
    pyplot = pyplot_headless()
    figure, axes = pyplot.subplots(1, 2, figsize=(8.0, 3.6))
    for axis, by, label, colour in ((axes[0], found.tokens, "tokens committed", "C0"),
                                    (axes[1], found.rows, "rows verified", "C1")):
        axis.bar(list(by), [n / found.rounds for n in by.values()], color=colour)
        axis.set(xlabel=f"{label} in a round", ylabel="share of rounds", xlim=(0.3, 32.7))
        axis.grid(alpha=0.3, axis="y")
    figure.suptitle(f"{name}: {found.rounds} rounds on the 25 workloads")
    path = save_figure(figure, folder / "staircut-accept-hist.png")
    pyplot.close(figure)
    return path


def main() -> None:
    """Count, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=Path, required=True)
    parser.add_argument("--prices", default="gb10")
    parser.add_argument("--policy", default="staircut", choices=list(POLICIES))
    parser.add_argument("--limit", type=int, help="records of a workload")
    parser.add_argument("--plots", type=Path, help="folder for the picture")
    args = parser.parse_args()
    records = [r for items in read_folder(args.records, args.limit).values() for r in items]
    found = histogram(args.policy, records, load_prices(args.prices))
    Console().print(table_of(found, args.policy))
    if args.plots:
        print(draw(found, args.policy, args.plots))


if __name__ == "__main__":
    main()
