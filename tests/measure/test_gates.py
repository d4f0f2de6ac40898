"""The judges on scripted answers; the command on nano."""

import json
import sys
from pathlib import Path

import pytest
from rich.console import Console

from tandem_jax.errors import TandemError
from tools.measure.answers import (
    common_prefix,
    conforms,
    judge_json,
    judge_tools,
    longest_copy,
    strict_json,
)
from tools.measure.gates import copy_figures, gates_of, parse, run, tool_figures
from tools.measure.outputs import group_of

ROOT = Path(__file__).resolve().parents[2]
NANO = ROOT / "checkpoints" / "demo" / "nano"
TOOLS = [
    {"name": "set_timer", "parameters": {
        "type": "object", "properties": {"minutes": {"type": "integer", "minimum": 1},
                                         "label": {"type": "string"},
                                         "days": {"type": "array", "items": {"type": "string"}}},
        "required": ["minutes"]}},
    {"name": "get_time", "parameters": {"type": "object", "properties": {}, "required": []}},
]


def call(name="set_timer", **arguments):
    body = "".join(f"<parameter={key}>\n{value}\n</parameter>\n"
                   for key, value in arguments.items())
    return f"<tool_call>\n<function={name}>\n{body}</function>\n</tool_call>"


@pytest.mark.parametrize(("text", "verdict"), [
    (call(minutes=5), "valid"),
    ("I will do it.\n" + call(minutes=5, label="7", days='["mon"]'), "valid"),
    (call(minutes=5) + "\n" + call("get_time"), "valid"),
    (call(minutes=0), "schema"),  # below the minimum
    (call(minutes="five"), "schema"),  # a wrong type
    (call(minutes=5, days="mon"), "schema"),
    (call(label="tea"), "schema"),  # a required argument is missing
    (call(minutes=5, colour="red"), "schema"),  # an argument that the tool does not have
    (call("set_alarm", minutes=5), "unknown tool"),
    (call(minutes=5).removesuffix("</tool_call>"), "unclosed"),
    (call(minutes=5).replace("</function>\n", ""), "malformed"),
    (call(minutes=5).replace("</parameter>\n", ""), "malformed"),
    ('<tool_call>\n{"name": "get_time"}\n</tool_call>', "malformed"),
    ("It is five o'clock.", "none"),
])
def test_tool_calls(text, verdict):
    assert judge_tools(text, TOOLS)[0] == verdict


def test_arguments_have_the_type_of_their_schema():
    assert judge_tools(call(minutes=5, label="7", days='["mon"]'), TOOLS) == ("valid", [
        {"name": "set_timer", "arguments": {"minutes": 5, "label": "7", "days": ["mon"]}}])


SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
          "required": ["name"], "additionalProperties": False}


@pytest.mark.parametrize(("text", "verdict"), [
    ('{"name": "Ann", "age": 4}', "right"),
    (' {"age": 4, "name": "Ann"}\n', "right"),
    ('{"name": "Bob"}', "valid"),
    ('{"name": "Ann", "age": "4"}', "schema"),
    ('{"age": 4}', "schema"),
    ('{"name": "Ann", "age": 4', "malformed"),
    ('{"name": "Ann", "age": NaN}', "malformed"),
    ('{"name": "Ann"} and more', "malformed"),
])
def test_json_answers(text, verdict):
    assert judge_json(text, SCHEMA, {"name": "Ann", "age": 4}) == verdict


def test_json_is_strict():
    assert strict_json("[1]") == [1]
    assert conforms([1], {"type": "array", "maxItems": 1})
    assert not conforms([1, 2], {"type": "array", "maxItems": 1})


def test_longest_copy():
    assert longest_copy([1, 2, 3, 4, 5], [9, 2, 3, 4, 8]) == 3
    assert longest_copy([1, 2, 1, 2, 3], [1, 2, 3]) == 3
    assert longest_copy([], [1]) == longest_copy([1], [2]) == 0
    assert common_prefix([1, 2, 3], [1, 2, 4]) == 2
    assert common_prefix([1, 2, 3], [1, 2]) == 2
    rows = [{"reference": list(range(130))}, {"reference": list(range(200, 340))}]
    assert copy_figures(rows, [list(range(130)), list(range(200, 210))]) == {
        "prompts": 2, "longest": 130, "shortest": 10, "median": 70.0, "long_enough": 0.5,
        "whole": 0.5}


def test_tool_shares_tell_prompts_that_need_no_call():
    expected = [{"name": "set_timer", "arguments": {"minutes": 5}}]
    rows = [{"meta": {"tools": TOOLS, "expected": each}} for each in (expected, expected, [], [])]
    figures = tool_figures(rows, [call(minutes=5), call(minutes=6), "No.", call(minutes=5)])
    assert (figures["prompts"], figures["valid"], figures["exact"]) == (2, 1.0, 0.5)
    assert figures["no_tool_right"] == 0.5
    assert figures["verdicts"]["valid"] == 2


def test_gates_compare_with_their_limits():
    figures = {"chat_closed": {"all": 0.96}, "tools": {"valid": 0.5},
               "copy": {"quote_verbatim": {"median": 128.0}}, "bits_per_byte": {"mix": 1.11}}
    assert {name: row["passed"] for name, row in gates_of(figures).items()} == {
        "chat_closed": True, "tools_valid": False, "copied_tokens": True, "bits_per_byte": False}
    del figures["bits_per_byte"]
    assert "bits_per_byte" not in gates_of(figures)
    assert (group_of("austen"), group_of("synth-tools")) == ("prose", "synthetic")


def test_missing_jsonschema_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    with pytest.raises(TandemError, match="jsonschema") as caught:
        conforms(1, {})
    assert "pip install" in caught.value.hint


@pytest.mark.slow
def test_command_on_nano_runs_once_and_judges_twice(tmp_path, monkeypatch):
    monkeypatch.setattr("tools.measure.outputs.NEW_TOKENS", 8)
    raw = tmp_path / "raw.json"
    common = ["--target", str(NANO), "--sets", str(ROOT / "benchmarks" / "sets"), "--limit", "1",
              "--raw", str(raw)]
    run(parse([*common, "--other", str(NANO), "--only-raw"]), Console(quiet=True))
    monkeypatch.setattr("tools.measure.gates.raw_record", None)  # a second run would fail
    out = tmp_path / "gates.json"
    record = run(parse([*common, "--out", str(out)]), Console(quiet=True))
    assert json.loads(out.read_text()) == record
    assert record["samples"] == 8
    assert record["kl"]["largest_nats"] == pytest.approx(0.0, abs=1e-6)
    assert sum(record["gaps"]["counts"]) == record["gaps"]["positions"] == 24
    assert set(record["gates"]) == {"chat_closed", "tools_valid", "copied_tokens"}
    with pytest.raises(SystemExit):
        parse(["--target", str(NANO)])
