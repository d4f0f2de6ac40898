"""Count how often copied lines go on: the prior of the copy rates.

    python -m tools.measure.count_copies --target CHECKPOINT --out copy-rate-prior.json
The target writes greedily behind the prompts of the evaluation sets (never the 25 workloads, which
judge the policies). At every round of a walk over that text the lookup's heaviest line is compared
with what was written, to its end (uncensored), and counted by source, match length and copy run.
"""

import argparse
import datetime
import json
from pathlib import Path

import jax
import jax.numpy as jnp
from rich.progress import track

from tandem_jax.drafters.lookup import LookupDrafter
from tandem_jax.staircut.copy_rate import CopyRate
from tools.measure.common import load_target, read_lines
from tools.train.generate import STOPS, greedy_references
from tools.train.tokenizer import load_tokenizer

NODES = DEPTH = 31


def count(traces: list[tuple[list[int], list[int]]]) -> CopyRate:
    """Counts over (prompt, text written) pairs."""
    copies, lookup = CopyRate(), LookupDrafter()
    for prompt, text in traces:
        if len(text) < 2:
            continue
        lookup.reset(prompt)
        copies.reset()
        lookup.observe(text[:1], None)
        anchor = 0
        while anchor < len(text) - 1:
            lookup.propose_nodes(text[anchor], NODES, DEPTH, copies.rate)
            rest = text[anchor + 1:]
            shared = _common(lookup.top, rest)
            # The line is followed to its end, as if all of it had been verified.
            tokens = rest[: shared + 1]
            copies.observe(lookup.top, tokens)
            lookup.observe(tokens, None)
            anchor += len(tokens)
    return copies


def _common(a, b) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y),
                min(len(a), len(b)))


def written(sets: Path, folder: Path, new: int, limit: int | None) -> list:
    """(prompt, greedy text) of the items of every evaluation set."""
    target = load_target(folder)
    tokenizer = load_tokenizer(folder / "tokenizer.json")
    stops = tuple(tokenizer.token_to_id(text) for text in STOPS)
    rows = [row for path in sorted(sets.glob("*.jsonl")) for row in read_lines(path, limit)]
    prompts = [row["ids"] for row in rows if len(row["ids"]) <= 1024]
    traces: list = []
    batch = 32
    for start in track(range(0, len(prompts), batch), "writing"):
        part = prompts[start: start + batch]
        found = greedy_references(target.params, part, new, shape=target.shape,
                                  dtype=jnp.float32, stops=stops)
        traces += list(zip(part, found, strict=True))
    return traces


def main() -> None:
    """Write, count, save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--sets", type=Path, default=Path("benchmarks/sets"))
    parser.add_argument("--new", type=int, default=256, help="tokens written behind a prompt")
    parser.add_argument("--limit", type=int, help="prompts of a set")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    traces = written(args.sets, args.target, args.new, args.limit)
    copies = count(traces)
    device = jax.devices()[0].device_kind
    note = {"target": args.target.name, "prompts": len(traces),
            "tokens": sum(len(text) for _, text in traces), "device": device,
            "date": datetime.date.today().isoformat(),
            "how": "tools.measure.count_copies, greedy text of the target behind the evaluation "
                   "sets' prompts, uncensored"}
    args.out.write_text(json.dumps({"_provenance": note} | copies.to_dict(), indent=1) + "\n")
    print(json.dumps({"_provenance": note} | copies.to_dict()))


if __name__ == "__main__":
    main()
