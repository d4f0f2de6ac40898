"""Synthetic tool-calling chats: invented tools, one or several calls, answers from responses."""

import json
import random
from dataclasses import dataclass

from tools.train.synthetic_data import CITIES, COLOURS, FIRST, THINGS


@dataclass(frozen=True)
class Slot:
    """One parameter of an invented tool."""

    names: tuple[str, ...]  # names it may carry
    kind: str  # JSON schema type
    about: str  # description


@dataclass(frozen=True)
class Skill:
    """One thing an invented tool can do."""

    verbs: tuple[str, ...]
    nouns: tuple[str, ...]
    about: str
    slots: tuple[Slot, ...]
    asks: tuple[str, ...]  # {0}, {1}: slot values
    result: str  # key of the response
    says: str  # {0}, {1}: slot values; {r}: the result


CITY = Slot(("city", "location", "place", "town"), "string", "name of the city")
DATE = Slot(("date", "day", "on_date"), "string", "date as YYYY-MM-DD")
PERSON = Slot(("person", "name", "user", "contact"), "string", "first name")
ITEM = Slot(("item", "product", "article", "thing"), "string", "what to look for")
NUMBER = Slot(("count", "quantity", "amount", "number"), "integer", "how many")
PATH = Slot(("path", "file", "file_path", "filename"), "string", "path of the file")
TEXT = Slot(("text", "message", "content", "body"), "string", "the text")
COLOUR = Slot(("colour", "color", "shade"), "string", "a colour name")
AMOUNT = Slot(("value", "amount", "sum"), "number", "amount of money")
TERM = Slot(("query", "term", "keywords", "search"), "string", "words to search for")

SKILLS = (
    Skill(("get", "fetch", "lookup", "check"), ("weather", "forecast", "temperature"),
          "Current weather of a city.", (CITY,),
          ("What is the weather in {0}?", "How warm is it in {0}?", "Weather in {0}, please.",
           "Do I need a coat in {0} today?"), "weather", "In {0} it is {r}."),
    Skill(("create", "add", "make", "schedule"), ("event", "appointment", "meeting"),
          "Add an event to the calendar.", (PERSON, DATE),
          ("Schedule a meeting with {0} on {1}.", "Put {0} in my calendar for {1}.",
           "I want to meet {0} on {1}."), "status", "Your meeting with {0} on {1} is {r}."),
    Skill(("read", "open", "load", "show"), ("file", "document", "text_file"),
          "Read a file.", (PATH,), ("What is in {0}?", "Read {0}.", "Show me the file {0}."),
          "content", "The file {0} says: {r}"),
    Skill(("write", "save", "store"), ("file", "note", "document"),
          "Write text to a file.", (PATH, TEXT),
          ("Write \"{1}\" to {0}.", "Save \"{1}\" in {0}."), "status", "Done: {0} is {r}."),
    Skill(("send", "post", "deliver"), ("message", "mail", "text_message"),
          "Send a message to a person.", (PERSON, TEXT),
          ("Tell {0}: \"{1}\"", "Send {0} the message \"{1}\".", "Write to {0}: \"{1}\""),
          "status", "The message to {0} was {r}."),
    Skill(("find", "search", "locate"), ("product", "item", "article"),
          "Search the shop.", (ITEM, COLOUR),
          ("Find a {1} {0}.", "Do you have a {0} in {1}?", "I am looking for a {1} {0}."),
          "price", "A {1} {0} costs {r}."),
    Skill(("order", "buy", "purchase"), ("item", "goods", "product"),
          "Order something from the shop.", (ITEM, NUMBER),
          ("Order {1} of the item {0}.", "Buy {1} times {0}.", "I need {1} x {0}."),
          "status", "Your order of {1} x {0} is {r}."),
    Skill(("search", "query", "find"), ("web", "notes", "library", "archive"),
          "Search for text.", (TERM,), ("Search for {0}.", "Find something about {0}.",
                                        "Look up {0}."), "hits", "I found {r} entries about {0}."),
    Skill(("convert", "exchange", "change"), ("currency", "money"),
          "Convert euros to dollars.", (AMOUNT,),
          ("How many dollars are {0} euros?", "Convert {0} euros to dollars."),
          "dollars", "{0} euros are {r} dollars."),
    Skill(("get", "list", "show"), ("population", "inhabitants"), "Population of a city.", (CITY,),
          ("How many people live in {0}?", "What is the population of {0}?"),
          "population", "{0} has {r} inhabitants."),
    Skill(("book", "reserve"), ("hotel", "room", "table"), "Make a reservation.",
          (CITY, DATE, NUMBER),
          ("Book a room in {0} on {1} for {2} people.", "Reserve for {2} in {0}, {1}."),
          "status", "Your reservation in {0} on {1} for {2} is {r}."),
    Skill(("set", "change", "switch"), ("light", "lamp", "led"), "Set the colour of the light.",
          (COLOUR,), ("Make the light {0}.", "Set the lamp to {0}.", "I want {0} light."),
          "status", "The light is {0} now; status {r}."),
)
RESULTS = {
    "weather": ("sunny, 24 degrees", "rainy, 12 degrees", "cloudy, 17 degrees", "snowy, -3 degrees",
                "windy, 9 degrees"),
    "status": ("confirmed", "ok", "stored", "sent", "scheduled", "complete"),
    "content": ("meeting at nine", "buy milk and bread", "version = 3", "hello world"),
}
WORDS = ("old maps", "tide tables", "garden birds", "steam engines", "cheap flights", "red wine",
         "chess openings", "city parks", "tax forms", "paper planes", "night trains",
         "solar panels")
LINES = ("see you at eight", "the parcel has arrived", "please call me back", "lunch is ready",
         "the report is done", "happy birthday", "do not forget the keys", "all tests passed")
REFUSE = ("None of my tools can do that, so I do not know.", "I have no tool for that.")
PLAIN = ("Hi!", "Thank you.", "Tell me a joke.", "Who are you?")
PLAIN_ANSWER = ("Hello! How can I help you?", "You are welcome!",
                "Why do programmers prefer dark mode? Because light attracts bugs.",
                "I am a small demo language model.")


def _date(rng: random.Random) -> str:
    return f"{rng.randint(2024, 2030)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"


def _value(rng: random.Random, slot: Slot):
    makers = {
        CITY: lambda: rng.choice(CITIES), PERSON: lambda: rng.choice(FIRST),
        ITEM: lambda: rng.choice(THINGS), COLOUR: lambda: rng.choice(COLOURS),
        NUMBER: lambda: rng.randint(1, 60), AMOUNT: lambda: round(rng.uniform(1, 900), 2),
        DATE: lambda: _date(rng),
        PATH: lambda: f"{rng.choice(('notes', 'src', 'docs', 'data'))}/{rng.choice(THINGS)}."
                      f"{rng.choice(('txt', 'md', 'py', 'json'))}",
        TEXT: lambda: rng.choice(LINES), TERM: lambda: rng.choice(WORDS),
    }
    return makers[slot]()


def _tool(rng: random.Random, skill: Skill) -> tuple[dict, list[str]]:
    """Return an invented tool for a skill and its parameter names in slot order."""
    name = f"{rng.choice(skill.verbs)}_{rng.choice(skill.nouns)}"
    names = [rng.choice(slot.names) for slot in skill.slots]
    if len(set(names)) < len(names):
        names = [slot.names[0] for slot in skill.slots]
    properties = {key: {"type": slot.kind, "description": slot.about}
                  for key, slot in zip(names, skill.slots, strict=True)}
    schema = {"type": "object", "properties": properties, "required": names}
    return {"type": "function", "function": {
        "name": name, "description": skill.about, "parameters": schema}}, names


def _result(rng: random.Random, key: str):
    if key in RESULTS:
        return rng.choice(RESULTS[key])
    return round(rng.uniform(1, 900), 2) if key in ("price", "dollars") else rng.randint(2, 90_000)


def _request(rng, skill, tool, names):
    values = [_value(rng, slot) for slot in skill.slots]
    result = _result(rng, skill.result)
    call = {"type": "function", "function": {
        "name": tool["function"]["name"], "arguments": dict(zip(names, values, strict=True))}}
    return (rng.choice(skill.asks).format(*values), call, json.dumps({skill.result: result}),
            skill.says.format(*values, r=result))


def tool_chat(rng: random.Random, material) -> tuple[list[dict], dict]:
    """A chat with one to five tools: a single call, parallel calls, a refusal or plain talk."""
    skills = rng.sample(SKILLS, rng.randint(1, 5))
    tools = [_tool(rng, skill) for skill in skills]
    variables = {"tools": [tool for tool, _ in tools]}
    messages = []
    for _ in range(rng.choice((1, 1, 2))):
        draw = rng.random()
        if draw < 0.08:
            at = rng.randrange(len(PLAIN))
            messages += [{"role": "user", "content": PLAIN[at]},
                         {"role": "assistant", "content": PLAIN_ANSWER[at]}]
            continue
        if draw < 0.16 and len(skills) < len(SKILLS):
            other = rng.choice([skill for skill in SKILLS if skill not in skills])
            ask = _request(rng, other, *_tool(rng, other))[0]
            messages += [{"role": "user", "content": ask},
                         {"role": "assistant", "content": rng.choice(REFUSE)}]
            continue
        at = rng.randrange(len(skills))
        count = rng.choice((1, 1, 1, 2, 3))
        parts = [_request(rng, skills[at], *tools[at]) for _ in range(count)]
        asks, calls, responses, says = zip(*parts, strict=True)
        messages += [{"role": "user", "content": " ".join(asks)},
                     {"role": "assistant", "content": "", "tool_calls": list(calls)}]
        messages += [{"role": "tool", "content": response} for response in responses]
        messages += [{"role": "assistant", "content": " ".join(says)}]
    return messages, variables
