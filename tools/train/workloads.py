"""The 25 workloads of the teacher-forced bench: four held-out items each."""

import json
import random
from collections.abc import Callable

from tools.train.set_text import Held, Item
from tools.train.synthetic_code import write_function
from tools.train.synthetic_copy import (
    QUOTE,
    chat,
    code_lines,
    paragraphs,
    quote_go_on,
    random_text,
)
from tools.train.synthetic_data import arithmetic, sorting, table
from tools.train.synthetic_edit import (
    DIFF,
    FULL,
    change_line,
    diff_of,
    edit_chat,
    edit_pair,
    insert_line,
    language_of,
    rename,
)
from tools.train.synthetic_json import WITH_FACTS, facts, rows_of
from tools.train.synthetic_talk import define_word, small_talk
from tools.train.synthetic_tools import called_turn, draw_tools
from tools.train.synthetic_turns import counting, howto, multi_turn

ITEMS, SHORTEST, LONGEST, ANSWER = 4, 64, 640, 256  # tokens; the spec allows prompts up to 1,024
LENGTHS = (96, 192, 320, 512)  # prompts of the text workloads
NAMES = (
    "prose_novel", "prose_speech", "verse_drama", "scripture_verses", "docs_reference",
    "docs_tutorial", "glossary", "code_python_lib", "code_python_tests", "code_go", "code_rust",
    "code_from_docstring", "chat_smalltalk", "chat_howto", "chat_think", "chat_multiturn",
    "quote_verbatim", "quote_partial", "edit_rename", "edit_insert", "edit_diff", "tool_single",
    "tool_parallel", "json_record", "table_convert",
)
Maker = Callable[[random.Random], Item | None]


def _is_test(document) -> bool:
    return "/test" in f"/{document.name}" or "tests" in document.name


TEXTS = {
    "prose_novel": lambda one: one.source in ("austen", "moby-dick"),
    "prose_speech": lambda one: one.source == "speeches",
    "verse_drama": lambda one: one.source == "shakespeare" and "poems" not in one.name,
    "scripture_verses": lambda one: one.source == "king-james",
    "docs_reference": lambda one: one.source in ("postgres-docs", "cmake-docs", "sqlite-docs"),
    "docs_tutorial": lambda one: one.source in ("django-docs", "rust-book"),
    "code_python_lib": lambda one: one.group == "python" and not _is_test(one)
    and one.source != "rich",
    "code_python_tests": lambda one: one.group == "python" and _is_test(one),
    "code_go": lambda one: one.source == "go-source",
    "code_rust": lambda one: one.source == "rust-source",
}


def glossary(held: Held) -> Maker:
    """Dictionary entries of held-out words, one a line; the reference goes on with the next."""
    def make(rng: random.Random) -> Item | None:
        senses = rng.sample(held.material.senses, 40)
        text = "\n".join(f"{sense.words[0]} ({sense.part}): {sense.gloss}." for sense in senses)
        ids = held.encode(text)
        cut = rng.randint(SHORTEST, 300)
        while cut < len(ids) and not held.line_ends[ids[cut - 1]]:
            cut += 1
        return Item(ids[:cut], ids[cut:cut + ANSWER], {"words": [one.words[0] for one in senses]})
    return make


def smalltalk(held: Held) -> Maker:
    """A held-out human conversation up to one of its answers."""
    def make(rng: random.Random) -> Item | None:
        source, name, turns = rng.choice(held.talks)
        count = rng.randint(2, max(2, len(turns) // 2)) * 2
        if count > len(turns):
            return None
        messages = [{"role": ("user", "assistant")[at % 2], "content": text}
                    for at, text in enumerate(turns[:count])]
        return held.chat(messages, {}, {"source": source, "conversation": name})
    return make


def family(held: Held, function, *, lead: bool = False, thought: bool | None = None) -> Maker:
    """Chats of a synthetic family over held-out material, cut before the last answer.

    With `lead` an exchange stands before; `thought` asks for chats with or without a thought.
    """
    def make(rng: random.Random) -> Item | None:
        messages, variables = function(rng, held.material)
        has_thought = bool(messages[-1].get("reasoning_content"))
        if thought is not None and has_thought != thought:
            return None
        if lead:
            first = rng.choice((small_talk, define_word))(rng, held.material)[0]
            messages = first + messages
        if any(message["role"] == "system" for message in messages[1:]):
            return None
        return held.chat(messages, variables, {"family": function.__name__})
    return make


def thinking(rng: random.Random, material) -> tuple[list[dict], dict]:
    """A sum, a sort or a count."""
    return rng.choice((arithmetic, sorting, counting, counting))(rng, material)


def verbatim(held: Held) -> Maker:
    """A passage, code or random text to be repeated."""
    def make(rng: random.Random) -> Item | None:
        kind = rng.choice(("passage", "passage", "code", "random"))
        if kind == "passage":
            text = "\n\n".join(paragraphs(rng, held.material, 300, 1500))
        elif kind == "code":
            text = code_lines(rng, held.material).strip()
        else:
            text = random_text(rng, held.material.words)
        return held.chat(*chat(rng.choice(QUOTE).format(text=text), text), {"kind": kind})
    return make


def edit(held: Held, kind: str) -> Maker:
    """An edit of a held-out file: "rename", "insert" (whole files) or "diff"."""
    kinds = {"rename": (rename,), "insert": (insert_line,), "diff": (rename, change_line)}[kind]

    def make(rng: random.Random) -> Item | None:
        request, before, after = edit_pair(rng, held.material, kinds)
        if kind == "diff":
            answer, fence, tail = diff_of(before, after), "diff", rng.choice(DIFF)
        else:
            answer, fence, tail = after, language_of(before), rng.choice(FULL)
        made = edit_chat(rng, request + tail, before, answer, fence)
        return held.chat(*made, {"kind": kind, "language": language_of(before)})
    return make


def tool_turn(held: Held, kind: str) -> Maker:
    """A turn of held-out tools: "single" or "parallel" calls, or the "answer" from responses.

    meta.tools: name and parameters schema of every tool; meta.expected: the right calls.
    """
    def make(rng: random.Random) -> Item | None:
        tools = draw_tools(rng, "eval", 1, 3)
        messages = called_turn(rng, tools, held.material.words, False)
        calls = [call["function"] for call in messages[1]["tool_calls"]]
        if (len(calls) == 1) != (kind == "single"):
            return None
        schemas = [tool.schema() for tool in tools]
        meta = {"kind": kind, "expected": calls, "tools": [
            {"name": one["function"]["name"], "parameters": one["function"]["parameters"]}
            for one in schemas]}
        return held.chat(messages if kind == "answer" else messages[:2], {"tools": schemas}, meta)
    return make


def records(held: Held) -> Maker:
    """An object with an array of records, given the schema and the facts."""
    def make(rng: random.Random) -> Item | None:
        schema, value = rows_of(rng, held.material.words)
        made = json_chat(rng, schema, value)
        return held.chat(*made, {"schema": schema, "expected": value})
    return make


def json_chat(rng: random.Random, schema: dict, value: dict) -> tuple[list[dict], dict]:
    """Return the chat that asks for `value` by its schema and facts."""
    question = rng.choice(WITH_FACTS).format(schema=json.dumps(schema, ensure_ascii=False),
                                             facts=facts(value))
    return chat(question, json.dumps(value, ensure_ascii=False))


def makers(held: Held) -> dict[str, tuple[Maker, ...]]:
    """Return the makers of the chat workloads; several makers share a workload's items."""
    return {
        "glossary": (glossary(held),), "chat_smalltalk": (smalltalk(held),),
        "code_from_docstring": (family(held, write_function),),
        "chat_howto": (family(held, howto, lead=True),),
        "chat_think": (family(held, thinking, lead=True, thought=True),),
        "chat_multiturn": (family(held, multi_turn),),
        "quote_verbatim": (verbatim(held),), "quote_partial": (family(held, quote_go_on),),
        "edit_rename": (edit(held, "rename"),), "edit_insert": (edit(held, "insert"),),
        "edit_diff": (edit(held, "diff"),), "tool_single": (tool_turn(held, "single"),),
        "tool_parallel": (tool_turn(held, "parallel"), tool_turn(held, "answer")),
        "json_record": (records(held),), "table_convert": (family(held, table),),
    }


# Least and most tokens of a workload's answers where they matter; references stop at ANSWER.
ANSWERS = {
    "code_from_docstring": (100, 400), "chat_smalltalk": (14, 256), "chat_howto": (40, 256),
    "chat_think": (30, 256), "chat_multiturn": (12, 256), "quote_verbatim": (160, 400),
    "quote_partial": (256, 900), "edit_rename": (140, 400), "edit_insert": (140, 400),
    "edit_diff": (90, 400), "tool_parallel": (20, 300), "json_record": (90, 300),
    "table_convert": (100, 400),
}


def build_workloads(held: Held) -> dict[str, list[Item]]:
    """Return the four items of each of the 25 workloads, in the order of NAMES."""
    chats = makers(held)
    found = {}
    for name in NAMES:
        if name in TEXTS:
            found[name] = held.windows(ITEMS, LENGTHS, TEXTS[name])
            continue
        share = ITEMS // len(chats[name])
        items = [item for at, make in enumerate(chats[name])
                 for item in held.draw(f"{name}/{at}", share, make, low=SHORTEST,
                                       high=1024 if name == "quote_partial" else LONGEST,
                                       answer=ANSWERS.get(name, (1, 400)))]
        found[name] = [Item(item.ids, item.reference[:ANSWER], item.meta) for item in items]
    return found
