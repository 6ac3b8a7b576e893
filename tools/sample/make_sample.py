"""Writes the sample corpus: German-English sentence pairs of our own making.

The `Author` of author.py invents meanings; `german` and `english` of
grammar.py spell them, with the words of lexicon.py.

    python tools/sample/make_sample.py [--out data/sample] [--seed 1]
"""

import argparse
import os
import re
from typing import Dict, Optional, Sequence

from author import Author
from grammar import english, german

SIZES = (("train", 20000), ("dev", 500), ("test", 500))


def is_natural(text: str) -> bool:
    """Refuses what is too short or long, or repeats a noun: Anna hat Anna gesehen."""
    stems = [word[:4] for word in re.findall(r"\b[A-ZÄÖÜ]\w+", text)]
    return 3 <= len(text.split()) <= 18 and len(stems) == len(set(stems))


def corpus(seed: int) -> Dict[str, list]:
    """Returns {split: [(German, English)]}: no German sentence occurs twice.

    The words of dev and test all occur in train.
    """
    author, seen, known, splits = Author(seed), set(), set(), {}
    for split, size in SIZES:
        pairs = splits[split] = []
        while len(pairs) < size:
            sentence = author.sentence()
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


def main(argv: Optional[Sequence[str]] = None) -> None:
    """Writes {train,dev,test}.{de,en}."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", default=os.path.join("data", "sample"))
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(argv)
    os.makedirs(args.out, exist_ok=True)
    for split, pairs in corpus(args.seed).items():
        for column, language in enumerate(("de", "en")):
            path = os.path.join(args.out, split + "." + language)
            with open(path, "w", encoding="utf-8", newline="\n") as lines:
                lines.writelines(pair[column] + "\n" for pair in pairs)


if __name__ == "__main__":
    main()
