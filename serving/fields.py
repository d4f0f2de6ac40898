"""Every request field and what this version does with it: one table, which the tests walk through.

A field is honoured, ignored because its definition says that it cannot change the answer, or
refused with a 400 that names it, unless its value asks for nothing. None is ever ignored silently.
`null` counts as absent everywhere except in `messages` and `prompt`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

CHAT = frozenset({"chat"})
COMPLETIONS = frozenset({"completions"})
BOTH = CHAT | COMPLETIONS


class Effect(Enum):
    """What a field does."""

    HONOURED = "changes the answer as documented"
    IGNORED = "cannot change the answer by its definition"
    REFUSED = "answered with 400 unless its value asks for nothing"


@dataclass(frozen=True, slots=True)
class Field:
    """One line of the table."""

    name: str
    routes: frozenset[str]
    effect: Effect
    accepted: tuple[Any, ...]  # examples; of a refused field all values that ask for nothing
    refused: tuple[Any, ...] = ()  # examples of values answered with 400
    why: str = ""  # for refused fields: what this version does instead

    def is_neutral(self, value: Any) -> bool:
        """Whether the value asks for nothing; true and 1 are different values."""
        return value is None or any(
            value == neutral and isinstance(value, bool) == isinstance(neutral, bool)
            for neutral in self.accepted
        )


_DO, _SKIP, _NO = Effect.HONOURED, Effect.IGNORED, Effect.REFUSED
_GREEDY = "this version decodes greedily"
_NOT_YET = "not part of this version"
_USER = [{"role": "user", "content": "hi"}]
_BAD_PROMPTS = (None, "", [], [""], [-1], [10**9], ["a", 1], 5)
_BAD_FORMATS = ({"type": "json_object"}, {"type": "json_schema"}, {}, "text")
_TOOL = {"type": "function", "function": {"name": "f"}}

FIELDS = (
    # What to answer
    Field("model", BOTH, _DO, ("fake",), ("other", 5, "../../etc/passwd")),
    Field("messages", CHAT, _DO, (_USER,), (None, [], "hi", [1], [{"role": "robot"}])),
    Field("messages", COMPLETIONS, _NO, (), (_USER,), "send a prompt"),
    Field("prompt", COMPLETIONS, _DO, ("hi", ["hi", "ho"], [104, 105]), _BAD_PROMPTS),
    Field("prompt", CHAT, _NO, (), ("hi",), "send messages"),
    Field("parse_special", COMPLETIONS, _DO, (True, False), (1, "true")),
    Field("parse_special", CHAT, _NO, (False,), (True,), "text in messages is never special"),
    Field("chat_template_kwargs", CHAT, _DO, ({}, {"a": 1}), ({"tools": []}, "x")),
    Field("chat_template_kwargs", COMPLETIONS, _NO, ({},), ({"a": 1},), "prompts have no template"),
    Field("reasoning_effort", CHAT, _DO, ("none", "minimal", "max"), ("extreme", 1)),
    Field("reasoning_effort", COMPLETIONS, _NO, (), ("low",), "prompts have no template"),
    # How long
    Field("max_tokens", BOTH, _DO, (1, 10**12), (0, -1, 1.5, "5", True)),
    Field("max_completion_tokens", BOTH, _DO, (1, 10**12), (0, -1, 1.5, "5", True)),
    Field("ignore_eos", BOTH, _DO, (True, False), (1, "yes")),
    Field("stop_token_ids", BOTH, _DO, ([], [65]), ([-1], [10**9], ["a"], [True], 65)),
    # Form of the answer
    Field("stream", BOTH, _DO, (False,), (1, "true")),
    Field("stream_options", BOTH, _DO, (), ({"include_usage": True}, True)),
    Field("skip_special_tokens", BOTH, _DO, (True, False), (1, "no")),
    Field("return_token_ids", BOTH, _DO, (True, False), (1, "yes")),
    Field("seed", BOTH, _DO, (0, -(2**63), 2**63 - 1), (2**63, 0.5, "1", True)),
    # No effect by definition
    Field("user", BOTH, _SKIP, ("me", 5)),
    Field("metadata", BOTH, _SKIP, ({"a": "b"},)),
    Field("store", BOTH, _SKIP, (True, False)),
    Field("service_tier", BOTH, _SKIP, ("auto",)),
    Field("safety_identifier", BOTH, _SKIP, ("x",)),
    Field("verbosity", BOTH, _SKIP, ("low",)),
    Field("prompt_cache_key", BOTH, _SKIP, ("x",)),
    Field("prompt_cache_retention", BOTH, _SKIP, ("24h",)),
    Field("cache_salt", BOTH, _SKIP, ("x",)),
    Field("prediction", BOTH, _SKIP, ({"type": "content", "content": "x"},)),
    Field("priority", BOTH, _SKIP, (3,)),
    Field("parallel_tool_calls", BOTH, _SKIP, (True, False)),  # there are no tools to call
    # Sampling
    Field("temperature", BOTH, _NO, (0,), (0.7, 2, "0", False, [0]), _GREEDY),
    Field("top_p", BOTH, _NO, (1,), (0.9, 0, "1", True), _GREEDY),
    Field("top_k", BOTH, _NO, (0, -1, 1), (2, -2, "1", False), _GREEDY),
    Field("min_p", BOTH, _NO, (0,), (0.1, "0", False), _GREEDY),
    Field("n", BOTH, _NO, (1,), (2, 0, 10**9, "1", True), _GREEDY),
    Field("best_of", BOTH, _NO, (1,), (2,), _GREEDY),
    Field("presence_penalty", BOTH, _NO, (0,), (1.5, "0"), _NOT_YET),
    Field("frequency_penalty", BOTH, _NO, (0,), (-2, "0"), _NOT_YET),
    Field("repetition_penalty", BOTH, _NO, (1,), (1.1, 0), _NOT_YET),
    Field("logit_bias", BOTH, _NO, ({},), ({"5": 1}, [[5, 1]]), _NOT_YET),
    Field("min_tokens", BOTH, _NO, (0,), (1, -1), _NOT_YET),
    Field("bad_words", BOTH, _NO, ([],), (["x"],), _NOT_YET),
    Field("allowed_token_ids", BOTH, _NO, (), ([1], []), _NOT_YET),
    Field("use_beam_search", BOTH, _NO, (False,), (True,), _NOT_YET),
    Field("length_penalty", BOTH, _NO, (1,), (0.5,), _NOT_YET),
    # Stops
    Field("stop", BOTH, _NO, ([],), ("x", "", ["x"], [""], 5), "stop_token_ids are supported"),
    Field("stop_regex", BOTH, _NO, ([],), ("x",), _NOT_YET),
    Field("no_stop_trim", BOTH, _NO, (False,), (True,), _NOT_YET),
    Field("include_stop_str_in_output", BOTH, _NO, (False,), (True,), _NOT_YET),
    # Probabilities
    Field("logprobs", BOTH, _NO, (False,), (True, 0, 5), _NOT_YET),
    Field("top_logprobs", BOTH, _NO, (0,), (5,), _NOT_YET),
    Field("prompt_logprobs", BOTH, _NO, (), (0, 1), _NOT_YET),
    Field("return_tokens_as_token_ids", BOTH, _NO, (False,), (True,), _NOT_YET),
    # Structured output and tools
    Field("response_format", BOTH, _NO, ({"type": "text"},), _BAD_FORMATS, _NOT_YET),
    Field("structured_outputs", BOTH, _NO, ({},), ({"regex": "x"},), _NOT_YET),
    Field("guided_json", BOTH, _NO, (), ({"type": "object"}, ""), _NOT_YET),
    Field("guided_regex", BOTH, _NO, (), ("x",), _NOT_YET),
    Field("guided_choice", BOTH, _NO, (), (["x"],), _NOT_YET),
    Field("guided_grammar", BOTH, _NO, (), ("x",), _NOT_YET),
    Field("json_schema", BOTH, _NO, (), ({},), _NOT_YET),
    Field("regex", BOTH, _NO, (), ("x",), _NOT_YET),
    Field("regex_pattern", BOTH, _NO, (), ("x",), _NOT_YET),
    Field("ebnf", BOTH, _NO, (), ("x",), _NOT_YET),
    Field("grammar", BOTH, _NO, (), ("x",), _NOT_YET),
    Field("grammar_string", BOTH, _NO, (), ("x",), _NOT_YET),
    Field("tools", BOTH, _NO, ([],), ([_TOOL], {}), _NOT_YET),
    Field("tool_choice", BOTH, _NO, ("none", "auto"), ("required", _TOOL), _NOT_YET),
    Field("functions", BOTH, _NO, ([],), ([{"name": "f"}],), _NOT_YET),
    Field("function_call", BOTH, _NO, ("none", "auto"), ({"name": "f"},), _NOT_YET),
    # Prompt building
    Field("thinking_token_budget", BOTH, _NO, (), (5,), _NOT_YET),
    Field("max_reasoning_tokens", BOTH, _NO, (), (5,), _NOT_YET),
    Field("include_reasoning", BOTH, _NO, (), (True, False), "reasoning stays in the content"),
    Field("separate_reasoning", BOTH, _NO, (False,), (True,), "reasoning stays in the content"),
    Field("chat_template", BOTH, _NO, (), ("x", ""), "only the checkpoint's own is used"),
    Field("template_vars", BOTH, _NO, ({},), ({"a": 1},), "use chat_template_kwargs"),
    Field("enable_thinking", BOTH, _NO, (), (False, True), "use chat_template_kwargs"),
    Field("documents", BOTH, _NO, ([],), ([{}],), _NOT_YET),
    Field("add_generation_prompt", BOTH, _NO, (True,), (False,), _NOT_YET),
    Field("continue_final_message", BOTH, _NO, (False,), (True,), _NOT_YET),
    Field("truncate_prompt_tokens", BOTH, _NO, (), (5,), _NOT_YET),
    Field("echo", BOTH, _NO, (False,), (True,), _NOT_YET),
    Field("suffix", BOTH, _NO, ("",), ("x",), _NOT_YET),
    # Other kinds of output
    Field("modalities", BOTH, _NO, (["text"],), (["text", "audio"],), _NOT_YET),
    Field("audio", BOTH, _NO, (), ({"voice": "x"},), _NOT_YET),
    Field("web_search_options", BOTH, _NO, (), ({},), _NOT_YET),
)


def fields_of(route: str) -> dict[str, Field]:
    """The table's lines for one route, by name."""
    return {field.name: field for field in FIELDS if route in field.routes}


def refusals(route: str, raw: Mapping[str, Any]) -> Iterator[Field]:
    """Fields of a request whose values this version cannot honour."""
    for name, field in fields_of(route).items():
        if field.effect is Effect.REFUSED and name in raw and not field.is_neutral(raw[name]):
            yield field


def unknown_names(route: str, raw: Mapping[str, Any]) -> list[str]:
    """Names in a request that the table does not list for its route."""
    return sorted(raw.keys() - fields_of(route).keys())
