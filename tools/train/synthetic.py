"""Seeded generator of chats over the training documents, every answer checkable.

Families and shares follow the demo model's specification; each chat is rendered with the
project's own chat template, so training and serving see the same bytes.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tools.train.chat import render
from tools.train.synthetic_code import (
    code_edit,
    explain_function,
    material_functions,
    write_function,
)
from tools.train.synthetic_data import arithmetic, json_record, sorting, table
from tools.train.synthetic_talk import continue_text, define_word, quote_back, small_talk, verse
from tools.train.synthetic_tools import tool_chat
from tools.train.tokenizer import SPECIAL_TOKENS

CASUAL = ("You are chatting with a friend in short, casual messages.",
          "Casual chat between two people who just met.")


@dataclass(frozen=True)
class Material:
    """What the families draw from; training documents only."""

    functions: list = field(repr=False)  # (name, docstring, source) of short Python functions
    passages: list = field(repr=False)  # (work, text) of public-domain prose and verse
    files: list = field(repr=False)  # short code files
    senses: list = field(repr=False)  # wordnet.Sense
    pairs: list = field(repr=False)  # small-talk turns, lists of strings


Family = Callable[[random.Random, Material], tuple[list[dict], dict]]
FAMILIES: tuple[tuple[str, Family, float], ...] = (
    ("define", define_word, 0.14), ("explain", explain_function, 0.08),
    ("write", write_function, 0.15), ("quote", quote_back, 0.09),
    ("continue", continue_text, 0.05), ("verse", verse, 0.03), ("edit", code_edit, 0.13),
    ("tools", tool_chat, 0.14), ("json", json_record, 0.06), ("table", table, 0.04),
    ("arithmetic", arithmetic, 0.04), ("sorting", sorting, 0.02), ("talk", small_talk, 0.03),
)


def _passages(documents) -> list[tuple[str, str]]:
    return [(document.name, document.text) for document in documents
            if document.group == "prose" and document.split == "train"
            and document.source != "jargon"]


def _material(documents, conversations, senses) -> Material:
    files = [document.text for document in documents if document.group == "python"
             and document.split == "train" and 300 < len(document.text) < 6000]
    return Material(
        functions=material_functions(documents), passages=_passages(documents), files=files,
        senses=senses, pairs=[turns for source, _, turns in conversations
                              if source == "chatterbot" and len(turns) == 2])


def human_chats(conversations, rng: random.Random) -> Iterator[tuple[str, str, str, str]]:
    """Yield (source, group, name, rendered) of the human conversations."""
    for source, name, turns in conversations:
        system = [{"role": "system", "content": rng.choice(CASUAL)}] if source == "chitchat" else []
        roles = ("user", "assistant")
        turns = turns[:len(turns) // 2 * 2]
        messages = system + [{"role": roles[at % 2], "content": text}
                             for at, text in enumerate(turns)]
        text = "\n".join(turns)
        if not any(token in text for token in SPECIAL_TOKENS):
            yield source, "chat", name, render(messages)


def generate(documents, conversations, senses, *, seed: int, total_bytes: int):
    """Return [(family, group, name, text)]: synthetic chats and rendered human chats."""
    material = _material(documents, conversations, senses)
    chats = []
    for family, function, share in FAMILIES:
        rng = random.Random(f"{seed}/{family}")
        used, seen = 0, set()
        while used < share * total_bytes:
            messages, variables = function(rng, material)
            content = "".join(message.get("content") or "" for message in messages)
            if any(token in content for token in SPECIAL_TOKENS):
                continue
            text = render(messages, **variables)
            if text in seen or len(text) > 12_000:
                used += 150  # so that an exhausted family ends
                continue
            seen.add(text)
            used += len(text.encode())
            chats.append((family, "synthetic", f"{len(seen)}", text))
        print(family, len(seen), "chats", used, "bytes", flush=True)
    chats += human_chats(conversations, random.Random(f"{seed}/human"))
    return chats
