"""Chat messages in the form that chat templates expect."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tandem_jax.errors import RequestError

# Templates know no developer role; it is the newer name of the system role.
_ROLES = {role: role for role in ("system", "user", "assistant", "tool")} | {"developer": "system"}

_EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "xhigh"} | {
    "xhigh": "xhigh",
    "max": "xhigh",
}  # the API's names -> the three that templates of this family know


def reasoning_variables(effort: str) -> dict[str, Any]:
    """Template variables of the API's `reasoning_effort`; raises RequestError for another name."""
    if effort == "none":
        return {"enable_thinking": False}
    if effort not in _EFFORTS:
        raise RequestError(
            f"reasoning_effort must be none or one of {', '.join(_EFFORTS)}",
            param="reasoning_effort",
        )
    return {"reasoning_effort": _EFFORTS[effort]}


def prepare_messages(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A copy of the messages with text parts joined and tool arguments parsed to mappings.

    Raises RequestError with `param="messages"` for anything a template cannot render.
    """
    if isinstance(messages, str) or not isinstance(messages, Sequence) or not messages:
        raise _wrong("messages must be a list with at least one message")
    return [_message(message, f"messages[{k}]") for k, message in enumerate(messages)]


def _message(message: Mapping[str, Any], where: str) -> dict[str, Any]:
    if not isinstance(message, Mapping):
        raise _wrong(f"{where} must be an object with role and content")
    role = message.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise _wrong(f"{where}.role must be one of {', '.join(_ROLES)}")
    ready = {**message, "role": _ROLES[role], "content": _content(message.get("content"), where)}
    if ready["content"] is None and (role != "assistant" or not message.get("tool_calls")):
        raise _wrong(f"{where}.content is missing")
    if "reasoning_content" not in ready and isinstance(ready.get("reasoning"), str):
        ready["reasoning_content"] = ready["reasoning"]  # the field's other name in the wild
    if message.get("tool_calls"):
        ready["tool_calls"] = _tool_calls(message["tool_calls"], where)
    return ready


def _content(content: Any, where: str) -> str | None:
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        raise _wrong(f"{where}.content must be text or a list of parts")
    texts = []
    for k, part in enumerate(content):
        if not isinstance(part, Mapping) or part.get("type") not in ("text", "input_text"):
            raise _wrong(f"{where}.content[{k}]: this engine reads text parts only")
        if not isinstance(part.get("text"), str):
            raise _wrong(f"{where}.content[{k}].text must be text")
        texts.append(part["text"])
    return "".join(texts)


def _tool_calls(calls: Any, where: str) -> list[dict[str, Any]]:
    where = f"{where}.tool_calls"
    if isinstance(calls, str) or not isinstance(calls, Sequence):
        raise _wrong(f"{where} must be a list")
    ready = []
    for k, call in enumerate(calls):
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            raise _wrong(f"{where}[{k}].function must be an object with a name")
        arguments = _arguments(function.get("arguments"), f"{where}[{k}].function.arguments")
        ready.append({**call, "function": {**function, "arguments": arguments}})
    return ready


def _arguments(arguments: Any, where: str) -> dict[str, Any]:
    """OpenAI clients send a JSON string, templates iterate over a mapping."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError):
            raise _wrong(f"{where} is not valid JSON") from None
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        raise _wrong(f"{where} must be a JSON object")
    return dict(arguments)


def _wrong(message: str) -> RequestError:
    return RequestError(message, param="messages")
