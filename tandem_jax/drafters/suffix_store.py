"""What this engine has read and written before, kept in one append-only file to copy from.

File: a header (magic, sha256 of the tokenizer file), then records: tokens n (uint32 little-endian,
at least 1), crc32 of the payload (uint32), payload n * int32. A record is written by one call; what
a crash left unfinished at the end is cut off when the file is opened next.
"""

import fcntl
import logging
import os
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tandem_jax.drafters.ngrams import MAX_ORDER, NgramIndex
from tandem_jax.errors import ConfigError

log = logging.getLogger("tandem_jax")

MAGIC = b"TJSUFX1\n"
_HEADER = len(MAGIC) + 32
_RECORD = struct.Struct("<II")
_REBUILD = 1 << 16  # tokens kept in dictionaries before they are sorted in
DOC_SEP = 1 << 30


class SuffixStore:
    """Text store that grows by one record a request and survives a crash at any byte.

    One process may write; others open it with `read_only`. When the text exceeds `max_tokens` the
    older half is dropped.
    """

    def __init__(
        self,
        path: str | Path,
        tokenizer_sha: str,
        *,
        read_only: bool = False,
        max_tokens: int = 2_000_000,
    ) -> None:
        """Raises ConfigError for a foreign file, another tokenizer's, or one that is in use."""
        self.path, self.read_only, self._max_tokens = Path(path), read_only, max_tokens
        self._header = MAGIC + bytes.fromhex(tokenizer_sha)
        self._file = self._open()
        try:
            self._records = self._recover()
        except BaseException:
            self.close()
            raise
        self._index = NgramIndex(orders=(MAX_ORDER,))
        self._reindex()

    def __len__(self) -> int:
        return sum(map(len, self._records))

    def continuations(
        self, suffix: Sequence[int], min_order: int, depth: int
    ) -> tuple[int, list[tuple[int, ...]]]:
        """Places of the last eight tokens, as `TextStore` has it; shorter matches do not count."""
        if len(suffix) < MAX_ORDER:
            return 0, []
        text, found = self._index.tokens, []
        for place in self._index.places(suffix[-MAX_ORDER:]):
            line = text[place : place + depth]
            if DOC_SEP in line:
                line = line[: line.index(DOC_SEP)]
            if line:
                found.append(tuple(line))
        return (MAX_ORDER, found) if found else (0, [])

    def append(self, tokens: Sequence[int]) -> None:
        """Add one text (a prompt with its answer); nothing happens if it is empty or read-only."""
        if self.read_only or not len(tokens):
            return
        payload = np.asarray(tokens, "<i4").tobytes()
        record = _RECORD.pack(len(tokens), zlib.crc32(payload)) + payload
        # Unbuffered and in one call: a crash leaves at most this record unfinished.
        written = os.write(self._file.fileno(), record)
        if written != len(record):
            # A full disk: what came later would stand behind a piece and be cut off with it.
            self._file.truncate(self._file.seek(0, os.SEEK_END) - written)
            self._file.seek(0, os.SEEK_END)
            raise OSError(f"{self.path.name}: wrote {written} of {len(record)} bytes")
        self._records.append(np.asarray(tokens, np.int32))
        if len(self) > self._max_tokens:
            self._drop_older_half()
            self._reindex()
        else:
            self._index.extend([*map(int, tokens), DOC_SEP])
            if self._index.n_recent > _REBUILD:
                self._reindex()

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _open(self):
        try:
            if self.read_only:
                return open(self.path, "rb", buffering=0)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = open(self.path, "a+b", buffering=0)  # noqa: SIM115  (held for the store's life)
        except OSError as error:
            raise ConfigError(
                f"the suffix store {self.path.name} cannot be opened: {error.strerror}"
            ) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            raise ConfigError(
                f"the suffix store {self.path.name} is in use by another process",
                hint="open it read-only, or give each process its own",
            ) from error
        return file

    def _recover(self) -> list[np.ndarray]:
        """Every whole record; an unfinished end is cut off (left alone if read-only)."""
        self._file.seek(0)
        raw = self._file.read()
        if not raw and not self.read_only:
            os.write(self._file.fileno(), self._header)
            return []
        if raw[: len(MAGIC)] != MAGIC:
            # A crash within the very first write leaves a piece of our own header.
            if not self._header.startswith(raw) or self.read_only:
                raise ConfigError(f"{self.path.name} is no suffix store")
        elif len(raw) >= _HEADER and raw[:_HEADER] != self._header:
            raise ConfigError(
                f"the suffix store {self.path.name} was written with another tokenizer",
                hint="use one store for each tokenizer",
            )
        if len(raw) < _HEADER:
            return self._start_anew(raw)
        records, end = parse_records(raw)
        if end < len(raw):
            self._cut_off(raw, end)
        return records

    def _cut_off(self, raw: bytes, end: int) -> None:
        """Leave out an end that is no whole record; what is not just zeros is kept beside it."""
        tail, aside = raw[end:], self.path.with_name(f"{self.path.name}.cut")
        said = "" if self.read_only or not any(tail) else f", kept as {aside.name}"
        log.warning(
            "suffix store %s: %d bytes at the end are no whole record and are left out%s",
            self.path.name,
            len(tail),
            said,
        )
        if not self.read_only:
            if any(tail):
                with aside.open("ab") as file:  # behind what was kept before
                    file.write(tail)
            self._file.truncate(end)

    def _start_anew(self, raw: bytes) -> list[np.ndarray]:
        log.warning("suffix store %s: its header was unfinished, it starts anew", self.path.name)
        if not self.read_only:
            self._file.truncate(0)
            os.write(self._file.fileno(), self._header)
        return []

    def _drop_older_half(self) -> None:
        """Rewrite the file with the newer half of its tokens, by a rename that cannot be halved."""
        kept, size = [], 0
        for record in reversed(self._records):
            size += len(record)
            if kept and size > self._max_tokens // 2:
                break
            kept.append(record)
        kept.reverse()
        payloads = [record.astype("<i4").tobytes() for record in kept]
        whole = self._header + b"".join(
            _RECORD.pack(len(p) // 4, zlib.crc32(p)) + p for p in payloads
        )
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        file = open(draft, "w+b", buffering=0)  # noqa: SIM115  (takes the store's place)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.write(file.fileno(), whole) != len(whole):
                raise OSError(f"{self.path.name}: no room to drop its older half")
            os.fsync(file.fileno())
            draft.replace(self.path)
        except BaseException:
            file.close()
            draft.unlink(missing_ok=True)
            raise
        self._file.close()
        self._file, self._records = file, kept

    def _reindex(self) -> None:
        text: list[int] = []
        for record in self._records:
            text += [*record.tolist(), DOC_SEP]
        self._index.rebuild(text)


def parse_records(raw: bytes) -> tuple[list[np.ndarray], int]:
    """Records of a store's bytes (header included), and where the last whole one ends."""
    records, at = [], _HEADER
    while at + _RECORD.size <= len(raw):
        n, crc = _RECORD.unpack_from(raw, at)
        end = at + _RECORD.size + 4 * n
        # A tail of zeros would read as empty records: a record has at least one token.
        if n == 0 or end > len(raw) or zlib.crc32(raw[at + _RECORD.size : end]) != crc:
            break
        records.append(np.frombuffer(raw, "<i4", n, at + _RECORD.size).astype(np.int32))
        at = end
    return records, at
