"""Seeded generator of chats over the training documents, every answer checkable.

Families and shares follow the demo model's specification; each chat is rendered with the
project's own chat template, so training and serving see the same bytes.
"""

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tools.train.chat import render
from tools.train.synthetic_code import (
    code_edit,
    explain_function,
    material_functions,
    write_function,
)
from tools.train.synthetic_copy import quote_back, quote_go_on
from tools.train.synthetic_data import arithmetic, json_record, sorting, table
from tools.train.synthetic_edit import file_edit
from tools.train.synthetic_json import json_schema
from tools.train.synthetic_talk import continue_text, define_word, small_talk, verse
from tools.train.synthetic_tools import tool_chat
from tools.train.synthetic_turns import bullet_lists, counting, howto, multi_turn
from tools.train.tokenizer import SPECIAL_TOKENS
from tools.train.wordnet import held_out_words, split_senses

CASUAL = ("You are chatting with a friend in short, casual messages.",
          "Casual chat between two people who just met.")


@dataclass(frozen=True)
class Material:
    """What the families draw from: documents, words and tools of one split only."""

    split: str  # "train" | "eval"
    functions: list = field(repr=False)  # (name, docstring, source) of short Python functions
    passages: list = field(repr=False)  # (work, text) of public-domain prose and verse
    files: list = field(repr=False)  # short code files
    lists: list = field(repr=False)  # (title, points) of documentation sections
    senses: list = field(repr=False)  # wordnet.Sense
    words: list = field(repr=False)  # plain words of the senses
    pairs: list = field(repr=False)  # small-talk turns, lists of strings
    has_verses: bool  # whether the passages hold numbered verses


Family = Callable[[random.Random, Material], tuple[list[dict], dict]]
FAMILIES: tuple[tuple[str, Family, float], ...] = (
    ("define", define_word, 0.10), ("explain", explain_function, 0.06),
    ("write", write_function, 0.12), ("quote", quote_back, 0.13), ("goon", quote_go_on, 0.02),
    ("continue", continue_text, 0.03), ("verse", verse, 0.02), ("edit", code_edit, 0.06),
    ("file", file_edit, 0.10), ("tools", tool_chat, 0.14), ("json", json_record, 0.03),
    ("schema", json_schema, 0.06), ("table", table, 0.05), ("arithmetic", arithmetic, 0.02),
    ("sorting", sorting, 0.01), ("counting", counting, 0.02), ("talk", small_talk, 0.01),
    ("howto", howto, 0.01), ("turns", multi_turn, 0.04),
)
EVAL_SHARE = 0.02  # chats over held-out material, of the bytes of the training chats


def make_material(documents, conversations, senses, split: str) -> Material:
    """Return what the families may draw from in one split ("train" or "eval")."""
    chosen = [document for document in documents if document.split == split]
    passages = [(document.name, document.text) for document in chosen
                if document.group == "prose" and document.source != "jargon"]
    held = held_out_words(senses)
    kept = split_senses(senses, held, split)
    words = sorted({word for sense in kept for word in sense.words
                    if re.fullmatch("[a-z]{3,11}", word) and (split == "eval" or word not in held)})
    return Material(
        split=split, functions=material_functions(chosen), passages=passages,
        files=[document.text for document in chosen if document.group in ("python", "systems")
               and 300 < len(document.text) < 12_000],
        lists=[entry for document in chosen if document.group == "docs"
               for entry in bullet_lists(document.text)],
        senses=kept, words=words,
        pairs=[turns for source, _, turns in conversations
               if source == "chatterbot" and len(turns) == 2],
        has_verses=any(document.source == "king-james" for document in chosen))


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


def draw_chats(material: Material, family: str, function: Family, *, seed: int, total_bytes: float):
    """Yield the rendered chats of one family until they hold `total_bytes`."""
    rng = random.Random(f"{seed}/{material.split}/{family}")
    used, seen = 0.0, set()
    while used < total_bytes:
        messages, variables = function(rng, material)
        content = "".join(message.get("content") or "" for message in messages)
        text = render(messages, **variables)
        if any(token in content for token in SPECIAL_TOKENS) or text in seen or len(text) > 12_000:
            used += 150  # so that an exhausted family ends
            continue
        seen.add(text)
        used += len(text.encode())
        yield text


def generate(documents, conversations, senses, *, seed: int, total_bytes: int):
    """Return [(family, group, name, text)]: synthetic chats and rendered human chats.

    Names of chats over held-out material begin with "eval/".
    """
    chats = []
    for split, prefix, share in (("train", "", 1.0), ("eval", "eval/", EVAL_SHARE)):
        material = make_material(documents, conversations, senses, split)
        for family, function, part in FAMILIES:
            texts = list(draw_chats(material, family, function, seed=seed,
                                    total_bytes=part * share * total_bytes))
            chats += [(family, "synthetic", f"{prefix}{number}", text)
                      for number, text in enumerate(texts, 1)]
            print(split, family, len(texts), "chats", sum(map(len, texts)), "characters",
                  flush=True)
    chats += human_chats(conversations, random.Random(f"{seed}/human"))
    return chats
