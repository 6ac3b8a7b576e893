"""Measure sentence splitters on the hard cases beside this file.

    pip install sentencex pysbd syntok blingfire sentence-splitter spacy
    python tools/sentences/measure.py                  # all that are installed
    python tools/sentences/measure.py sentencex --errors

In LANGUAGE.txt, each line is a text, and "|" stands where a sentence begins. A text is
right if the splitter begins sentences exactly there. The texts of LANGUAGE.later.txt
were written after the first lists of abbreviations in transformer/text/sentences.py;
those of LANGUAGE.heldout.txt were not used for its lists and rules.
"""

import argparse
import glob
import importlib.util
import os
import subprocess
import sys
import time
from importlib import metadata

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(os.path.dirname(HERE)))


def load_project(language):
    from transformer.text import sentences

    return lambda text: [sentence for sentence, _ in sentences.split(text, language)]


def load_rules(language):
    from transformer.text import sentences

    # A copy of the module that did not find sentencex.
    spec = importlib.util.spec_from_file_location("rules", sentences.__file__)
    rules = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(rules)
    rules.sentencex = None
    return lambda text: [sentence for sentence, _ in rules.split(text, language)]


def load_sentencex(language):
    import sentencex

    return lambda text: list(sentencex.segment(language, text))


def load_pysbd(language):
    import pysbd

    return pysbd.Segmenter(language=language, clean=False).segment


def load_syntok(language):
    from syntok import segmenter

    return lambda text: [
        "".join(token.spacing + token.value for token in sentence)
        for paragraph in segmenter.process(text)
        for sentence in paragraph
    ]


def load_blingfire(language):
    import blingfire

    return lambda text: blingfire.text_to_sentences(text).split("\n")


def load_sentence_splitter(language):
    import sentence_splitter

    splitter = sentence_splitter.SentenceSplitter(language=language)
    return splitter.split


def load_spacy(language):
    import spacy

    pipeline = spacy.blank(language)
    pipeline.add_pipe("sentencizer")
    return lambda text: [sentence.text for sentence in pipeline(text).sents]


# Name → how to load it, and its distribution.
SPLITTERS = {
    "project": (load_project, ""),
    "rules": (load_rules, ""),
    "sentencex": (load_sentencex, "sentencex"),
    "pysbd": (load_pysbd, "pysbd"),
    "syntok": (load_syntok, "syntok"),
    "blingfire": (load_blingfire, "blingfire"),
    "sentence-splitter": (load_sentence_splitter, "sentence-splitter"),
    "spacy": (load_spacy, "spacy"),
}


def read_cases(path):
    """Return the texts of a file, each a list of sentences."""
    with open(path, encoding="utf-8") as file:
        return [line.rstrip("\n").split("|") for line in file]


def is_right(sentences, pieces):
    """Whether a splitter returned the sentences, white space aside."""
    expected = ["".join(sentence.split()) for sentence in sentences]
    # A piece may be white space alone.
    return expected == list(filter(None, ("".join(piece.split()) for piece in pieces)))


def measure(load, path, show_errors):
    """Return the number of right texts, of all texts, and of texts per second."""
    language = os.path.basename(path).split(".")[0]
    try:
        split = load(language)
    except ModuleNotFoundError:
        raise  # it is not installed
    except Exception:  # it does not know the language, each in its own way
        return 0, 0, 0.0
    cases = read_cases(path)
    num_right = 0
    for sentences in cases:
        pieces = split("".join(sentences))
        if is_right(sentences, pieces):
            num_right += 1
        elif show_errors:
            print("   ", language, "|".join(pieces))
    start = time.perf_counter()
    for sentences in cases * 20:
        split("".join(sentences))
    return num_right, len(cases), len(cases) * 20 / (time.perf_counter() - start)


def measure_import(load):
    """Return the seconds that a process spends on loading a splitter."""
    program = (
        f"import sys, time; sys.path.insert(0, {HERE!r}); import measure\n"
        f"start = time.perf_counter(); measure.{load.__name__}('de')('Ja. Nein.')\n"
        "print(time.perf_counter() - start)"
    )
    return float(subprocess.check_output([sys.executable, "-c", program]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join(SPLITTERS)} [all]")
    parser.add_argument("--errors", action="store_true", help="show the wrong splits")
    args = parser.parse_args()
    paths = sorted(glob.glob(os.path.join(HERE, "*.txt")))
    names = [os.path.basename(path)[: -len(".txt")] for path in paths]
    print("| splitter |", " | ".join(names), "| texts/s (de) | first split (s) |")
    print("|---|" + "---:|" * (len(names) + 2))
    for name in args.names or SPLITTERS:
        load, distribution = SPLITTERS[name]
        try:
            version = " " + metadata.version(distribution) if distribution else ""
            results = [measure(load, path, args.errors) for path in paths]
        except ImportError as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        right = [f"{right} / {total}" if total else "–" for right, total, _ in results]
        speed = results[names.index("de")][2]
        print(
            f"| {name}{version} | {' | '.join(right)} | {speed:,.0f} "
            f"| {measure_import(load):.3f} |"
        )


if __name__ == "__main__":
    main()
