"""Text to token ids and back, from the checkpoint's own `tokenizer.json`.

The file is loaded as it is and never rebuilt from vocabulary and merges: the pre-tokeniser's
pattern differs between families that share a class name.

A *control token* is any added token of the file (`<|im_end|>`, `<think>`, ...), whether or not it
is flagged special. The encoder underneath is loaded without them, so that plain text cannot become
one; callers who mean a control token pass its id (`encode_pieces`) or ask for `parse_special`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import tokenizers

from tandem_jax.errors import CheckpointError, RequestError
from tandem_jax.text.byte_level import BYTE_CHARACTERS, token_to_bytes

_HINT = "use a Hugging Face checkpoint directory whose tokenizer.json is a byte-level BPE"


class Tokenizer:
    """Byte-level BPE of one checkpoint; immutable, safe to use from several threads.

    Raises CheckpointError if `tokenizer.json` is missing, damaged or of another kind.
    """

    def __init__(self, source: str, *, where: str = "tokenizer.json"):
        raw = _parse(source, where)
        self.fingerprint = hashlib.sha256(source.encode("utf-8")).hexdigest()  # of the file
        self.control_ids: dict[str, int] = _control_tokens(raw, where)  # text -> id, all added
        self.special_ids: frozenset[int] = frozenset(
            token["id"] for token in raw["added_tokens"] if token["special"]
        )  # those the file flags special: hidden from the text a user reads
        self._bytes = _byte_table(raw["model"]["vocab"], self.control_ids, where)
        self._encoder = _literal_encoder(raw, where)
        longest_first = sorted(self.control_ids, key=len, reverse=True)
        self._control = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        self._check_literal(where)

    @classmethod
    def from_directory(cls, directory: str | Path) -> Tokenizer:
        """Load `directory/tokenizer.json`."""
        path = Path(directory) / "tokenizer.json"
        if not path.is_file():
            raise CheckpointError(f"no tokenizer.json in {directory}", hint=_HINT)
        try:
            source = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise CheckpointError(f"cannot read {path}: {error}", hint=_HINT) from error
        return cls(source, where=str(path))

    @property
    def vocab_size(self) -> int:
        """One more than the largest id; a model's padded head may have more rows."""
        return len(self._bytes)

    def control_id(self, text: str) -> int | None:
        """The id of a control token by its text, or None."""
        return self.control_ids.get(text)

    def token_bytes(self, token: int) -> bytes:
        """The bytes an id stands for; empty for padding rows beyond the vocabulary."""
        if token < 0:
            raise ValueError(f"token id {token} is negative")
        return self._bytes[token] if token < len(self._bytes) else b""

    def encode(self, text: str, *, parse_special: bool = False, param: str = "prompt") -> list[int]:
        """Token ids [T] of a text, nothing added in front or behind.

        Control tokens in the text stay plain text unless `parse_special`. Raises RequestError
        (with `param`) for text that is not valid Unicode.
        """
        return self.encode_pieces(self.split_control(text) if parse_special else [text], param)

    def encode_pieces(self, pieces: Sequence[str | int], param: str = "prompt") -> list[int]:
        """Token ids [T] of a sequence of literal texts and control token ids."""
        texts = [piece for piece in pieces if isinstance(piece, str)]
        for text in texts:
            _check_unicode(text, param)
        # encode() would hold the interpreter lock for the whole text; the batch form releases it.
        encoded = iter(self._encoder.encode_batch_fast(texts, add_special_tokens=False))
        ids: list[int] = []
        for piece in pieces:
            if isinstance(piece, str):
                ids.extend(next(encoded).ids)
            else:
                ids.append(piece)
        return ids

    def split_control(self, text: str) -> list[str | int]:
        """Cut a text at control tokens, leftmost and longest first; these become their ids."""
        pieces: list[str | int] = []
        end = 0
        for match in self._control.finditer(text):
            if match.start() > end:
                pieces.append(text[end : match.start()])
            pieces.append(self.control_ids[match.group()])
            end = match.end()
        if end < len(text):
            pieces.append(text[end:])
        return pieces

    def decode(self, ids: Iterable[int], *, skip_special: bool = False) -> str:
        """The text of ids [T]; bytes that are not UTF-8 become U+FFFD."""
        skip = self.special_ids if skip_special else frozenset()
        joined = b"".join(self.token_bytes(token) for token in ids if token not in skip)
        return joined.decode("utf-8", "replace")

    def _check_literal(self, where: str) -> None:
        for text, token in self.control_ids.items():
            if token in self.encode(text):
                raise CheckpointError(
                    f"{where}: plain text {text!r} encodes to the control token itself",
                    hint="its merges or ignore_merges let user text become control tokens",
                )


def _check_unicode(text: str, param: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise RequestError(
            f"the text holds a lone surrogate at character {error.start}",
            param=param,
            hint="send valid Unicode text",
        ) from None


def _parse(source: str, where: str) -> dict[str, Any]:
    try:
        raw = json.loads(source)
    except ValueError as error:
        raise CheckpointError(f"{where} is not valid JSON: {error}", hint=_HINT) from error
    if not isinstance(raw, dict) or not isinstance(raw.get("model"), dict):
        raise CheckpointError(f"{where} has no tokenizer model", hint=_HINT)
    kind = raw["model"].get("type")
    if kind != "BPE" or "ByteLevel" not in json.dumps(raw.get("decoder")):
        raise CheckpointError(f"{where} is not a byte-level BPE (model type {kind!r})", hint=_HINT)
    if not isinstance(raw["model"].get("vocab"), dict):
        raise CheckpointError(f"{where} has no vocabulary", hint=_HINT)
    return {**raw, "added_tokens": raw.get("added_tokens") or []}


def _control_tokens(raw: dict[str, Any], where: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for token in raw["added_tokens"]:
        try:
            text, token_id, _ = token["content"], token["id"], token["special"]
        except (TypeError, KeyError) as error:
            raise CheckpointError(f"{where}: damaged added token {token!r}", hint=_HINT) from error
        for flag in ("lstrip", "rstrip", "single_word"):
            if token.get(flag):
                raise CheckpointError(
                    f"{where}: added token {text!r} sets {flag}, which is not supported",
                    hint="no model of the supported families needs it",
                )
        found[text] = token_id
    return found


def _byte_table(vocab: dict[str, int], control: dict[str, int], where: str) -> tuple[bytes, ...]:
    missing = [byte for byte, char in enumerate(BYTE_CHARACTERS) if char not in vocab]
    if missing:
        raise CheckpointError(
            f"{where}: {len(missing)} of 256 bytes have no token, first 0x{missing[0]:02x}",
            hint="such a vocabulary cannot write every text",
        )
    table = [b""] * (1 + max(*vocab.values(), *control.values()))
    for token, token_id in vocab.items():
        if token not in control:
            try:
                table[token_id] = token_to_bytes(token)
            except ValueError as error:
                raise CheckpointError(f"{where}: {error}", hint=_HINT) from error
    for text, token_id in control.items():
        table[token_id] = text.encode("utf-8")
    return tuple(table)


def _literal_encoder(raw: dict[str, Any], where: str) -> tokenizers.Tokenizer:
    bare = {**raw, "added_tokens": [], "post_processor": None, "truncation": None, "padding": None}
    try:
        return tokenizers.Tokenizer.from_str(json.dumps(bare))
    except Exception as error:  # the library raises bare Exception for every kind of damage
        raise CheckpointError(f"{where} cannot be loaded: {error}", hint=_HINT) from error
