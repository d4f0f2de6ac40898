"""Synthetic chats about words and texts, and small talk."""

import random
import re

from tools.train.synthetic_copy import chat, paragraphs

DEFINE = (
    "What does \"{word}\" mean?", "Define {word}.", "What is the meaning of {word}?",
    "Explain the word {word}.", "Give me a definition of \"{word}\".", "define: {word}",
    "I came across the word {word}. What is it?", "What is {article} {word}?",
    "Please explain \"{word}\" in one sentence.", "Meaning of {word}, please.",
    "Use {word} in a sentence and say what it means.", "How would you define {word}?",
)
DEFINE_ANSWER = (
    "As {article_part}, {word} means: {gloss}.", "\"{word}\" is {article_part}: {gloss}.",
    "{Word} ({part}): {gloss}.", "The {part} {word} means {gloss}.",
)
CONTINUE = ("Continue this text:\n\n{text}", "{text}\n\nWhat comes next?", "Go on:\n\n{text}",
            "Continue in the same style.\n\n{text}", "Write the next lines.\n\n{text}")
VERSE = ("Quote {where}.", "What does {where} say?", "Give me the verse {where}.",
         "Recite {where} from the King James Bible.", "{where}?")
TALK = (
    (("Hi!", "Hello.", "hello", "Hey there", "Good morning!", "hi", "Good evening.",
      "Hello there!"),
     ("Hello! How can I help you?", "Hi! What can I do for you today?",
      "Hello. What would you like to talk about?")),
    (("How are you?", "How are you doing?", "How is it going?", "how are you today?"),
     ("I am a small language model, so I have no moods, but everything works. How are you?",
      "All my weights are in place, thank you. How can I help?")),
    (("Who are you?", "What are you?", "Are you a person?", "What is your name?",
      "Tell me about yourself."),
     ("I am a small demo language model. I can chat a little, write short Python functions, "
      "define words and repeat text.",
      "I am the demo model of this project: a very small language model with a hybrid of "
      "linear and full attention.")),
    (("Thanks!", "Thank you.", "thanks a lot", "Great, thank you!"),
     ("You are welcome!", "Glad to help.", "You're welcome. Anything else?")),
    (("Bye", "Goodbye.", "See you later!", "Good night."),
     ("Goodbye!", "See you. Have a good day!", "Bye, take care.")),
    (("What can you do?", "What are you good at?", "How can you help me?"),
     ("I can define words, write and edit short Python functions, call tools, produce JSON, do "
      "simple arithmetic and repeat text. I am very small, so please check what I say.",)),
    (("What is the weather today?", "What time is it?", "What is today's date?",
      "Who won the game last night?", "What is the stock price right now?"),
     ("I do not know: I have no access to live information here.",
      "I cannot look that up without a tool, so I do not know.")),
    (("Tell me a joke.", "Say something funny.", "Do you know a joke?"),
     ("Why do programmers prefer dark mode? Because light attracts bugs.",
      "There are 10 kinds of people: those who understand binary and those who do not.",
      "A byte walks into a bar looking tired. \"Off by one today,\" it says.")),
    (("What do you think about politics?", "Whom should I vote for?"),
     ("I would rather not take sides, but I can help you to find the facts.",)),
)


def _article(word: str) -> str:
    return ("an " if word[0] in "aeiou" else "a ") + word


def define_word(rng: random.Random, material) -> tuple[list[dict], dict]:
    """Ask for a word's meaning; the answer is a WordNet gloss, often with its example."""
    sense = rng.choice(material.senses)
    word = rng.choice(sense.words)
    question = rng.choice(DEFINE).format(word=word, article="an" if word[0] in "aeiou" else "a")
    answer = rng.choice(DEFINE_ANSWER).format(
        word=word, Word=word[0].upper() + word[1:], part=sense.part, gloss=sense.gloss,
        article_part=_article(sense.part))
    if sense.examples and (rng.random() < 0.7 or "sentence" in question):
        answer += f" For example: \"{rng.choice(sense.examples)}\"."
    others = [other for other in sense.words if other != word]
    if others and rng.random() < 0.4:
        answer += f" Similar words: {', '.join(others[:4])}."
    messages, variables = chat(question, answer)
    if rng.random() < 0.3:
        more, _ = define_word(rng, material)
        messages += more
    return messages, variables


def continue_text(rng: random.Random, material) -> tuple[list[dict], dict]:
    """Show the start of a passage; the answer is what follows in the work."""
    parts = paragraphs(rng, material, 500, 2200)
    text = "\n\n".join(parts)
    cut = text.find(" ", len(text) // 3)
    return chat(rng.choice(CONTINUE).format(text=text[:cut]), text[cut + 1:])


def verse(rng: random.Random, material) -> tuple[list[dict], dict]:
    """Ask for a Bible verse by book, chapter and number."""
    while True:
        name, text = rng.choice(material.passages)
        verses = re.findall(r"(?m)^(\d+) (.+)$", text)
        if re.fullmatch(r"[\w ]+\.\d+", name) and len(verses) > 2 and text.startswith(
                name.replace(".", " ") + "\n"):
            number, line = rng.choice(verses)
            book, chapter = name.rsplit(".", 1)
            where = f"{book} {chapter}:{number}"
            return chat(rng.choice(VERSE).format(where=where), f"{line}\n\n({where})")


def small_talk(rng: random.Random, material) -> tuple[list[dict], dict]:
    """Greetings, refusals, jokes and question-answer pairs, one to four exchanges."""
    messages = []
    for _ in range(rng.choice((1, 1, 2, 3, 4))):
        if material.pairs and rng.random() < 0.4:
            question, answer = rng.choice(material.pairs)
        else:
            questions, answers = rng.choice(TALK)
            question, answer = rng.choice(questions), rng.choice(answers)
        messages += chat(question, answer)[0]
    if rng.random() < 0.2:
        messages.insert(0, {"role": "system", "content": rng.choice((
            "You are a helpful assistant.", "You are a friendly assistant.", "Answer briefly."))})
    return messages, {}
