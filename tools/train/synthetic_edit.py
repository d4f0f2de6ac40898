"""Synthetic whole-file edits: rename, insert, delete, replace; answers are files or diffs."""

import difflib
import random
import re

from tools.train.synthetic_copy import chat
from tools.train.synthetic_values import sentence

RENAME = ("Rename `{old}` to `{new}` in this file.", "Replace every {old} by {new}.",
          "Change `{old}` to `{new}` everywhere; keep the rest.")
INSERT = ("Insert the line `{new}` after the line `{old}`.", "Put `{new}` below `{old}`.",
          "After `{old}` add this line: `{new}`")
DELETE = ("Delete the line `{old}`.", "Remove `{old}` from this file.")
REPLACE = ("Replace the line `{old}` by `{new}`.", "Change `{old}` to `{new}`.")
COMMENT = ("Add the comment \"{new}\" above the line `{old}`.",
           "Write the comment \"{new}\" over `{old}`.")
HEADER = ("Put the comment \"{new}\" at the top.", "Start the file with the comment \"{new}\".")
DIFF = (" Answer with a unified diff.", " Show the change as a diff.", " Give me a patch.")
FULL = ("", " Return the whole file.", " Give me the full file.", " Write out the result.")
LINE_CHANGES = ("insert", "insert", "insert", "delete", "replace", "comment", "header")
COMMENT_MARKS = {"python": "#", "go": "//", "rust": "//", "bash": "#"}


def language_of(text: str) -> str:
    """Return the fence name of a piece of code: python, go, rust or bash."""
    if re.search(r"(?m)^(func|package|type \w+ (struct|interface)) ?", text):
        return "go"
    if re.search(r"\b(fn|impl|pub|let mut)\b", text):
        return "rust"
    return "bash" if text.startswith("#!") else "python"


def window(rng: random.Random, text: str) -> str:
    """Return 8 to 60 consecutive lines of a file that start at column 0."""
    lines = text.strip("\n").split("\n")
    starts = [at for at, line in enumerate(lines)
              if line and not line[0].isspace() and line[0] not in ")]}#"]
    start = rng.choice(starts or [0])
    return "\n".join(lines[start:start + rng.choice((8, 15, 25, 40, 60))]).strip("\n")


def _unique_line(rng: random.Random, lines: list[str]) -> int | None:
    usable = [at for at, line in enumerate(lines)
              if 4 < len(line.strip()) < 90 and "`" not in line and "\"\"\"" not in line
              and sum(other.strip() == line.strip() for other in lines) == 1]
    return rng.choice(usable) if usable else None


def rename(rng: random.Random, code: str, words: list[str]) -> tuple[str, str] | None:
    """Return (request, changed code): one identifier replaced everywhere as a whole word."""
    names = sorted({name for name in re.findall(r"\b[A-Za-z_]\w{3,}\b", code)
                    if len(re.findall(rf"\b{name}\b", code)) > 1})
    new = "_".join(rng.choice(words).split()).replace("-", "_").replace("'", "").replace(".", "")
    if not names or re.search(rf"\b{re.escape(new)}\b", code) or not new.isidentifier():
        return None
    old = rng.choice(names)
    return rng.choice(RENAME).format(old=old, new=new), re.sub(rf"\b{old}\b", new, code)


def change_line(rng: random.Random, code: str, words: list[str],
                kinds: tuple[str, ...] = LINE_CHANGES) -> tuple[str, str] | None:
    """Return (request, changed code): one line inserted, deleted, replaced or commented."""
    lines = code.split("\n")
    at = _unique_line(rng, lines)
    if at is None:
        return None
    old = lines[at].strip()
    indent = lines[at][:len(lines[at]) - len(lines[at].lstrip())]
    mark = COMMENT_MARKS[language_of(code)]
    text = sentence(rng, words)
    new = rng.choice(("{0} = {1}", "log({0}, {1})", "check({0})", "{0}.update({1})",
                      "print({0})", "count += {1}")).format(
        re.sub(r"\W", "_", rng.choice(words)), rng.randint(0, 99))
    kind = rng.choice(kinds)
    templates = {"insert": INSERT, "delete": DELETE, "replace": REPLACE, "comment": COMMENT,
                 "header": HEADER}[kind]
    changed = {
        "insert": [*lines[:at + 1], indent + new, *lines[at + 1:]],
        "delete": [*lines[:at], *lines[at + 1:]],
        "replace": [*lines[:at], indent + new, *lines[at + 1:]],
        "comment": [*lines[:at], f"{indent}{mark} {text}", *lines[at:]],
        "header": [f"{mark} {text}", *lines],
    }[kind]
    spoken = text if kind in ("comment", "header") else new
    return rng.choice(templates).format(old=old, new=spoken), "\n".join(changed)


def diff_of(before: str, after: str) -> str:
    """Return the unified diff of two texts with three lines of context, without a last newline."""
    return "\n".join(difflib.unified_diff(before.split("\n"), after.split("\n"),
                                          "a/file", "b/file", lineterm=""))


def insert_line(rng: random.Random, code: str, words: list[str]) -> tuple[str, str] | None:
    """Return (request, changed code): a line of code or a comment put in."""
    return change_line(rng, code, words, ("insert", "comment"))


def edit_pair(rng: random.Random, material, kinds=(rename, change_line)) -> tuple[str, str, str]:
    """Return (request, code before, code after) of one edit of a piece of a file."""
    while True:
        before = window(rng, rng.choice(material.files))
        if not 80 < len(before) < 2600:
            continue
        edited = rng.choice(kinds)(rng, before, material.words)
        if edited is not None and edited[1].strip() == edited[1] != before:
            return edited[0], before, edited[1]


def edit_chat(rng: random.Random, request: str, before: str, answer: str, fence: str):
    """Return the chat that shows `before` with a request and answers with a fenced text."""
    shown = f"```{language_of(before)}\n{before}\n```"
    question = f"{request}\n\n{shown}" if rng.random() < 0.5 else f"{shown}\n\n{request}"
    return chat(question, f"```{fence}\n{answer}\n```")


def file_edit(rng: random.Random, material) -> tuple[list[dict], dict]:
    """Ask for one edit of a file; the answer is the whole file or, for a third, a diff."""
    request, before, after = edit_pair(rng, material)
    if rng.random() < 0.33:
        return edit_chat(rng, request + rng.choice(DIFF), before, diff_of(before, after), "diff")
    return edit_chat(rng, request + rng.choice(FULL), before, after, language_of(before))
