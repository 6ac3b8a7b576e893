"""Explain a BLEU near zero: what is wrong with the translations, or with the model.

    transformer-tf doctor --logdir logs/mine
    transformer-tf doctor --logdir logs/mine --files test.de test.en

It reads the translations of the same text that transformer-tf eval wrote, or makes them
if there are none, or not one for each line. Exit status: 0 if nothing was found, 1 if
something was found, 2 for an error.
"""

import argparse
import collections
import contextlib
import os
import re
from typing import Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from transformer import hparams
from transformer.commands import cli
from transformer.commands.terminal import command_name, print_lines
from transformer.evaluation import score
from transformer.logdir.names import checkpoint_step, translations_path
from transformer.runtime.progress import format_count
from transformer.text.anomalies import Side, find_anomalies
from transformer.text.data_folder import (
    SIDES,
    ParallelText,
    name_text,
    open_integers,
    read_parallel,
    read_translations,
)
from transformer.text.line_lengths import find_misalignment
from transformer.text.lines import describe_line_ends
from transformer.text.pair_checks import describe_misalignment

LOW_BLEU = 10.0  # from there on, a short training run needs no explanation
# A dev loss, in nats per character, that no translator reaches whose BLEU is so low. On
# Multi30k, the dev loss is 1.0 at 7 BLEU and 0.7 at 22; decoders that are shown the
# target have 0.01 to 0.6.
LEAKED_LOSS = 0.65
LEAKED_BLEU = 5.0
UNKNOWN = re.compile(r"⁇|<unk>", re.IGNORECASE)
NO_TEXT = re.compile(
    r"▁|@@( |$)|</?s>|<pad>|\w [.,;:!?](?!\S)|&(quot|apos|amp|lt|gt|#\d+);|@-@"
)
REPEATED_END = re.compile(r"(.{1,20}?)\1{4,}\s*$")  # five times or more
# The pairs of a data folder are words rather than sentences if their mean length is at
# most this many pieces.
WORD_PIECES = 4


class Texts(NamedTuple):
    """Lines side by side."""

    sources: List[str]
    references: List[str]
    translations: List[str]


# What can be wrong with translations: each function returns an explanation, or None.


def find_ignored_source(texts: Texts) -> Optional[str]:
    """Detect that many translations are empty or equal."""
    counts = collections.Counter(line.strip() for line in texts.translations)
    in_references = collections.Counter(line.strip() for line in texts.references)
    line, times = counts.most_common(1)[0]
    is_rare = times < 3 or times * 10 <= len(texts.translations)
    if is_rare or times <= 3 * in_references[line]:
        return None
    return (
        f"{times} of {len(texts.translations)} translations are {line!r}: the model "
        "has not learned to look at the source; train for longer, or with another "
        "--learning_rate or --warmup_steps; if it was trained on the other direction, "
        "check the order of --files"
    )


def find_unknown_pieces(texts: Texts) -> Optional[str]:
    """Find pieces that are not in the vocabulary."""
    share = _share(UNKNOWN, texts.translations)
    if share <= 0.1 or share <= 2 * _share(UNKNOWN, texts.references):
        return None
    return (
        f"{share:.0%} of the translations contain an unknown piece: the vocabulary "
        "does not fit the text; prepare the data again with a larger --vocab_size, on "
        "text of the same kind and in the same script"
    )


def find_undetokenized(texts: Texts) -> Optional[str]:
    """Find pieces or tokens instead of text."""
    share = _share(NO_TEXT, texts.translations)
    in_references = _share(NO_TEXT, texts.references)
    if share <= 0.1 or share <= 3 * in_references:
        return None
    return (
        f"{share:.0%} of the translations, but {in_references:.0%} of the references, "
        "are pieces or tokens and not text: detokenize the translations, or train on "
        "text that is not tokenized"
    )


def find_source_words(texts: Texts) -> Optional[str]:
    """Find translations in the language of the source, such as copies."""
    sources = _words(texts.sources)
    references = _words(texts.references)
    words = [word for line in texts.translations for word in _words([line])]
    foreign = sum(word in sources - references for word in words)
    expected = sum(word in references - sources for word in words)
    if foreign <= 0.2 * len(words) or foreign < 2 * expected:
        return None
    return (
        f"{foreign / len(words):.0%} of the words of the translations occur only in "
        f"the sources, {expected / len(words):.0%} only in the references: the files "
        "are swapped, or the model copies; check the order of --files and of "
        f"{command_name('prepare')} --train, and check --source_lang and --target_lang"
    )


def find_strange_words(texts: Texts) -> Optional[str]:
    """Find words that are in neither language.

    A fair translation has some words that the text does not hold: about as many as
    there are words that the references hold once (the estimate of Good and Turing).
    """
    sources, references, words = (
        [word for line in lines for word in _words([line.lower()])] for lines in texts
    )
    counts = collections.Counter(references)
    of_text = {*sources, *references}
    strange = sum(word not in of_text for word in words) / max(1, len(words))
    once = sum(count == 1 for count in counts.values()) / max(1, sum(counts.values()))
    if strange <= 0.3 or strange < 2 * once:
        return None
    return (
        f"{strange:.0%} of the words of the translations occur neither in the "
        "references nor in the sources: check that the vocabulary of the log directory "
        "is the one that the model was trained with, on the side of the target"
    )


def find_endless_translations(texts: Texts) -> Optional[str]:
    """Find translations that run on after the end of the sentence."""
    distinct = dict(zip(texts.translations, texts.references))
    endless = [
        len(line.split()) > 2 * max(len(reference.split()), 3)
        or bool(REPEATED_END.search(line[-200:]))
        for line, reference in distinct.items()
    ]
    share = sum(endless) / max(1, len(endless))
    if share <= max(0.3, 3 * _share(REPEATED_END, texts.references)):
        return None
    return (
        f"{share:.0%} of the translations repeat their end, or are more than twice as "
        "long as their references: the model has not learned where a sentence ends; "
        "check that the targets of training end with EOS and that the loss counts it, "
        "or train for longer"
    )


def find_copied_references(texts: Texts) -> Optional[str]:
    """Find references that are the source."""
    pairs = list(zip(texts.sources, texts.references))
    share = sum(source == reference for source, reference in pairs) / len(pairs)
    if share <= 0.5:
        return None
    return (
        f"{share:.0%} of the references are equal to their sources: the same file was "
        "given for both"
    )


def find_misaligned_pairs(texts: Texts) -> Optional[str]:
    """Find references that are the translations of other lines."""
    misalignment = find_misalignment(
        [len(line) for line in texts.sources], [len(line) for line in texts.references]
    )
    if not misalignment:
        return None
    return f"{describe_misalignment(misalignment)}; check the order of the lines"


def find_misaligned_translations(texts: Texts) -> Optional[str]:
    """Find translations that belong to other lines, by a shift."""
    misalignment = find_misalignment(
        [len(line) for line in texts.references],
        [len(line) for line in texts.translations],
    )
    if not misalignment or not misalignment.shift:
        return None
    return (
        f"from about line {misalignment.first} on, the lengths of the translations "
        f"fit those of the references {-misalignment.shift:+d} lines further: the "
        "translations lack a line, or have one too many"
    )


def find_other_case(texts: Texts) -> Optional[str]:
    """Find references that differ from the translations mostly in upper case."""
    cased = score(texts.translations, texts.references).bleu
    lower = score(
        [line.lower() for line in texts.translations],
        [line.lower() for line in texts.references],
    ).bleu
    if lower < LOW_BLEU or lower < 2 * cased:
        return None
    return (
        f"BLEU is {lower:.2f} instead of {cased:.2f} if case is ignored: the "
        "references have another case than the text that the model was trained on"
    )


SYMPTOMS = {
    "references that are the source": find_copied_references,
    "misaligned lines": find_misaligned_pairs,
    "misaligned translations": find_misaligned_translations,
    "another case": find_other_case,
    "translations that ignore the source": find_ignored_source,
    "unknown pieces": find_unknown_pieces,
    "not detokenized": find_undetokenized,
    "the language of the source": find_source_words,
    "words of no language": find_strange_words,
    "translations that do not end": find_endless_translations,
}


# What is not named because another finding explains it.
EXPLAINS = {
    "targets shown to the decoder": (
        "translations that ignore the source",
        "the language of the source",
        "words of no language",
        "translations that do not end",
    ),
    "misaligned lines": ("misaligned translations",),
    "translations that ignore the source": (
        "the language of the source",
        "translations that do not end",
    ),
    "words of no language": ("the language of the source",),
}


def _share(pattern, lines):
    """Return the share of lines in which a pattern is found."""
    return sum(bool(pattern.search(line)) for line in lines) / max(1, len(lines))


def _words(lines):
    """Return the words in lines that have two letters or more."""
    return {word for line in lines for word in re.findall(r"[^\W\d_]{2,}", line)}


# What can be wrong with a log directory.


def find_short_training(hp: hparams.HParams, checkpoint: str) -> str:
    """Explain that training has hardly begun; return "" if it went further."""
    step = checkpoint_step(checkpoint)
    schedule = hp.schedule or hp.resolved_dialect.schedule
    if step >= hp.warmup_steps or schedule == "constant":
        return ""
    return (
        f"step {step} is before the end of the warm-up, step {hp.warmup_steps} "
        "(--warmup_steps): train for longer, or shorten the warm-up"
    )


def find_leaked_targets(hp: hparams.HParams, checkpoint: str) -> str:
    """Explain that training shows the decoder what it predicts; return "" if not.

    The dev loss is computed as in training, with the target as the decoder's input: if
    the loss is low and dev BLEU, too, the decoder reads there what it does not have
    when it translates.
    """
    from transformer.logdir.history import read_dev_scores  # needs TensorFlow

    step = checkpoint_step(checkpoint)
    for row in read_dev_scores(os.path.dirname(checkpoint) or os.curdir):
        loss, bleu = row.get("loss"), row["bleu"]
        if row["step"] == step and loss is not None and bleu < LEAKED_BLEU:
            characters = characters_per_piece(hp.data)
            if loss < LEAKED_LOSS * characters:
                return (
                    f"the dev loss is {loss:.2f} ({loss / characters:.2f} per "
                    f"character), which does not fit a dev BLEU of {bleu:.2f}: the "
                    "decoder is shown what it predicts; check its causal mask, and "
                    "that its input is the target shifted by one piece"
                )
    return ""


def characters_per_piece(data: str) -> float:
    """Return the mean length of the target's pieces in dev, each EOS counted as one.

    It is 0 if the data folder is gone.
    """
    with contextlib.suppress(OSError, ValueError):
        lines = read_parallel(data, "dev").references
        offsets = open_integers(os.path.join(data, "dev.target.offsets.npy"))
        return sum(map(len, lines)) / (int(offsets[-1]) + len(lines))
    return 0.0


def find_misaligned_training(data: str) -> str:
    """Explain that the train pairs of a data folder are misaligned, or return ""."""
    lengths = []
    with contextlib.suppress(OSError, ValueError):  # the data folder may be gone
        for side in SIDES:
            path = os.path.join(data, f"train.{side}.offsets.npy")
            lengths.append(np.diff(open_integers(path)))
    if len(lengths) < 2 or len(lengths[0]) != len(lengths[1]):
        return ""
    source, target = lengths
    misalignment = find_misalignment(source, target, word_length=WORD_PIECES)
    if not misalignment:
        return ""
    return (
        f"in {data}, {describe_misalignment(misalignment, 'pair')}; "
        f"{command_name('prepare')} names the lines of the text"
    )


# The command.


class Diagnosis(NamedTuple):
    """What is wrong with a checkpoint and its translations."""

    num_lines: int
    origin: str  # of the translations: a path, or "translated now"
    bleu: float
    findings: Dict[str, str]  # name → explanation


def diagnose(
    hp: hparams.HParams, checkpoint: str, text: ParallelText, path: Optional[str] = None
) -> Diagnosis:
    """Look for what is wrong with a checkpoint and its translations of a text.

    Args:
      hp: the settings.
      checkpoint: its path, without file extensions.
      text: the text.
      path: a file of translations; None: those that were written beside the checkpoint,
        or new ones.

    Raises:
      ValueError: the file does not have a translation of each line.
    """
    translations, origin = find_translations(hp, checkpoint, text, path)
    bleu = score(translations, text.references, tokenizer=text.tokenizer).bleu
    texts = Texts(text.sources, text.references, translations)
    findings = {"too few steps": ""}
    if bleu < LOW_BLEU:
        findings["too few steps"] = find_short_training(hp, checkpoint)
    findings["targets shown to the decoder"] = find_leaked_targets(hp, checkpoint)
    findings["misaligned training pairs"] = find_misaligned_training(hp.data)
    for name, find_symptom in SYMPTOMS.items():
        findings[name] = find_symptom(texts) or ""
    for cause, effects in EXPLAINS.items():
        if findings[cause]:
            findings.update(dict.fromkeys(effects, ""))
    findings["the text of the references"] = "; ".join(
        find_anomalies(Side(text.references, translations, text.sources, True))
    )
    if not any(findings.values()):
        findings["the text of the translations"] = "; ".join(
            find_anomalies(Side(translations, text.references, text.sources))
        )
    for name, lines in texts._asdict().items():
        findings[f"line ends in the {name}"] = describe_line_ends(lines)
    findings = {name: finding for name, finding in findings.items() if finding}
    return Diagnosis(len(translations), origin, bleu, findings)


def find_translations(
    hp: hparams.HParams, checkpoint: str, text: ParallelText, path: Optional[str]
) -> Tuple[List[str], str]:
    """Read the translations of a text, or translate it; return (lines, their origin).

    Args: as in `diagnose`.
    """
    logdir = os.path.dirname(checkpoint) or os.curdir
    name = name_text(text, hparams.load(logdir).data)
    origin = path or translations_path(checkpoint, name)
    translations: List[str] = []
    if path or os.path.isfile(origin):
        translations = read_translations(origin, text)
    if len(translations) != len(text.sources) and not path:
        origin = "translated now"
        translations = translate(hp, logdir, checkpoint, text.sources)
    if len(translations) != len(text.sources):
        raise ValueError(
            f"{text.name}: expected the translations of "
            f"{format_count(len(text.sources), 'source line')}, one of each, got "
            f"{len(translations):,} ({origin}): they do not belong together"
        )
    return translations, origin


def translate(
    hp: hparams.HParams, logdir: str, checkpoint: str, sources: List[str]
) -> List[str]:
    """Translate lines; return the best translation of each."""
    from transformer.translator import Translator  # needs TensorFlow

    with Translator.for_settings(hp, logdir) as translator:
        translator.restore(checkpoint)
        return [best.text for best, *_ in translator.translate(sources)]


def parser() -> cli.Parser:
    """Return the parser of the command line."""
    parser = cli.make_parser("doctor", __doc__)
    cli.add_logdir(parser)
    cli.add_checkpoint(parser)
    cli.add_text(parser, split="dev")
    parser.add_argument(
        "--translations",
        type=cli.path,
        metavar="FILE",
        help="translations of the source [those that "
        f"{command_name('eval')} wrote, else made now]",
    )
    name = "decode_precision"
    cli.add_settings(parser, {name: hparams.DECODING[name]})
    return parser


def run(args: argparse.Namespace) -> int:
    """Print BLEU and what is wrong; return the exit status."""
    hp = hparams.load(args.logdir, cli.read_settings(args, hparams.FIELDS))
    cli.start_tensorflow(args.verbose)
    from transformer.logdir import checkpoints  # needs TensorFlow

    def diagnose_checkpoint(checkpoint):
        text = read_parallel(hp.data, args.split, args.files)
        return diagnose(hp, checkpoint, text, args.translations)

    diagnosis = checkpoints.find_and_load(
        args.logdir, diagnose_checkpoint, args.checkpoint, args.warn
    )
    print_lines(
        f"{format_count(diagnosis.num_lines, 'translation')} ({diagnosis.origin}): "
        f"BLEU {diagnosis.bleu:.2f}"
    )
    for name, explanation in diagnosis.findings.items():
        print_lines(f"found: {name}", f"  {explanation}")
    if not diagnosis.findings:
        print_lines("nothing found")
    return 1 if diagnosis.findings else 0
