"""Score a trained model: BLEU, chrF and TER on a split, or on any two files.

    transformer-tf eval --logdir logs/sample --split test
    transformer-tf eval --logdir logs/sample --files news.de news.en --json scores.json
    transformer-tf eval --logdir logs/sample --compare logs/other other_system.en
    transformer-tf eval --logdir logs/sample --checkpoint all
    transformer-tf eval --logdir logs/sample logs/other    # both, averaged
    transformer-tf eval --logdir logs/sample --semantic

Each score comes with its 95 % bootstrap interval. --compare tests the difference from
other systems, which are log directories, or files with one translation per line. The
translations are written next to the checkpoint.

--semantic adds the mean cosine between the sentence embeddings of translations and
references (multilingual-e5-small). It also reports how many translations are nearer to
their own reference than to the next line's: if this is below 99 %, do not trust the
cosine.
"""

import argparse
import json
import os
import sys
from typing import (
    Any,
    Dict,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Union,
)

from transformer import evaluation, hparams
from transformer.commands import cli
from transformer.commands.terminal import command_name, print_lines
from transformer.commands.translate import add_engine
from transformer.evaluation import METRICS, Scores, name_beside, score
from transformer.exports.ctranslate2 import CTRANSLATE2
from transformer.logdir import manifests
from transformer.logdir.names import BEST, checkpoint_step, translations_path
from transformer.runtime import files
from transformer.text.data_folder import read_parallel
from transformer.text.lines import read_lines

ALL = "all"  # every checkpoint that is kept

Model = Tuple[hparams.HParams, str]  # the settings, the log directory


class Translations(NamedTuple):
    """The translations of a text by one system, and where they were written."""

    lines: List[str]
    path: str
    checkpoint: str = ""
    others: Sequence[str] = ()  # checkpoints that translated with it
    error: Optional[OSError] = None  # why the file could not be written


def parser() -> cli.Parser:
    """Return the parser of the command line."""
    made = cli.make_parser("eval", __doc__)
    cli.add_logdir(made, "their probabilities are averaged")
    cli.add_checkpoint(made, f"; {ALL}: each that is kept")
    cli.add_text(made, split="test")
    made.add_argument(
        "--json", type=cli.path, metavar="FILE", help="also write the scores here"
    )
    made.add_argument(
        "--compare",
        nargs="+",
        default=[],
        metavar="DIR_OR_FILE",
        help="other log directories, or files of translations, to compare with",
    )
    cli.add_number(
        made,
        "samples",
        1000,
        "samples for the intervals and the significance test; 0: no intervals",
    )
    made.add_argument(
        "--semantic",
        action="store_true",
        help="also measure similarity in meaning; needs the extra semantic",
    )
    add_engine(made)
    cli.add_settings(made, hparams.DECODING)
    return made


def run(args: argparse.Namespace) -> None:
    """Translate, print the scores, and write the translations."""
    if args.json:
        files.refuse_missing_folder(args.json)
        if os.path.isdir(args.json):
            raise ValueError(f"--json: expected a file, got a folder, {args.json}")
    changes = cli.typed_settings(args, hparams.FIELDS)
    models = hparams.load_each(args.logdir, changes)
    encoder = evaluation.load_sentence_encoder() if args.semantic else None
    text = read_parallel(models[0][0].data, args.split, args.files)
    evaluation.check_samples(args.samples, len(text.sources))
    others = systems_to_compare(args, changes, text)
    cli.start_tensorflow(args.verbose)
    if args.checkpoint == ALL:
        score_all(args, models, text, encoder)
    else:
        score_one(args, models, others, text, encoder)


def score_one(
    args: argparse.Namespace,
    models: List[Model],
    others: Dict[str, Union[Model, Translations]],
    text,
    encoder: Any,
) -> None:
    """Score one checkpoint (for an ensemble, one of each model), and compare it."""
    from transformer.runtime.precision import compute_type

    for other in others.values():
        if not isinstance(other, Translations):  # refuse it now, not later
            compute_type(other[0].decode_precision, "decode_precision")
            manifests.find_checkpoint(other[1], args.checkpoint, lambda text: None)
    [ours] = translate(args, models, [args.checkpoint], text)
    steps = " + ".join(
        str(checkpoint_step(each)) for each in [ours.checkpoint, *ours.others]
    )
    written = "not written" if ours.error else ours.path
    print_lines(f"{len(text.sources)} lines of {text.name}, step {steps}: {written}")
    scores = score(
        ours.lines, text.references, args.samples, list(METRICS), text.tokenizer
    )
    for line, signature in describe(scores):
        print_lines(line, signature)
    report = dict(
        flatten_scores(scores),
        **semantic(encoder, ours.lines, text.references),
        lines=len(text.sources),
        checkpoint=ours.checkpoint,
        translations=None if ours.error else ours.path,
    )
    if ours.others:
        report["others"] = list(ours.others)
    systems = {" + ".join(args.logdir): ours}
    for name, other in others.items():
        if not isinstance(other, Translations):
            [other] = translate(args, [other], [args.checkpoint], text)
        systems[name] = other
    if others:
        report["compared"] = compare(systems, text, args.samples)
    write_json(args.json, report)
    refuse_unwritten(systems.values())


def score_all(
    args: argparse.Namespace, models: List[Model], text, encoder: Any
) -> None:
    """Score every checkpoint that is kept; print a line each, then the signatures."""

    [logdir] = args.logdir
    best = manifests.list_steps(logdir, BEST)[-1:]
    kept = manifests.list_steps(logdir)
    which = [step if step in kept else "best" for step in sorted({*best, *kept})]
    print_lines(f"{len(text.sources)} lines of {text.name}")
    systems = []
    rows = []
    signatures: Sequence[str] = []
    for each in translate(args, models, which, text):
        systems.append(each)
        scores = score(
            each.lines, text.references, args.samples, list(METRICS), text.tokenizer
        )
        step = checkpoint_step(each.checkpoint)
        lines, signatures = zip(*describe(scores))
        is_best = " (best on dev)" if step in best else ""
        print_lines(f"step {step}: {'; '.join(lines)}{is_best}")
        sys.stdout.flush()
        row = dict(
            flatten_scores(scores),
            **semantic(encoder, each.lines, text.references),
            step=step,
            checkpoint=each.checkpoint,
            translations=None if each.error else each.path,
        )
        rows.append(row)
    if not systems:
        raise ValueError(
            f"{logdir}: expected checkpoints that can be scored, got none; "
            f"{command_name('train')} writes them"
        )
    print_lines(*signatures)
    write_json(args.json, dict(lines=len(text.sources), checkpoints=rows))
    refuse_unwritten(systems)


def systems_to_compare(
    args: argparse.Namespace, changes: Dict[str, Any], text
) -> Dict[str, Union[Model, Translations]]:
    """Return the systems to compare with: name → a model, or translations from a file.

    Raises:
      ValueError: the systems or --samples 0 do not allow a comparison, or a file does
        not have a translation for each line.
    """
    if args.checkpoint == ALL and (args.compare or len(args.logdir) > 1):
        raise ValueError(
            "--checkpoint all: expected one log directory, got more than one system"
        )
    if args.compare and not args.samples:
        raise ValueError("--compare: expected samples for the test, got --samples 0")
    names = [" + ".join(args.logdir), *args.compare]
    if len(set(names)) < len(names):
        raise ValueError("--compare: expected different systems, got one twice")
    systems: Dict[str, Union[Model, Translations]] = {}
    for name in args.compare:
        if os.path.isdir(name):
            systems[name] = (hparams.load(name, changes), name)
            continue
        lines = list(read_lines(name))
        if len(lines) != len(text.sources):
            raise ValueError(
                f"{name}: expected {len(text.sources)} translations, one for each line "
                f"of {text.name}, got {len(lines)}"
            )
        systems[name] = Translations(lines, name)
    return systems


def translate(
    args: argparse.Namespace,
    models: List[Model],
    which: Sequence[Union[str, int]],
    text,
) -> Iterator[Translations]:
    """Yield the translations of a text by each checkpoint, after writing them.

    If there are several checkpoints, those that cannot be read, or have vanished, are
    left out.

    Args:
      args: the flags.
      models: the models; several translate together.
      which: the checkpoints: "best", "newest" or steps.
      text: a ParallelText.
    """
    from transformer.translator import Translator  # needs TensorFlow

    hp, logdir = models[0]
    saved = hparams.load(logdir)
    # Translations with other settings than the saved ones have files of their own.
    changed = "".join(
        f".{setting}-{value}"
        for setting, value in hparams.search_settings(hp).items()
        if value != getattr(saved, setting)
    )
    text_name = name_beside(text, saved.data)
    with Translator.for_settings(
        hp,
        logdir,
        others=models[1:],
        engine=args.engine,
        quantization=args.quantization,
        warn=args.warn,
    ) as translator:
        for each in which:
            try:
                checkpoint = translator.restore_found(each)
            except (ValueError, FileNotFoundError) as error:
                if len(which) == 1:
                    raise
                args.warn(f"left out: {error}")
                continue
            lines = [best.text for best, *_ in translator.translate(text.sources)]
            others = translator.checkpoints[1:]
            is_fast = translator.engine == CTRANSLATE2
            name = text_name
            if is_fast:
                name += f".{args.engine}-{args.quantization}"
            elif hp.decode_precision != "float32":
                name += f".{hp.decode_precision}"
            name += changed
            path = translations_path(checkpoint, name, others)
            write_error = write_lines(path, lines)
            yield Translations(lines, path, checkpoint, others, write_error)


def describe(scores) -> List[Tuple[str, str]]:
    """Return (a line, the signature) for each metric in Scores."""
    described = []
    for key, (value, signature, interval) in scores.items():
        limits = ""
        if interval:
            limits = ", 95 % interval {:.2f} to {:.2f}".format(*interval)
        described.append((f"{METRICS[key].name} = {value:.2f}{limits}", signature))
    return described


def flatten_scores(scores: Scores) -> Dict[str, Any]:
    """Return the fields of the JSON report: bleu, bleu_signature, bleu_interval, …"""
    fields: Dict[str, Any] = {}
    for key, (value, signature, interval) in scores.items():
        fields[key] = value
        fields[f"{key}_signature"] = signature
        fields[f"{key}_interval"] = interval
    return fields


def semantic(encoder: Any, lines: List[str], references: List[str]) -> Dict[str, float]:
    """Print and return the similarity in meaning, if there is an encoder."""
    if not encoder:
        return {}
    found = evaluation.semantic_similarity(encoder, lines, references)
    print_lines(
        f"semantic similarity = {found.mean:.4f} (multilingual-e5-small, 4 bits); "
        f"{100 * found.recognized:.1f} % of the translations are nearer to their own "
        "reference than to the next line's"
    )
    return {"semantic_similarity": found.mean, "recognized": found.recognized}


def compare(
    systems: Dict[str, Translations], text, samples: int
) -> List[Dict[str, Any]]:
    """Print how systems compare with the first one; return that for the JSON report."""
    report = []
    lines = {name: each.lines for name, each in systems.items()}
    for comparison in evaluation.compare(
        lines, text.references, samples, text.tokenizer
    ):
        print_lines("", *evaluation.format_table(comparison))
        first, *others = comparison.systems
        for other in others:
            print_lines(
                evaluation.describe_difference(other, first.name, comparison.metric)
            )
        rows = [system._asdict() for system in comparison.systems]
        report.append(dict(comparison._asdict(), systems=rows))
    return report


def write_json(path: Optional[str], report: Dict[str, Any]) -> None:
    """Write the scores as JSON if a path is given."""
    if path:
        # Not `files.replaced`: the path may be /dev/stdout.
        with files.name_file_in_errors(path), open(path, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=2)


def write_lines(path: str, lines: List[str]) -> Optional[OSError]:
    """Write a text file; return the error if that fails."""
    try:
        with files.replace_file(path) as file:
            file.writelines(line + "\n" for line in lines)
    except OSError as error:
        return error
    return None


def refuse_unwritten(systems: Iterable[Translations]) -> None:
    """Raise OSError if translations could not be written."""
    for each in systems:
        if each.error:
            raise OSError(
                f"{each.path} could not be written: {each.error.strerror}; the "
                "scores are complete; for the translations, copy the log directory to "
                "a place with enough space and write permission, and score it there"
            )
