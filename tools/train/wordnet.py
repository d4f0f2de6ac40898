"""Reads WordNet's data files: synsets with their words, gloss and example sentences."""

import re
from dataclasses import dataclass
from pathlib import Path

PARTS = {"noun": "noun", "verb": "verb", "adj": "adjective", "adv": "adverb"}


@dataclass(frozen=True)
class Sense:
    """One synset."""

    words: tuple[str, ...]  # lemmas, spaces instead of underscores
    part: str  # noun | verb | adjective | adverb
    gloss: str  # the definition
    examples: tuple[str, ...]  # quoted example sentences


def read_wordnet(root: Path) -> list[Sense]:
    """Return every synset below `root`, in file order."""
    senses = []
    for suffix, part in PARTS.items():
        (path,) = root.glob(f"**/wordnet/data.{suffix}")
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("  ") or "|" not in line:
                continue
            head, gloss = line.split("|", 1)
            fields = head.split()
            count = int(fields[3], 16)
            words = tuple(re.sub(r"\(.*\)", "", fields[4 + 2 * at]).replace("_", " ")
                          for at in range(count))
            pieces = [piece.strip() for piece in re.split(r';\s*(?=")', gloss)]
            examples = tuple(piece.strip('" ;') for piece in pieces[1:] if piece.startswith('"'))
            senses.append(Sense(words, part, pieces[0].strip("; "), examples))
    return senses
