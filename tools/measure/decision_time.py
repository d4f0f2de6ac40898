"""Time one StairCut decision on the host: lookup, lattice tree, merge and the cuts.

    python -m tools.measure.decision_time [--rounds 2000] [--vocabulary 248320] [--json]
    python -m tools.measure.decision_time --records FOLDER

Without records: a synthetic text in which the lookup always has a full tree to offer and never
copies, so that no round leaves anything out, and lattices of 15 slots and 16 candidates. With the
records of tools.measure.record: the decisions of their replay. Both with 31 nodes and the packaged
GB10 prices. `decision` is the policy's propose; `observe` is what a round's outcome costs on top.
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tandem_jax.drafters.lattice import Lattice
from tandem_jax.drafters.lookup import LookupDrafter
from tandem_jax.staircut.cut import MAX_NODES, Costs, first_run, staircut
from tandem_jax.staircut.lattice_tree import lattice_nodes
from tandem_jax.staircut.policy import Decision, Outcome, PolicySetup, RoundInput
from tandem_jax.staircut.price_model import PriceModel
from tandem_jax.staircut.prices import load_prices
from tandem_jax.staircut.router import StairCut
from tandem_jax.tree.merge import united
from tools.measure.record import read_records
from tools.measure.replay import Priced, replay

VOCABULARY = 248_320  # of the 27B target
BUDGET_MS = 0.5  # what a decision may take
SLOTS, WIDTH, TEMPERATURE = 15, 16, 1.4
PRICES = "gb10"


@dataclass(frozen=True)
class Scene:
    """What a round finds: a text that repeats itself, and a drafter's lattices behind it."""

    prompt: list[int]  # tokens
    lattices: list[Lattice]  # taken in turn
    blocks: list[list[int]]  # what the target commits behind each; they end in a match


def scene(vocabulary: int, seed: int = 0, tokens: int = 4096) -> Scene:
    """A phrase that comes again with other ends, so that matches branch."""
    rng = np.random.default_rng(seed)
    phrase = rng.integers(0, vocabulary, 12).tolist()
    prompt: list[int] = []
    while len(prompt) < tokens:
        prompt += rng.integers(0, vocabulary, 20).tolist() + phrase
        prompt += rng.integers(0, 3, 4).tolist()
    prompt += phrase
    few = [_lattice(rng, vocabulary) for _ in range(8)]
    lattices = [few[at] for at in rng.integers(0, len(few), 64)]
    # Some of the greedy walk is accepted, so that drafting pays; what follows the phrase comes
    # again, but not in order, so that the lookup offers a bush and never takes over.
    walks = [lattice.greedy_chain(0, 4).tokens.tolist()[1:] for lattice in lattices]
    return Scene(prompt, lattices, [walk + phrase for walk in walks])


def _lattice(rng: np.random.Generator, vocabulary: int) -> Lattice:
    cand = [rng.choice(vocabulary, WIDTH, replace=False) for _ in range(SLOTS)]
    scores = 2.5 * rng.standard_normal((SLOTS, WIDTH, WIDTH))
    return Lattice(np.array(cand, np.int32), scores.astype(np.float32), TEMPERATURE)


def timed(action: Callable[[int], object], rounds: int) -> list[float]:
    """Milliseconds of each of `rounds` calls; the call gets its number."""
    took = []
    for number in range(rounds):
        start = time.perf_counter_ns()
        action(number)
        took.append((time.perf_counter_ns() - start) / 1e6)
    return took


def parts(found: Scene, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each part of a decision by itself."""
    lookup = LookupDrafter()
    lookup.reset(found.prompt)
    anchor, n = found.prompt[-1], len(found.lattices)
    said = lookup.propose_nodes(anchor, MAX_NODES, MAX_NODES)
    heads = [lattice_nodes(lattice, anchor, MAX_NODES) for lattice in found.lattices]
    fours = [(head, first_run(head), said, united(head, said)) for head in heads]
    qs = [[nodes.scores for nodes in four] for four in fours]
    costs = Costs(PriceModel(load_prices(PRICES)).verify_ms("tree", len(found.prompt)), draft=15.0)

    def four_cuts(number: int) -> None:
        for tree, q in zip(fours[number % n], qs[number % n], strict=True):
            staircut(tree, q, costs)

    return {
        "lookup": timed(lambda _: lookup.propose_nodes(anchor, MAX_NODES, MAX_NODES), rounds),
        "lattice tree": timed(
            lambda number: lattice_nodes(found.lattices[number % n], anchor, MAX_NODES), rounds
        ),
        "greedy chain": timed(lambda number: first_run(heads[number % n]), rounds),
        "merge": timed(lambda number: united(heads[number % n], said), rounds),
        "four cuts": timed(four_cuts, rounds),
    }


class ClockedStairCut(StairCut):
    """The policy, with a clock at its two doors."""

    def __init__(self) -> None:
        table = load_prices(PRICES)
        super().__init__(PolicySetup(PriceModel(table), table.draft))
        self.decision_ms: list[float] = []
        self.observe_ms: list[float] = []
        self.labels: list[str] = []

    def propose(self, given: RoundInput) -> Decision:
        """Decide, and note how long it took."""
        start = time.perf_counter_ns()
        decision = super().propose(given)
        self.decision_ms.append((time.perf_counter_ns() - start) / 1e6)
        self.labels.append(decision.label)
        return decision

    def observe(self, outcome: Outcome) -> None:
        """Learn, and note how long it took."""
        start = time.perf_counter_ns()
        super().observe(outcome)
        if outcome.rows:
            self.observe_ms.append((time.perf_counter_ns() - start) / 1e6)


def run_scene(found: Scene, rounds: int) -> ClockedStairCut:
    """One request of a round a lattice, again and again."""
    policy = ClockedStairCut()
    while len(policy.decision_ms) < rounds:
        policy.reset(found.prompt)
        text = list(found.prompt)
        for lattice, block in zip(found.lattices, found.blocks, strict=True):
            given = RoundInput(
                text[-1], len(text), MAX_NODES, MAX_NODES, wide=lambda said=lattice: said
            )
            tree = policy.propose(given).tree
            rows = 1 if tree is None else len(tree)
            policy.observe(Outcome(block, rows, 75.0 + 0.4 * rows, 15.0))
            text += block
    return policy


def run_records(folder: Path, rounds: int) -> ClockedStairCut:
    """The replay of recorded prompts, until there are `rounds` rounds or no more records."""
    policy, prices = ClockedStairCut(), Priced(load_prices(PRICES))
    for path in sorted(folder.glob("*.npz")):
        for record in read_records(path):
            replay(policy, record, prices)
        if len(policy.decision_ms) >= rounds:
            break
    return policy


def main() -> None:
    """Measure, and print medians and 95th percentiles."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--vocabulary", type=int, default=VOCABULARY)
    parser.add_argument("--records", type=Path, help="folder of tools.measure.record")
    parser.add_argument("--json", action="store_true", help="print one JSON object only")
    args = parser.parse_args()
    if args.records is None:
        found = scene(args.vocabulary)
        took, policy = parts(found, args.rounds), run_scene(found, args.rounds)
    else:
        took, policy = {}, run_records(args.records, args.rounds)
    took |= {"decision": policy.decision_ms, "observe": policy.observe_ms}
    times = {
        name: {
            "median_ms": round(statistics.median(each), 4),
            "p95_ms": round(statistics.quantiles(each, n=20)[-1], 4),
        }
        for name, each in took.items()
    }
    if not args.json:
        for name, each in times.items():
            print(f"{name:14s} {each['median_ms']:8.3f} ms   95 % {each['p95_ms']:8.3f} ms")
        print(f"budget of a decision {BUDGET_MS} ms, {MAX_NODES} nodes")
    decided = {label: policy.labels.count(label) for label in sorted(set(policy.labels))}
    head = {"rounds": len(policy.labels), "decided": decided, "budget_ms": BUDGET_MS}
    print(json.dumps(head | {"times": times, "python": platform.python_version()}))


if __name__ == "__main__":
    main()
