"""What the invented tools can do: parameters, questions that name them, and their results."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from tools.train.synthetic_values import (
    CITIES,
    COLOURS,
    LANGUAGES,
    address,
    clock,
    date,
    file_path,
    identifier,
    money,
    person,
    phrase,
    sentence,
    thing,
    words_list,
)

Words = list[str]


@dataclass(frozen=True)
class Slot:
    """One parameter of an invented tool."""

    names: tuple[str, ...]  # names it may carry
    kind: str  # string | integer | number | boolean | array | enum
    about: str  # description
    make: Callable[[random.Random, Words], object]  # draws a value
    says: tuple[str, ...] = ()  # optional parameters: a clause for the question, {v} the value
    values: tuple[str, ...] = ()  # the values of an enum

    def schema(self) -> dict:
        """Return the JSON schema of the parameter."""
        kinds = {"array": {"type": "array", "items": {"type": "string"}},
                 "enum": {"type": "string", "enum": list(self.values)}}
        return {**kinds.get(self.kind, {"type": self.kind}), "description": self.about}


@dataclass(frozen=True)
class Skill:
    """One thing an invented tool can do."""

    verbs: str  # first halves of its names, separated by spaces
    nouns: str  # second halves
    about: str  # description
    required: tuple[Slot, ...]  # asks and says name them by position
    optional: tuple[Slot, ...]  # each is asked for, and passed, half of the time
    asks: tuple[str, ...]  # {0}, {1}: values of the required slots
    result: str  # key of the response, one of synthetic_tools.RESULTS
    says: tuple[str, ...]  # answers; {r}: the result


def _slot(names: str, kind: str, about: str, make, says=()) -> Slot:
    return Slot(tuple(names.split()), kind, about, make, tuple(says))


def _enum(names: str, about: str, values: str, says=()) -> Slot:
    listed = tuple(values.split())
    return Slot(tuple(names.split()), "enum", about,
                lambda rng, words: rng.choice(listed), tuple(says), listed)


def _whole(low: int, high: int):
    return lambda rng, words: rng.randint(low, high)


def _flag(rng: random.Random, words: Words) -> bool:
    return rng.random() < 0.5


CITY = _slot("city location place town", "string", "Name of the city",
             lambda rng, words: rng.choice(CITIES))
GOAL = _slot("destination target_city arrival to_city", "string", "City to arrive in",
             lambda rng, words: rng.choice(CITIES))
DATE = _slot("date day on_date when", "string", "Date as YYYY-MM-DD", date)
TIME = _slot("time at_time start clock", "string", "Time as HH:MM", clock)
PERSON = _slot("person name user contact", "string", "First name of the person", person)
PEOPLE = _slot("people names guests members", "array", "First names",
               lambda rng, words: words_list(rng, [person(rng, words) for _ in range(9)]))
ITEM = _slot("item product article thing", "string", "What it is about", thing)
ITEMS = _slot("items products entries list", "array", "List of things",
              lambda rng, words: words_list(rng, [thing(rng, words) for _ in range(9)]))
COUNT = _slot("count quantity amount number", "integer", "How many", _whole(1, 60))
PATH = _slot("path file file_path filename", "string", "Path of the file", file_path)
GOAL_PATH = _slot("target destination new_path to", "string", "New path", file_path)
TEXT = _slot("text message content body", "string", "The text", sentence)
TERM = _slot("query term keywords search_text", "string", "Words to search for", phrase)
WORD = _slot("word term entry lemma", "string", "A word", lambda rng, words: rng.choice(words))
COLOUR = _slot("colour color shade tint", "string", "Name of a colour",
               lambda rng, words: rng.choice(COLOURS))
MONEY = _slot("value amount sum price", "number", "Amount of money", money)
CODE = _slot("id code reference key", "string", "Identifier", identifier)
MAIL = _slot("email address mail_address recipient", "string", "E-mail address", address)
MINUTES = _slot("minutes duration length", "integer", "Duration in minutes", _whole(1, 180))
DEGREES = _slot("degrees temperature level", "number", "Temperature in degrees",
                lambda rng, words: rng.randint(10, 60) / 2)
LEFT = _slot("a x left first", "number", "First number", _whole(1, 999))
RIGHT = _slot("b y right second", "number", "Second number", _whole(1, 99))
YEAR = _slot("year in_year", "integer", "Year", _whole(1900, 2030))
PERCENT = _slot("percent volume level", "integer", "From 0 to 100", _whole(0, 100))
LIMIT = _slot("limit max_results top", "integer", "At most this many results", _whole(1, 20),
              ("Show at most {v}.", "Give me {v} results at most."))
UNIT = _enum("unit units scale", "Unit of the temperature", "celsius fahrenheit kelvin",
             ("Use {v}.", "In {v}, please."))
URGENT = _slot("urgent important high_priority", "boolean", "Whether it is urgent", _flag,
               ("It is urgent.", "It is not urgent."))
FORCE = _slot("force overwrite replace", "boolean", "Replace what is there", _flag,
              ("Replace what is there.", "Do not replace anything."))
REPEAT = _enum("repeat recurrence interval", "How often", "daily weekly monthly yearly",
               ("Repeat it {v}.", "Make it {v}."))
ORDER = _enum("order sort sort_by", "Order of the results", "newest oldest cheapest best",
              ("Sort by {v}.", "Show the {v} first."))
TAGS = _slot("tags labels topics", "array", "Labels",
             lambda rng, words: words_list(rng, words), ("Tag it with {v}.", "Labels: {v}."))
SIZE = _enum("size fit", "Size", "small medium large", ("Size {v}.", "In {v}, please."))
CURRENCY = _enum("currency to_currency target", "Currency code", "EUR USD GBP JPY CHF SEK")
LANGUAGE = _enum("language target_language to", "Language", " ".join(LANGUAGES))
ROOM = _enum("room where area", "Room", "kitchen bedroom bathroom hall office garage")
STATE = _enum("state mode position", "State", "on off auto")
FORMAT = _enum("format file_type output", "Format", "pdf csv json html txt")
TABLE = _enum("table source dataset", "Table", "customers orders invoices products visits")
NIGHTS = _slot("nights stay", "integer", "Number of nights", _whole(1, 14),
               ("For {v} nights.", "Stay: {v} nights."))
NOTE = _slot("note comment remark", "string", "A note", sentence, ("Add the note \"{v}\".",))
LINES = _slot("lines max_lines", "integer", "Lines to read", _whole(1, 99),
              ("Only the first {v} lines.",))
DATE_O = _slot("date day on_date", "string", "Date as YYYY-MM-DD", date, ("For {v}.",))
YEAR_O = _slot("year in_year", "integer", "Year", _whole(1950, 2025), ("In {v}.",))
ROOM_O = Slot(ROOM.names, "enum", "Room", ROOM.make, ("In the {v}.",), ROOM.values)
SHUFFLE = _slot("shuffle random_order", "boolean", "Play in random order", _flag,
                ("Shuffle it.", "Keep the order."))

DONE = ("Done: {r}.", "It is {r}.", "The status is {r}.")
SKILLS = (
    Skill("get fetch lookup check", "weather forecast temperature climate",
          "Weather of a city.", (CITY,), (UNIT, DATE_O),
          ("What is the weather in {0}?", "How warm is it in {0}?", "Weather in {0}, please.",
           "Do I need a coat in {0} today?"), "weather", ("In {0} it is {r}.", "{0}: {r}.")),
    Skill("create add schedule plan", "event appointment meeting", "Add to the calendar.",
          (PERSON, DATE), (REPEAT, URGENT), ("Schedule a meeting with {0} on {1}.",
          "Put {0} in my calendar for {1}.", "I want to meet {0} on {1}."), "status", DONE),
    Skill("cancel remove drop", "event appointment booking", "Take out of the calendar.",
          (CODE,), (NOTE,), ("Cancel {0}.", "Remove the appointment {0}."), "status", DONE),
    Skill("invite gather", "guests team group", "Invite people to a day.", (PEOPLE, DATE), (NOTE,),
          ("Invite {0} for {1}.", "Ask {0} to come on {1}."), "status", DONE),
    Skill("read open load show", "file document textfile", "Read a file.", (PATH,), (LINES,),
          ("What is in {0}?", "Read {0}.", "Show me the file {0}."), "content",
          ("The file {0} says: {r}", "{r}")),
    Skill("write save store", "file note textfile", "Write text to a file.", (PATH, TEXT), (FORCE,),
          ("Write \"{1}\" to {0}.", "Save \"{1}\" in {0}."), "status", DONE),
    Skill("move rename relocate", "file folder path", "Move a file.", (PATH, GOAL_PATH), (FORCE,),
          ("Move {0} to {1}.", "Rename {0} to {1}."), "status", DONE),
    Skill("copy duplicate clone", "file folder document", "Copy a file.", (PATH, GOAL_PATH),
          (FORCE,), ("Copy {0} to {1}.", "Make a copy of {0} at {1}."), "status", DONE),
    Skill("delete erase remove", "file document folder", "Delete a file.", (PATH,), (FORCE,),
          ("Delete {0}.", "Remove the file {0}."), "status", DONE),
    Skill("export render print", "report summary sheet", "Write a report.", (TABLE, FORMAT),
          (NOTE,), ("Export {0} as {1}.", "Make a {1} report of {0}."), "status", DONE),
    Skill("send post deliver", "message note notice", "Send a message to a person.",
          (PERSON, TEXT), (URGENT,), ("Tell {0}: \"{1}\"", "Send {0} the message \"{1}\".",
          "Write to {0}: \"{1}\""), "status", ("The message to {0} was {r}.", *DONE)),
    Skill("send compose mail", "email letter mail", "Send an e-mail.", (MAIL, TEXT), (URGENT,),
          ("Mail \"{1}\" to {0}.", "Send an e-mail to {0}: \"{1}\""), "status", DONE),
    Skill("find search locate", "product item article", "Search the shop.", (ITEM, COLOUR),
          (ORDER, LIMIT, SIZE), ("Find a {1} {0}.", "Do you have a {0} in {1}?",
          "I am looking for a {1} {0}."), "price", ("A {1} {0} costs {r}.", "It costs {r}.")),
    Skill("order buy purchase", "item goods product", "Order from the shop.", (ITEM, COUNT),
          (SIZE, NOTE), ("Order {1} of the item {0}.", "Buy {1} times {0}.", "I need {1} x {0}."),
          "status", ("Your order of {1} x {0} is {r}.", *DONE)),
    Skill("track follow check", "order parcel delivery", "Where an order is.", (CODE,), (),
          ("Where is my order {0}?", "Track {0}."), "status", ("Order {0} is {r}.",)),
    Skill("fill update extend", "cart basket shopping_list", "Put things on the list.", (ITEMS,),
          (), ("Put {0} on the list.", "I need {0}."), "count", ("The list has {r} entries now.",)),
    Skill("search query find", "web notes library archive", "Search for text.", (TERM,),
          (LIMIT, ORDER), ("Search for {0}.", "Find something about {0}.", "Look up {0}."),
          "count", ("I found {r} entries about {0}.", "There are {r} hits.")),
    Skill("define explain lookup", "word term vocabulary", "Definition of a word.", (WORD,), (),
          ("What does {0} mean?", "Define {0}.", "Look up the word {0}."), "content",
          ("{0}: {r}",)),
    Skill("translate render", "text phrase sentence", "Translate a text.", (TEXT, LANGUAGE), (),
          ("Translate \"{0}\" to {1}.", "How do you say \"{0}\" in {1}?"), "content", ("{r}",)),
    Skill("convert exchange change", "currency money funds", "Convert from dollars.",
          (MONEY, CURRENCY), (), ("How much is {0} dollars in {1}?", "Convert {0} dollars to {1}."),
          "price", ("{0} dollars are {r} {1}.",)),
    Skill("transfer pay send", "money funds payment", "Pay a person.", (PERSON, MONEY),
          (NOTE, URGENT), ("Pay {1} to {0}.", "Send {1} dollars to {0}."), "status", DONE),
    Skill("get list show", "population inhabitants residents", "Population of a city.", (CITY,),
          (YEAR_O,),
          ("How many people live in {0}?", "What is the population of {0}?"), "count",
          ("{0} has {r} inhabitants.",)),
    Skill("book reserve", "hotel room table", "Make a reservation.", (CITY, DATE, COUNT),
          (NIGHTS, NOTE), ("Book in {0} on {1} for {2} people.", "Reserve for {2} in {0}, {1}."),
          "status", ("Your reservation in {0} on {1} for {2} is {r}.", *DONE)),
    Skill("book find search", "flight train bus", "Find a connection.", (CITY, GOAL, DATE),
          (ORDER,), ("From {0} to {1} on {2}.", "I travel from {0} to {1} on {2}."), "price",
          ("The connection from {0} to {1} costs {r}.",)),
    Skill("measure get compute", "distance route travel_time", "Distance of two cities.",
          (CITY, GOAL), (), ("How far is it from {0} to {1}?", "Distance between {0} and {1}?"),
          "count", ("It is {r} kilometres from {0} to {1}.",)),
    Skill("set change tune", "light lamp led", "Colour of the light.", (COLOUR,), (ROOM_O,),
          ("Make the light {0}.", "Set the lamp to {0}.", "I want {0} light."), "status", DONE),
    Skill("set adjust control", "heating thermostat climate", "Temperature of a room.",
          (ROOM, DEGREES), (), ("Set the {0} to {1} degrees.", "Make it {1} degrees in the {0}."),
          "status", ("The {0} is set to {1} degrees; status {r}.",)),
    Skill("switch turn toggle", "device plug fan", "Switch something.", (ITEM, STATE), (ROOM_O,),
          ("Switch the {0} {1}.", "Turn the {0} {1}, please."), "status", DONE),
    Skill("set start create", "timer alarm countdown", "Start a timer.", (MINUTES,), (NOTE,),
          ("Set a timer for {0} minutes.", "Wake me in {0} minutes."), "status", DONE),
    Skill("remind notify", "user person team", "Remind a person.", (PERSON, TIME), (NOTE, REPEAT),
          ("Remind {0} at {1}.", "At {1} remind {0}."), "status", DONE),
    Skill("play start queue", "song music album", "Play music.", (TERM,), (SHUFFLE,),
          ("Play {0}.", "Put on {0}.", "I want to hear {0}."), "status", DONE),
    Skill("set change adjust", "volume loudness brightness", "A level from 0 to 100.", (PERCENT,),
          (ROOM_O,), ("Set it to {0} percent.", "Change the level to {0}."), "status", DONE),
    Skill("add sum plus", "numbers values", "Add two numbers.", (LEFT, RIGHT), (),
          ("What is {0} plus {1}?", "Add {0} and {1}."), "count", ("The sum is {r}.",)),
    Skill("multiply calculate compute", "numbers product values", "Multiply two numbers.",
          (LEFT, RIGHT), (), ("What is {0} times {1}?", "Multiply {0} by {1}."), "count",
          ("The product is {r}.",)),
    Skill("run execute", "query sql statement", "Count rows of a table.", (TABLE, YEAR), (LIMIT,),
          ("How many {0} were there in {1}?", "Count the {0} of {1}."), "count",
          ("There were {r} {0} in {1}.",)),
    Skill("get show load", "user customer account", "Data of an account.", (CODE,), (),
          ("Show the account {0}.", "Who is {0}?"), "content", ("Account {0}: {r}",)),
    Skill("create register add", "user customer member", "Register somebody.", (PERSON, MAIL),
          (TAGS,), ("Register {0} with {1}.", "New member: {0}, {1}."), "code",
          ("{0} is registered as {r}.",)),
    Skill("open create file", "ticket issue request", "Open a ticket.", (TEXT,), (TAGS, URGENT),
          ("Open a ticket: \"{0}\"", "Report this: \"{0}\""), "code", ("The ticket is {r}.",)),
    Skill("close resolve reopen", "ticket issue case", "Change a ticket.", (CODE,), (NOTE,),
          ("Please handle ticket {0}.", "Ticket {0} is done."), "status", ("Ticket {0}: {r}.",)),
    Skill("tag label mark", "photo picture entry", "Label something.", (CODE, ITEMS), (FORCE,),
          ("Label {0} with {1}.", "Put the labels {1} on {0}."), "status", DONE),
    Skill("get check read", "stock inventory supply", "How many are in stock.", (ITEM,), (SIZE,),
          ("How many of the item {0} are left?", "Is the {0} in stock?"), "count",
          ("There are {r} of {0} left.",)),
)
