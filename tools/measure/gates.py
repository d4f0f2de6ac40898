"""Gates of the target: does it close, call, obey schemas, copy, and how often does it loop?

    python -m tools.measure.gates --target CHECKPOINT --sets benchmarks/sets --data DIR \\
        --out benchmarks/results/gates.json
--data holds shards/ (bits per byte are left out without it), --other a second checkpoint of the
same sizes (KL). Running and judging may be two steps: with --raw FILE the target's outputs are
kept there, and when FILE is there already it is judged and nothing is run; --only-raw stops
before judging, which alone needs jsonschema.
"""

import argparse
import json
from collections import Counter
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from tools.measure.answers import (
    STOP,
    VERDICTS,
    common_prefix,
    judge_json,
    judge_tools,
    longest_copy,
)
from tools.measure.common import (
    DTYPES,
    compute_dtype,
    envelope,
    load_target,
    write_result,
)
from tools.measure.outputs import (
    CHATS,
    QUOTES,
    TEXTS,
    answers,
    bits_per_byte,
    gaps_and_divergence,
    read_sets,
)
from tools.train.repeats import has_loop
from tools.train.tokenizer import load_tokenizer

LOOP_TOKENS = 256  # of an answer are looked at
COPIED_TOKENS = 128
WANTED = {"chat_closed": (">=", 0.95), "tools_valid": (">=", 0.80), "copied_tokens": (">=", 128),
          "bits_per_byte": ("<=", 1.10)}


def share(flags) -> float:
    """Return the share of true flags, 0 of none."""
    flags = list(flags)
    return round(sum(flags) / max(1, len(flags)), 4)


def tool_figures(rows: list[dict], texts: list[str]) -> dict:
    """Return verdict counts of E-tools: prompts that need a call, and those that need none."""
    verdicts, exact, none = Counter(), 0, []
    for row, text in zip(rows, texts, strict=True):
        verdict, calls = judge_tools(text, row["meta"]["tools"])
        expected = row["meta"].get("expected") or []
        if expected:
            verdicts[verdict] += 1
            exact += calls == expected
        else:
            none.append(verdict == "none")
    total = max(1, sum(verdicts.values()))
    return {"prompts": sum(verdicts.values()), "valid": round(verdicts["valid"] / total, 4),
            "exact": round(exact / total, 4), "no_tool_right": share(none),
            "verdicts": {name: verdicts[name] for name in VERDICTS}}


def json_figures(rows: list[dict], texts: list[str]) -> dict:
    """Return verdict counts of E-json, answers judged without a grammar."""
    verdicts = Counter(judge_json(text, row["meta"]["schema"], row["meta"]["expected"])
                       for row, text in zip(rows, texts, strict=True))
    good = verdicts["right"] + verdicts["valid"]
    return {"prompts": len(rows), "valid": round(good / max(1, len(rows)), 4),
            "verdicts": dict(verdicts)}


def copy_figures(rows: list[dict], found: list[list[int]]) -> dict:
    """Return the longest verbatim copies of the reference, in tokens."""
    pairs = [(answer, row["reference"]) for row, answer in zip(rows, found, strict=True)]
    lengths = [longest_copy(*pair) for pair in pairs]
    return {"prompts": len(pairs), "longest": max(lengths), "shortest": min(lengths),
            "median": float(np.median(lengths)),
            "long_enough": share(length >= COPIED_TOKENS for length in lengths),
            "whole": share(common_prefix(*pair) == len(pair[1]) for pair in pairs)}


def judge(items: dict[str, list[dict]], raw: dict, tokenizer) -> dict:
    """Return all figures of the answers in a raw record."""
    found, stop = raw["answers"], tokenizer.token_to_id(STOP)

    def texts(name):
        return [tokenizer.decode(answer, skip_special_tokens=False).removesuffix(STOP)
                for answer in found[name]]

    closed = {name: [answer[-1:] == [stop] for answer in found[name]] for name in CHATS}
    loops = {name: [has_loop(answer[:LOOP_TOKENS]) for answer in found[name]]
             for name in (*TEXTS, *CHATS)}
    return {
        "chat_closed": {"all": share(x for each in closed.values() for x in each),
                        **{name: share(each) for name, each in closed.items()}},
        "tools": tool_figures(items["tools"], texts("tools")),
        "json": json_figures(items["json"], texts("json")),
        "loop_rate": {"text": share(x for name in TEXTS for x in loops[name]),
                      **{name: share(each) for name, each in loops.items()}},
        "copy": {"set": copy_figures(items["copy"], found["copy"]),
                 "quote_verbatim": copy_figures(items[QUOTES], found[QUOTES])}}


def gates_of(figures: dict) -> dict:
    """Return {gate: {"value", "wanted", "passed"}} of the figures that have a limit."""
    values = {"chat_closed": figures["chat_closed"]["all"],
              "tools_valid": figures["tools"]["valid"],
              "copied_tokens": figures["copy"]["quote_verbatim"]["median"]}
    if "bits_per_byte" in figures:
        values["bits_per_byte"] = figures["bits_per_byte"]["mix"]
    rows = {}
    for name, value in values.items():
        sign, limit = WANTED[name]
        passed = value >= limit if sign == ">=" else value <= limit
        rows[name] = {"value": value, "wanted": f"{sign} {limit}", "passed": bool(passed)}
    return rows


def table_of(gates: dict, figures: dict) -> Table:
    """Return the table of the gates, then the figures without a limit."""
    table = Table("gate", "value", "wanted", "", title="gates of the target")
    for name, row in gates.items():
        table.add_row(name, f"{row['value']:.3f}", row["wanted"],
                      "passed" if row["passed"] else "MISSED")
    table.add_section()
    copied = figures["copy"]["set"]
    for name, value in (("tools exact", figures["tools"]["exact"]),
                        ("no tool needed, none called", figures["tools"]["no_tool_right"]),
                        ("JSON valid without a grammar", figures["json"]["valid"]),
                        ("loop rate of prose and code", figures["loop_rate"]["text"]),
                        ("copy set: 128 tokens or more", copied["long_enough"]),
                        ("copy set: whole", copied["whole"])):
        table.add_row(name, f"{value:.3f}", "", "")
    if "kl" in figures:
        table.add_row("KL to the other weights, nats", f"{figures['kl']['mean_nats']:.5f}", "", "")
    return table


def raw_record(arguments, items: dict) -> dict:
    """Run the target: answers, bits per byte, gaps, KL; the head says where."""
    target = load_target(arguments.target)
    other = load_target(arguments.other) if arguments.other else None
    found = answers(target, items)
    record = {**envelope("gates of the target", "tools.measure.gates",
                         sum(map(len, items.values()))),
              "target": target.folder.name, **gaps_and_divergence(target, other, items, found)}
    if arguments.data:
        record["bits_per_byte"] = bits_per_byte(target, arguments.data,
                                                compute_dtype(arguments.dtype),
                                                limit=arguments.eval_tokens)
    return {**record, "answers": found}


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the command line's options, of this process when `arguments` is None."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--sets", type=Path, default=Path("benchmarks/sets"))
    parser.add_argument("--out", type=Path, help="result file; needed unless --only-raw")
    parser.add_argument("--data", type=Path, help="folder with shards/ for bits per byte")
    parser.add_argument("--other", type=Path, help="checkpoint to compare by KL")
    parser.add_argument("--raw", type=Path, help="file of the target's outputs")
    parser.add_argument("--only-raw", action="store_true")
    parser.add_argument("--limit", type=int, help="items a set")
    parser.add_argument("--eval-tokens", type=int, default=131_072, help="at most, per source")
    parser.add_argument("--dtype", choices=DTYPES, default="auto", help="of bits per byte")
    found = parser.parse_args(arguments)
    if (found.out is None) != found.only_raw:
        parser.error("give either --out or --only-raw")
    if found.only_raw and found.raw is None:
        parser.error("--only-raw needs --raw FILE")
    return found


def run(arguments, console: Console) -> dict:
    """Run and judge as the command line asks; return the record (or the raw one)."""
    items = read_sets(arguments.sets, arguments.limit)
    if arguments.raw and arguments.raw.exists():
        raw = json.loads(arguments.raw.read_text())
    else:
        raw = raw_record(arguments, items)
        if arguments.raw:
            arguments.raw.parent.mkdir(parents=True, exist_ok=True)
            arguments.raw.write_text(json.dumps(raw) + "\n")
    if arguments.only_raw:
        return raw
    tokenizer = load_tokenizer(arguments.target / "tokenizer.json")
    figures = {key: value for key, value in raw.items() if key != "answers"}
    figures |= judge(items, raw, tokenizer)
    gates = gates_of(figures)
    record = {**figures, "gates": gates}
    write_result(record, arguments.out)
    console.print(table_of(gates, figures))
    return record


def main() -> None:
    """Read the command line and run."""
    run(parse(), Console(width=100))


if __name__ == "__main__":
    main()
