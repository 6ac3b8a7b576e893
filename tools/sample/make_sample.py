"""Write the sample corpus: German–English sentence pairs made for this project.

    python tools/sample/make_sample.py [--out data/sample] [--seed 1]

The `Author` of author.py and the patterns of patterns.py invent meanings; grammar.py
spells them in German and English.
"""

import argparse
import os
import re
from typing import Dict, List, Optional, Tuple

import patterns
from author import Author
from grammar import english, german

from transformer.runtime import cli
from transformer.runtime.files import replaced

SIZES = (("train", 20000), ("dev", 500), ("test", 500))


def is_natural(text: str) -> bool:
    """Return False for odd lengths, and a repeated noun: Anna hat Anna gesehen."""
    stems = [word[:4] for word in re.findall(r"\b[A-ZÄÖÜ]\w+", text)]
    return 3 <= len(text.split()) <= 18 and len(stems) == len(set(stems))


def corpus(seed: int) -> Dict[str, List[Tuple[str, str]]]:
    """Return {split: [(German, English)]} without repeated German sentences.

    The words of dev and test all occur in train.
    """
    author, seen, known, splits = Author(seed), set(), set(), {}
    for split, size in SIZES:
        pairs = splits[split] = []
        while len(pairs) < size:
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
                pairs.append((text, english(sentence)))
    return splits


def run(args: argparse.Namespace) -> None:
    """Write {train,dev,test}.{de,en}."""
    texts = {
        os.path.join(args.out, f"{split}.{language}"): "".join(
            pair[column] + "\n" for pair in pairs
        )
        for split, pairs in corpus(args.seed).items()
        for column, language in enumerate(("de", "en"))
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
