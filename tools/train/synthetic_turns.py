"""Synthetic chats of several turns, lists and steps in Markdown, and longer sums with a thought."""

import random
import re

from tools.train.synthetic_copy import chat
from tools.train.synthetic_data import arithmetic, sorting
from tools.train.synthetic_talk import define_word, small_talk, verse
from tools.train.synthetic_values import CITIES, COLOURS, person

HOWTO = ("How do I {task}?", "How can I {task}?", "Tell me the steps to {task}.",
         "What are the steps to {task}?", "Give me a short guide: how to {task}.",
         "Explain step by step how to {task}.")
TASKS = (
    ("make a cup of tea", "Boil fresh water.|Put a tea bag into a cup.|Pour the hot water over it."
     "|Wait three to five minutes.|Take out the bag and add milk or sugar."),
    ("create a virtual environment", "Open a terminal in the project folder.|Run `python -m venv "
     ".venv`.|Activate it with `. .venv/bin/activate`.|Install what you need with `pip install`."),
    ("commit a change with git", "Look at the change with `git diff`.|Stage the files with `git "
     "add`.|Write the commit with `git commit`.|Check the result with `git log`."),
    ("boil an egg", "Put the egg into a pot.|Cover it with cold water.|Bring the water to the boil."
     "|Wait six minutes for a soft egg, ten for a hard one.|Cool it under cold water."),
    ("change a light bulb", "Switch off the light.|Let the old bulb cool down.|Turn it out of its "
     "socket.|Turn in the new bulb.|Switch on the light to test it."),
    ("plant a tree", "Choose a place with enough light.|Dig a hole twice as wide as the roots."
     "|Set the tree upright.|Fill the hole with earth.|Water it well."),
    ("learn a new language", "Choose one good course.|Practise every day for a short time.|Learn "
     "the most common words first.|Listen to the language often.|Speak with other people."),
    ("sort a list in Python", "Decide whether the list may change.|Use `list.sort()` to sort it in "
     "place.|Use `sorted(items)` to get a new list.|Pass `key=` to choose what is compared."),
    ("read a file in Python", "Open it with `with open(path) as file:`.|Read the text with "
     "`file.read()`.|Or go through it line by line with a `for` loop.|The `with` block closes it."),
    ("write a letter", "Begin with the date and the name of the reader.|Say why you write.|Give "
     "the details in short paragraphs.|Close with a greeting and your name."),
    ("clean a bicycle", "Rinse off the dirt with water.|Wash the frame with a soft cloth.|Clean "
     "the chain with a brush.|Dry everything.|Put a little oil on the chain."),
    ("debug a program", "Find a small input that shows the error.|Read the whole error message."
     "|Print or watch the values that matter.|Change one thing at a time.|Add a test for it."),
    ("pack for a journey", "Make a list of what you need.|Put heavy things at the bottom.|Roll the "
     "clothes to save room.|Keep papers and medicine at hand."),
    ("paint a wall", "Clear the room and cover the floor.|Clean the wall and fill the holes."
     "|Paint the edges with a brush.|Paint the rest with a roller.|Let it dry and paint again."),
    ("create a table in SQL", "Choose a name for the table.|List its columns and their types."
     "|Mark the primary key.|Run the `CREATE TABLE` statement.|Check it with a `SELECT`."),
    ("start a web server with Python", "Open a terminal.|Go to the folder with your files.|Run "
     "`python -m http.server 8000`.|Open `http://localhost:8000` in a browser."),
)
LEADS = ("Here are the steps:\n\n", "To {task}:\n\n", "", "You can {task} like this:\n\n")
TAILS = ("", "", "\n\nThat is all.", "\n\nTake your time.")
POINTS = ("Give me a list about \"{title}\".", "List the points of the section \"{title}\".",
          "What belongs to \"{title}\"? Answer with a list.", "{title}: which points are there?")
DULL_TITLES = ("Table of Contents", "Contents", "Description", "Examples", "See also")
RECALL = (("What was my first question?", "Your first question was: \"{first}\""),
          ("Repeat my first message.", "{first}"), ("What did I ask at the start?", "\"{first}\""),
          ("Repeat your last answer.", "{last}"), ("Say that again, please.", "{last}"))
FACTS = (("My name is {name}.", "Nice to meet you, {name}.", "What is my name?",
          "Your name is {name}."),
         ("I live in {city}.", "{city} is a fine place to live.", "Where do I live?",
          "You live in {city}."),
         ("My favourite colour is {colour}.", "I will remember: {colour}.",
          "Which colour do I like best?", "You like {colour} best."),
         ("Remember the number {number}.", "I will remember {number}.",
          "Which number did I give you?", "The number is {number}."))


def _listed(rng: random.Random, steps: list[str]) -> str:
    kind = rng.randrange(3)
    if kind == 0:
        return "\n".join(f"- {step}" for step in steps)
    if kind == 1:
        return "\n".join(f"{at}. {step}" for at, step in enumerate(steps, 1))
    return "\n".join(f"**Step {at}.** {step}" for at, step in enumerate(steps, 1))


def bullet_lists(text: str) -> list[tuple[str, list[str]]]:
    """Return (title, points) of the sections of a document that hold a list of 3 to 9 points."""
    found = []
    for section in re.split(r"(?m)^(?=#{1,4} )", text)[1:]:
        title, _, body = section.partition("\n")
        points = re.findall(r"(?m)^- ([A-Z].{10,160}[.!a-z)`])$", body)
        title = title.strip("# ")
        if 3 <= len(points) <= 9 and 8 < len(title) < 70 and title not in DULL_TITLES:
            found.append((title, points))
    return found


def howto(rng: random.Random, material) -> tuple[list[dict], dict]:
    """Ask for steps or for the points of a documentation section; the answer is a list."""
    if material.lists and rng.random() < 0.75:
        title, points = rng.choice(material.lists)
        return chat(rng.choice(POINTS).format(title=title), _listed(rng, points))
    task, steps = rng.choice(TASKS)
    listed = steps.split("|")
    question = rng.choice(HOWTO).format(task=task)
    count = rng.randint(2, len(listed))
    if count < len(listed):
        question += f" Give me {count} steps."
    return chat(question, rng.choice(LEADS).format(task=task) + _listed(rng, listed[:count])
                + rng.choice(TAILS))


def _fact(rng: random.Random) -> tuple[list[dict], list[dict]]:
    values = {"name": person(rng, []), "city": rng.choice(CITIES), "colour": rng.choice(COLOURS),
              "number": rng.randint(100, 9999)}
    told, reply, asked, answer = (text.format(**values) for text in rng.choice(FACTS))
    return chat(told, reply)[0], chat(asked, answer)[0]


def multi_turn(rng: random.Random, material) -> tuple[list[dict], dict]:
    """Three to five exchanges; some look back at what was said before."""
    makers = (define_word, arithmetic, sorting, small_talk, verse, howto)
    messages: list[dict] = []
    later = None
    if rng.random() < 0.5:
        messages, later = _fact(rng)
    for _ in range(rng.choice((2, 2, 3))):
        maker = rng.choice(makers)
        if maker is verse and not material.has_verses:
            maker = howto
        messages = messages + maker(rng, material)[0][:2]
    messages = [message for message in messages if message["role"] != "system"]
    if later is not None:
        return messages + later, {}
    ask, answer = rng.choice(RECALL)
    last = messages[-1]["content"]
    return messages + chat(ask, answer.format(first=messages[0]["content"], last=last))[0], {}


def counting(rng: random.Random, material) -> tuple[list[dict], dict]:
    """Count letters or words, or add several numbers, half of the time with the steps."""
    thinking = rng.random() < 0.6
    if rng.random() < 0.5:
        word = rng.choice(material.words).replace(" ", "")
        letter = rng.choice(word)
        spelled = "\n".join(f"{at}: {one}" for at, one in enumerate(word, 1))
        count = word.count(letter)
        times = "time" if count == 1 else "times"
        messages, _ = chat(f"How many times is the letter {letter} in the word {word}?",
                           f"The letter {letter} occurs {count} {times} in {word}.")
        thought = f"{spelled}\n{letter} occurs {count} {times}."
    else:
        numbers = [rng.randint(1, 99) for _ in range(rng.randint(3, 6))]
        total, steps = numbers[0], []
        for number in numbers[1:]:
            steps.append(f"{total} + {number} = {total + number}")
            total += number
        messages, _ = chat(f"Add {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}.",
                           f"The sum is {total}.")
        thought = "\n".join(steps)
    if thinking:
        messages[1]["reasoning_content"] = thought
    return messages, {}
