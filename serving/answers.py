"""The JSON of answers: chat and completions, whole and in chunks."""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from serving.worker import ModelInfo
from tandem_jax import __version__


def fingerprint(model: ModelInfo) -> str:
    """`system_fingerprint`: changes with the code's version and the model."""
    facts = [__version__, model.name, model.vocab_size]
    return "fp_" + hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Choice:
    """One finished answer."""

    text: str
    token_ids: tuple[int, ...]  # [N] the end token included
    finish_reason: str  # "stop" or "length"
    prompt_ids: tuple[int, ...]  # [T]


@dataclass(frozen=True)
class AnswerFormat(ABC):
    """The keys that all objects of one answer share; subclasses add the shape of a route."""

    model: str  # name the client knows the model by
    system_fingerprint: str
    shows_ids: bool  # return_token_ids
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    created: int = field(default_factory=lambda: int(time.time()))  # seconds since 1970

    kind: ClassVar[str]  # `object` of a whole answer
    chunk_kind: ClassVar[str]  # `object` of a chunk
    prefix: ClassVar[str]  # of the id

    def wrap(self, choices: list[dict[str, Any]], *, is_chunk: bool, **more: Any) -> dict[str, Any]:
        """An answer or a chunk around its choices."""
        return {
            "id": self.prefix + self.id,
            "object": self.chunk_kind if is_chunk else self.kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.system_fingerprint,
            "choices": choices,
            **more,
        }

    def whole(self, choices: Sequence[Choice], **more: Any) -> dict[str, Any]:
        """The answer of a request that does not stream."""
        shaped = [self._whole(k, choice) for k, choice in enumerate(choices)]
        return self.wrap(shaped, is_chunk=False, **more)

    @abstractmethod
    def opening(self, index: int, prompt_ids: Sequence[int]) -> dict[str, Any] | None:
        """The first chunk of a choice, if the route has one."""

    @abstractmethod
    def piece(
        self, index: int, text: str, token_ids: Sequence[int], finish_reason: str | None
    ) -> dict[str, Any]:
        """A chunk with text, or the last one with the reason."""

    @abstractmethod
    def _whole(self, index: int, choice: Choice) -> dict[str, Any]:
        """One choice of a whole answer."""

    def _ids(self, **ids: Sequence[int]) -> dict[str, list[int]]:
        return {name: list(value) for name, value in ids.items()} if self.shows_ids else {}


@dataclass(frozen=True)
class ChatFormat(AnswerFormat):
    """Objects of /v1/chat/completions."""

    kind = "chat.completion"
    chunk_kind = "chat.completion.chunk"
    prefix = "chatcmpl-"

    def opening(self, index: int, prompt_ids: Sequence[int]) -> dict[str, Any]:
        """Role and empty content: strict clients want the role in the first delta."""
        return {
            "index": index,
            "delta": {"role": "assistant", "content": ""},
            "logprobs": None,
            "finish_reason": None,
            **self._ids(prompt_token_ids=prompt_ids),
        }

    def piece(
        self, index: int, text: str, token_ids: Sequence[int], finish_reason: str | None
    ) -> dict[str, Any]:
        """A delta; the last one is empty and carries the reason."""
        return {
            "index": index,
            "delta": {} if finish_reason else {"content": text},
            "logprobs": None,
            "finish_reason": finish_reason,
            **self._ids(token_ids=token_ids),
        }

    def _whole(self, index: int, choice: Choice) -> dict[str, Any]:
        return {
            "index": index,
            "message": {"role": "assistant", "content": choice.text, "refusal": None},
            "logprobs": None,
            "finish_reason": choice.finish_reason,
            **self._ids(token_ids=choice.token_ids, prompt_token_ids=choice.prompt_ids),
        }


@dataclass(frozen=True)
class CompletionFormat(AnswerFormat):
    """Objects of /v1/completions."""

    kind = "text_completion"
    chunk_kind = "text_completion"
    prefix = "cmpl-"

    def opening(self, index: int, prompt_ids: Sequence[int]) -> dict[str, Any] | None:
        """Nothing, unless the prompt's ids were asked for."""
        if not self.shows_ids:
            return None
        return self.piece(index, "", (), None) | self._ids(prompt_token_ids=prompt_ids)

    def piece(
        self, index: int, text: str, token_ids: Sequence[int], finish_reason: str | None
    ) -> dict[str, Any]:
        """Text, and the reason in the last chunk."""
        return {
            "index": index,
            "text": text,
            "logprobs": None,
            "finish_reason": finish_reason,
            **self._ids(token_ids=token_ids),
        }

    def _whole(self, index: int, choice: Choice) -> dict[str, Any]:
        piece = self.piece(index, choice.text, choice.token_ids, choice.finish_reason)
        return piece | self._ids(prompt_token_ids=choice.prompt_ids)
