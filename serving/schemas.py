"""The fields that are honoured, typed and strict: no text for a number, no true for a 1."""

from __future__ import annotations

import logging
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from serving.errors import bad_request
from serving.fields import refusals, unknown_names
from tandem_jax.sampling.params import SamplingParams
from tandem_jax.text import RESERVED_VARIABLES, reasoning_variables

log = logging.getLogger("tandem.serving")

_Count = Annotated[int, Field(ge=1)]
_TokenId = Annotated[int, Field(ge=0)]
_Int64 = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]
_MAX_LOGGED = 1000


Request = TypeVar("Request", bound="GenerationRequest")


class StreamOptions(BaseModel):
    """What a stream carries besides text."""

    model_config = ConfigDict(strict=True, extra="ignore")

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class GenerationRequest(BaseModel):
    """Fields that both routes honour."""

    model_config = ConfigDict(strict=True, extra="ignore", hide_input_in_errors=True)

    model: str | None = None
    max_tokens: _Count | None = None
    max_completion_tokens: _Count | None = None
    ignore_eos: bool | None = None
    stop_token_ids: Annotated[list[_TokenId], Field(max_length=128)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    skip_special_tokens: bool | None = None
    return_token_ids: bool | None = None
    seed: _Int64 | None = None  # greedy text does not depend on it

    @property
    def shows_usage(self) -> bool:
        """Whether a stream ends with a usage chunk."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def shows_usage_always(self) -> bool:
        """Whether every chunk carries usage."""
        options = self.stream_options
        return bool(options and options.include_usage and options.continuous_usage_stats)

    def sampling_params(self, room: int) -> SamplingParams:
        """Options of the engine, for a prompt that leaves `room` tokens of the context."""
        limit = self.max_completion_tokens or self.max_tokens or room
        return SamplingParams(
            max_tokens=min(limit, room),
            ignore_eos=bool(self.ignore_eos),
            stop_token_ids=tuple(self.stop_token_ids or ()),
        )


class ChatRequest(GenerationRequest):
    """Body of /v1/chat/completions."""

    messages: Annotated[list[dict[str, Any]], Field(min_length=1)]
    chat_template_kwargs: dict[str, Any] | None = None
    reasoning_effort: str | None = None

    @field_validator("chat_template_kwargs")
    @classmethod
    def _not_reserved(cls, variables: dict[str, Any] | None) -> dict[str, Any] | None:
        if RESERVED_VARIABLES & (variables or {}).keys():
            raise ValueError("sets a variable that the server owns")
        return variables

    @property
    def template_variables(self) -> dict[str, Any]:
        """What the chat template sees besides the messages; explicit variables win."""
        effort = {} if self.reasoning_effort is None else reasoning_variables(self.reasoning_effort)
        return effort | (self.chat_template_kwargs or {})


class CompletionRequest(GenerationRequest):
    """Body of /v1/completions."""

    prompt: str | list[str] | list[_TokenId] | list[list[_TokenId]]
    parse_special: bool | None = None  # True: control tokens written in the prompt count as such

    @property
    def prompts(self) -> list[str] | list[list[int]]:
        """The prompts, one per choice of the answer."""
        prompt = self.prompt
        is_one = isinstance(prompt, str) or (prompt and isinstance(prompt[0], int))
        return [prompt] if is_one else prompt


def parse_request(
    model: type[Request], route: str, raw: dict[str, Any], *, is_strict: bool
) -> Request:
    """Check a body against the table, then against the types; raises ApiError 400."""
    for field in refusals(route, raw):
        values = ", ".join(["null", *map(repr, field.accepted)])
        raise bad_request(
            f"{field.name} is not supported with this value: {field.why} (accepted: {values})",
            field.name,
        )
    unknown = unknown_names(route, raw)
    if unknown and is_strict:
        raise bad_request("the field is unknown, and the request is strict", unknown[0][:64])
    _log_once(unknown)
    try:
        request = model.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise bad_request(f"{first['loc'][0]}: {first['msg']}", str(first["loc"][0])) from None
    if request.stream_options is not None and not request.stream:
        raise bad_request("stream_options needs stream: true", "stream_options")
    return request


_logged: set[str] = set()


def _log_once(names: list[str]) -> None:
    for name in names:
        if name not in _logged and len(_logged) < _MAX_LOGGED:
            _logged.add(name)
            log.warning("request field %r is unknown and ignored", name[:64])
