"""Synthetic chats that repeat text: passages, code, random words and identifiers, in part too."""

import random

from tools.train.synthetic_values import identifier

QUOTE = (
    "Repeat the following text exactly:\n\n{text}",
    "Quote this back to me word for word.\n\n{text}",
    "{text}\n\nRepeat the passage above verbatim.", "Copy this text without changes:\n\n{text}",
    "Echo the text below.\n\n{text}", "{text}\n\nWrite that out again, exactly as it stands.",
    "{text}\n\nRepeat the above.", "Say this again, unchanged:\n\n{text}",
)
QUOTE_LAST = ("{text}\n\nRepeat only the last paragraph.", "Quote the final paragraph:\n\n{text}")
QUOTE_FIRST = ("{text}\n\nRepeat only the first paragraph.", "Quote the first paragraph:\n\n{text}")
QUOTE_SECOND = ("{text}\n\nRepeat from the second paragraph on.",
                "Quote this from the second paragraph on:\n\n{text}")
QUOTE_GO_ON = ("{text}\n\nRepeat from the second paragraph on, then go on.",
               "Quote this from the second paragraph on and continue it:\n\n{text}")
QUOTE_TWICE = ("{text}\n\nRepeat the text above twice.", "Write this two times:\n\n{text}")


def chat(question: str, answer: str) -> tuple[list[dict], dict]:
    """Return a chat of one question and one answer, and no template variables."""
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}], {}


def paragraphs(rng: random.Random, material, low: int, high: int) -> list[str]:
    """Return consecutive paragraphs of one passage, `low` to `high` characters together."""
    while True:
        _, text = rng.choice(material.passages)
        parts = [part for part in text.split("\n\n") if part.strip()]
        start = rng.randrange(len(parts))
        taken, size = [], 0
        while start < len(parts) and size < low:
            taken.append(parts[start].strip())
            size += len(parts[start])
            start += 1
        if low <= size <= high:
            return taken


def random_text(rng: random.Random, words: list[str]) -> str:
    """Return words or identifiers in random order, which only copying can predict."""
    count = rng.choice((8, 20, 40, 80))
    kind = rng.randrange(4)
    if kind == 0:
        return "\n".join(identifier(rng, words) for _ in range(max(2, count // 5)))
    if kind == 1:
        return ", ".join(identifier(rng, words) if rng.random() < 0.2 else rng.choice(words)
                         for _ in range(count))
    if kind == 2:
        return " ".join(str(rng.randint(0, 9999)) for _ in range(max(4, count // 3)))
    return " ".join(rng.choice(words) for _ in range(count))


def code_lines(rng: random.Random, material) -> str:
    """Return a function, or 10 to 45 consecutive lines of a file."""
    if rng.random() < 0.5 or not material.files:
        return rng.choice(material.functions)[2]
    lines = rng.choice(material.files).strip("\n").split("\n")
    start = rng.randrange(max(1, len(lines) - 10))
    return "\n".join(lines[start:start + rng.randint(10, 45)]).strip("\n")


def quote_back(rng: random.Random, material) -> tuple[list[dict], dict]:
    """Ask for a passage, code or random text to be repeated verbatim, whole or in part."""
    draw = rng.random()
    if draw < 0.2:
        text = random_text(rng, material.words)
        return chat(rng.choice(QUOTE).format(text=text), text)
    if draw < 0.42:
        # Chats are stripped by the template, so the answer must not begin with blanks.
        code = code_lines(rng, material).strip()
        return chat(rng.choice(QUOTE).format(text=code), code)
    parts = paragraphs(rng, material, rng.choice((80, 300, 600, 1000, 1500)), 2400)
    text = "\n\n".join(parts)
    if len(parts) > 1 and rng.random() < 0.35:
        questions, answer = rng.choice((
            (QUOTE_LAST, parts[-1]), (QUOTE_FIRST, parts[0]),
            (QUOTE_SECOND, "\n\n".join(parts[1:])), (QUOTE_SECOND, "\n\n".join(parts[1:]))))
        return chat(rng.choice(questions).format(text=text), answer)
    if len(text) < 300 and rng.random() < 0.2:
        return chat(rng.choice(QUOTE_TWICE).format(text=text), f"{text}\n\n{text}")
    return chat(rng.choice(QUOTE).format(text=text), text)


def quote_go_on(rng: random.Random, material) -> tuple[list[dict], dict]:
    """Ask for a passage from its second paragraph on and then for what follows in the work."""
    while True:
        parts = paragraphs(rng, material, 1200, 3000)
        if len(parts) > 2:
            shown = len(parts) - 1
            question = rng.choice(QUOTE_GO_ON).format(text="\n\n".join(parts[:shown]))
            return chat(question, "\n\n".join(parts[1:]))
