"""One prompt's answer as it grows, from committed tokens to text."""

from __future__ import annotations

from typing import Any

from serving.answers import Choice
from tandem_jax.text import Detokenizer, Tokenizer


class Transcript:
    """Collects rounds; every piece of text it gives out ends on a whole character."""

    def __init__(self, tokenizer: Tokenizer, prompt_ids: tuple[int, ...], *, skip_special: bool):
        self._prompt_ids = prompt_ids
        self._detokenizer = Detokenizer(tokenizer, skip_special=skip_special)
        self._texts: list[str] = []
        self._token_ids: list[int] = []
        self._finish_reason: str | None = None

    @property
    def has_begun(self) -> bool:
        """Whether a round has arrived."""
        return bool(self._token_ids)

    def add(self, event: Any) -> str:
        """Take one RoundEvent, give the text it completes."""
        text = self._detokenizer.push(event.tokens)
        if event.finish_reason:
            text += self._detokenizer.flush()
        self._texts.append(text)
        self._token_ids += event.tokens
        self._finish_reason = event.finish_reason
        return text

    def choice(self) -> Choice:
        """The finished answer."""
        assert self._finish_reason is not None, "the answer is not finished"
        return Choice(
            text="".join(self._texts),
            token_ids=tuple(self._token_ids),
            finish_reason=self._finish_reason,
            prompt_ids=self._prompt_ids,
        )
