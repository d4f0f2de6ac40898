"""Judges answers of the target: tool calls, JSON, copies. Needs no device.

Schemas are checked with the jsonschema package (extra `train`).
"""

import json
import re
from collections.abc import Iterator, Sequence

from tandem_jax.errors import TandemError

STOP = "<|im_end|>"
CALL = re.compile(r"<tool_call>\n<function=([^>\n]+)>\n(.*?)</function>\n</tool_call>", re.DOTALL)
PARAMETER = re.compile(r"<parameter=([^>\n]+)>\n(.*?)\n</parameter>\n", re.DOTALL)
# Verdicts, the best first; "none" is right only where no tool is needed.
VERDICTS = ("valid", "schema", "unknown tool", "malformed", "unclosed", "none")


def _validator(schema: dict):
    try:
        from jsonschema import Draft202012Validator
    except ImportError as error:
        raise TandemError("schemas are checked with jsonschema, which is not installed",
                          hint='install it with: pip install "tandem-jax[train]"') from error
    return Draft202012Validator(schema)


def conforms(value, schema: dict) -> bool:
    """Return whether a JSON value is valid under a schema (draft 2020-12)."""
    return _validator(schema).is_valid(value)


def strict_json(text: str):
    """Return the JSON value of a text.

    Raises ValueError when it is none; NaN, infinities and text behind the value are errors.
    """
    def refuse(name):
        raise ValueError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


def tool_calls(text: str) -> list[tuple[str, dict[str, str]]]:
    """Return (function, raw parameters) of the calls in an answer.

    Raises ValueError("unclosed") when a block lacks its end and ValueError("malformed") when one
    is not of the form that the chat template prints.
    """
    if text.count("<tool_call>") > text.count("</tool_call>"):
        raise ValueError("unclosed")
    blocks = CALL.findall(text)
    if len(blocks) != text.count("<tool_call>") or len(blocks) != text.count("</tool_call>"):
        raise ValueError("malformed")
    calls = []
    for name, body in blocks:
        pairs = PARAMETER.findall(body)
        if PARAMETER.sub("", body) or len(dict(pairs)) != len(pairs):
            raise ValueError("malformed")
        calls.append((name, dict(pairs)))
    return calls


def typed_arguments(raw: dict[str, str], schema: dict) -> dict:
    """Return the arguments as JSON values: strings as they are, the rest parsed as JSON.

    A text that its declared type cannot read stays a string, and the schema refuses it.
    """
    found = {}
    for name, text in raw.items():
        kind = schema.get("properties", {}).get(name, {}).get("type", "string")
        found[name] = text
        if kind != "string":
            try:
                found[name] = strict_json(text)
            except ValueError:
                continue
    return found


def judge_tools(text: str, tools: list[dict]) -> tuple[str, list[dict]]:
    """Return (verdict, [{"name", "arguments"}]) of an answer; arguments no tool has are refused.

    tools: [{"name", "parameters": schema}].
    """
    schemas = {tool["name"]: tool["parameters"] for tool in tools}
    try:
        calls = tool_calls(text)
    except ValueError as error:
        return str(error), []
    if not calls:
        return "none", []
    if not {name for name, _ in calls} <= schemas.keys():
        return "unknown tool", []
    typed = [{"name": name, "arguments": typed_arguments(raw, schemas[name])}
             for name, raw in calls]
    good = all(conforms(call["arguments"], {"additionalProperties": False,
                                            **schemas[call["name"]]}) for call in typed)
    return "valid" if good else "schema", typed


def judge_json(text: str, schema: dict, expected) -> str:
    """Return "right", "valid" (of the schema, other values), "schema" or "malformed"."""
    try:
        value = strict_json(text.strip())
    except ValueError:
        return "malformed"
    if not conforms(value, schema):
        return "schema"
    return "right" if value == expected else "valid"


def _runs(answer: Sequence[int], source: Sequence[int]) -> Iterator[int]:
    """Yield, row by row, the longest common run that ends at each token of `answer`."""
    before = [0] * (len(source) + 1)
    for token in answer:
        now = [0] * (len(source) + 1)
        for at, other in enumerate(source):
            if token == other:
                now[at + 1] = before[at] + 1
        yield max(now)
        before = now


def longest_copy(answer: Sequence[int], source: Sequence[int]) -> int:
    """Return the tokens of the longest run that both texts hold."""
    return max(_runs(answer, source), default=0)


def common_prefix(answer: Sequence[int], source: Sequence[int]) -> int:
    """Return how many first tokens are equal."""
    pairs = zip(answer, source, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(answer), len(source)))
