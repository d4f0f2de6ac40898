"""Exact replay of every policy on recorded heads: tokens a second of simulated time.

    python -m tools.measure.router_replay --prices gb10 --json
StairCut drafts with the head that the prices favour. Prices are a packaged table's name or a JSON
file of tools.measure.verify_curve; records come from tools.measure.record; without --records those
of the shipped models are used, and made once if need be (minutes on a CPU, 0.4 GB in the cache
folder). Prints a table; with
--json the last line is one JSON object with mean_tok_s {policy: x} and staircut_wins {policy: of
the workloads}.
"""

import argparse
import hashlib
import json
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tandem_jax.env import cache_dir
from tandem_jax.loading import shipped_path
from tandem_jax.staircut.copy_rate import PACKAGED_PRIOR, load_prior
from tandem_jax.staircut.policy import POLICIES, Policy, PolicySetup, make_policy, setup_on
from tandem_jax.staircut.price_model import PriceModel
from tandem_jax.staircut.prices import PriceTable, load_prices, preferred_head
from tools.measure.acceptance import ORDER
from tools.measure.common import envelope, write_result
from tools.measure.record import Record, read_records, record_all
from tools.measure.replay import Priced, Replayed, replay

SHIPPED = ("mini", "mini-b16", "mini-b8")


def setup_of(table: PriceTable, prior: Path | None) -> PolicySetup:
    """What the policies are built from: the table, live prices on it, the copy-rate prior."""
    counts = {} if prior is None else load_prior(prior)
    return setup_on(table, PriceModel(table), copy_prior=counts)


def replay_all(
    records: dict[str, list[Record]], names: list[str], table: PriceTable, *,
    prior: Path | None = None, context: int | None = None, fresh: bool = False,
) -> dict[str, dict[str, Replayed]]:
    """Return {policy: {workload: Replayed}}; one policy object for all unless `fresh`."""
    found: dict[str, dict[str, Replayed]] = {}
    for name in names:
        policy: Policy = make_policy(name, setup_of(table, prior))
        found[name] = {}
        for workload, items in records.items():
            total = Replayed()
            for record in items:
                if fresh:
                    policy = make_policy(name, setup_of(table, prior))
                total.add(replay(policy, record, Priced(table, context)))
            found[name][workload] = total
    return found


def summary(found: dict[str, dict[str, Replayed]]) -> dict:
    """Return mean_tok_s, staircut_wins and the figures by workload and policy."""
    rate = {name: {w: each.tok_s for w, each in by.items()} for name, by in found.items()}
    ours = rate.get("staircut", {})
    workloads = list(next(iter(rate.values())))
    return {
        "workloads": len(workloads),
        "mean_tok_s": {name: round(float(np.mean(list(by.values()))), 3)
                       for name, by in rate.items()},
        "staircut_wins": {name: sum(ours[w] > by[w] for w in workloads)
                          for name, by in rate.items() if name != "staircut" and ours},
        "tok_s": {w: {name: round(by[w], 2) for name, by in rate.items()} for w in workloads},
        "tokens_per_round": {name: round(sum(r.tokens for r in by.values())
                                         / sum(r.rounds for r in by.values()), 3)
                             for name, by in found.items()},
        "rows_per_round": {name: round(sum(r.rows for r in by.values())
                                       / sum(r.rounds for r in by.values()), 2)
                           for name, by in found.items()},
        "drafted_share": {name: round(sum(r.drafts for r in by.values())
                                      / sum(r.rounds for r in by.values()), 3)
                          for name, by in found.items()},
    }


def table_of(figures: dict, title: str) -> Table:
    """A table of tokens a second by workload and policy; the best of a row is bold."""
    names = list(figures["mean_tok_s"])
    table = Table("workload", *names, title=title)
    for workload, by in figures["tok_s"].items():
        best = max(by.values())
        table.add_row(workload, *(f"[bold]{by[n]:.1f}[/]" if by[n] == best else f"{by[n]:.1f}"
                                  for n in names))
    table.add_section()
    table.add_row("mean", *(f"{figures['mean_tok_s'][n]:.2f}" for n in names))
    table.add_row("StairCut above", *(str(figures["staircut_wins"].get(n, "")) for n in names))
    table.add_row("tokens a round", *(f"{figures['tokens_per_round'][n]:.2f}" for n in names))
    table.add_row("rows a round", *(f"{figures['rows_per_round'][n]:.1f}" for n in names))
    table.add_row("rounds drafted", *(f"{figures['drafted_share'][n]:.0%}" for n in names))
    return table


def own_records(sets: Path) -> Path:
    """The folder of the shipped models' records; what is missing of them is made, with a line."""
    mini, *drafters = (shipped_path(name) for name in SHIPPED)
    told = hashlib.sha256()
    for path in [*sorted(sets.glob("workloads/*.jsonl")), *(p / "model.safetensors" for p in
                                                            (mini, *drafters))]:
        told.update(path.read_bytes())
    folder = cache_dir() / "records" / told.hexdigest()[:16]
    if len(list(folder.glob("[!.]*.npz"))) < len(list(sets.glob("workloads/*.jsonl"))):
        Console(stderr=True).print(f"no records yet: making them in {folder}, once")
        record_all(mini, drafters, folder, sets=sets)
    return folder


def read_folder(folder: Path, limit: int | None) -> dict[str, list[Record]]:
    """Return {workload: records}, in the order of the tables. Raises SystemExit without any."""
    paths = {path.stem: path for path in folder.glob("*.npz")}
    if not paths:
        raise SystemExit(f"no records in {folder}: run tools.measure.record first")
    names = [name for name in ORDER if name in paths] + sorted(set(paths) - set(ORDER))
    shown = track(names, "reading records", console=Console(stderr=True))
    return {name: read_records(paths[name])[:limit] for name in shown}


def main() -> None:
    """Replay, print the table, write or print the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prices", required=True, help="packaged table (gb10) or JSON file")
    parser.add_argument("--records", type=Path, help="folder; default: the shipped models' own")
    parser.add_argument("--sets", type=Path, default=Path("benchmarks/sets"))
    parser.add_argument("--policies", nargs="+", default=list(POLICIES), choices=list(POLICIES))
    parser.add_argument("--prior", type=Path, default=PACKAGED_PRIOR,
                        help="copy-rate counts; default: the shipped ones")
    parser.add_argument("--context", type=int, help="price as if the context had so many tokens")
    parser.add_argument("--fresh", action="store_true", help="a new policy for every reference")
    parser.add_argument("--limit", type=int, help="records of a workload")
    parser.add_argument("--json", action="store_true", help="print one JSON object last")
    parser.add_argument("--out", type=Path, help="write the figures here")
    args = parser.parse_args()
    table = load_prices(args.prices)
    records = read_folder(args.records or own_records(args.sets), args.limit)
    found = replay_all(records, args.policies, table, prior=args.prior, context=args.context,
                       fresh=args.fresh)
    figures = summary(found)
    head = envelope("replay of every policy on recorded heads, simulated milliseconds",
                    "tools.measure.router_replay", sum(map(len, records.values())))
    record = head | {"prices": table.name, "prices_measured": table.measured,
                     "staircut_head": preferred_head(table),
                     "router": "fresh" if args.fresh else "kept",
                     "context": args.context or "true length", **figures}
    Console(stderr=args.json).print(table_of(figures, f"tokens a second, prices {table.name}"))
    if args.out:
        write_result(record, args.out)
    if args.json:
        print(json.dumps(record))


if __name__ == "__main__":
    main()
