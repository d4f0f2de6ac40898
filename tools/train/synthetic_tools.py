"""Synthetic tool-calling chats: invented tools, one or several calls, answers from responses."""

import hashlib
import json
import random
from functools import cache

from tools.train.synthetic_skills import SKILLS, Skill, Slot
from tools.train.synthetic_values import identifier, money

NAME_KEY = b"tandem demo tools 1"
HELD_OUT_SHARE = 0.1  # of the tool names; they never occur in a training document
REVERSED_SHARE = 0.5  # of the names that exist also as noun_verb
RESULTS = {
    "weather": ("sunny, 24 degrees", "rainy, 12 degrees", "cloudy, 17 degrees", "snowy, -3 degrees",
                "windy, 9 degrees"),
    "status": ("confirmed", "ok", "stored", "sent", "scheduled", "complete", "waiting"),
    "content": ("meeting at nine", "buy milk and bread", "version = 3", "hello world",
                "nothing new since Monday", "the second door on the left"),
}
REFUSE = ("None of my tools can do that, so I do not know.", "I have no tool for that.",
          "I am sorry, none of my tools can help with that.")
PLAIN = (("Hi!", "Hello! How can I help you?"), ("Thank you.", "You are welcome!"),
         ("Tell me a joke.", "Why do programmers prefer dark mode? Because light attracts bugs."),
         ("Who are you?", "I am a small demo language model."),
         ("Hello.", "Hello! What can I do for you?"), ("Good night.", "Good night!"))
SYSTEMS = ("You are a helpful assistant.", "Use the tools when they help.", "Answer briefly.")


def _share(name: str) -> float:
    digest = hashlib.blake2b(name.encode(), key=NAME_KEY, digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


@cache
def tool_names(split: str) -> dict[int, tuple[str, ...]]:
    """Return the names of each skill, by index, that chats of a split may use.

    `split` is "train" or "eval"; a skill without a name in the split is absent.
    """
    found: dict[int, tuple[str, ...]] = {}
    for at, skill in enumerate(SKILLS):
        pairs = [(verb, noun) for verb in skill.verbs.split() for noun in skill.nouns.split()]
        names = [f"{verb}_{noun}" for verb, noun in pairs]
        names += [f"{noun}_{verb}" for verb, noun in pairs
                  if _share(f"reversed {noun} {verb}") < REVERSED_SHARE]
        kept = tuple(name for name in names
                     if (_share(name) < HELD_OUT_SHARE) == (split == "eval"))
        if kept:
            found[at] = kept
    return found


class Tool:
    """One invented tool of a chat: a name and parameter names drawn for a skill."""

    def __init__(self, rng: random.Random, skill: Skill, names: tuple[str, ...]) -> None:
        self.skill = skill
        self.name = rng.choice(names)
        slots = skill.required + tuple(slot for slot in skill.optional if rng.random() < 0.7)
        self.parameters: dict[str, Slot] = {}
        for slot in slots:
            free = [name for name in slot.names if name not in self.parameters]
            self.parameters[rng.choice(free)] = slot

    def schema(self) -> dict:
        """Return the tool as chat templates take it."""
        required = list(self.parameters)[:len(self.skill.required)]
        return {"type": "function", "function": {
            "name": self.name, "description": self.skill.about, "parameters": {
                "type": "object",
                "properties": {name: slot.schema() for name, slot in self.parameters.items()},
                "required": required}}}

    def request(self, rng: random.Random, words: list[str]) -> tuple[str, dict, str, str]:
        """Return (question, tool call, response, answer)."""
        arguments = {}
        for at, (name, slot) in enumerate(self.parameters.items()):
            if at < len(self.skill.required) or rng.random() < 0.5:
                arguments[name] = slot.make(rng, words)
        needed = [say(value) for value in list(arguments.values())[:len(self.skill.required)]]
        clauses = [clause(rng, self.parameters[name], value)
                   for name, value in list(arguments.items())[len(needed):]]
        result = _result(rng, self.skill, list(arguments.values()), words)
        call = {"type": "function", "function": {"name": self.name, "arguments": arguments}}
        question = " ".join((rng.choice(self.skill.asks).format(*needed), *clauses))
        response = json.dumps({self.skill.result: result}, ensure_ascii=False)
        return question, call, response, rng.choice(self.skill.says).format(*needed, r=result)


def say(value) -> str:
    """Return a value as a question says it."""
    if isinstance(value, list):
        return ", ".join(value[:-1]) + f" and {value[-1]}" if len(value) > 1 else "".join(value)
    return str(value)


def clause(rng: random.Random, slot: Slot, value) -> str:
    """Return the sentence that asks for an optional parameter; a flag's first clause means yes."""
    if slot.kind == "boolean":
        return slot.says[0 if value else 1]
    return rng.choice(slot.says).format(v=say(value))


def _result(rng: random.Random, skill: Skill, values: list, words: list[str]):
    if skill.about == "Add two numbers.":
        return values[0] + values[1]
    if skill.about == "Multiply two numbers.":
        return values[0] * values[1]
    if skill.result in RESULTS:
        return rng.choice(RESULTS[skill.result])
    if skill.result == "code":
        return identifier(rng, words)
    return money(rng, words) if skill.result == "price" else rng.randint(2, 90_000)


def _thought(rng: random.Random, names: list[str]) -> str:
    listed = say(sorted(set(names)))
    times = f" {len(names)} times" if len(names) > 1 and len(set(names)) == 1 else ""
    return rng.choice(("The tool for this is {0}{1}.", "I should call {0}{1}.",
                       "I need {0}{1}; all values are in the question.")).format(listed, times)


def called_turn(rng, tools, words, thinking) -> list[dict]:
    """One user turn that needs one call, or two to four parallel ones, and the answer."""
    count = rng.choice((1, 1, 1, 1, 2, 2, 3, 4))
    same = rng.random() < 0.5
    first = rng.choice(tools)
    chosen = [first if same else rng.choice(tools) for _ in range(count)]
    parts = [tool.request(rng, words) for tool in chosen]
    asks, calls, responses, says = zip(*parts, strict=True)
    reply = {"role": "assistant", "content": "", "tool_calls": list(calls)}
    if thinking:
        reply["reasoning_content"] = _thought(rng, [tool.name for tool in chosen])
    return [{"role": "user", "content": " ".join(asks)}, reply,
            *({"role": "tool", "content": response} for response in responses),
            {"role": "assistant", "content": " ".join(says)}]


def uncalled_turn(rng, tools, words, thinking) -> list[dict]:
    """One user turn that needs no tool, or one that none of the tools can serve."""
    if rng.random() < 0.5:
        question, answer = rng.choice(PLAIN)
        thought = "No tool is needed."
    else:
        taken = {tool.skill.about for tool in tools}
        # Skills of one verb and noun family overlap, so another family is asked for.
        verbs = {noun for tool in tools for noun in tool.skill.nouns.split()}
        others = [skill for skill in SKILLS if skill.about not in taken
                  and not verbs & set(skill.nouns.split())]
        question = Tool(rng, rng.choice(others), ("other",)).request(rng, words)[0]
        answer, thought = rng.choice(REFUSE), "No tool fits."
    reply = {"role": "assistant", "content": answer}
    if thinking:
        reply["reasoning_content"] = thought
    return [{"role": "user", "content": question}, reply]


def draw_tools(rng: random.Random, split: str, low: int = 1, high: int = 5) -> list[Tool]:
    """Return `low` to `high` tools of different skills and names."""
    names = tool_names(split)
    chosen = rng.sample(sorted(names), rng.randint(low, high))
    tools, seen = [], set()
    for at in chosen:
        tool = Tool(rng, SKILLS[at], names[at])
        if tool.name not in seen:
            seen.add(tool.name)
            tools.append(tool)
    return tools


def tool_chat(rng: random.Random, material) -> tuple[list[dict], dict]:
    """A chat with one to five tools: calls (single, parallel), refusals or plain talk."""
    tools = draw_tools(rng, material.split)
    thinking = rng.random() < 0.2
    messages = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        turn = uncalled_turn if rng.random() < 0.15 else called_turn
        messages += turn(rng, tools, material.words, thinking)
    if rng.random() < 0.15:
        messages.insert(0, {"role": "system", "content": rng.choice(SYSTEMS)})
    return messages, {"tools": [tool.schema() for tool in tools]}
