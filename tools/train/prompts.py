"""Prompts for self-generation: chats up to an answer and prefixes of training documents.

    python -m tools.train.prompts --data DIR        # the folder tools.train.corpus worked in
Writes DIR/prompts/prompts.train.npz with tokens uint16 [N] (all prompts, one after the other),
starts int32 [M + 1], family uint8 [M] and family_names. The chats are drawn from the training
material with a seed of their own, so that most of them are not in the corpus word for word.
"""

import argparse
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tools.train.chat import render
from tools.train.corpus import build_documents, conversations
from tools.train.fetch import fetch
from tools.train.shards import read_stream
from tools.train.sources import WORDNET
from tools.train.synthetic import FAMILIES, Material, make_material
from tools.train.tokenizer import END_OF_TEXT, SPECIAL_TOKENS, load_tokenizer
from tools.train.wordnet import read_wordnet

SEED = "prompts 1"
LONGEST, LONGEST_COPY = 256, 512  # tokens of a prompt; the second for COPIES
COPIES = ("quote", "goon", "edit", "file", "tools", "schema", "table")
CHAT_PROMPTS = {
    "define": 2600, "explain": 2000, "write": 3600, "quote": 3600, "goon": 900, "continue": 1400,
    "verse": 700, "edit": 2400, "file": 2800, "tools": 4200, "json": 1300, "schema": 2200,
    "table": 1700, "arithmetic": 900, "sorting": 500, "counting": 700, "talk": 900, "howto": 900,
    "turns": 1500,
}
PREFIXES = {"prose": 6000, "docs": 5000, "python": 6000, "systems": 2000}
HUMAN_PROMPTS = 1500
SHORTEST_PREFIX, LONGEST_PREFIX = 32, 192
GENERATION_PROMPT = "<|im_start|>assistant\n<think>\n\n</think>\n\n"


def cut_chat(rng: random.Random, messages: list[dict], variables: dict) -> tuple[str, str]:
    """Return (prompt, answer): a chat up to a random assistant turn, and that turn.

    Thinking is on when the turn has a thought; then the prompt ends inside its block.
    """
    at = rng.choice([at for at, message in enumerate(messages) if message["role"] == "assistant"])
    thinking = bool(messages[at].get("reasoning_content"))
    prompt = render(messages[:at], add_generation_prompt=True, enable_thinking=thinking,
                    **variables)
    whole = render(messages[:at + 1], **variables)
    return prompt, whole[len(prompt):]


def chat_prompts(material: Material, family: str, function, count: int, tokenizer,
                 ) -> Iterator[list[int]]:
    """Yield `count` token lists of one family."""
    rng = random.Random(f"{SEED}/{family}")
    longest = LONGEST_COPY if family in COPIES else LONGEST
    seen: set[str] = set()
    tries = 0
    while len(seen) < count and tries < 20 * count:
        tries += 1
        messages, variables = function(rng, material)
        if any(token in (message.get("content") or "") for token in SPECIAL_TOKENS
               for message in messages):
            continue
        prompt, _ = cut_chat(rng, messages, variables)
        if prompt in seen or len(prompt) > 8 * longest:
            continue
        ids = tokenizer.encode(prompt).ids
        if len(ids) <= longest:
            seen.add(prompt)
            yield ids


def document_bounds(stream: np.ndarray, end: int) -> np.ndarray:
    """Return [D, 2]: first token and end-of-text position of each document of a stream [T]."""
    ends = np.flatnonzero(stream == end)
    return np.stack([np.concatenate([[0], ends[:-1] + 1]), ends], 1)


def prefixes(stream: np.ndarray, end: int, line_ends: np.ndarray, count: int, seed: str,
             ) -> Iterator[list[int]]:
    """Yield `count` prefixes of SHORTEST_PREFIX to LONGEST_PREFIX tokens.

    Half begin where a document begins, half after a token that ends a line (`line_ends`: [V]
    bool). At least 64 tokens of the document follow each.
    """
    rng = random.Random(f"{SEED}/{seed}")
    bounds = document_bounds(stream, end)
    bounds = bounds[bounds[:, 1] - bounds[:, 0] > LONGEST_PREFIX + 64]
    weights = np.cumsum(bounds[:, 1] - bounds[:, 0]).tolist()
    for _ in range(count):
        start, stop = rng.choices(bounds.tolist(), cum_weights=weights)[0]
        length = rng.randint(SHORTEST_PREFIX, LONGEST_PREFIX)
        if rng.random() < 0.5:
            room = np.flatnonzero(line_ends[stream[start:stop - length - 64]])
            start += int(room[rng.randrange(len(room))]) + 1 if len(room) else 0
        yield stream[start:start + length].tolist()


def human_prompts(stream: np.ndarray, end: int, mark: list[int], count: int) -> list[list[int]]:
    """Return prompts cut from rendered human chats at an assistant turn; `mark` opens a turn."""
    rng = random.Random(f"{SEED}/human")
    found = []
    bounds = document_bounds(stream, end).tolist()
    rng.shuffle(bounds)
    for start, stop in bounds:
        chat = stream[start:stop]
        opened = [at for at in np.flatnonzero(chat == mark[0])
                  if chat[at:at + len(mark)].tolist() == mark and at + len(mark) <= LONGEST]
        if opened and len(found) < count:
            found.append(chat[:rng.choice(opened) + len(mark)].tolist())
    return found


def line_end_table(tokenizer) -> np.ndarray:
    """Return [V] bool: whether a token's text ends a line."""
    size = tokenizer.get_vocab_size()
    return np.array([tokenizer.decode([token]).endswith("\n") for token in range(size)])


def build_prompts(data: Path) -> dict[str, list[list[int]]]:
    """Return the prompts of every family from the corpus in `data`."""
    tokenizer = load_tokenizer(data / "tokenizer.json")
    end = tokenizer.token_to_id(END_OF_TEXT)
    documents, _, _ = build_documents(data)
    senses = read_wordnet(fetch(WORDNET, data / "cache").root)
    material = make_material(documents, conversations(data), senses, "train")
    found = {}
    for family, function, _ in FAMILIES:
        found[family] = list(chat_prompts(material, family, function, CHAT_PROMPTS[family],
                                          tokenizer))
        print(family, len(found[family]), flush=True)
    lines = line_end_table(tokenizer)
    for group, count in PREFIXES.items():
        stream = read_stream(data / "shards", f"{group}.train")
        found[group] = list(prefixes(stream, end, lines, count, group))
    mark = tokenizer.encode(GENERATION_PROMPT).ids
    found["chat"] = human_prompts(read_stream(data / "shards", "chat.train"), end, mark,
                                  HUMAN_PROMPTS)
    return found


def write_prompts(found: dict[str, list[list[int]]], path: Path) -> None:
    """Write the prompts in random order, so that every part of the file has the whole mix."""
    names = list(found)
    rows = [(at, ids) for at, name in enumerate(names) for ids in found[name]]
    random.Random(SEED).shuffle(rows)
    starts = np.cumsum([0, *(len(ids) for _, ids in rows)])
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        path, tokens=np.concatenate([np.asarray(ids, np.uint16) for _, ids in rows]),
        starts=starts.astype(np.int32), family=np.array([at for at, _ in rows], np.uint8),
        family_names=np.array(names))
    print(len(rows), "prompts", starts[-1], "tokens", path.stat().st_size, "bytes", flush=True)


def main() -> None:
    """Build and write the prompts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    data = parser.parse_args().data
    write_prompts(build_prompts(data), data / "prompts" / "prompts.train.npz")


if __name__ == "__main__":
    main()
