"""Teach a Transformer to read German dates: "3. Mai 2014" → "2014-05-03".

    python examples/dates.py

The model and its training are those of reverse_digits.py; only the text is new. The
model reads and writes it character by character. It must copy digits (the year), look
up words (the month), pad with zeros (the day), and ignore the rest. It trains for about
40 seconds on two cores. Expect `right: 100.0 %` (at least 99 %) for 200 days that were
in no batch, each in five spellings.
"""

import datetime
from typing import List, Tuple

import numpy as np
import reverse_digits

from transformer import HParams
from transformer.text.vocabulary import SPECIAL_IDS

STEPS = 1000
WEEKDAYS = "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag".split()
MONTHS = (
    "Januar Februar März April Mai Juni Juli August September Oktober November Dezember"
).split()

# The ids of the characters follow those of padding, unknown, begin and end.
CHARACTERS = sorted(set("".join(WEEKDAYS + MONTHS) + "am den 0123456789.,-"))
FIRST = len(SPECIAL_IDS)
IDS = {character: i for i, character in enumerate(CHARACTERS, FIRST)}

SETTINGS = HParams(
    source_vocab_size=FIRST + len(CHARACTERS),
    target_vocab_size=FIRST + len(CHARACTERS),
    num_blocks=1,
    d_model=64,
    d_ff=256,
    num_heads=4,
    dropout_rate=0.0,
    schedule="linear",
    learning_rate=0.004,
    warmup_steps=100,
    max_steps=STEPS,
)


def spell_day(day: datetime.date) -> List[str]:
    """Write a day in each of the ways."""
    name = f"{day.day}. {MONTHS[day.month - 1]} {day.year}"  # 3. Mai 2014
    return [
        name,
        f"am {name}",
        f"{WEEKDAYS[day.weekday()]}, den {name}",
        f"{day.day}.{day.month}.{day.year}",  # 3.5.2014
        f"{day.day:02}.{day.month:02}.{day.year}",  # 03.05.2014
    ]


def split_days() -> Tuple[List[datetime.date], List[datetime.date]]:
    """Split the days from 1900 to 2099: (days to train on, 200 days to test on)."""
    first = datetime.date(1900, 1, 1).toordinal()
    last = datetime.date(2099, 12, 31).toordinal()
    shuffled = np.random.RandomState(0).permutation(np.arange(first, last + 1)).tolist()
    days = [datetime.date.fromordinal(ordinal) for ordinal in shuffled]
    return days[200:], days[:200]


def encode(text: str) -> List[int]:
    """Convert a text to the ids of its characters."""
    return [IDS[character] for character in text]


def decode(ids: List[int]) -> str:
    """Convert ids to a text; ids that are not characters become "?"."""
    return "".join(CHARACTERS[i - FIRST] if i >= FIRST else "?" for i in ids)


def main(steps: int = STEPS) -> float:
    """Train, and return the share of the test dates that are right."""
    days, test_days = split_days()

    def draw_pairs(count, random):
        chosen = [days[i] for i in random.randint(0, len(days), count)]
        texts = [spell_day(day)[random.randint(0, 5)] for day in chosen]
        return (
            [encode(text) for text in texts],
            [encode(day.isoformat()) for day in chosen],
        )

    pairs = [(text, day.isoformat()) for day in test_days for text in spell_day(day)]
    sources = [encode(text) for text, _ in pairs]
    max_length = len("2014-05-03") + 1
    outputs = reverse_digits.learn(SETTINGS, draw_pairs, sources, max_length, steps)
    texts = [decode(ids) for ids in outputs]
    for (source, _), text in zip(pairs[:5], texts):
        print(f"{source} → {text}")
    accuracy = np.mean([text == target for text, (_, target) in zip(texts, pairs)])
    print(f"right: {100 * accuracy:.1f} %")
    return accuracy


if __name__ == "__main__":
    main()
