"""Write the sample corpus: German–English sentence pairs made for this project.

    python tools/sample/make_sample.py [--out data/sample] [--seed 1]

The `Author` of author.py and the patterns of patterns.py invent meanings; grammar.py
spells them in German and English, and knows which words correspond: {dev,test}.align
has the numbers of such words, 0-0 where they surely do, 1?2 where they possibly do.
"""

import argparse
import os
import re
from typing import Dict, List, Optional, Tuple

import patterns
from author import Author
from english import english
from grammar import Sentence, german, numbered
from marks import links, written

from transformer.runtime import cli
from transformer.runtime.files import replaced

SIZES = (("train", 20000), ("dev", 500), ("test", 500))
ALIGNED = ("dev", "test")


def is_natural(text: str) -> bool:
    """Return False for odd lengths, and a repeated noun: Anna hat Anna gesehen."""
    stems = [word[:4] for word in re.findall(r"\b[A-ZÄÖÜ]\w+", text)]
    return 3 <= len(text.split()) <= 18 and len(stems) == len(set(stems))


def corpus(seed: int) -> Dict[str, List[Tuple[str, str]]]:
    """Return {split: [(German, English)]} of `sentences`."""
    return {
        split: [(german(each), english(each)) for each in made]
        for split, made in sentences(seed).items()
    }


def sentences(seed: int) -> Dict[str, List[Sentence]]:
    """Return {split: meanings} without repeated German sentences.

    The words of dev and test all occur in train.
    """
    author, seen, known, splits = Author(seed), set(), set(), {}
    for split, size in SIZES:
        made = splits[split] = []
        while len(made) < size:
            sentence = patterns.sentence(author)
            text = german(sentence)
            words = re.findall(r"\w+", text.lower())
            if (
                text not in seen
                and is_natural(text)
                and (split == "train" or known.issuperset(words))
            ):
                seen.add(text)
                known.update(words)
                made.append(sentence)
    return splits


def alignment(sentence: Sentence) -> str:
    """Return which words of a sentence correspond, in a line."""
    sentence = numbered(sentence)
    return written(links(german(sentence), english(sentence)))


def run(args: argparse.Namespace) -> None:
    """Write {train,dev,test}.{de,en} and {dev,test}.align."""
    files = {"de": german, "en": english, "align": alignment}
    texts = {
        os.path.join(args.out, f"{split}.{ending}"): "".join(
            spell(sentence) + "\n" for sentence in made
        )
        for split, made in sentences(args.seed).items()
        for ending, spell in files.items()
        if ending != "align" or split in ALIGNED
    }
    for path, text in texts.items():
        refuse_other_text(path, text.encode("utf-8"))
    os.makedirs(args.out, exist_ok=True)
    for path, text in texts.items():
        with replaced(path) as file:
            file.write(text)


def refuse_other_text(path: str, text: bytes) -> None:
    """Raise ValueError where a file is there and holds something else."""
    if os.path.exists(path):
        with open(path, "rb") as file:
            if file.read() != text:
                raise ValueError(
                    f"{path}: found other text, wanted none, or this: remove it, or "
                    f"choose another --out"
                )


def main(argv: Optional[List[str]] = None) -> None:
    """Run the command line."""
    parser = cli.make_parser("make_sample.py", __doc__)
    parser.add_argument(
        "--out",
        default=os.path.join("data", "sample"),
        metavar="DIR",
        help="the folder to write [data/sample]",
    )
    parser.add_argument(
        "--seed", type=int, default=1, metavar="INT", help="chooses the sentences [1]"
    )
    cli.main(parser, run, argv)


if __name__ == "__main__":
    main()
