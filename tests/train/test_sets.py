"""The committed evaluation sets and workloads: counts, ids, sizes and what checkers need."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from tools.train.synthetic_tools import tool_names
from tools.train.workloads import NAMES

SETS = Path(__file__).parents[2] / "benchmarks" / "sets"
COUNTS = {"prose": 10, "code": 10, "chat": 10, "long": 4, "tools": 200, "json": 100, "edit": 50,
          "copy": 50, "sample": 20}
VOCABULARY, TURN_END, END_OF_TEXT = 8192, 8177, 8175
TEXTS = NAMES[:11]  # plain text, whose references are whole


def _rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def sets() -> dict[str, list[dict]]:
    return {name: _rows(SETS / f"{name}.jsonl") for name in COUNTS}


@pytest.fixture(scope="module")
def workloads() -> dict[str, list[dict]]:
    return {name: _rows(SETS / "workloads" / f"{name}.jsonl") for name in NAMES}


def test_names_and_counts(sets, workloads):
    assert {path.stem for path in SETS.glob("*.jsonl")} == set(COUNTS)
    assert {path.stem for path in (SETS / "workloads").glob("*.jsonl")} == set(NAMES)
    assert len(NAMES) == 25
    assert {name: len(rows) for name, rows in sets.items()} == COUNTS
    assert all(len(rows) == 4 for rows in workloads.values())


def test_the_folder_is_small():
    assert sum(path.stat().st_size for path in SETS.rglob("*") if path.is_file()) <= 1_200_000


def test_ids_are_of_the_vocabulary(sets, workloads):
    for rows in (*sets.values(), *workloads.values()):
        for row in rows:
            ids = row["ids"] + row.get("reference", []) + row.get("real", []) + row.get(
                "greedy", [])
            assert all(0 <= one < VOCABULARY for one in ids)


def test_lengths(sets, workloads):
    assert all(len(row["ids"]) == 512 and len(row["reference"]) == 256
               for name in ("prose", "code") for row in sets[name])
    assert all(6000 <= len(row["ids"]) <= 8000 for row in sets["long"])
    assert all(len(row["reference"]) >= 128 for row in sets["copy"])
    for name, rows in workloads.items():
        assert all(64 <= len(row["ids"]) <= 1024 for row in rows)
        assert all(len(row["real"]) == 256 if name in TEXTS else 0 < len(row["real"]) <= 256
                   for row in rows)


def test_short_chat_references_close_their_turn(workloads):
    for name in NAMES[11:]:
        for row in workloads[name]:
            assert row["real"][-1] == TURN_END or len(row["real"]) == 256
            assert END_OF_TEXT not in row["real"]


def test_no_prompt_occurs_twice(sets, workloads):
    prompts = [tuple(row["ids"]) for rows in (*sets.values(), *workloads.values()) for row in rows]
    assert len(set(prompts)) == len(prompts) == 454 + 100


def test_windows_of_one_document_do_not_overlap(sets, workloads):
    spans: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for rows in (*sets.values(), *workloads.values()):
        for row in rows:
            if "offset" in row["meta"]:
                start = row["meta"]["offset"]
                size = len(row["ids"]) + len(row.get("reference", row.get("real")))
                key = (row["meta"]["source"], row["meta"]["document"])
                spans.setdefault(key, []).append((start, start + size))
    assert len(spans) > 30
    for found in spans.values():
        found.sort()
        assert all(first[1] <= second[0] for first, second in pairwise(found))


def test_tool_prompts_hold_held_out_tools_and_right_calls(sets):
    held = {name for names in tool_names("eval").values() for name in names}
    kinds = [row["meta"]["kind"] for row in sets["tools"]]
    assert (kinds.count("single"), kinds.count("parallel"), kinds.count("none")) == (140, 40, 20)
    for row in sets["tools"]:
        tools = {tool["name"]: tool["parameters"] for tool in row["meta"]["tools"]}
        assert set(tools) <= held
        calls = row["meta"]["expected"]
        assert len(calls) == {"single": 1, "none": 0}.get(row["meta"]["kind"], len(calls))
        for call in calls:
            schema = tools[call["name"]]
            assert set(schema["required"]) <= set(call["arguments"]) <= set(schema["properties"])


def test_json_prompts_have_every_kind_of_schema(sets):
    kinds = [row["meta"]["kind"] for row in sets["json"]]
    assert (kinds.count("flat"), kinds.count("nested"), kinds.count("records")) == (40, 30, 30)
    text = json.dumps([row["meta"]["schema"] for row in sets["json"]])
    assert all(word in text for word in ('"enum"', '"minimum"', '"minItems"', '"boolean"'))
    for row in sets["json"]:
        assert set(row["meta"]["expected"]) == set(row["meta"]["schema"]["required"])
