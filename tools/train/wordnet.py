"""Reads WordNet's data files: synsets with their words, gloss and example sentences."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

WORD_KEY = b"tandem demo words 1"
HELD_OUT_WORDS = 200
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


def held_out_words(senses: list[Sense]) -> frozenset[str]:
    """Return the 200 plain words with the smallest keyed hash; training chats avoid them."""
    words = {word for sense in senses for word in sense.words if re.fullmatch("[a-z]{4,12}", word)}
    ranked = sorted(words, key=lambda word: hashlib.blake2b(
        word.encode(), key=WORD_KEY, digest_size=8).digest())
    return frozenset(ranked[:HELD_OUT_WORDS])


def split_senses(senses: list[Sense], held: frozenset[str], split: str) -> list[Sense]:
    """Return the senses of held-out words ("eval"), or those that mention none ("train")."""
    found = []
    for sense in senses:
        if split == "eval":
            mine = tuple(word for word in sense.words if word in held)
            found += [Sense(mine, sense.part, sense.gloss, sense.examples)] if mine else []
        elif not held.intersection(re.findall("[a-z]+", " ".join(
                (*sense.words, sense.gloss, *sense.examples)).lower())):
            found.append(sense)
    return found
