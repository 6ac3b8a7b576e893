"""Explain a BLEU near zero: what is wrong with the translations, or with the model.

    transformer-tf doctor --logdir logs/mine
    transformer-tf doctor --logdir logs/mine --files test.de test.en

It reads the translations of the same text that transformer-tf eval wrote, or makes them
if there are none, or not one for each line. Exit status: 0 if nothing was found, 1 if
something was found, 2 for an error.
"""

import collections
import os
import re
from typing import Dict, List, NamedTuple, Optional

from transformer import hparams
from transformer.commands import cli
from transformer.commands.terminal import command_name, print_lines
from transformer.evaluation import name_beside, score
from transformer.logdir.names import checkpoint_step, translations_path
from transformer.text.data_folder import read_parallel
from transformer.text.lines import read_lines

LOW_BLEU = 10.0  # from there on, a short training run needs no explanation
UNKNOWN = re.compile(r"⁇|<unk>", re.IGNORECASE)
NO_TEXT = re.compile(
    r"▁|@@( |$)|</?s>|<pad>|\w [.,;:!?](?!\S)|&(quot|apos|amp|lt|gt|#\d+);|@-@"
)


class Texts(NamedTuple):
    """Lines side by side."""

    sources: List[str]
    references: List[str]
    translations: List[str]


# What can be wrong with translations: each function returns an explanation, or None.


def ignores_source(texts: Texts) -> Optional[str]:
    """Detect that many translations are empty or equal."""
    counts = collections.Counter(line.strip() for line in texts.translations)
    usual = collections.Counter(line.strip() for line in texts.references)
    line, times = counts.most_common(1)[0]
    if times < 3 or times * 10 <= len(texts.translations) or times <= 3 * usual[line]:
        return None
    return (
        f"{times} of {len(texts.translations)} translations are {line!r}: the model "
        "has not learned to look at the source; train for longer, or with another "
        "--learning_rate or --warmup_steps; if it was trained on the other direction, "
        "check the order of --files"
    )


def unknown_pieces(texts: Texts) -> Optional[str]:
    """Find pieces that are not in the vocabulary."""
    share = _share(UNKNOWN, texts.translations)
    if share <= 0.1 or share <= 2 * _share(UNKNOWN, texts.references):
        return None
    return (
        f"{share:.0%} of the translations contain an unknown piece: the vocabulary "
        "does not fit the text; prepare the data again with a larger --vocab_size, on "
        "text of the same kind and in the same script"
    )


def not_detokenized(texts: Texts) -> Optional[str]:
    """Find pieces or tokens instead of text."""
    share = _share(NO_TEXT, texts.translations)
    usual = _share(NO_TEXT, texts.references)
    if share <= 0.1 or share <= 3 * usual:
        return None
    return (
        f"{share:.0%} of the translations, but {usual:.0%} of the references, are "
        "pieces or tokens and not text: detokenize the translations, or train on text "
        "that is not tokenized"
    )


def resembles_source(texts: Texts) -> Optional[str]:
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


def same_reference(texts: Texts) -> Optional[str]:
    """Find references that are the source."""
    pairs = list(zip(texts.sources, texts.references))
    share = sum(source == reference for source, reference in pairs) / len(pairs)
    if share <= 0.5:
        return None
    return (
        f"{share:.0%} of the references are equal to their sources: the same file was "
        "given for both"
    )


def other_case(texts: Texts) -> Optional[str]:
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
    "references that are the source": same_reference,
    "another case": other_case,
    "translations that ignore the source": ignores_source,
    "unknown pieces": unknown_pieces,
    "not detokenized": not_detokenized,
    "the language of the source": resembles_source,
}


def _share(pattern, lines):
    """Return the share of lines in which a pattern is found."""
    return sum(bool(pattern.search(line)) for line in lines) / max(1, len(lines))


def _words(lines):
    """Return the words in lines that have two letters or more."""
    return {word for line in lines for word in re.findall(r"[^\W\d_]{2,}", line)}


# What can be wrong with a log directory.


def too_few_steps(hp: hparams.HParams, checkpoint: str) -> str:
    """Return an explanation if training has hardly begun, else ""."""

    step = checkpoint_step(checkpoint)
    schedule = hp.schedule or hp.design.schedule
    if step >= hp.warmup_steps or schedule == "constant":
        return ""
    return (
        f"step {step} is before the end of the warm-up, step {hp.warmup_steps} "
        "(--warmup_steps): train for longer, or shorten the warm-up"
    )


# The command.


def look(args, hp: hparams.HParams, checkpoint: str) -> Dict[str, str]:
    """Return what is wrong with a checkpoint: name → explanation; print its BLEU."""
    text = read_parallel(hp.data, args.split, args.files)
    name = name_beside(text, hparams.load(args.logdir).data)
    path = args.translations or translations_path(checkpoint, name)
    is_written = args.translations or os.path.isfile(path)
    translations = list(read_lines(path)) if is_written else []
    if len(translations) != len(text.sources) and not args.translations:
        path = "translated now"
        translations = translate(hp, args.logdir, checkpoint, text.sources)
    if len(translations) != len(text.sources):
        raise ValueError(
            f"{text.name}: expected a translation of each of the "
            f"{len(text.sources)} source lines, got {len(translations)} ({path}): "
            "they do not belong together"
        )
    bleu = score(translations, text.references, tokenizer=text.tokenizer).bleu
    print_lines(f"{len(translations)} translations ({path}): BLEU {bleu:.2f}")
    texts = Texts(text.sources, text.references, translations)
    found = {"too few steps": too_few_steps(hp, checkpoint) if bleu < LOW_BLEU else ""}
    for name, check in SYMPTOMS.items():
        found[name] = check(texts) or ""
    if found["translations that ignore the source"]:  # these resemble nothing
        found["the language of the source"] = ""
    return {name: explanation for name, explanation in found.items() if explanation}


def translate(hp: hparams.HParams, logdir: str, checkpoint: str, sources: List[str]):
    """Return the best translation of each line."""
    from transformer.translator import Translator  # needs TensorFlow

    with Translator.for_settings(hp, logdir) as translator:
        translator.restore(checkpoint)
        return [best.text for best, *_ in translator.translate(sources)]


def parser():
    """Return the parser of the command line."""
    made = cli.make_parser("doctor", __doc__)
    cli.add_logdir(made)
    cli.add_checkpoint(made)
    cli.add_text(made, split="dev")
    made.add_argument(
        "--translations",
        type=cli.path,
        metavar="FILE",
        help="translations of the source [those that "
        f"{command_name('eval')} wrote, else made now]",
    )
    name = "decode_precision"
    cli.add_settings(made, {name: hparams.DECODING[name]})
    return made


def run(args) -> int:
    """Print what is found; return the exit status."""
    hp = hparams.load(args.logdir, cli.typed_settings(args, hparams.FIELDS))
    cli.start_tensorflow(args.verbose)
    from transformer.logdir import checkpoints  # needs TensorFlow

    found = checkpoints.find_and_load(
        args.logdir,
        lambda checkpoint: look(args, hp, checkpoint),
        args.checkpoint,
        args.warn,
    )
    for name, text in found.items():
        print_lines(f"found: {name}", f"  {text}")
    if not found:
        print_lines("nothing found")
    return 1 if found else 0
