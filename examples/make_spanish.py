"""Write a small Spanish–English corpus, of sentences made by a grammar.

    python examples/make_spanish.py FOLDER

FOLDER gets corpus.es, corpus.en, dev.es, dev.en, test.es and test.en: line n of one
language is the translation of line n of the other. No sentence is in two of them. What
a translator has to learn: adjectives follow the noun and agree with it, the
pronoun is in the ending of the verb, English needs "do" to deny and to ask.
"""

import os
import random
import sys
from typing import List, Tuple

SIZES = {"corpus": 4000, "dev": 100, "test": 200}

# Spanish masculine, Spanish feminine, English.
DETERMINERS = [
    ("el", "la", "the"),
    ("un", "una", "a"),
    ("este", "esta", "this"),
    ("nuestro", "nuestra", "our"),
]
ADJECTIVES = [
    ("rojo", "roja", "red"),
    ("blanco", "blanca", "white"),
    ("negro", "negra", "black"),
    ("nuevo", "nueva", "new"),
    ("pequeño", "pequeña", "small"),
    ("bonito", "bonita", "pretty"),
    ("grande", "grande", "big"),
    ("verde", "verde", "green"),
]
# Spanish, its gender (0: masculine, 1: feminine), English.
NOUNS = [
    ("coche", 0, "car"),
    ("libro", 0, "book"),
    ("barco", 0, "ship"),
    ("perro", 0, "dog"),
    ("caballo", 0, "horse"),
    ("casa", 1, "house"),
    ("mesa", 1, "table"),
    ("silla", 1, "chair"),
    ("camisa", 1, "shirt"),
    ("puerta", 1, "door"),
    ("bicicleta", 1, "bicycle"),
]
VERBS = [
    ("compr", "buy"),
    ("busc", "look for"),
    ("mir", "watch"),
    ("dibuj", "draw"),
    ("lav", "wash"),
    ("necesit", "need"),
]
PERSONS = [("o", "I"), ("as", "you"), ("amos", "we"), ("an", "they")]
TIMES = [("", ""), (" hoy", " today"), (" ahora", " now"), (" mañana", " tomorrow")]


def draw_thing(draw: random.Random) -> Tuple[str, str]:
    """Return a noun with what belongs to it: ("la casa roja", "the red house")."""
    noun, gender, english_noun = draw.choice(NOUNS)
    determiner = draw.choice(DETERMINERS)
    spanish = [determiner[gender], noun]
    english = [determiner[2], english_noun]
    if draw.random() < 0.7:
        adjective = draw.choice(ADJECTIVES)
        spanish.append(adjective[gender])
        english.insert(1, adjective[2])
    return " ".join(spanish), " ".join(english)


def draw_pair(draw: random.Random) -> Tuple[str, str]:
    """Return a sentence and its translation."""
    stem, verb = draw.choice(VERBS)
    ending, person = draw.choice(PERSONS)
    time, english_time = draw.choice(TIMES)
    thing, english_thing = draw_thing(draw)
    spanish = f"{stem}{ending} {thing}{time}"
    english = f"{verb} {english_thing}{english_time}"
    kind = draw.choice(["statement", "denial", "question"])
    if kind == "statement":
        pair = f"{spanish}.", f"{person} {english}."
    elif kind == "denial":
        pair = f"no {spanish}.", f"{person} do not {english}."
    else:
        pair = f"¿{spanish}?", f"do {person} {english}?"
    return tuple(capitalized(text) for text in pair)


def capitalized(text: str) -> str:
    """Return a text whose first letter, after "¿" perhaps, is a capital."""
    first = 1 if text[0] == "¿" else 0
    return text[:first] + text[first].upper() + text[first + 1 :]


def draw_pairs(count: int, seed: int = 1) -> List[Tuple[str, str]]:
    """Return pairs of which no two are equal."""
    draw = random.Random(seed)
    pairs = {}  # a dict has no key twice, and keeps their order
    while len(pairs) < count:
        pairs[draw_pair(draw)] = None
    return list(pairs)


def main(folder: str) -> None:
    """Write the files."""
    os.makedirs(folder, exist_ok=True)
    pairs = draw_pairs(sum(SIZES.values()))
    for name, size in SIZES.items():
        for side, language in enumerate(("es", "en")):
            path = os.path.join(folder, f"{name}.{language}")
            with open(path, "w", encoding="utf-8", newline="\n") as file:
                file.writelines(pair[side] + "\n" for pair in pairs[:size])
        del pairs[:size]


if __name__ == "__main__":
    main(*sys.argv[1:])
