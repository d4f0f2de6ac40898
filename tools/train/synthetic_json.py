"""Synthetic chats with a JSON schema in the prompt; the answer obeys it."""

import json
import random

from tools.train.synthetic_copy import chat
from tools.train.synthetic_values import (
    CITIES,
    COLOURS,
    address,
    date,
    identifier,
    money,
    person,
    phrase,
)

TEXT_KEYS = ("title", "name", "subject", "label", "topic", "category", "brand", "owner", "project",
             "material", "author", "team", "summary", "version", "region", "street")
NUMBER_KEYS = ("count", "age", "year", "score", "weight", "height", "rank", "level", "stock",
               "pages", "seats", "hours", "distance", "priority", "width")
FLAG_KEYS = ("active", "paid", "in_stock", "public", "verified", "urgent", "done", "archived")
ENUMS = {"status": ("open", "closed", "waiting", "done"), "colour": COLOURS,
         "size": ("small", "medium", "large"), "kind": ("new", "used", "rented"),
         "level_name": ("low", "normal", "high"), "currency": ("EUR", "USD", "GBP", "JPY"),
         "language": ("de", "en", "fr", "es", "it")}
LIST_KEYS = ("tags", "parts", "colours", "members", "steps", "cities", "keywords", "items")
OBJECT_KEYS = ("address", "customer", "details", "contact", "origin", "dimensions", "seller")
ROWS_KEYS = ("entries", "orders", "lines", "records", "products", "visits")
WITH_FACTS = (
    "Answer with JSON that matches this schema: {schema}\n\n{facts}",
    "{facts}\n\nWrite this as JSON for the schema {schema}",
    "Schema: {schema}\n\nFill it with these facts. {facts}",
    "Extract a JSON object that is valid under this schema.\n\n{schema}\n\nText: {facts}",
)
WITHOUT_FACTS = ("Invent a record that matches this JSON schema: {schema}",
                 "Give me an example for the schema {schema}",
                 "Write any JSON object that is valid under this schema: {schema}")


def _text(rng, words):
    makers = (lambda: phrase(rng, words), lambda: person(rng, words), lambda: rng.choice(CITIES),
              lambda: date(rng, words), lambda: identifier(rng, words),
              lambda: address(rng, words))
    return rng.choice(makers)()


def _scalar(rng, words, used) -> tuple[str, dict, object]:
    """Return (key, schema, value) of one plain property whose key is not in `used`."""
    draw = rng.random()
    if draw < 0.4:
        keys, schema, value = TEXT_KEYS, {"type": "string"}, _text(rng, words)
    elif draw < 0.65:
        low = rng.choice((0, 1, 10, 1900))
        high = low + rng.choice((10, 100, 500))
        keys, schema, value = NUMBER_KEYS, {"type": "integer"}, rng.randint(low, high)
        if rng.random() < 0.5:
            schema |= {"minimum": low, "maximum": high}
    elif draw < 0.75:
        keys, schema, value = ("price", "total", "rate", "cost"), {"type": "number"}, money(rng, [])
    elif draw < 0.87:
        keys, schema, value = FLAG_KEYS, {"type": "boolean"}, rng.random() < 0.5
    else:
        key = rng.choice(sorted(ENUMS))
        keys, schema, value = (key,), {"type": "string", "enum": list(ENUMS[key])}, rng.choice(
            ENUMS[key])
    free = [key for key in keys if key not in used]
    return (rng.choice(free), schema, value) if free else _scalar(rng, words, used)


def _array(rng, words) -> tuple[dict, list]:
    size = rng.randint(1, 5)
    schema = {"type": "array", "items": {"type": "string"}}
    if rng.random() < 0.6:
        schema |= {"minItems": rng.randint(0, size), "maxItems": rng.randint(size, size + 3)}
    return schema, [rng.choice(words) for _ in range(size)]


def object_of(rng: random.Random, words: list[str], size: int, depth: int) -> tuple[dict, dict]:
    """Return (schema, value) of a random object with `size` properties, `depth` levels below."""
    properties, value = {}, {}
    for _ in range(size):
        draw = rng.random()
        if draw < 0.15:
            key = rng.choice(LIST_KEYS)
            properties[key], value[key] = _array(rng, words)
        elif depth and draw < 0.28:
            key = rng.choice(OBJECT_KEYS)
            properties[key], value[key] = object_of(rng, words, rng.randint(2, 3), depth - 1)
        else:
            key, properties[key], value[key] = _scalar(rng, words, value)
    return {"type": "object", "properties": properties, "required": list(properties),
            "additionalProperties": False}, value


def rows_of(rng: random.Random, words: list[str]) -> tuple[dict, dict]:
    """Return (schema, value) of an object that holds an array of like objects."""
    fields: dict[str, dict] = {}
    for _ in range(rng.randint(2, 4)):
        key, schema, _ = _scalar(rng, words, fields)
        fields[key] = schema
    rows = [{key: value_for(rng, words, schema) for key, schema in fields.items()}
            for _ in range(rng.randint(2, 6))]
    item = {"type": "object", "properties": fields, "required": list(fields),
            "additionalProperties": False}
    key = rng.choice(ROWS_KEYS)
    array = {"type": "array", "items": item, "minItems": 1,
             "maxItems": len(rows) + rng.randint(0, 4)}
    return {"type": "object", "properties": {key: array}, "required": [key],
            "additionalProperties": False}, {key: rows}


def value_for(rng: random.Random, words: list[str], schema: dict):
    """Return a value that a plain property's schema allows."""
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if schema["type"] == "integer":
        return rng.randint(schema.get("minimum", 0), schema.get("maximum", 99))
    makers = {"string": lambda: _text(rng, words), "number": lambda: money(rng, words),
              "boolean": lambda: rng.random() < 0.5}
    return makers[schema["type"]]()


def facts(value, name: str = "") -> str:
    """Say a JSON value in words, in key order."""
    spoken = name.replace("_", " ")
    if isinstance(value, dict):
        return " ".join(facts(item, f"{name} {key}".strip()) for key, item in value.items())
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return " ".join(f"{spoken.capitalize()}, number {at}: " + "; ".join(
            f"{key.replace('_', ' ')} {_plain(item)}" for key, item in row.items()) + "."
            for at, row in enumerate(value, 1))
    return f"{spoken.capitalize()}: {_plain(value)}."


def _plain(value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return str(value)


def schema_pair(rng: random.Random, words: list[str]) -> tuple[dict, dict]:
    """Return (schema, value): a flat or nested object, or an array of records."""
    if rng.random() < 0.35:
        return rows_of(rng, words)
    return object_of(rng, words, rng.randint(2, 6), rng.choice((0, 1, 1, 2)))


def json_schema(rng: random.Random, material) -> tuple[list[dict], dict]:
    """Show a schema, mostly with facts to fill in; the answer is JSON that obeys it."""
    schema, value = schema_pair(rng, material.words)
    shown = json.dumps(schema, indent=rng.choice((None, None, 1)), ensure_ascii=False)
    templates = WITH_FACTS if rng.random() < 0.85 else WITHOUT_FACTS
    question = rng.choice(templates).format(schema=shown, facts=facts(value))
    answer = json.dumps(value, indent=rng.choice((None, 2)), ensure_ascii=False)
    if "\n" in answer:
        question += "\n\nIndent it."
    return chat(question, answer)
