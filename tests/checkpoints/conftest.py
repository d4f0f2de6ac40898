"""Files written byte by byte, so that each can be damaged in exactly one way."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

RawFile = Callable[..., Path]


@pytest.fixture(scope="session")
def raw_file() -> RawFile:
    """write(path, header, data): a safetensors file whose header is text, bytes or an object."""

    def write(path: Path, header: object, data: bytes = b"", *, length: int | None = None) -> Path:
        text = header if isinstance(header, str | bytes) else json.dumps(header)
        raw = text.encode() if isinstance(text, str) else text
        size = len(raw) if length is None else length
        path.write_bytes(size.to_bytes(8, "little") + raw + data)
        return path

    return write
