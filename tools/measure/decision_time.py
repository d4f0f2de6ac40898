"""Time one StairCut decision on the host: lookup, lattice tree, merge and the cuts.

    python -m tools.measure.decision_time [--rounds 2000] [--vocabulary 248320] [--json]

A synthetic text in which the lookup always has something to say, a lattice of 15 slots and 16
candidates, 31 nodes, the packaged GB10 prices. Only the shapes matter to the clock. The decision
is `propose`; `observe` is what the round's outcome costs on top, prices learned included.
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tandem_jax.drafters.lattice import Lattice
from tandem_jax.drafters.lookup import LookupDrafter
from tandem_jax.staircut.cut import MAX_NODES, Costs, greedy_chain, staircut
from tandem_jax.staircut.lattice_tree import lattice_tree
from tandem_jax.staircut.policy import Outcome, PolicySetup, RoundInput
from tandem_jax.staircut.price_model import PriceModel
from tandem_jax.staircut.prices import load_prices
from tandem_jax.staircut.router import StairCut

VOCABULARY = 248_320  # of the 27B target
BUDGET_MS = 0.5  # what a decision may take
SLOTS, WIDTH, TEMPERATURE = 15, 16, 1.4


@dataclass(frozen=True)
class Scene:
    """What a round finds: a text that repeats itself, and a drafter's lattices behind it."""

    prompt: list[int]  # tokens
    lattices: list[Lattice]  # taken in turn
    blocks: list[list[int]]  # tokens the target commits, taken in turn; each ends in a match


def scene(vocabulary: int, seed: int = 0, tokens: int = 4096) -> Scene:
    """A prompt of phrases that come again with other ends, so that matches branch."""
    rng = np.random.default_rng(seed)
    phrase = rng.integers(0, vocabulary, 12).tolist()
    prompt: list[int] = []
    while len(prompt) < tokens:
        prompt += rng.integers(0, vocabulary, 20).tolist() + phrase
        prompt += rng.integers(0, 3, 4).tolist()
    prompt += phrase
    lattices = [_lattice(rng, vocabulary) for _ in range(16)]
    # News before the phrase: nothing is copied, so that the head is asked in every round.
    blocks = [rng.integers(0, vocabulary, 5).tolist() + phrase for _ in range(64)]
    return Scene(prompt, lattices, blocks)


def _lattice(rng: np.random.Generator, vocabulary: int) -> Lattice:
    cand = rng.integers(0, vocabulary, (SLOTS, WIDTH)).astype(np.int32)
    cand += np.arange(WIDTH, dtype=np.int32)  # equal tokens in one slot: next to impossible
    scores = 2.5 * rng.standard_normal((SLOTS, WIDTH, WIDTH))
    return Lattice(cand, scores.astype(np.float32), TEMPERATURE)


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
    anchor, context = found.prompt[-1], len(found.prompt)
    looked_up = lookup.propose_tree(anchor, MAX_NODES, MAX_NODES)
    heads = [lattice_tree(lattice, anchor, MAX_NODES) for lattice in found.lattices]
    candidates = [
        (head, greedy_chain(head), looked_up, head.merge(looked_up)) for head in heads
    ]
    q = [[tree.scores.tolist() for tree in four] for four in candidates]
    costs = Costs(PriceModel(load_prices("gb10")).verify_ms("tree", context), draft=15.0)

    def four_cuts(number: int) -> None:
        at = number % len(candidates)
        for tree, own in zip(candidates[at], q[at], strict=True):
            staircut(tree, own, costs)

    def grow(number: int) -> None:
        lattice_tree(found.lattices[number % len(heads)], anchor, MAX_NODES)

    return {
        "lookup": timed(lambda _: lookup.propose_tree(anchor, MAX_NODES, MAX_NODES), rounds),
        "lattice tree": timed(grow, rounds),
        "greedy chain": timed(lambda n: greedy_chain(heads[n % len(heads)]), rounds),
        "merge": timed(lambda n: heads[n % len(heads)].merge(looked_up), rounds),
        "four cuts": timed(four_cuts, rounds),
    }


def whole(found: Scene, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of the policy's own calls, a request long."""
    policy = StairCut(PolicySetup(PriceModel(load_prices("gb10")), {"wide": {1024: 15.0}}))
    decide, learn = [], []
    text: list[int] = []
    for number in range(rounds):
        block = found.blocks[number % len(found.blocks)]
        if number % len(found.blocks) == 0:
            policy.reset(found.prompt)
            text = list(found.prompt)
        lattice = found.lattices[number % len(found.lattices)]
        given = RoundInput(
            text[-1], len(text), MAX_NODES, MAX_NODES, wide=lambda said=lattice: said
        )
        start = time.perf_counter_ns()
        decision = policy.propose(given)
        decided = time.perf_counter_ns()
        rows = 1 if decision.tree is None else len(decision.tree)
        outcome = Outcome(block, rows, 75.0 + 0.4 * rows, 15.0)
        began = time.perf_counter_ns()
        policy.observe(outcome)
        learn.append((time.perf_counter_ns() - began) / 1e6)
        decide.append((decided - start) / 1e6)
        text += block
    return {"decision": decide, "observe": learn}


def main() -> None:
    """Measure, and print medians and 95th percentiles."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--vocabulary", type=int, default=VOCABULARY)
    parser.add_argument("--json", action="store_true", help="print one JSON object only")
    args = parser.parse_args()
    found = scene(args.vocabulary)
    timed_parts = parts(found, args.rounds) | whole(found, args.rounds)
    result = {
        name: {
            "median_ms": round(statistics.median(took), 4),
            "p95_ms": round(statistics.quantiles(took, n=20)[-1], 4),
        }
        for name, took in timed_parts.items()
    }
    if not args.json:
        for name, took in result.items():
            print(f"{name:14s} {took['median_ms']:8.3f} ms   95 % {took['p95_ms']:8.3f} ms")
        print(f"budget of a decision {BUDGET_MS} ms; {args.rounds} rounds, {MAX_NODES} nodes")
    record = {"times": result, "rounds": args.rounds, "python": platform.python_version()}
    print(json.dumps(record | {"vocabulary": args.vocabulary, "budget_ms": BUDGET_MS}))


if __name__ == "__main__":
    main()
