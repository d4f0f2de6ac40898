"""Token shards: uint16 ids, documents closed by <|endoftext|>, one xz file per group and split."""

import hashlib
import json
import lzma
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from tools.train.tokenizer import END_OF_TEXT

SHARD_TOKENS = 4_000_000
XZ_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 16 << 20}]


def _write(tokens: np.ndarray, path: Path) -> int:
    data = lzma.compress(tokens.astype("<u2").tobytes(), format=lzma.FORMAT_XZ, filters=XZ_FILTERS)
    path.write_bytes(data)
    return len(data)


def write_shards(documents, tokenizer, folder: Path) -> dict:
    """Tokenise documents and write `GROUP.train.N.xz` and `SOURCE.eval.xz` files below `folder`.

    Returns a manifest: tokens and text bytes per group (train) and per source (eval), files.
    Training documents of a group are shuffled by name hash so that a shard mixes its sources.
    """
    folder.mkdir(parents=True, exist_ok=True)
    end = tokenizer.token_to_id(END_OF_TEXT)
    streams = defaultdict(list)
    for document in documents:
        owner = document.group if document.split == "train" else document.source
        streams[f"{owner}.{document.split}"].append(document)
    manifest = {"streams": {}, "sources": {}}
    jobs = []
    with ThreadPoolExecutor(2) as pool:
        for key, members in sorted(streams.items()):
            members.sort(key=lambda document: hash_key(document.source + document.name))
            ids, text_bytes = [], 0
            for start in range(0, len(members), 512):
                texts = [document.text for document in members[start:start + 512]]
                for document, encoded in zip(members[start:start + 512],
                                             tokenizer.encode_batch(texts), strict=True):
                    ids.append(np.asarray([*encoded.ids, end], np.uint16))
                    size = len(document.text.encode())
                    text_bytes += size
                    row = manifest["sources"].setdefault(document.source, {
                        "train_tokens": 0, "eval_tokens": 0, "calib_tokens": 0})
                    row[f"{document.split}_tokens"] += len(encoded.ids)
            stream = np.concatenate(ids)
            manifest["streams"][key] = {"tokens": len(stream), "text_bytes": text_bytes,
                                        "documents": len(members)}
            print(key, len(stream), "tokens", round(text_bytes / len(stream), 3), "bytes/token",
                  flush=True)
            for part, start in enumerate(range(0, len(stream), SHARD_TOKENS)):
                path = folder / f"{key}.{part:02d}.xz"
                jobs.append(pool.submit(_write, stream[start:start + SHARD_TOKENS], path))
        total = sum(job.result() for job in jobs)
    manifest["xz_bytes"] = total
    print("xz bytes", total, flush=True)
    return manifest


def hash_key(name: str) -> int:
    """Return a stable shuffle key of a name."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big")


def read_stream(folder: Path, key: str) -> np.ndarray:
    """Return one stream ("docs.train", "austen.eval", ...) as uint16 [T].

    Raises FileNotFoundError when the folder has no shard of that stream.
    """
    paths = sorted(folder.glob(f"{key}.*.xz"))
    if not paths:
        raise FileNotFoundError(f"no shard of {key} in {folder}")
    with ThreadPoolExecutor() as pool:
        parts = list(pool.map(lambda path: lzma.decompress(path.read_bytes()), paths))
    return np.concatenate([np.frombuffer(part, "<u2") for part in parts])


def read_manifest(folder: Path) -> dict:
    """Return the manifest written beside the shards."""
    return json.loads((folder / "manifest.json").read_text())
