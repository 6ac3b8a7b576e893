"""Generate film reviews whose labels do not depend on their word counts.

    python examples/make_reviews.py [--pairs 5] [--seed 1]

A review has two or four opinions ("the plot was not very good"), half of them negated,
all positive or all negative. Each positive review has a negative twin with exactly the
same words, in which the other opinions are negated. Therefore, a bag-of-words
classifier is right half of the time.
"""

import argparse
import random
from typing import List, Optional, Tuple

from transformer.commands import cli

PRAISE = "good great funny clever moving brilliant charming fresh".split()
BLAME = "bad awful dull stupid boring terrible silly stale".split()
NEGATIONS = "not never hardly".split()
DEGREES = ["", "", "very", "really", "so"]
ASPECTS = (
    "plot acting music camera script ending dialogue cast story humour editing opening"
).split()
COPULAS = "was seemed felt".split()
JOINTS = [",", "and", ";"]
ASIDES = [
    "i saw it on sunday .",
    "my sister came along .",
    "it runs for two hours .",
    "it is set in a small town .",
    "we had seats in the front .",
    "it was made last year .",
    "the film is about a journey .",
]


def draw_opinion(
    draw: random.Random, aspect: str, is_good: bool, is_negated: bool
) -> List[str]:
    """Draw the words of an opinion; if `is_negated`, it denies the opposite."""
    words = ["the", aspect, draw.choice(COPULAS)]
    words += [draw.choice(NEGATIONS)] if is_negated else []
    words += [
        draw.choice(DEGREES),
        draw.choice(PRAISE if is_good != is_negated else BLAME),
    ]
    return [word for word in words if word]


def draw_twins(draw: random.Random) -> Tuple[List[str], List[str]]:
    """Draw (a positive review, a negative one with the same words), as words."""
    count = draw.choice([2, 2, 4])
    is_negated = [i % 2 == 0 for i in range(count)]
    draw.shuffle(is_negated)
    opinions = [
        draw_opinion(draw, aspect, True, is_denied)
        for aspect, is_denied in zip(draw.sample(ASPECTS, count), is_negated)
    ]
    before, after = (
        draw.choice(["", "", aside]).split() for aside in draw.sample(ASIDES, 2)
    )
    joints = [draw.choice(JOINTS) for _ in range(count - 1)] + ["."]
    reviews = []
    for spoken in (opinions, move_negations(opinions, is_negated)):
        middle = [
            word for words, joint in zip(spoken, joints) for word in words + [joint]
        ]
        reviews.append(before + middle + after)
    return tuple(reviews)


def move_negations(
    opinions: List[List[str]], is_negated: List[bool]
) -> List[List[str]]:
    """Move each negation to an opinion without one."""
    denials = [words[3] for words, is_denied in zip(opinions, is_negated) if is_denied]
    return [
        words[:3] + words[4:] if is_denied else words[:3] + [denials.pop()] + words[3:]
        for words, is_denied in zip(opinions, is_negated)
    ]


def generate_reviews(pairs: int, seed: int = 1) -> List[Tuple[List[str], int]]:
    """Generate [(words, label)] with twins side by side; 1 is positive, 0 negative.

    Args:
      pairs: the number of positive reviews, and of negative ones.
      seed: the seed; the same seed gives the same reviews on every machine.
    """
    draw = random.Random(seed)
    return [
        (words, label)
        for _ in range(pairs)
        for words, label in zip(draw_twins(draw), (1, 0))
    ]


def run(args: argparse.Namespace) -> None:
    """Print reviews, one per line: the label, a tab, the words."""
    for words, label in generate_reviews(args.pairs, args.seed):
        print(label, " ".join(words), sep="\t")


def main(argv: Optional[List[str]] = None) -> None:
    """Run the command line."""
    parser = cli.make_parser("make_reviews.py", __doc__)
    cli.add_number(
        parser, "pairs", 5, "number of positive reviews, each with a negative twin"
    )
    cli.add_number(parser, "seed", 1, "seed for choosing the reviews")
    cli.main(parser, run, argv)


if __name__ == "__main__":
    main()
