"""The checkpoint's own chat template: messages to token ids."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from tandem_jax.errors import CheckpointError, RequestError
from tandem_jax.text.control_marks import ControlMarks, free_block, make_marks, mark_template
from tandem_jax.text.messages import prepare_messages
from tandem_jax.text.tokenizer import Tokenizer

RESERVED_VARIABLES = frozenset(
    (
        *("messages", "tools", "documents", "add_generation_prompt", "tokenize", "chat_template"),
        *("raise_exception", "strftime_now", "self"),
    )
)
_HINT = "copy chat_template.jinja from the original checkpoint"

# What a sandboxed template can raise over messages it was not written for.
_RENDER_ERRORS = (
    jinja2.TemplateError,
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)


class ChatTemplate:
    """Renders messages with a Jinja template in the immutable sandbox.

    Only the template's own literals become control tokens, never a user's text (control_marks.py).
    `source` None stands for a checkpoint without a template: every call is then a RequestError.
    Raises CheckpointError for a template that does not compile.
    """

    def __init__(
        self,
        source: str | None,
        tokenizer: Tokenizer,
        *,
        token_variables: Mapping[str, str] | None = None,
    ):
        self.source = source
        self._tokenizer = tokenizer
        self._token_variables = dict(token_variables or {})  # bos_token and the like -> its text
        # A few blocks at most are ever in use; each costs one compilation.
        self._compiled = lru_cache(maxsize=4)(self._compile)
        if source is not None:
            self._compiled(0)
            self._check_marks_are_found()

    @classmethod
    def from_directory(cls, directory: str | Path, tokenizer: Tokenizer) -> ChatTemplate:
        """Read `chat_template.jinja`, else the template inside `tokenizer_config.json`."""
        directory = Path(directory)
        config = _read_json(directory / "tokenizer_config.json")
        file = directory / "chat_template.jinja"
        source = file.read_text(encoding="utf-8") if file.is_file() else _configured(config)
        return cls(source, tokenizer, token_variables=_token_variables(config))

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        /,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **variables: Any,
    ) -> str:
        """The prompt's text, for reading; user text and control tokens look alike in it."""
        rendered, marks = self._render(messages, tools, add_generation_prompt, variables)
        return marks.unmark(rendered)

    def encode(
        self,
        messages: Sequence[Mapping[str, Any]],
        /,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **variables: Any,
    ) -> list[int]:
        """The prompt's token ids [T]; no control token stems from messages, tools or variables.

        Raises RequestError with `param="messages"` for messages the template refuses.
        """
        rendered, marks = self._render(messages, tools, add_generation_prompt, variables)
        return self._tokenizer.encode_pieces(marks.split(rendered), param="messages")

    def _render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        add_generation_prompt: bool,
        variables: Mapping[str, Any],
    ) -> tuple[str, ControlMarks]:
        if self.source is None:
            raise RequestError(
                "this checkpoint has no chat template",
                param="messages",
                hint="send a plain prompt to the completions route instead",
            )
        taken = sorted(RESERVED_VARIABLES & variables.keys())
        if taken:
            raise RequestError(
                f"template variable {taken[0]!r} cannot be set", param="chat_template_kwargs"
            )
        data = {
            **variables,
            "messages": prepare_messages(messages),
            "tools": list(tools) if tools else None,
            "add_generation_prompt": add_generation_prompt,
        }
        template, marks = self._compiled(self._block(data))
        tokens = {name: marks.mark(text) for name, text in self._token_variables.items()}
        try:
            rendered = template.render({**tokens, **data})
        except _RENDER_ERRORS as error:
            raise _refused(error) from error
        return rendered, marks

    def _block(self, data: Mapping[str, Any]) -> int:
        try:
            inputs = json.dumps(data, ensure_ascii=False, default=str)
        except (TypeError, ValueError, RecursionError) as error:
            raise RequestError("messages are not plain JSON", param="messages") from error
        block = free_block(len(self._tokenizer.control_ids), self.source or "", inputs)
        if block is None:
            raise RequestError(
                "the messages use too many private-use characters (U+100000 and up)",
                param="messages",
            )
        return block

    def _compile(self, block: int) -> tuple[jinja2.Template, ControlMarks]:
        marks = make_marks(self._tokenizer.control_ids, block)
        environment = _environment()
        try:
            tree = mark_template(environment.parse(self.source or ""), marks)
            return environment.from_string(tree), marks
        except jinja2.TemplateError as error:
            raise CheckpointError(f"the chat template is damaged: {error}", hint=_HINT) from error

    def _check_marks_are_found(self) -> None:
        """Refuse a template that spells control tokens from pieces: they would stay plain text."""
        user, assistant = ({"role": r, "content": "x"} for r in ("user", "assistant"))
        try:
            rendered, marks = self._render([user, assistant, user], None, True, {})
        except RequestError:
            return  # a template may ask for more than this conversation; requests will tell
        found = marks.text_pattern.search(rendered)
        if found:
            raise CheckpointError(
                f"the chat template puts {found.group()!r} together from pieces",
                hint="write each control token as one literal in the template",
            )


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


def _to_json(value: Any, indent: int | None = None, ensure_ascii: bool = False, **options) -> str:
    """JSON as a model reads it; Jinja's own filter would escape for HTML."""
    return json.dumps(value, indent=indent, ensure_ascii=ensure_ascii, **options)


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


def _strftime_now(pattern: str) -> str:
    return datetime.now().strftime(pattern)


def _refused(error: Exception) -> RequestError:
    # Messages of other exceptions speak about the template's inside, not about the request.
    reason = str(error) if isinstance(error, jinja2.TemplateError) else type(error).__name__
    return RequestError(
        f"the model's chat template refuses these messages: {reason}",
        param="messages",
        hint="check the order of roles; most templates need at least one user message",
    )


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CheckpointError(f"{path} is not valid JSON: {error}", hint=_HINT) from error
    if not isinstance(raw, dict):
        raise CheckpointError(f"{path} is not a JSON object", hint=_HINT)
    return raw


def _configured(config: Mapping[str, Any]) -> str | None:
    template = config.get("chat_template")
    if isinstance(template, list):  # several named templates
        named = {entry["name"]: entry["template"] for entry in template}
        template = named.get("default")
    if template is not None and not isinstance(template, str):
        raise CheckpointError("tokenizer_config.json: chat_template is not text", hint=_HINT)
    return template


def _token_variables(config: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for name in ("bos_token", "eos_token", "pad_token", "unk_token"):
        value = config.get(name)
        text = value.get("content") if isinstance(value, Mapping) else value
        if isinstance(text, str):
            found[name] = text
    return found
