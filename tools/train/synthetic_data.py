"""Synthetic chats about records, tables, arithmetic and sorting; answers are computed."""

import json
import random

from tools.train.synthetic_values import (
    CITIES,
    COLOURS,
    FIRST,
    LAST,
    THINGS,
    date,
    identifier,
    phrase,
)


def _email(rng, name):
    first, last = name.lower().split()
    return f"{first}.{last}@example.{rng.choice(('com', 'org', 'net'))}"


def _person(rng):
    name = f"{rng.choice(FIRST)} {rng.choice(LAST)}"
    return {"name": name, "age": rng.randint(18, 90), "city": rng.choice(CITIES),
            "email": _email(rng, name)}


def _product(rng):
    return {"product": rng.choice(THINGS), "price": round(rng.uniform(1, 400), 2),
            "colour": rng.choice(COLOURS), "in_stock": rng.random() < 0.6,
            "quantity": rng.randint(0, 500)}


def _order(rng):
    return {"order_id": rng.randint(1000, 99999), "customer": _person(rng)["name"],
            "items": [{"product": rng.choice(THINGS), "quantity": rng.randint(1, 9)}
                      for _ in range(rng.randint(1, 3))],
            "paid": rng.random() < 0.5}


def _event(rng):
    return {"title": rng.choice(("Team meeting", "Lunch", "Review", "Dentist", "Concert",
                                 "Workshop")),
            "date": f"{rng.randint(2020, 2029)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}",
            "start": f"{rng.randint(7, 20):02d}:{rng.choice(('00', '15', '30', '45'))}",
            "place": rng.choice(CITIES),
            "guests": [rng.choice(FIRST) for _ in range(rng.randint(0, 4))]}


RECORDS = (_person, _product, _order, _event)


def schema_of(value) -> dict:
    """Return the JSON schema of a value made of the record generators above."""
    if isinstance(value, dict):
        return {"type": "object",
                "properties": {key: schema_of(item) for key, item in value.items()},
                "required": list(value), "additionalProperties": False}
    if isinstance(value, list):
        return {"type": "array", "items": schema_of(value[0]) if value else {"type": "string"}}
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string"}
    return {"type": kinds[type(value)]}


def _prose(record: dict) -> str:
    """Say a record as an English sentence list, in key order."""
    def say(value):
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, list):
            return " and ".join(say(item) for item in value) or "none"
        if isinstance(value, dict):
            return ", ".join(f"{key} {say(item)}" for key, item in value.items())
        return str(value)
    return ". ".join(f"{key.replace('_', ' ').capitalize()}: {say(value)}"
                     for key, value in record.items()) + "."


def _chat(question: str, answer: str, thought: str | None = None) -> tuple[list[dict], dict]:
    reply = {"role": "assistant", "content": answer}
    if thought is not None:
        reply["reasoning_content"] = thought
    return [{"role": "user", "content": question}, reply], {}


def json_record(rng: random.Random, material) -> tuple[list[dict], dict]:
    """Extract a described record as JSON, with a schema, a key list or no hint at all."""
    record = rng.choice(RECORDS)(rng)
    keys = list(record)
    if rng.random() < 0.4:
        keys = sorted(rng.sample(keys, rng.randint(2, len(keys))), key=list(record).index)
    wanted = {key: record[key] for key in keys}
    indent = rng.choice((None, 2))
    answer = json.dumps(wanted, indent=indent)
    fact = _prose(record)
    asks = (
        f"Extract {', '.join(keys)} as JSON.\n\n{fact}",
        f"{fact}\n\nReturn a JSON object with the keys {', '.join(keys)}.",
        f"Answer with JSON that matches this schema: {json.dumps(schema_of(wanted))}\n\n{fact}",
        f"Turn this into JSON ({', '.join(keys)}): {fact}",
    )
    if rng.random() < 0.3:
        answer = f"```json\n{answer}\n```"
        return _chat(rng.choice(asks) + "\n\nUse a code block.", answer)
    return _chat(rng.choice(asks), answer)


def _csv(rows, keys):
    return "\n".join([",".join(keys)] + [",".join(str(row[key]) for key in keys) for row in rows])


def _markdown(rows, keys):
    lines = ["| " + " | ".join(keys) + " |", "|" + "|".join(" --- " for _ in keys) + "|"]
    lines += ["| " + " | ".join(str(row[key]) for key in keys) + " |" for row in rows]
    return "\n".join(lines)


def _yaml(rows, keys):
    return "\n".join("\n".join(f"{'- ' if at == 0 else '  '}{key}: {row[key]}"
                               for at, key in enumerate(keys)) for row in rows)


def _json(rows, keys):
    return json.dumps([{key: row[key] for key in keys} for row in rows], indent=1)


FORMS = {"CSV": _csv, "a Markdown table": _markdown, "YAML": _yaml, "JSON": _json}


COLUMNS = ("item", "code", "owner", "region", "size", "level", "first", "last", "group", "total",
           "left", "right", "month", "kind", "weight", "note")


def _rows(rng: random.Random, words: list[str], count: int) -> list[dict]:
    """Return records of columns with open values: words, identifiers, dates, numbers."""
    makers = (lambda: phrase(rng, words), lambda: identifier(rng, words),
              lambda: date(rng, words), lambda: rng.randint(0, 9999),
              lambda: round(rng.uniform(0, 99), 1), lambda: rng.choice(words))
    columns = {key: rng.choice(makers) for key in rng.sample(COLUMNS, rng.randint(3, 6))}
    return [{key: make() for key, make in columns.items()} for _ in range(count)]


def table(rng: random.Random, material) -> tuple[list[dict], dict]:
    """Convert a table between CSV, Markdown, YAML and JSON."""
    make = rng.choice((_person, _product, None, None))
    if make is None:
        rows = _rows(rng, material.words, rng.randint(2, 9))
    else:
        rows = [make(rng) for _ in range(rng.randint(2, 8))]
    most = min(len(rows[0]), 5)
    keys = sorted(rng.sample(list(rows[0]), rng.randint(2, most)), key=list(rows[0]).index)
    source, target = rng.sample(list(FORMS), 2)
    ask = rng.choice(("Convert this to {target}:", "Write this as {target}.",
                      "Make {target} of this:")).format(target=target)
    return _chat(f"{ask}\n\n{FORMS[source](rows, keys)}", FORMS[target](rows, keys))


def _add_steps(a: int, b: int) -> str:
    tens, ones = b // 10 * 10, b % 10
    return f"{a} + {tens} = {a + tens}\n{a + tens} + {ones} = {a + b}"


def _multiply_steps(a: int, b: int) -> str:
    tens, ones = b // 10 * 10, b % 10
    return (f"{a} * {tens} = {a * tens}\n{a} * {ones} = {a * ones}\n"
            f"{a * tens} + {a * ones} = {a * b}")


def arithmetic(rng: random.Random, material) -> tuple[list[dict], dict]:
    """Add, subtract or multiply small numbers, half of the time with the steps in <think>."""
    operation = rng.choice("+-*")
    a, b = rng.randint(2, 999), rng.randint(2, 999 if operation != "*" else 99)
    if operation == "-":
        a, b = max(a, b), min(a, b)
        tens = b // 10 * 10
        result, steps = a - b, f"{a} - {tens} = {a - tens}\nminus {b % 10} is {a - b}"
    elif operation == "+":
        result, steps = a + b, _add_steps(a, b)
    else:
        result, steps = a * b, _multiply_steps(a, b)
    question = rng.choice((f"What is {a} {operation} {b}?", f"Compute {a} {operation} {b}.",
                           f"{a} {operation} {b} = ?", f"Calculate {a}{operation}{b}, please."))
    if operation == "+" and rng.random() < 0.4:
        thing = rng.choice(THINGS) + "s"
        name = rng.choice(FIRST)
        question = (f"{name} has {a} {thing} and buys {b} more. How many {thing} "
                    f"does {name} have now?")
        answer = f"{name} has {result} {thing}."
    else:
        answer = rng.choice((f"{a} {operation} {b} = {result}", f"{result}",
                             f"The result is {result}."))
    return _chat(question, answer, steps if rng.random() < 0.5 else None)


def sorting(rng: random.Random, material) -> tuple[list[dict], dict]:
    """Sort, count, reverse or find the largest of a list, half of the time with a thought."""
    count = rng.randint(3, 9)
    numbers = [rng.randint(1, 200) for _ in range(count)]
    listed = ", ".join(map(str, numbers))
    kind = rng.randrange(4)
    if kind == 0:
        result = ", ".join(map(str, sorted(numbers)))
        ask, thought = f"Sort these numbers: {listed}", f"The smallest is {min(numbers)}."
    elif kind == 1:
        ask, result = f"Which is the largest of {listed}?", str(max(numbers))
        thought = f"I compare them one by one; none is above {max(numbers)}."
    elif kind == 2:
        words = [rng.choice(THINGS) for _ in range(count)]
        ask, result = f"Sort alphabetically: {', '.join(words)}", ", ".join(sorted(words))
        thought = f"First comes {min(words)}, last {max(words)}."
    else:
        ask, result = f"How many numbers are in this list: {listed}?", str(count)
        thought = "\n".join(f"{at}: {number}" for at, number in enumerate(numbers, 1))
    return _chat(ask, result, thought if rng.random() < 0.5 else None)
