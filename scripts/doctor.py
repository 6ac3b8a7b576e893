"""Explains a BLEU near zero: what is wrong with the translations, or with the model.

    python scripts/doctor.py --logdir logs/mine
    python scripts/doctor.py --logdir logs/mine --files test.de test.en

It reads the translations that eval.py wrote, or makes them. Exit status 0: nothing was
found; 1: something was; 2: it could not look.
"""

import argparse
import collections
import dataclasses
import filecmp
import os
import re
import sys
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

import tensorflow.compat.v1 as tf
from sacrebleu.metrics import CHRF

import hparams
from transformer.evaluation import load_text, score
from transformer.runtime import checkpoints
from transformer.runtime.reporting import read_dev_scores
from transformer.text.lines import read_lines
from transformer.text.vocabulary import JOINT_MODEL, SEPARATE_MODELS, load_vocabularies
from transformer.translator import Translator

UNKNOWN = re.compile(r"⁇|<unk>", re.IGNORECASE)
PIECES = re.compile(r"▁|@@( |$)|</?s>|<pad>", re.IGNORECASE)
TOKENS = re.compile(r"\w [.,;:!?](?!\S)|&(quot|apos|amp|lt|gt|#\d+);|@-@")
ENOUGH = 200
SHIFTS = (-3, -2, -1, 1, 2, 3)


class Texts(NamedTuple):
    """Lines side by side."""

    sources: List[str]
    references: List[str]
    translations: List[str]
    known: Optional[Tuple[List[str], List[str]]]  # dev of the data folder, where it is


# Checks of the translations: Texts → what was found and what to do about it, or None.


def empty(texts: Texts) -> Optional[str]:
    """Nothing, where there should be something."""
    wanted = [
        line
        for line, source, reference in zip(
            texts.translations, texts.sources, texts.references
        )
        if source.strip() and reference.strip()
    ]
    bare = sum(not line.strip() for line in wanted)
    if bare * 10 <= len(wanted):
        return None
    return (
        f"{bare} of {len(wanted)} translations are empty; train for longer, or "
        "raise --length_penalty and --max_extra_length"
    )


def alike(texts: Texts) -> Optional[str]:
    """One translation for everything: the model does not look at the source."""
    (line, times), usual = _most_common(texts.translations), 1
    if texts.references:
        usual = _most_common(texts.references)[1]
    if times < 3 or times * 10 <= len(texts.translations) or times <= 3 * usual:
        return None
    return (
        f"{times} of {len(texts.translations)} translations are {line!r}, where "
        f"no reference comes more than {usual} times: the model has not learned to "
        "look at the source; train for longer, or with another --learning_rate or "
        "--warmup_steps (or --dialect tensor2tensor, which learns with more)"
    )


def unknown(texts: Texts) -> Optional[str]:
    """Pieces that the vocabulary does not have."""
    share = _share(UNKNOWN, texts.translations)
    if share <= 0.1 or share <= 2 * _share(UNKNOWN, texts.references):
        return None
    return (
        f"{share:.0%} of the translations hold an unknown piece "
        f"({_example(UNKNOWN, texts)}): the vocabulary does not fit the text; "
        "prepare the data again with a larger --vocab-size, on text of the same "
        "kind and in the same writing"
    )


def not_detokenized(texts: Texts) -> Optional[str]:
    """Pieces or tokens instead of text."""
    for pattern, what in ((PIECES, "pieces"), (TOKENS, "tokens")):
        share = _share(pattern, texts.translations)
        usual = _share(pattern, texts.references)
        if share > 0.1 and share > 3 * usual:
            return (
                f"{share:.0%} of the translations, but {usual:.0%} of the "
                f"references, are {what} and not text "
                f"({_example(pattern, texts)}): detokenize the translations, or "
                "train on text that is not tokenized"
            )
    return None


def copied(texts: Texts) -> Optional[str]:
    """The source instead of its translation."""
    if swapped(texts):
        return None
    sources, references = (
        _chrf(texts.translations, side) for side in (texts.sources, texts.references)
    )
    if sources < 50 or sources < 1.5 * references:
        return None
    return (
        f"the translations are like the sources (chrF2 {sources:.0f}) rather than "
        f"like the references ({references:.0f}): the model copies, or the two "
        "sides of the training data are alike; look at the data folder, and that "
        "--files names the source first"
    )


def other_language(texts: Texts) -> Optional[str]:
    """Words of the sources' language where those of the references' were wanted."""
    if swapped(texts) or copied(texts):
        return None
    foreign, wanted = _words_of(texts.translations, texts.sources, texts.references)
    if foreign < 0.2 or foreign < 2 * wanted:
        return None
    return (
        f"{foreign:.0%} of the words of the translations come in the sources and "
        f"not in the references, {wanted:.0%} the other way round: the language is "
        "the wrong one; look at the order of the files in prepare.py --train, "
        "--source-lang and --target-lang, and that --files names the source first"
    )


def swapped(texts: Texts) -> Optional[str]:
    """References where the sources should be, as the data folder tells."""
    if texts.known is None:
        return None
    of_sources, of_references = (
        _words_of(side, *texts.known) for side in (texts.sources, texts.references)
    )
    if of_sources[1] < max(0.2, 2 * of_sources[0]) or of_references[0] < max(
        0.2, 2 * of_references[1]
    ):
        return None
    return (
        f"{of_sources[1]:.0%} of the words of the sources come in the target text "
        f"of the data folder alone, {of_references[0]:.0%} of the references' in "
        "its source text alone: the two files are swapped; name the source first"
    )


def shifted(texts: Texts) -> Optional[str]:
    """Translations that belong to other lines."""
    if len(texts.translations) < 10:
        return None
    in_place = _chrf(texts.translations, texts.references)
    fit = {
        by: _chrf(*_moved(texts.translations, texts.references, by)) for by in SHIFTS
    }
    best = max(fit, key=fit.get)
    if fit[best] < 20 or fit[best] < 1.5 * in_place:
        return None
    return (
        f"the translations fit the references {abs(best)} lines "
        f"{'further down' if best > 0 else 'further up'} (chrF2 {fit[best]:.0f}) "
        f"better than their own ({in_place:.0f}): a line is missing or too many in "
        "one of the files; compare them with `paste`"
    )


def cut_off(texts: Texts) -> Optional[str]:
    """Translations that end too soon."""
    lengths = _lengths(texts)
    if not lengths or lengths[0] > 0.6 * lengths[1]:
        return None
    return (
        f"translations that are not empty have {lengths[0]:.1f} words, their "
        f"references {lengths[1]:.1f}: they end too soon; raise --length_penalty "
        "and --max_extra_length, and see whether the training data is cut off"
    )


def endless(texts: Texts) -> Optional[str]:
    """Translations that do not find their end."""
    lengths = _lengths(texts)
    if not lengths or lengths[0] < 2 * lengths[1]:
        return None
    return (
        f"translations have {lengths[0]:.1f} words, their references "
        f"{lengths[1]:.1f}: they repeat themselves up to --max_extra_length; train "
        "for longer"
    )


TEXT_CHECKS: Dict[str, Callable[[Texts], Optional[str]]] = {
    "empty translations": empty,
    "translations equal to each other": alike,
    "unknown pieces": unknown,
    "not detokenized": not_detokenized,
    "sources and references swapped": swapped,
    "copies of the source": copied,
    "the wrong language": other_language,
    "lines shifted": shifted,
    "translations cut off": cut_off,
    "endless translations": endless,
}


def _most_common(lines):
    """(a line, how often it comes), of lines that are not empty."""
    counts = collections.Counter(line.strip() for line in lines if line.strip())
    return counts.most_common(1)[0] if counts else ("", 0)


def _share(pattern, lines):
    """The share of lines in which a pattern is found."""
    return sum(bool(pattern.search(line)) for line in lines) / max(1, len(lines))


def _example(pattern, texts):
    return next(repr(line[:60]) for line in texts.translations if pattern.search(line))


def _chrf(translations, references):
    """chrF2 of the first lines, which are enough to tell."""
    return CHRF().corpus_score(translations[:ENOUGH], [references[:ENOUGH]]).score


def _moved(translations, references, by):
    """The two lists, where line i of the one stands beside line i + by of the other."""
    if by < 0:
        return translations[-by:], references[:by]
    return translations[:-by], references[by:]


def _words(lines):
    return [word for line in lines for word in re.findall(r"[^\W\d_]{2,}", line)]


def _words_of(lines, first, second):
    """Which shares of the words of `lines` come in `first` alone, in `second` alone."""
    words, first, second = _words(lines), set(_words(first)), set(_words(second))
    return tuple(
        sum(word in here and word not in there for word in words) / max(1, len(words))
        for here, there in ((first, second), (second, first))
    )


def _lengths(texts):
    """Mean words of translations that are not empty, and of their references."""
    pairs = [
        (len(line.split()), len(reference.split()))
        for line, reference in zip(texts.translations, texts.references)
        if line.strip()
    ]
    return [sum(side) / len(pairs) for side in zip(*pairs)]


# Checks of the log directory: (settings, log directory, checkpoint) → as above.


def other_vocabulary(hp, logdir: str, checkpoint: str) -> Optional[str]:
    """A vocabulary that the model was not trained with."""
    vocabularies = load_vocabularies(logdir)
    shapes = tf.train.load_checkpoint(checkpoint).get_variable_to_shape_map()
    tables = {
        side: shapes.get(f"{stack}embedding/lookup_table")
        for side, stack in (
            ("source", "encoder/"),
            ("target", "decoder/"),
            ("joint", ""),
        )
    }
    for side in ("source", "target"):
        size = getattr(vocabularies, side).size
        table = tables[side] or tables["joint"]
        if table and table[0] != size:
            return (
                f"the vocabulary of the log directory has {size} {side} pieces, "
                f"the model {table[0]}: put back the one it was trained with, from "
                "its data folder"
            )
    for name in (JOINT_MODEL, *SEPARATE_MODELS):
        here, there = (os.path.join(folder, name) for folder in (logdir, hp.data))
        if (
            os.path.isfile(here)
            and os.path.isfile(there)
            and not filecmp.cmp(here, there, shallow=False)
        ):
            return (
                f"{here} is not {there}: one of them was made anew since the "
                "training; put back the one the model was trained with, or train "
                "again in another --logdir"
            )
    return None


def too_few_steps(hp, logdir: str, checkpoint: str) -> Optional[str]:
    """A training that is not at its end, by the warm-up or by the dev scores."""
    step, rows = checkpoints.step_of(checkpoint), read_dev_scores(logdir)
    if step < hp.warmup_steps:
        return (
            f"step {step} is before the end of the warm-up, {hp.warmup_steps} "
            f"(--warmup_steps): train for longer (--max_steps {hp.max_steps}), or "
            "shorten the warm-up"
        )
    if len(rows) > 1 and rows[-1]["step"] == step:
        before, now = rows[-2:]
        if (
            now["bleu"] > 1.1 * before["bleu"] + 0.5
            or now["loss"] < 0.9 * before["loss"]
        ):
            return (
                f"from step {before['step']} to {step} dev BLEU went from "
                f"{before['bleu']:.1f} to {now['bleu']:.1f}, dev loss from "
                f"{before['loss']:.2f} to {now['loss']:.2f}: it still learns; "
                f"train for longer than --max_steps {hp.max_steps}"
            )
    return None


LOGDIR_CHECKS: Dict[str, Callable] = {
    "a vocabulary that is not the model's": other_vocabulary,
    "too few steps": too_few_steps,
}


# The command line


def examine(texts: Texts) -> Dict[str, str]:
    """What the checks of the translations found, by their names."""
    found = {name: check(texts) for name, check in TEXT_CHECKS.items()}
    return {name: text for name, text in found.items() if text}


def gather(args, hp, checkpoint: str) -> Tuple[Texts, str]:
    """The lines to look at, and where the translations come from."""
    known = None
    if os.path.isfile(os.path.join(hp.data, "corpus.json")):
        known = load_text(hp.data, "dev")
    if args.files:
        name = os.path.basename(args.files[0])
        sources, references = (list(read_lines(path)) for path in args.files)
    else:
        name = args.split
        sources, references = load_text(hp.data, args.split)
    path = args.translations or f"{checkpoint}.{name}.translations"
    if args.translations or os.path.isfile(path):
        translations = list(read_lines(path))
    else:
        path = "translated now"
        with Translator(hp, args.logdir) as translator:
            translator.restore(checkpoint)
            translations = [best.text for best, *_ in translator.translate(sources)]
    sizes = [len(lines) for lines in (sources, references, translations)]
    if len(set(sizes)) > 1 or not sizes[0]:
        raise ValueError(
            f"{name}: found {sizes[0]} source lines, {sizes[1]} "
            f"references and {sizes[2]} translations ({path}), wanted as "
            "many of all, and at least one: they do not belong together"
        )
    return Texts(sources, references, translations, known), path


def run(args) -> bool:
    """Prints what it finds; returns whether that is anything."""
    hp = dataclasses.replace(
        hparams.load(args.logdir), **({"data": args.data} if args.data else {})
    )
    checkpoint = checkpoints.find(args.logdir, args.checkpoint)
    found = {
        name: check(hp, args.logdir, checkpoint)
        for name, check in LOGDIR_CHECKS.items()
    }
    found = {name: text for name, text in found.items() if text}
    if "a vocabulary that is not the model's" not in found or args.translations:
        texts, path = gather(args, hp, checkpoint)
        bleu = score(texts.translations, texts.references).bleu
        print(
            f"{len(texts.translations)} translations ({path}), step "
            f"{checkpoints.step_of(checkpoint)}: BLEU {bleu:.2f}"
        )
        found.update(examine(texts))
    for name, text in found.items():
        print(f"found: {name}\n  {text}")
    if not found:
        print("nothing found")
    return bool(found)


def main(argv=None):
    tf.disable_eager_execution()
    tf.logging.set_verbosity(tf.logging.ERROR)
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], allow_abbrev=False
    )
    parser.add_argument(
        "--logdir", required=True, metavar="DIR", help="what train.py wrote"
    )
    parser.add_argument(
        "--checkpoint",
        default="best",
        metavar="WHICH",
        help="best (by dev BLEU), newest, or a step [best]",
    )
    parser.add_argument(
        "--split",
        default="dev",
        metavar="NAME",
        help="dev or test of the data folder [dev]",
    )
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="the data folder, where it is no longer where it was",
    )
    parser.add_argument(
        "--files",
        nargs=2,
        metavar=("SOURCE", "REFERENCE"),
        help="any two text files, instead of a split",
    )
    parser.add_argument(
        "--translations",
        metavar="FILE",
        help="of the source [what eval.py wrote, else made now]",
    )
    args = hparams.parse_flags(parser, sys.argv[1:] if argv is None else argv)
    try:
        found = run(args)
    except (ValueError, OSError) as error:
        sys.stderr.write(f"doctor.py: {error}\n")
        raise SystemExit(2) from error
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
