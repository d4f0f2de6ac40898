"""Writes the target's own greedy output into the workloads, as their reference R1.

    python -m tools.measure.references --target CHECKPOINT --sets benchmarks/sets
Products are exact float32 ones; an answer ends with its stop token or after 256 tokens.
"""

import argparse
import json
from pathlib import Path

import jax.numpy as jnp

from tools.measure.common import load_target, read_lines
from tools.train.generate import STOPS, greedy_references
from tools.train.tokenizer import load_tokenizer

NEW_TOKENS = 256


def write_lines(rows: list[dict], path: Path) -> None:
    """Write JSON lines in the form of tools.train.sets."""
    path.write_text("".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n"
                            for row in rows))


def fill(sets: Path, folder: Path, *, new: int, limit: int | None = None, say=print) -> int:
    """Fill "greedy" of the first `limit` items of each workload; return the tokens written."""
    target = load_target(folder)
    tokenizer = load_tokenizer(folder / "tokenizer.json")
    stops = tuple(tokenizer.token_to_id(text) for text in STOPS)
    files = {path: read_lines(path) for path in sorted((sets / "workloads").glob("*.jsonl"))}
    rows = [row for each in files.values() for row in each[:limit]]
    found = greedy_references(target.params, [row["ids"] for row in rows], new,
                              shape=target.shape, dtype=jnp.float32, stops=stops)
    for row, tokens in zip(rows, found, strict=True):
        row["greedy"] = tokens
    for path, each in files.items():
        write_lines(each, path)
    total = sum(map(len, found))
    say(f"{len(rows)} items, {total} tokens; {sum(len(x) < new for x in found)} stopped early")
    return total


def main() -> None:
    """Read the command line and fill the workloads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--sets", type=Path, default=Path("benchmarks/sets"))
    parser.add_argument("--new", type=int, default=NEW_TOKENS, help="tokens of a reference")
    parser.add_argument("--limit", type=int, help="items a workload")
    arguments = parser.parse_args()
    fill(arguments.sets, arguments.target, new=arguments.new, limit=arguments.limit)


if __name__ == "__main__":
    main()
