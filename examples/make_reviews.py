"""Makes film reviews of our own, as many good as bad, that no bag of words tells apart.

A review has two or four opinions ("the plot was not very good"), half of them negated
and all of one mind. Each good review has a bad twin of exactly the same words, in which
the negations moved to the other opinions: who counts words is right half of the time.

    python examples/make_reviews.py [--pairs 5] [--seed 1]
"""

import argparse
import random
import sys

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


def opinion(draw, aspect, good, negated):
    """An opinion of one aspect: `negated` says a good one by denying a bad one."""
    words = ["the", aspect, draw.choice(COPULAS)]
    words += [draw.choice(NEGATIONS)] if negated else []
    words += [draw.choice(DEGREES), draw.choice(PRAISE if good != negated else BLAME)]
    return [word for word in words if word]


def twins(draw):
    """(a good review, a bad one of the same words), each a list of words."""
    count = draw.choice([2, 2, 4])
    negated = [i % 2 == 0 for i in range(count)]
    draw.shuffle(negated)
    opinions = [
        opinion(draw, aspect, True, denied)
        for aspect, denied in zip(draw.sample(ASPECTS, count), negated)
    ]
    before, after = (
        draw.choice(["", "", aside]).split() for aside in draw.sample(ASIDES, 2)
    )
    joints = [draw.choice(JOINTS) for _ in range(count - 1)] + ["."]
    reviews = []
    for spoken in (opinions, moved(opinions, negated)):
        middle = [
            word for words, joint in zip(spoken, joints) for word in words + [joint]
        ]
        reviews.append(before + middle + after)
    return tuple(reviews)


def moved(opinions, negated):
    """The opinions with each negation moved to one that had none."""
    denials = [words[3] for words, denied in zip(opinions, negated) if denied]
    return [
        words[:3] + words[4:] if denied else words[:3] + [denials.pop()] + words[3:]
        for words, denied in zip(opinions, negated)
    ]


def reviews(pairs, seed=1):
    """[(words, 1 for a good review or 0 for a bad one)], twins side by side.

    Args:
      pairs: int, how many good ones, and how many bad ones.
      seed: int; the same reviews for the same one, on every machine.
    """
    draw = random.Random(seed)
    return [
        (words, label)
        for _ in range(pairs)
        for words, label in zip(twins(draw), (1, 0))
    ]


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], allow_abbrev=False
    )
    parser.add_argument(
        "--pairs",
        type=int,
        default=5,
        metavar="INT",
        help="good reviews, each with a bad one [5]",
    )
    parser.add_argument("--seed", type=int, default=1, metavar="INT")
    args = parser.parse_args(sys.argv[1:] if argv is None else argv)
    for words, label in reviews(args.pairs, args.seed):
        print(label, " ".join(words), sep="\t")


if __name__ == "__main__":
    main()
