"""Measure what rounds cost on this machine and write a price file.

    python -m tools.measure.verify_curve --model mini --out prices.json
Chains and bushy trees at several row counts and context lengths, verify and commit in the engine's
own dispatch; the plain step; and each head's draft, as a round with it less a round without. Each
figure is a median; the shapes take turns, so that a slow minute falls on all of them.
"""

import argparse
import datetime
import json
import statistics
import time
from pathlib import Path

import jax
import numpy as np
from rich.progress import Progress

from tandem_jax import LLM
from tandem_jax.engine.engine import Engine
from tandem_jax.staircut.prices import MAX_ROWS
from tandem_jax.tree import DraftTree
from tandem_jax.tree.rows import Seat

ROWS = (2, 4, 8, 12, 16, 17, 20, 24, 28, 32)
CONTEXTS = (1024, 4096, 8192, 16384, 32768)
HEADS = ("wide", "narrow", "mtp")
REPEATS, WARM_UPS = 12, 3


def bushy(anchor: int, rows: int, vocab: int, rng: np.random.Generator) -> DraftTree:
    """A tree of `rows` rows: a line of half of them, the others beside it, up to two a node."""
    spine = max(1, rows // 2)
    parents = [-1, *range(spine - 1)] if spine > 1 else [-1]
    parents += [i // 2 % spine for i in range(rows - len(parents))]
    tokens = [anchor, *rng.choice(vocab, rows - 1, replace=False).tolist()]
    return DraftTree.from_parents(tokens, parents, source="random")


def line(anchor: int, rows: int, vocab: int, rng: np.random.Generator) -> DraftTree:
    """A chain of `rows` rows."""
    return DraftTree.chain(anchor, rng.choice(vocab, rows - 1).tolist(), source="random")


class Clock:
    """Times rounds of one engine behind a prompt of random tokens."""

    def __init__(self, engine: Engine, context: int, seed: int = 0) -> None:
        self.engine, self.context = engine, context
        self.rng = np.random.default_rng(seed)
        self.vocab = engine.model.config.vocab
        prompt = self.rng.integers(0, self.vocab, context).astype(np.int32)
        engine.prefill(0, prompt)
        page = (context + MAX_ROWS) // engine.config.page_tokens + 1
        self.pages = engine.pages.grow(0, min(page, engine.config.pages_per_slot))

    def round_ms(self, kind: str, rows: int, draft: bool) -> float:
        """Ms of one round: dispatch, and the read of its result."""
        build = bushy if kind == "tree" and rows > 2 else line
        tree = build(int(self.rng.integers(self.vocab)), rows, self.vocab, self.rng)
        # Every round commits one token at the same place, so the context stays what it is.
        seat = Seat(0, self.context, 1, self.pages, draft)
        started = time.perf_counter()
        self.engine.verify([tree], [seat])
        return 1e3 * (time.perf_counter() - started)

    def close(self) -> None:
        """Give the slot's pages back."""
        self.engine.pages.release(0)


def medians(clock: Clock, shapes: list[tuple], repeats: int, tick) -> dict[tuple, float]:
    """Median ms of each (kind, rows, draft), the shapes taking turns."""
    times: dict[tuple, list[float]] = {shape: [] for shape in shapes}
    for turn in range(WARM_UPS + repeats):
        for shape in shapes:
            ms = clock.round_ms(*shape)
            if turn >= WARM_UPS:
                times[shape].append(ms)
            tick()
    return {shape: statistics.median(each) for shape, each in times.items()}


def measure_context(llm: LLM, context: int, rows: tuple[int, ...], repeats: int, tick) -> dict:
    """Prices at one context length, as a price file holds them."""
    clock = Clock(llm.engine, context)
    shapes = [(kind, n, False) for kind in ("chain", "tree") for n in rows]
    found = medians(clock, [("chain", 1, False), *shapes], repeats, tick)
    clock.close()
    out: dict = {kind: {str(n): round(found[kind, n, False], 3) for n in rows}
                 for kind in ("chain", "tree")}
    return out | {"plain": round(found["chain", 1, False], 3)}


def measure_draft(llm: LLM, context: int, repeats: int, tick) -> float:
    """Ms of a head's draft: the same round with and without it, in turns."""
    clock = Clock(llm.engine, context)
    found = medians(clock, [("chain", 8, False), ("chain", 8, True)], repeats, tick)
    clock.close()
    return round(max(found["chain", 8, True] - found["chain", 8, False], 0.001), 3)


def open_llm(model: str, contexts: list[int], dtype: str, **options) -> LLM:
    """An engine that holds the longest context and a round behind it."""
    # Buckets compile on first use, which the warm-up rounds take in.
    size = max(contexts) + MAX_ROWS
    return LLM(model, max_context=size, dtype=dtype, warmup=False, **options)


def measure(model: str, contexts: list[int], rows: tuple[int, ...], heads: dict[str, dict], *,
            repeats: int, dtype: str) -> dict:
    """The whole price file."""
    total = len(contexts) * (WARM_UPS + repeats) * (1 + 2 * len(rows) + 2 * len(heads))
    prices: dict = {}
    draft: dict = {}
    with Progress() as bar:
        task = bar.add_task("measuring", total=total)

        def tick() -> None:
            bar.advance(task)

        llm = open_llm(model, contexts, dtype, drafter="none")
        for context in contexts:
            prices[str(context)] = measure_context(llm, context, rows, repeats, tick)
        used = llm.engine.config.dtype
        del llm
        for head, options in heads.items():
            llm = open_llm(model, contexts, dtype, **options)
            draft[head] = {str(c): measure_draft(llm, c, repeats, tick) for c in contexts}
            del llm
    device = jax.devices()[0].device_kind
    how = (f"{device}, {datetime.date.today().isoformat()}, model {model} in {used}, median of "
           f"{repeats} rounds after {WARM_UPS}, jax {jax.__version__}, verify and commit")
    return prices | {"draft": draft, "measured": how} if draft else prices | {"measured": how}


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="mini")
    parser.add_argument("--contexts", type=int, nargs="+", default=list(CONTEXTS[:2]))
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS))
    parser.add_argument("--heads", nargs="*", default=list(HEADS), choices=list(HEADS))
    parser.add_argument("--wide", default="mini-b16", help="draft model of 16")
    parser.add_argument("--narrow", default="mini-b8", help="draft model of 8")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    options = {"wide": {"drafter": "dflash2", "draft_model": args.wide},
               "narrow": {"drafter": "dflash2", "draft_model": args.narrow},
               "mtp": {"drafter": "mtp"}}
    table = measure(args.model, sorted(args.contexts), tuple(args.rows),
                    {head: options[head] for head in args.heads},
                    repeats=args.repeats, dtype=args.dtype)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(table, indent=1) + "\n")
    print(json.dumps(table))


if __name__ == "__main__":
    main()
