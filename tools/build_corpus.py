"""Build a corpus for the lookup drafter from text: tokens, suffix array, fingerprint.

    python -m tools.build_corpus --model mini --out DIR FILE...
Text files are one document each, JSON lines files (.jsonl) one a line, by their "text", .npy files
hold token ids as they are. The suffix array comes from divsufsort over the tokens' bytes.
"""

import argparse
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from pydivsufsort import divsufsort
from rich.progress import track

from tandem_jax.drafters.corpus import DOC_SEP, MAX_ORDER
from tandem_jax.loading import resolve_model
from tandem_jax.text import Tokenizer


def documents(paths: Iterable[Path], tokenizer: Tokenizer) -> Iterator[np.ndarray]:
    """Token ids of every document. Raises ValueError for a line without a text or a wrong id."""
    for path in paths:
        if path.suffix == ".npy":
            ids = np.load(path).reshape(-1)
            known = (ids >= 0) & (ids < tokenizer.vocab_size) | (ids == DOC_SEP)
            if not np.issubdtype(ids.dtype, np.integer) or not known.all():
                raise ValueError(f"{path.name} holds other things than ids of this tokenizer")
            yield ids.astype(np.int32)
        elif path.suffix == ".jsonl":
            # Not splitlines: a JSON string may hold U+2028 and other ends of lines as they are.
            with path.open(encoding="utf-8") as lines:
                for number, line in enumerate(lines, 1):
                    record = json.loads(line)
                    if not isinstance(record, dict) or not isinstance(record.get("text"), str):
                        raise ValueError(f"{path.name}:{number} has no text")
                    yield np.array(tokenizer.encode(record["text"]), np.int32)
        else:
            yield np.array(tokenizer.encode(path.read_text(encoding="utf-8")), np.int32)


def suffix_array(tokens: np.ndarray) -> np.ndarray:
    """Positions [N] sorted by the tokens behind them; documents end at their separator.

    Big-endian bytes sort as the tokens do; of the suffixes of the byte string those that begin a
    token are kept.
    """
    if not len(tokens):
        return np.zeros(0, np.int32)
    raw = tokens.astype(">u4").view(np.uint8)
    suffixes = divsufsort(raw)
    starts = suffixes[suffixes % 4 == 0] // 4
    # A suffix that begins with a separator is never looked for.
    return starts[tokens[starts] != DOC_SEP].astype(np.int32)


def build(paths: list[Path], model: str, out: Path) -> int:
    """Write the corpus; returns its tokens."""
    tokenizer = Tokenizer.from_directory(resolve_model(model))
    parts: list[np.ndarray] = []
    for ids in documents(track(paths, "reading"), tokenizer):
        parts += [ids, np.array([DOC_SEP], np.int32)]
    tokens = np.concatenate(parts) if parts else np.zeros(0, np.int32)
    out.mkdir(parents=True, exist_ok=True)
    np.save(out / "tokens.npy", tokens)
    np.save(out / "sa.npy", suffix_array(tokens))
    meta = {"max_order": MAX_ORDER, "doc_sep": DOC_SEP, "tokenizer": tokenizer.fingerprint}
    (out / "meta.json").write_text(json.dumps(meta, indent=1) + "\n")
    return len(tokens)


def main() -> None:
    """Build and say how large it is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--model", default="mini", help="whose tokenizer is used")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    print(f"{build(args.files, args.model, args.out):,} tokens in {args.out}")


if __name__ == "__main__":
    main()
