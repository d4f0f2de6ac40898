"""Teacher-forced acceptance over the 25 workloads: tokens a round of every drafter.

    python -m tools.measure.acceptance --target CHECKPOINT --drafters DIR... \\
        --sets benchmarks/sets --out benchmarks/results/acceptance.json --plots docs/images
Every drafter proposes behind every position of the reference; rounds are then walked over it. A
round's tokens include the target's own one, a mean is over workloads. `--plots` draws the report.
"""

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from tandem_jax.drafters.lookup import LookupDrafter
from tools.measure.common import (
    DTYPES,
    compute_dtype,
    envelope,
    load_target,
    read_workloads,
    write_result,
)
from tools.measure.proposals import Proposer, Row, load_drafters
from tools.measure.rounds import (
    Proposals,
    Tally,
    empty_tally,
    tally_drafter,
    tally_proposals,
)
from tools.train.repeats import before_loop

LOOKUP_NODES, LOOKUP_DEPTH = 16, 16  # the engine's default budget, the drafter's own depth
GROUPS = {
    "prose": ("prose_novel", "prose_speech", "verse_drama", "scripture_verses"),
    "docs": ("docs_reference", "docs_tutorial", "glossary"),
    "code": ("code_python_lib", "code_python_tests", "code_go", "code_rust"),
    "chat": ("code_from_docstring", "chat_smalltalk", "chat_howto", "chat_think",
             "chat_multiturn"),
    "copy": ("quote_verbatim", "quote_partial", "edit_rename", "edit_insert", "edit_diff",
             "table_convert"),
    "tools_json": ("tool_single", "tool_parallel", "json_record"),
}
ORDER = [name for names in GROUPS.values() for name in names]


def rows_of(workloads: dict, reference: str, cut_loops: bool = False) -> list[tuple[str, Row]]:
    """Return (workload, row) of all items with the chosen reference, "greedy" or "real".

    With cut_loops a reference ends where a loop is in its third period: loops are easy to guess.
    Raises ValueError when an item has none: greedy ones are written by tools.measure.references.
    """
    rows = []
    for name, items in workloads.items():
        for item in items:
            tokens = item.greedy if reference == "greedy" else item.real
            if not tokens:
                raise ValueError(f"workload {name} has no {reference} reference: "
                                 "run tools.measure.references first")
            rows.append((name, Row(item.ids, before_loop(tokens) if cut_loops else tokens)))
    return rows


def tallies(rows: list[tuple[str, Row]], proposer: Proposer, size: int,
            say=lambda text: None) -> dict[str, dict[str, Tally]]:
    """Return {drafter: {workload: Tally}}; "-argmax" is a block drafter without its selector."""
    found: dict[str, dict[str, Tally]] = {}

    def add(drafter: str, workload: str, tally: Tally) -> None:
        of_drafter = found.setdefault(drafter, {})
        old = of_drafter.get(workload, empty_tally(len(tally.accepted)))
        of_drafter[workload] = old + tally

    # Rows of about the same length share a batch; the longest come first.
    sizes = [len(row.prompt) + len(row.reference) for _, row in rows]
    order = sorted(range(len(rows)), key=lambda at: -sizes[at])
    ready = proposer.all([rows[at][1] for at in order], size)
    blocks = {drafter.name for drafter in proposer.drafters}
    lookup = LookupDrafter()
    for done, (at, each) in enumerate(zip(order, ready, strict=True), 1):
        workload, row = rows[at]
        add("lookup", workload, tally_drafter(lookup, row.prompt, row.reference,
                                              max_nodes=LOOKUP_NODES, max_depth=LOOKUP_DEPTH))
        for name, proposals in each.items():
            add(name if name in blocks else f"{name}-{proposals.chain.shape[1]}", workload,
                tally_proposals(proposals, row.reference))
            if name in blocks:
                plain = Proposals(proposals.candidates[..., 0], proposals.candidates)
                add(f"{name}-argmax", workload, tally_proposals(plain, row.reference))
        if done % 20 == 0:
            say(f"{done} of {len(rows)} items")
    return found


def _shares(part: np.ndarray, whole: np.ndarray) -> list[float]:
    return [round(float(x), 4) for x in part / np.maximum(whole, 1)]


def drafter_figures(by_workload: dict[str, Tally]) -> dict:
    """Return a drafter's means over workloads and its curves by slot."""
    total = sum(by_workload.values(), empty_tally(len(next(iter(by_workload.values())).accepted)))
    rate = {name: tally.tokens_per_round for name, tally in by_workload.items()}
    groups = {group: round(float(np.mean([rate[name] for name in names if name in rate])), 3)
              for group, names in GROUPS.items() if any(name in rate for name in names)}
    recall = {"recall_at_1": _shares(total.first, total.anchors),
              "recall_at_16": _shares(total.among, total.anchors)} if total.anchors.any() else {}
    return {"tokens_per_round": round(float(np.mean(list(rate.values()))), 3),
            "rounds": total.rounds, "committed": total.committed, "groups": groups,
            "accepted_by_slot": _shares(total.accepted, total.reached), **recall}


def figures_of(found: dict[str, dict[str, Tally]]) -> dict:
    """Return {"drafters": {...}, "workloads": {workload: {drafter: tokens a round}}}."""
    names = next(iter(found.values()))
    ordered = [name for name in ORDER if name in names] + sorted(set(names) - set(ORDER))
    return {"drafters": {name: drafter_figures(each) for name, each in found.items()},
            "workloads": {name: {drafter: round(each[name].tokens_per_round, 3)
                                 for drafter, each in found.items()} for name in ordered}}


def table_of(figures: dict, title: str) -> Table:
    """Return the table of tokens a round: a line for a workload, then groups and the mean."""
    drafters = list(figures["drafters"])
    table = Table(title=title)
    table.add_column("workload")
    for name in drafters:
        table.add_column(name, justify="right")
    for workload, row in figures["workloads"].items():
        table.add_row(workload, *(f"{row[name]:.2f}" for name in drafters))
    table.add_section()
    for group in next(iter(figures["drafters"].values()))["groups"]:
        table.add_row(f"group {group}", *(f"{figures['drafters'][name]['groups'][group]:.2f}"
                                          for name in drafters))
    table.add_row("mean of workloads", *(f"{figures['drafters'][name]['tokens_per_round']:.2f}"
                                         for name in drafters))
    return table


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the command line's options, of this process when `arguments` is None."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--drafters", type=Path, nargs="*", default=[])
    parser.add_argument("--sets", type=Path, default=Path("benchmarks/sets"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--plots", type=Path, help="folder for the PNG files of the report")
    parser.add_argument("--figures", nargs="*", default=[], metavar="[NAME=]FILE",
                        help="figures.json of trainings whose loss curves --plots draws")
    parser.add_argument("--reference", choices=("greedy", "real"), default="greedy")
    parser.add_argument("--cut-loops", action="store_true", help="end a reference where it loops")
    parser.add_argument("--limit", type=int, help="items a workload")
    parser.add_argument("--batch", type=int, default=4, help="rows at one time")
    parser.add_argument("--dtype", choices=DTYPES, default="auto")
    return parser.parse_args(arguments)


def run(arguments, console: Console) -> dict:
    """Measure, print and write as the command line asks; return the record."""
    target = load_target(arguments.target)
    rows = rows_of(read_workloads(arguments.sets, arguments.limit), arguments.reference,
                   arguments.cut_loops)
    dtype = compute_dtype(arguments.dtype)
    proposer = Proposer(target, load_drafters(arguments.drafters, target), dtype)
    found = tallies(rows, proposer, arguments.batch, console.log)
    figures = figures_of(found)
    record = {**envelope("acceptance over the workloads, teacher-forced",
                         "tools.measure.acceptance", len(rows)),
              "reference": arguments.reference + ", loops cut" * arguments.cut_loops,
              "tokens": sum(len(row.reference) for _, row in rows), "dtype": dtype.name,
              "target": target.folder.name, **figures}
    write_result(record, arguments.out)
    console.print(table_of(figures, f"tokens a round, reference: {record['reference']}"))
    if arguments.plots:
        from tools.measure.report import draw  # matplotlib is an extra, loaded when it is wanted
        for path in draw(record, arguments.figures, arguments.plots):
            console.print(f"{path.name}: {path.stat().st_size} bytes")
    return record


def main() -> None:
    """Read the command line and run."""
    run(parse(), Console(width=120))


if __name__ == "__main__":
    main()
