"""Strict JSON: one object, unique keys, no NaN, errors that name the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

from checkpoints.errors import ConfigFormatError, ConfigMissingError, UnreadableFileError


class DuplicateKey(ValueError):
    """A key stands twice in one JSON object; `.key` is the key."""

    def __init__(self, key: str) -> None:
        super().__init__(f"key {key!r} stands twice")
        self.key = key


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise DuplicateKey(key)
        result[key] = value
    return result


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def parse_strict(text: bytes) -> Any:
    """The value of a UTF-8 JSON text; raises ValueError (DuplicateKey for a doubled key)."""
    try:
        return json.loads(
            text.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_constant
        )
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def read_bytes(file: Path) -> bytes:
    """The bytes of a small file; raises UnreadableFileError with the system's reason."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise UnreadableFileError(
            f"cannot be read ({error.strerror})", file=file, hint="check that you may read it"
        ) from error


def read_object(file: Path) -> dict[str, Any]:
    """The JSON object in `file`; raises ConfigMissingError, ConfigFormatError."""
    if not file.exists():
        raise ConfigMissingError(
            f"has no {file.name}",
            file=file.parent,
            hint="pass the directory of a checkpoint in Hugging Face layout, with its config.json",
        )
    try:
        value = parse_strict(read_bytes(file))
    except ValueError as error:
        raise ConfigFormatError(
            f"is not valid JSON ({error})", file=file, hint="download the file again"
        ) from error
    if not isinstance(value, dict):
        raise ConfigFormatError(
            f"holds a JSON {type(value).__name__}, not an object",
            file=file,
            hint="download the file again",
        )
    return value
