"""Token material of the evaluation sets: windows of held-out documents and cut chats."""

import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tools.train.corpus import SPLIT_KEY, Document, build_documents, conversations, split_of
from tools.train.fetch import fetch
from tools.train.prompts import cut_chat, line_end_table
from tools.train.sources import WORDNET
from tools.train.synthetic import Material, make_material
from tools.train.tokenizer import SPECIAL_TOKENS, load_tokenizer
from tools.train.wordnet import read_wordnet

SEED = "sets 1"
REFERENCE = 256  # tokens of real text behind a window


@dataclass(frozen=True)
class Item:
    """One prompt of a set."""

    ids: list[int]  # prompt token ids
    reference: list[int]  # what really follows; ends with <|im_end|> in chats; may be empty
    meta: dict = field(default_factory=dict)  # where it is from and what a checker needs


class Held:
    """Held-out documents, chats and the tokenizer; every window and prompt is handed out once."""

    def __init__(self, data: Path) -> None:
        """Read the corpus folder `data`; raises FileNotFoundError without its tokenizer."""
        self.tokenizer = load_tokenizer(data / "tokenizer.json")
        documents, _, _ = build_documents(data)
        senses = read_wordnet(fetch(WORDNET, data / "cache").root)
        talks = conversations(data)
        self.material: Material = make_material(documents, talks, senses, "eval")
        self.talks = [(source, name, turns) for source, name, turns in talks
                      if source == "chitchat" and split_of(source, name) == "eval"]
        self.documents = sorted(
            (document for document in documents if document.split == "eval"),
            key=lambda document: hashlib.blake2b(
                f"{document.source}/{document.name}".encode(), key=SPLIT_KEY).digest())
        self.line_ends = line_end_table(self.tokenizer)
        self.full_stops = self.encode(".")
        self._ids: dict[tuple[str, str], list[int]] = {}
        self._used: dict[tuple[str, str], int] = {}
        self._prompts: set[tuple[int, ...]] = set()

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text."""
        return self.tokenizer.encode(text).ids

    def ids_of(self, document: Document) -> list[int]:
        """Return the token ids of a whole document."""
        key = (document.source, document.name)
        if key not in self._ids:
            self._ids[key] = self.encode(document.text)
        return self._ids[key]

    def reserve(self, document: Document) -> None:
        """Keep the windows off a document that a set uses whole."""
        self._used[document.source, document.name] = len(self.ids_of(document))

    def windows(self, count: int, lengths: tuple[int, ...],
                wanted: Callable[[Document], bool]) -> list[Item]:
        """Return `count` windows that no set has yet, from as many documents as possible.

        `lengths`: tokens of the prompts, taken in turn. Each begins where a document, a line or
        a sentence begins and has REFERENCE tokens behind it. Raises ValueError when the text
        runs out.
        """
        documents = [document for document in self.documents if wanted(document)]
        items: list[Item] = []
        while len(items) < count:
            before = len(items)
            for document in documents:
                length = lengths[len(items) % len(lengths)]
                item = self._window(document, length) if len(items) < count else None
                items += [item] if item else []
            if len(items) == before:
                raise ValueError(f"held-out text for {count} windows has run out at {before}")
        return items

    def _window(self, document: Document, length: int) -> Item | None:
        ids = self.ids_of(document)
        start = self._used.get((document.source, document.name), 0)
        if start:
            lines = np.flatnonzero(self.line_ends[ids[start - 1:]])
            # A work without line breaks is cut after a full stop.
            breaks = lines if len(lines) and lines[0] < 200 else np.flatnonzero(
                np.isin(ids[start - 1:], self.full_stops))
            start = start + int(breaks[0]) if len(breaks) else len(ids)
        stop = start + length + REFERENCE
        if stop > len(ids):
            return None
        self._used[document.source, document.name] = stop
        return Item(ids[start:start + length], ids[start + length:stop],
                    {"source": document.source, "document": document.name, "offset": start})

    def chat(self, messages: list[dict], variables: dict, meta: dict, *,
             rng: random.Random | None = None) -> Item | None:
        """Return the item that ends before the chat's last answer (or a random one with `rng`).

        None when the prompt is already in a set or holds a special token's text.
        """
        if any(token in (message.get("content") or "") for token in SPECIAL_TOKENS
               for message in messages):
            return None
        messages = messages if rng else messages[:_last_answer(messages) + 1]
        prompt, answer = cut_chat(rng or _Last(), messages, variables)
        ids = self.encode(prompt)
        if tuple(ids) in self._prompts:
            return None
        return Item(ids, self.encode(answer.removesuffix("\n")), meta)

    def draw(self, name: str, count: int, make: Callable[[random.Random], Item | None], *,
             low: int = 1, high: int = 1024, answer: tuple[int, int] = (1, 4096)) -> list[Item]:
        """Return `count` chat items with `low` to `high` prompt tokens and `answer` tokens.

        Raises ValueError when 5,000 draws do not give them.
        """
        rng = random.Random(f"{SEED}/{name}")
        items: list[Item] = []
        for _ in range(5000):
            if len(items) == count:
                return items
            item = make(rng)
            if item and low <= len(item.ids) <= high and (
                    answer[0] <= len(item.reference) <= answer[1]):
                self._prompts.add(tuple(item.ids))
                items.append(item)
        raise ValueError(f"{name}: only {len(items)} of {count} items fit")


class _Last:
    """Stands in for a random source where the last choice is wanted."""

    def choice(self, options):
        return options[-1]


def _last_answer(messages: list[dict]) -> int:
    return max(at for at, message in enumerate(messages) if message["role"] == "assistant")


GRAM = 13


def grams_of(text: str) -> set[int]:
    """Return the hashes of the 13-word runs of a text."""
    words = text.split()
    return {hash(tuple(words[at:at + GRAM])) for at in range(len(words) - GRAM + 1)}


def overlaps(sets: dict[str, list[Item]], tokenizer, streams: list[np.ndarray],
             end: int) -> dict[str, dict[str, int]]:
    """Count by set how many 13-word runs of prompts and references occur in training streams.

    Returns {set: {items, runs, shared_runs, items_touched}}; streams are uint16 [T], documents
    closed by the id `end`.
    """
    grams = {name: [grams_of(tokenizer.decode(item.ids + item.reference, skip_special_tokens=False))
                    for item in items] for name, items in sets.items()}
    wanted = set().union(*(one for many in grams.values() for one in many))
    shared: set[int] = set()
    for stream in streams:
        ends = np.flatnonzero(stream == end)
        pieces = [piece.tolist() for piece in np.split(stream, ends + 1)]
        for start in range(0, len(pieces), 2048):
            for text in tokenizer.decode_batch(pieces[start:start + 2048],
                                               skip_special_tokens=False):
                shared |= grams_of(text) & wanted
    return {name: {"items": len(many), "runs": sum(map(len, many)),
                   "shared_runs": sum(len(one & shared) for one in many),
                   "items_touched": sum(bool(one & shared) for one in many)}
            for name, many in grams.items()}
