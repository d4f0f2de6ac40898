"""A corpus to copy from: memory-mapped tokens and their suffix array.

A directory holds tokens.npy (int32 [N], documents separated by `doc_sep`), sa.npy (int32 or int64
[S], positions sorted by the tokens that follow them, at least the first `max_order` of them) and
meta.json {"max_order", "doc_sep", "tokenizer": sha256 of the tokenizer file}. `tools.build_corpus`
writes it.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tandem_jax.errors import ConfigError

MAX_ORDER = 8  # tokens that suffixes are compared by
DOC_SEP = 1 << 30  # stands between documents; no token has this id
_META = {"max_order", "doc_sep", "tokenizer"}
_SAMPLES = 64  # places that vote, evenly spaced over the range of matches
_HINT = "build it anew with tools.build_corpus for this tokenizer"


class CorpusStore:
    """Read-only text store over a directory; nothing of it is loaded into memory at once."""

    def __init__(self, path: str | Path, tokenizer_sha: str) -> None:
        """Raises ConfigError for a directory that is damaged or was made for another tokenizer."""
        path = Path(path)
        self.name = path.name
        meta = _read_meta(path)
        if meta["tokenizer"] != tokenizer_sha:
            raise ConfigError(
                f"the corpus {self.name} was made for another tokenizer "
                f"({str(meta['tokenizer'])[:12]}, not {tokenizer_sha[:12]})",
                hint=_HINT,
            )
        self._sep = int(meta["doc_sep"])
        self._tokens = _mapped(path / "tokens.npy", (np.int32,))
        self._suffixes = _mapped(path / "sa.npy", (np.int32, np.int64))
        if len(self._suffixes) > len(self._tokens):
            raise ConfigError(f"the corpus {self.name} has more suffixes than tokens", hint=_HINT)
        last = len(self._suffixes) - 1
        probes = self._suffixes[np.linspace(0, last, min(last + 1, 64)).astype(np.int64)]
        if last >= 0 and (probes.min() < 0 or probes.max() >= len(self._tokens)):
            raise ConfigError(f"the corpus {self.name} has suffixes outside its text", hint=_HINT)

    def __len__(self) -> int:
        return len(self._tokens)

    def continuations(
        self, suffix: Sequence[int], min_order: int, depth: int
    ) -> tuple[int, list[tuple[int, ...]]]:
        """Longest match of at least `min_order` tokens of `suffix`, as `TextStore` has it."""
        for order in range(min(len(suffix), MAX_ORDER), max(min_order, 1) - 1, -1):
            wanted = list(suffix[-order:])
            low = self._bound(wanted, 0)
            if low == len(self._suffixes) or self._at(low, order) != wanted:
                continue
            lines = self._lines(low, self._bound(wanted, 1), order, depth)
            if lines:
                return order, lines
        return 0, []

    def _lines(self, low: int, high: int, order: int, depth: int) -> list[tuple[int, ...]]:
        count = min(high - low, _SAMPLES)
        places = low + np.arange(count) * (high - low) // count
        found = []
        for start in self._suffixes[places].tolist():
            line = self._tokens[start + order : start + order + depth].tolist()
            if self._sep in line:
                line = line[: line.index(self._sep)]
            if line:
                found.append(tuple(line))
        return found

    def _bound(self, wanted: list[int], above: int) -> int:
        """First suffix that is not before `wanted` (above 0), or the first behind it (above 1)."""
        low, high, order = 0, len(self._suffixes), len(wanted)
        while low < high:
            middle = (low + high) // 2
            found = self._at(middle, order)
            if found < wanted or (above and found == wanted):
                low = middle + 1
            else:
                high = middle
        return low

    def _at(self, place: int, order: int) -> list[int]:
        start = int(self._suffixes[place])
        return self._tokens[start : start + order].tolist()


def _read_meta(path: Path) -> dict:
    try:
        meta = json.loads((path / "meta.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path.name} is no corpus: meta.json: {error}", hint=_HINT) from error
    if not isinstance(meta, dict) or set(meta) != _META:
        raise ConfigError(
            f"the corpus {path.name} must have exactly {sorted(_META)} in meta.json", hint=_HINT
        )
    if meta["max_order"] != MAX_ORDER:
        raise ConfigError(
            f"the corpus {path.name} is sorted by {meta['max_order']} tokens, not {MAX_ORDER}",
            hint=_HINT,
        )
    if not isinstance(meta["doc_sep"], int):
        raise ConfigError(f"the corpus {path.name} has no doc_sep number", hint=_HINT)
    return meta


def _mapped(path: Path, dtypes: tuple) -> np.ndarray:
    """A one-dimensional array on disk; raises ConfigError for anything else."""
    try:
        array = np.lib.format.open_memmap(path, mode="r")
    except Exception as error:  # numpy reads the header as Python: damage raises nearly anything
        raise ConfigError(
            f"{path.parent.name}/{path.name} is damaged: {error}", hint=_HINT
        ) from error
    if array.ndim != 1 or array.dtype not in dtypes:
        raise ConfigError(
            f"{path.parent.name}/{path.name} is {array.dtype} {array.shape}", hint=_HINT
        )
    return array
