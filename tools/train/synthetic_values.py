"""Values the synthetic chats are filled with; open classes draw from a list of words."""

import random

FIRST = ("Ada", "Ben", "Carla", "David", "Emma", "Farid", "Grace", "Hugo", "Ines", "Jonas", "Kira",
         "Liam", "Mara", "Nils", "Olga", "Paul", "Rosa", "Sami", "Tara", "Umar", "Vera", "Will")
LAST = ("Adams", "Brown", "Clark", "Diaz", "Evans", "Fischer", "Green", "Hansen", "Ito", "Jensen",
        "Klein", "Lopez", "Moore", "Novak", "Olsen", "Peters", "Rossi", "Silva", "Turner", "Weber")
CITIES = ("Berlin", "Paris", "Oslo", "Madrid", "Rome", "London", "Tokyo", "Lima", "Cairo", "Delhi",
          "Boston", "Chicago", "Vienna", "Prague", "Lisbon", "Dublin", "Seoul", "Sydney",
          "Toronto")
THINGS = ("lamp", "chair", "table", "book", "cup", "clock", "bag", "pen", "phone", "camera",
          "radio", "mirror", "bottle", "jacket", "ladder", "hammer", "bicycle", "keyboard",
          "monitor", "rope")
COLOURS = ("red", "blue", "green", "black", "white", "yellow", "grey", "orange")
LANGUAGES = ("French", "German", "Spanish", "Italian", "Dutch", "Swedish")
LINES = ("see you at eight", "the parcel has arrived", "please call me back", "lunch is ready",
         "the report is done", "happy birthday", "do not forget the keys", "all tests passed")
Words = list[str]


def date(rng: random.Random, words: Words) -> str:
    """Return a date as YYYY-MM-DD."""
    return f"{rng.randint(2020, 2030)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"


def clock(rng: random.Random, words: Words) -> str:
    """Return a time as HH:MM."""
    return f"{rng.randint(6, 22):02d}:{rng.choice(('00', '15', '30', '45'))}"


def person(rng: random.Random, words: Words) -> str:
    """Return a first name."""
    return rng.choice(FIRST)


def thing(rng: random.Random, words: Words) -> str:
    """Return a thing, half of the time any word."""
    return rng.choice(THINGS if rng.random() < 0.5 else words)


def phrase(rng: random.Random, words: Words) -> str:
    """Return one to three words."""
    return " ".join(rng.choice(words) for _ in range(rng.randint(1, 3)))


def sentence(rng: random.Random, words: Words) -> str:
    """Return a short text."""
    if rng.random() < 0.4:
        return rng.choice(LINES)
    return rng.choice(("the {} is in the {}", "bring the {} and the {}", "no {} before the {}",
                       "my {} needs a {}", "{} and {} are ready")).format(
        rng.choice(words), rng.choice(words))


def file_path(rng: random.Random, words: Words) -> str:
    """Return a relative path of one or two folders."""
    folders = [rng.choice(("notes", "src", "docs", "data", "tmp", "home", "logs"))]
    folders += [rng.choice(words)] if rng.random() < 0.4 else []
    ending = rng.choice(("txt", "md", "py", "json", "csv", "log"))
    return "/".join((*folders, f"{thing(rng, words)}.{ending}")).replace(" ", "_")


def money(rng: random.Random, words: Words) -> float:
    """Return an amount with cents."""
    return round(rng.uniform(1, 900), 2)


def identifier(rng: random.Random, words: Words) -> str:
    """Return a random identifier in one of four styles."""
    kind = rng.randrange(4)
    if kind == 0:
        return f"{rng.choice('ABCDEFGHKLMNPRSTUVWX')}-{rng.randint(1000, 99999)}"
    if kind == 1:
        return f"{rng.getrandbits(32):08x}"
    if kind == 2:
        return f"{rng.choice(words).replace(' ', '-')}-{rng.randint(1, 99)}"
    return f"{rng.getrandbits(32):08x}-{rng.getrandbits(16):04x}-{rng.getrandbits(16):04x}"


def address(rng: random.Random, words: Words) -> str:
    """Return an e-mail address at an example domain."""
    return (f"{rng.choice(FIRST).lower()}.{rng.choice(LAST).lower()}@example."
            f"{rng.choice(('com', 'org', 'net'))}")


def words_list(rng: random.Random, choices: Words) -> list[str]:
    """Return two to four different entries of `choices`."""
    distinct = sorted(set(rng.sample(choices, min(len(choices), 6))))
    return rng.sample(distinct, min(len(distinct), rng.randint(2, 4)))
