"""Builds the evaluation sets and the 25 workloads from held-out documents, tools and words.

    python -m tools.train.sets --data DIR --out benchmarks/sets
DIR is the folder tools.train.corpus worked in. Sets are <name>.jsonl with name, ids, reference
and meta; workloads are workloads/<name>.jsonl with ids, real, greedy (empty until the shipped
model's own output is filled in) and meta. README.md is written beside them.
"""

import argparse
import json
import random
from pathlib import Path

from tools.train.set_text import Held, Item, overlaps
from tools.train.shards import read_manifest, read_stream
from tools.train.sources import GROUPS, SOURCES
from tools.train.synthetic_code import explain_function, write_function
from tools.train.synthetic_json import object_of, rows_of
from tools.train.synthetic_talk import continue_text, define_word
from tools.train.synthetic_tools import draw_tools, uncalled_turn
from tools.train.synthetic_turns import howto, multi_turn
from tools.train.tokenizer import END_OF_TEXT
from tools.train.workloads import (
    TEXTS,
    build_workloads,
    edit,
    family,
    json_chat,
    smalltalk,
    thinking,
    tool_turn,
    verbatim,
)

PREFIX = 512
LONG_TOKENS = 6_400
LONG = (("austen", "Persuasion."), ("shakespeare", "measure_for_measure."),
        ("python-docs", "library/"), ("go-source", "net/http/server"))
README = Path(__file__).with_name("sets_readme.md")


def long_documents(held: Held) -> list[Item]:
    """Return the long prompts: consecutive pieces of one work, LONG_TOKENS tokens in all."""
    items = []
    for source, part in LONG:
        pieces = sorted((document for document in held.documents
                         if document.source == source and part in document.name),
                        key=lambda document: (len(document.name), document.name))
        ids: list[int] = []
        used = []
        for piece in pieces:
            if len(ids) < LONG_TOKENS:
                ids += held.ids_of(piece)
                used.append(piece.name)
                held.reserve(piece)
        items.append(Item(ids[:LONG_TOKENS], [], {"source": source, "documents": used}))
    return items


def without_tool(held: Held):
    """Return a maker of turns that need none of the held-out tools given."""
    def make(rng: random.Random) -> Item | None:
        tools = draw_tools(rng, "eval", 1, 3)
        schemas = [tool.schema() for tool in tools]
        messages = uncalled_turn(rng, tools, held.material.words, False)
        return held.chat(messages, {"tools": schemas}, {
            "kind": "none", "expected": [], "tools": [
                {"name": one["function"]["name"], "parameters": one["function"]["parameters"]}
                for one in schemas]})
    return make


def schema_items(held: Held, kind: str):
    """Return a maker of schema prompts: "flat", "nested" objects, or arrays of "records"."""
    def make(rng: random.Random) -> Item | None:
        words = held.material.words
        if kind == "records":
            schema, value = rows_of(rng, words)
        else:
            schema, value = object_of(rng, words, rng.randint(2, 5), 0 if kind == "flat" else 2)
        nested = any(one["type"] == "object" for one in schema["properties"].values())
        if nested != (kind == "nested"):
            return None
        return held.chat(*json_chat(rng, schema, value),
                         {"kind": kind, "schema": schema, "expected": value})
    return make


def build_sets(held: Held) -> dict[str, list[Item]]:
    """Return the items of every evaluation set; prose, code and chat are the exactness count."""
    found = {"long": long_documents(held)}
    prose = ("austen", "speeches", "shakespeare", "king-james", "moby-dick")
    found["prose"] = [item for source in prose for item in held.windows(
        2, (PREFIX,), lambda one, source=source: one.source == source)]
    found["code"] = [item for name, count in (("code_python_lib", 4), ("code_python_tests", 2),
                                              ("code_go", 2), ("code_rust", 2))
                     for item in held.windows(count, (PREFIX,), TEXTS[name])]
    talks = (family(held, define_word), family(held, write_function), family(held, howto),
             family(held, thinking, thought=True), family(held, multi_turn), smalltalk(held),
             family(held, continue_text), family(held, explain_function),
             verbatim(held), tool_turn(held, "single"))
    found["chat"] = [held.draw(f"chat/{at}", 1, make, high=PREFIX)[0]
                     for at, make in enumerate(talks)]
    found["tools"] = [item for kind, count in (("single", 140), ("parallel", 40))
                      for item in held.draw(f"tools/{kind}", count, tool_turn(held, kind),
                                            high=330, answer=(1, 200))]
    found["tools"] += held.draw("tools/none", 20, without_tool(held), high=330)
    found["json"] = [item for kind, count in (("flat", 40), ("nested", 30), ("records", 30))
                     for item in held.draw(f"json/{kind}", count, schema_items(held, kind),
                                           high=260, answer=(1, 100))]
    found["edit"] = [item for kind, count in (("rename", 20), ("insert", 15), ("diff", 15))
                     for item in held.draw(f"edit/{kind}", count, edit(held, kind), high=300,
                                           answer=(30, 260))]
    found["copy"] = held.draw("copy", 50, verbatim(held), high=300, answer=(128, 260))
    found["sample"] = held.windows(10, (64, 96, 128), lambda one: one.group in ("prose", "docs"))
    found["sample"] = [Item(item.ids, [], item.meta) for item in found["sample"]]
    found["sample"] += [Item(item.ids, [], item.meta) for at, make in enumerate(talks[:5] * 2)
                        for item in held.draw(f"sample/{at}", 1, make, high=160)]
    return found


def _line(row: dict) -> str:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n"


def write_sets(sets: dict[str, list[Item]], workloads: dict[str, list[Item]], out: Path) -> None:
    """Write every set and workload below `out`, one item a line."""
    (out / "workloads").mkdir(parents=True, exist_ok=True)
    for name, items in sets.items():
        (out / f"{name}.jsonl").write_text("".join(
            _line({"name": f"{name}-{at:03d}", "ids": item.ids, "reference": item.reference,
                   "meta": item.meta}) for at, item in enumerate(items)))
    for name, items in workloads.items():
        (out / "workloads" / f"{name}.jsonl").write_text("".join(
            _line({"ids": item.ids, "real": item.reference, "greedy": [], "meta": item.meta})
            for item in items))


def write_readme(sets, workloads, counts: dict, manifest: dict, out: Path) -> None:
    """Write README.md: the fixed text, then the tables of counts and overlaps."""
    rows = ["| set | items | prompt tokens | reference tokens | 13-word runs | in training | "
            "items touched |", "| --- | --- | --- | --- | --- | --- | --- |"]
    for name, items in {**sets, **workloads}.items():
        count = counts[name]
        rows.append(f"| {name} | {len(items)} | {sum(len(item.ids) for item in items)} | "
                    f"{sum(len(item.reference) for item in items)} | {count['runs']} | "
                    f"{count['shared_runs']} | {count['items_touched']} |")
    sources = ["| source | licence | training documents checked | touched | dropped |",
               "| --- | --- | --- | --- | --- |"]
    for source in SOURCES:
        count = manifest["decontamination"].get(source.name)
        if count:
            sources.append(f"| {source.name} | {source.licence} | {count['checked']} | "
                           f"{int(count['touched'])} | {int(count['dropped'])} |")
    benchmarks = ["| benchmark | version | licence | problems | 13-word runs | in training |",
                  "| --- | --- | --- | --- | --- | --- |"]
    benchmarks += [f"| {row['name']} | {row['version']} | {row['licence']} | {row['problems']} | "
                   f"{row['runs']} | {row['in_training']} |"
                   for row in manifest.get("benchmarks", ())]
    (out / "README.md").write_text(README.read_text().format(
        counts="\n".join(rows), sources="\n".join(sources), benchmarks="\n".join(benchmarks)))


def main() -> None:
    """Build and write everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    held = Held(arguments.data)
    sets = build_sets(held)
    workloads = build_workloads(held)
    write_sets(sets, workloads, arguments.out)
    size = sum(path.stat().st_size for path in arguments.out.rglob("*.jsonl"))
    print(f"{len(sets)} sets, {len(workloads)} workloads, {size} bytes", flush=True)
    shards = arguments.data / "shards"
    counts = overlaps({**sets, **workloads}, held.tokenizer,
                      [read_stream(shards, f"{group}.train") for group in GROUPS],
                      held.tokenizer.token_to_id(END_OF_TEXT))
    write_readme(sets, workloads, counts, read_manifest(shards), arguments.out)


if __name__ == "__main__":
    main()
