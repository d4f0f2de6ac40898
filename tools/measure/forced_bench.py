"""Policies side by side on the engine: the 25 workloads, real rounds, one text.

    python -m tools.measure.forced_bench --model mini --out benchmarks/results/forced-bench.json
Every policy continues the same prompts greedily, in rotated order, several times. All policies of
one engine write the same text, which is checked token by token, so that their times compare on one
reference without forcing anything; the MTP head runs in an engine of its own, and how often its
text is the same is counted. Reported: tokens a second of round time, tokens and milliseconds a
round, rows, the spread over repeats. The router is kept for a whole run, or fresh for every prompt
with --fresh.
"""

import argparse
import json
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tandem_jax import LLM, SamplingParams
from tandem_jax.routing import Routing, route
from tandem_jax.staircut.policy import POLICIES
from tools.measure.acceptance import ORDER
from tools.measure.common import Item, envelope, read_workloads, write_result

WARM_UP = 64  # tokens written before anything is timed


@dataclass
class Tally:
    """Rounds of one policy on one workload, over all items and repeats."""

    tokens: int = 0  # committed by rounds
    ms: float = 0.0  # wall clock of the rounds
    rounds: int = 0
    rows: int = 0
    rates: list[float] = field(default_factory=list)  # tokens a second of each repeat


@dataclass
class Contender:
    """A policy on an engine."""

    name: str
    llm: LLM
    routing: Routing | None = None

    def renew(self, prices: str | None) -> None:
        """Forget everything learned."""
        self.routing = route(
            self.llm.engine, self.name, model=self.llm.model_name, prices=prices, stores=()
        )

    def rounds(self, ids: list[int], tokens: int) -> Iterator:
        """The events of one answer; the first one is the prefill's."""
        params = SamplingParams(max_tokens=tokens, ignore_eos=True)
        return self.llm.engine.run(ids, params, self.routing.drafter)


def contenders(names: list[str], model: str, draft_model: str, dtype: str) -> list[Contender]:
    """One engine for the policies of a block drafter, one for the model's own head."""
    options = {"max_context": 2048, "dtype": dtype}
    llms: dict[bool, LLM] = {}
    found = []
    for name in names:
        own_head = name == "mtp"
        if own_head not in llms:
            heads = {"drafter": "mtp"} if own_head else {
                "drafter": "dflash2", "draft_model": draft_model}
            llms[own_head] = LLM(model, **heads, **options)
        found.append(Contender(name, llms[own_head]))
    return found


def run_item(contender: Contender, item: Item, tokens: int, tally: Tally) -> list[int]:
    """Write one answer, book its rounds; returns the text."""
    text: list[int] = []
    for event in contender.rounds(item.ids, tokens):
        text += event.tokens
        if event.rows:
            tally.tokens += len(event.tokens)
            tally.ms += event.round_ms
            tally.rounds += 1
            tally.rows += event.rows
    return text


def bench(players: list[Contender], workloads: dict[str, list[Item]], *, tokens: int, repeats: int,
          fresh: bool, prices: str | None) -> tuple[dict[str, dict[str, Tally]], dict]:
    """Return ({policy: {workload: Tally}}, {(engine, workload, item): text}).

    Raises RuntimeError when two texts of one engine differ.
    """
    found = {p.name: {name: Tally() for name in workloads} for p in players}
    engines = list({id(p.llm): p for p in players})
    texts: dict[tuple[int, str, int], list[int]] = {}
    first = next(iter(workloads.values()))[0]
    for player in players:
        player.renew(prices)
        run_item(player, first, WARM_UP, Tally())
    with Progress() as bar:
        task = bar.add_task("running", total=repeats * len(workloads) * len(players))
        for repeat in range(repeats):
            for place, (workload, items) in enumerate(workloads.items()):
                turn = (repeat + place) % len(players)
                for player in players[turn:] + players[:turn]:
                    total = found[player.name][workload]
                    tally = Tally()
                    for number, item in enumerate(items):
                        if fresh:
                            player.renew(prices)
                        text = run_item(player, item, tokens, tally)
                        place_of = (engines.index(id(player.llm)), workload, number)
                        if texts.setdefault(place_of, text) != text:
                            raise RuntimeError(f"{player.name} wrote another text: {workload}")
                    _add(total, tally)
                    bar.advance(task)
    return found, texts


def agreement(texts: dict[tuple[int, str, int], list[int]]) -> str:
    """How many texts of the second engine equal the first one's, "n of m"."""
    pairs = [(text, texts[0, w, i]) for (engine, w, i), text in texts.items() if engine == 1]
    return f"{sum(a == b for a, b in pairs)} of {len(pairs)}"


def _add(total: Tally, tally: Tally) -> None:
    for name in ("tokens", "ms", "rounds", "rows"):
        setattr(total, name, getattr(total, name) + getattr(tally, name))
    total.rates.append(1e3 * tally.tokens / tally.ms)


def figures_of(found: dict[str, dict[str, Tally]]) -> dict:
    """Means over workloads, and by workload the median of the repeats' tokens a second."""
    rate = {n: {w: statistics.median(t.rates) for w, t in by.items()} for n, by in found.items()}
    ours = rate.get("staircut", {})
    names = list(next(iter(rate.values())))
    totals = {n: [sum(getattr(t, key) for t in by.values())
                  for key in ("tokens", "ms", "rounds", "rows")] for n, by in found.items()}
    spread = {n: statistics.median((max(t.rates) - min(t.rates)) / statistics.median(t.rates)
                                   for t in by.values()) for n, by in found.items()}
    return {
        "mean_tok_s": {n: round(statistics.mean(by.values()), 2) for n, by in rate.items()},
        "staircut_wins": {n: sum(ours[w] > by[w] for w in names)
                          for n, by in rate.items() if n != "staircut" and ours},
        "tokens_per_round": {n: round(t[0] / t[2], 3) for n, t in totals.items()},
        "ms_per_round": {n: round(t[1] / t[2], 3) for n, t in totals.items()},
        "rows_per_round": {n: round(t[3] / t[2], 2) for n, t in totals.items()},
        "spread_of_repeats": {n: round(x, 4) for n, x in spread.items()},
        "tok_s": {w: {n: round(by[w], 2) for n, by in rate.items()} for w in names},
    }


def table_of(figures: dict) -> Table:
    """Tokens a second by workload and policy, and the means."""
    names = list(figures["mean_tok_s"])
    table = Table("workload", *names, title="tokens a second of round time")
    for workload, by in figures["tok_s"].items():
        table.add_row(workload, *(f"{by[n]:.1f}" for n in names))
    table.add_section()
    for label, key in (("mean", "mean_tok_s"), ("StairCut above", "staircut_wins"),
                       ("tokens a round", "tokens_per_round"), ("ms a round", "ms_per_round"),
                       ("rows a round", "rows_per_round")):
        table.add_row(label, *(str(figures[key].get(n, "")) for n in names))
    return table


def main() -> None:
    """Run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="mini")
    parser.add_argument("--draft-model", default="mini-b16")
    parser.add_argument("--policies", nargs="+", default=list(POLICIES), choices=list(POLICIES))
    parser.add_argument("--prices", help="default: the packaged table of the model and device")
    parser.add_argument("--sets", type=Path, default=Path("benchmarks/sets"))
    parser.add_argument("--items", type=int, default=1, help="prompts of a workload")
    parser.add_argument("--workloads", nargs="*", help="default: all")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--fresh", action="store_true", help="a new router for every prompt")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    workloads = read_workloads(args.sets, args.items)
    names = [n for n in ORDER if n in workloads and (not args.workloads or n in args.workloads)]
    players = contenders(args.policies, args.model, args.draft_model, args.dtype)
    found, texts = bench(players, {n: workloads[n] for n in names}, tokens=args.tokens,
                                repeats=args.repeats, fresh=args.fresh, prices=args.prices)
    figures = figures_of(found)
    head = envelope("policies on the engine, one text for all of them",
                    "tools.measure.forced_bench", args.repeats * args.items * len(names))
    record = head | {"router": "fresh" if args.fresh else "kept",
                     "prices": players[0].routing.prices, "new_tokens": args.tokens,
                     "texts_equal_across_engines": agreement(texts), **figures}
    Console(stderr=True).print(table_of(figures))
    if args.out:
        write_result(record, args.out)
    print(json.dumps(record))


if __name__ == "__main__":
    main()
