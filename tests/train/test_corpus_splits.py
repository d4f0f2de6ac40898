"""The synthetic chats: held-out tools and words stay out of training, and answers are right."""

import difflib
import json
import random
import re

import pytest

from tools.train.corpus import Document, chat_split, decontaminate, split_of
from tools.train.synthetic import FAMILIES, draw_chats, generate, make_material
from tools.train.synthetic_copy import QUOTE, quote_back
from tools.train.synthetic_edit import diff_of, edit_pair, insert_line, rename
from tools.train.synthetic_json import schema_pair
from tools.train.synthetic_skills import SKILLS
from tools.train.synthetic_tools import draw_tools, tool_chat, tool_names
from tools.train.wordnet import Sense, held_out_words, split_senses

TYPES = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list}


def _word(number: int) -> str:
    letters = ""
    for _ in range(5):
        letters += "abcdefghijklmnopqrst"[number % 20]
        number //= 20
    return letters


SENSES = [Sense((_word(7 * at + 1),), "noun", f"a thing of the kind {at}", ()) for at in range(900)]
HELD_WORDS = held_out_words(SENSES)


def _function(split: str, at: int) -> str:
    return (f"def {split}_{at}(first, second):\n"
            f'    """Return the {split} sum of two values, number {at}."""\n'
            f"    total = first + second\n    if total == {at}:\n"
            f"        return first\n    result = total * {at + 2}\n    return result\n")


def _documents(split: str) -> list[Document]:
    prose = "\n\n".join(f"The {split} paragraph {at} tells of many plain things in plain words, "
                        f"as {split} stories do, and closes with number {at * 17}."
                        for at in range(40))
    verses = f"{split.title()} 1\n\n" + "\n".join(f"{at} Line {at} of {split} verses."
                                                 for at in range(1, 30))
    docs = "\n".join(f"# {split} section {at}\n\n" + "\n".join(
        f"- Point {one} of the {split} section {at}." for one in range(4)) for at in range(5))
    code = "\n\n".join(_function(split, at) for at in range(12))
    rows = (("austen", "prose", f"{split}-novel.1", prose),
            ("king-james", "prose", f"{split.title()}.1", verses),
            ("python-docs", "docs", f"{split}.rst", docs),
            ("django", "python", f"{split}.py", code))
    return [Document(source, group, name, split, text) for source, group, name, text in rows]


DOCUMENTS = _documents("train") + _documents("eval")
TALKS = [("chatterbot", "a.1", ["Do you like tea?", "I like it very much."])]


@pytest.fixture(scope="module")
def chats() -> list[tuple[str, str, str, str]]:
    return generate(DOCUMENTS, TALKS, SENSES, seed=5, total_bytes=400_000)


@pytest.fixture(scope="module")
def material():
    return {split: make_material(DOCUMENTS, TALKS, SENSES, split) for split in ("train", "eval")}


def _names(split: str) -> set[str]:
    return {name for names in tool_names(split).values() for name in names}


def _complaint(value, schema: dict) -> str:
    """Return what is wrong with a value, or nothing."""
    if schema["type"] == "object":
        if not isinstance(value, dict) or not set(schema["required"]) <= set(value):
            return f"required keys are missing in {value}"
        return "; ".join(filter(None, (
            f"unknown key {key}" if key not in schema["properties"]
            else _complaint(item, schema["properties"][key]) for key, item in value.items())))
    if not isinstance(value, TYPES[schema["type"]]):
        return f"{value!r} is no {schema['type']}"
    if isinstance(value, bool) and schema["type"] != "boolean":
        return f"{value!r} is a boolean"
    if value not in schema.get("enum", [value]):
        return f"{value!r} is not in the enum"
    if schema["type"] == "integer" and not (
            schema.get("minimum", value) <= value <= schema.get("maximum", value)):
        return f"{value} is out of range"
    if schema["type"] == "array":
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            return f"{len(value)} items are out of bounds"
        return "; ".join(filter(None, (_complaint(item, schema["items"]) for item in value)))
    return ""


def test_tool_names_are_many_and_a_tenth_is_held_out():
    train, held = _names("train"), _names("eval")
    assert len(SKILLS) >= 40
    assert 400 <= len(train | held) <= 600
    assert not train & held
    assert 0.07 < len(held) / len(train | held) < 0.13


def test_all_parameter_kinds_occur():
    kinds = {slot.kind for skill in SKILLS for slot in skill.required + skill.optional}
    assert kinds == {"string", "integer", "number", "boolean", "array", "enum"}
    assert all(slot.says for skill in SKILLS for slot in skill.optional)


def test_held_out_tools_and_words_stay_out_of_training_chats(chats):
    training = [text for family, group, name, text in chats
                if group == "synthetic" and chat_split(family, group, name) != "eval"]
    assert len(training) > 300
    called = set(re.findall(r"<function=(\w+)>", "".join(training))) - {"NAME"}
    offered = set(re.findall(r'"function": {"name": "(\w+)"', "".join(training)))
    assert len(offered) > 30
    assert not (called | offered) & _names("eval")
    said = set(re.findall("[a-z]+", "".join(training).lower()))
    assert len(HELD_WORDS) == 200
    assert not said & HELD_WORDS


def test_evaluation_chats_use_held_out_tools_and_words_only(chats):
    held = "".join(text for family, group, name, text in chats
                   if group == "synthetic" and chat_split(family, group, name) == "eval")
    offered = set(re.findall(r'"function": {"name": "(\w+)"', held))
    assert offered
    assert offered <= _names("eval")
    assert set(re.findall("[a-z]+", held)) & HELD_WORDS
    assert "train_1" not in held


def test_senses_of_the_two_splits_are_apart():
    train = {word for sense in split_senses(SENSES, HELD_WORDS, "train") for word in sense.words}
    held = {word for sense in split_senses(SENSES, HELD_WORDS, "eval") for word in sense.words}
    assert held == HELD_WORDS
    assert not train & held


def test_the_same_seed_gives_the_same_chats(chats):
    again = generate(DOCUMENTS, TALKS, SENSES, seed=5, total_bytes=400_000)
    assert again == chats
    other = generate(DOCUMENTS, TALKS, SENSES, seed=6, total_bytes=400_000)
    assert other != chats


@pytest.mark.parametrize("family", [name for name, _, _ in FAMILIES])
def test_every_family_fills_its_share(family, material):
    function = {name: one for name, one, _ in FAMILIES}[family]
    texts = list(draw_chats(material["train"], family, function, seed=1, total_bytes=4000))
    assert texts
    assert all(text.startswith("<|im_start|>") and text.endswith("<|im_end|>\n") for text in texts)


@pytest.mark.parametrize("split", ["train", "eval"])
def test_every_tool_call_obeys_its_schema(split, material):
    rng = random.Random(3)
    calls = 0
    for _ in range(400):
        messages, variables = tool_chat(rng, material[split])
        schemas = {tool["function"]["name"]: tool["function"]["parameters"]
                   for tool in variables["tools"]}
        for message in messages:
            for call in message.get("tool_calls") or []:
                function = call["function"]
                assert not _complaint(function["arguments"], schemas[function["name"]])
                calls += 1
    assert calls > 400


def test_tools_of_a_chat_have_different_names():
    rng = random.Random(4)
    for _ in range(200):
        names = [tool.name for tool in draw_tools(rng, "train")]
        assert len(names) == len(set(names))


def test_schema_answers_obey_their_schema(material):
    rng = random.Random(5)
    for _ in range(300):
        schema, value = schema_pair(rng, material["train"].words)
        assert not _complaint(value, schema)
        assert json.loads(json.dumps(value)) == value


def test_quotes_equal_the_passage(material):
    rng = random.Random(6)
    whole = 0
    for _ in range(300):
        (question, answer), _ = quote_back(rng, material["train"])
        text = answer["content"]
        if text not in question["content"]:
            half = text[:(len(text) - 2) // 2]
            assert text == f"{half}\n\n{half}"
            assert half in question["content"]
        whole += any(template.format(text=text) == question["content"] for template in QUOTE)
    assert whole > 150


def test_renames_change_only_the_name(material):
    rng = random.Random(7)
    for _ in range(50):
        request, before, after = edit_pair(rng, material["train"], (rename,))
        old, new = re.search(r"(?:Rename `|every |Change `)(\w+)`? (?:to `|by )(\w+)",
                             request).groups()
        assert re.sub(rf"\b{old}\b", new, before) == after
        assert not re.search(rf"\b{old}\b", after)


def test_insertions_add_one_line(material):
    rng = random.Random(8)
    for _ in range(50):
        _, before, after = edit_pair(rng, material["train"], (insert_line,))
        changes = [line for line in difflib.ndiff(before.split("\n"), after.split("\n"))
                   if line[0] in "+-"]
        assert len(changes) == 1
        assert changes[0].startswith("+ ")


def _apply(before: str, diff: str) -> str:
    """Apply a unified diff to a text."""
    old, new, at = before.split("\n"), [], 0
    for line in diff.split("\n")[2:]:
        if line.startswith("@@"):
            start, count = re.match(r"@@ -(\d+)(,\d+)?", line).groups()
            start = int(start) - (count != ",0")
            new += old[at:start]
            at = start
        elif line.startswith("+"):
            new.append(line[1:])
        else:
            assert old[at] == line[1:]
            new += [old[at]] if line.startswith(" ") else []
            at += 1
    return "\n".join(new + old[at:])


def test_diffs_apply(material):
    rng = random.Random(9)
    for _ in range(100):
        _, before, after = edit_pair(rng, material["train"])
        assert _apply(before, diff_of(before, after)) == after


def test_works_held_out_by_name_and_the_split_shares():
    assert split_of("austen", "Persuasion.3") == "eval"
    splits = [split_of("django", f"file{at}.py") for at in range(5000)]
    assert 60 < splits.count("eval") < 140
    assert 25 < splits.count("calib") < 80


def test_decontamination_drops_copies_and_counts_them():
    held = Document("austen", "prose", "a", "eval", " ".join(map(str, range(200))))
    copied = Document("sympy", "python", "b", "train", " ".join(map(str, range(20, 180))))
    fresh = Document("sympy", "python", "c", "train", " ".join(map(str, range(500, 700))))
    kept, counts = decontaminate([held, copied, fresh], [held])
    assert kept == [held, fresh]
    assert counts == {"sympy": {"checked": 2, "touched": 1, "dropped": 1}}
