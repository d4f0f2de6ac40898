"""Token ids to text as they arrive, byte for byte what decoding all of them at once would give."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from dataclasses import dataclass

from tandem_jax.text.tokenizer import Tokenizer

_Utf8Decoder = codecs.getincrementaldecoder("utf-8")


@dataclass(frozen=True, slots=True)
class DetokenizerState:
    """Where a Detokenizer stands; small enough to keep one per round."""

    pending: bytes  # up to 3 bytes of a character that is not complete yet
    flag: int  # the codec's own flag, 0 for UTF-8


class Detokenizer:
    """Incremental text of one token stream; every piece ends on a whole character.

    Joined pieces plus `flush()` equal `Tokenizer.decode` of all ids, however the stream is cut.
    """

    def __init__(self, tokenizer: Tokenizer, *, skip_special: bool = False):
        self._tokenizer = tokenizer
        self._skip = tokenizer.special_ids if skip_special else frozenset()
        self._decoder = _Utf8Decoder("replace")

    def push(self, ids: Iterable[int]) -> str:
        """The text that ids [T] complete; bytes that can never be UTF-8 become U+FFFD."""
        token_bytes, skip = self._tokenizer.token_bytes, self._skip
        return self._decoder.decode(b"".join(token_bytes(i) for i in ids if i not in skip))

    def flush(self) -> str:
        """The rest at the end of the stream: U+FFFD for a character that stayed incomplete."""
        text = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return text

    def snapshot(self) -> DetokenizerState:
        """The present state, to come back to with `restore`."""
        pending, flag = self._decoder.getstate()
        return DetokenizerState(pending=pending, flag=flag)

    def restore(self, state: DetokenizerState) -> None:
        """Forget everything pushed since `state` was taken."""
        self._decoder.setstate((state.pending, state.flag))
