"""Score a trained model: BLEU, chrF and TER on a split, or on any two files.

    transformer-tf eval --logdir logs/sample --split test
    transformer-tf eval --logdir logs/sample --files news.de news.en --json scores.json
    transformer-tf eval --logdir logs/sample --compare logs/other other_system.en
    transformer-tf eval --logdir logs/sample --checkpoint all
    transformer-tf eval --logdir logs/sample logs/other    # both, averaged
    transformer-tf eval --logdir logs/sample --semantic
    transformer-tf eval --logdir logs/sample --references second.en third.en

Each score comes with its 95 % bootstrap interval. --compare tests the difference from
other systems, which are log directories, or files with one translation per line. The
translations are written next to the checkpoint.

With --references, BLEU, chrF and TER take several references of each line into account.
--sentence_scores writes the scores of each line by itself, as a table.

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
    Callable,
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
from transformer.commands.terminal import print_lines
from transformer.commands.translate import add_engine
from transformer.evaluation import METRICS, SAMPLES, Comparison, Scores, Similarity
from transformer.exports.ctranslate2 import CTRANSLATE2
from transformer.logdir import manifests
from transformer.logdir.names import BEST, checkpoint_step, translations_path
from transformer.runtime import files
from transformer.runtime.errors import CheckpointNotFound
from transformer.runtime.progress import format_count
from transformer.text.anomalies import Side, find_anomalies, normalize
from transformer.text.data_folder import (
    ParallelText,
    name_text,
    read_parallel,
    read_translations,
    text_paths,
)
from transformer.text.lines import describe_line_ends, split_label
from transformer.text.pair_checks import describe_unmatched

ALL = "all"  # every checkpoint that is kept

Model = Tuple[hparams.HParams, str]  # the settings, the log directory


class Engine(NamedTuple):
    """What translates."""

    name: str
    quantization: str
    warn: Callable[[str], None]


class Translations(NamedTuple):
    """The translations of a text by one system, and the file for them."""

    lines: List[str]
    path: str
    checkpoint: str = ""
    others: Sequence[str] = ()  # checkpoints that translated with it
    error: Optional[OSError] = None  # why the file could not be written


class Quality(NamedTuple):
    """How good the translations of a text are."""

    scores: Scores
    similarity: Optional[Similarity] = None  # in meaning; None: not requested


def parser() -> cli.Parser:
    """Return the parser of the command line."""
    parser = cli.make_parser("eval", __doc__)
    cli.add_logdir(parser, "their probabilities are averaged")
    cli.add_checkpoint(parser, f"; {ALL}: each that is kept")
    cli.add_text(parser, split="test")
    parser.add_argument(
        "--json", type=cli.path, metavar="FILE", help="also write the scores here"
    )
    parser.add_argument(
        "--sentence_scores",
        type=cli.path,
        metavar="FILE",
        help="also write the scores of each line here, separated by tabs",
    )
    parser.add_argument(
        "--references",
        nargs="+",
        default=[],
        type=cli.path,
        metavar="FILE",
        help="files with further references of the same lines",
    )
    parser.add_argument(
        "--compare",
        nargs="+",
        default=[],
        metavar="DIR_OR_FILE",
        help="other log directories, or files of translations, to compare with",
    )
    cli.add_number(
        parser,
        "samples",
        SAMPLES,
        "samples for the intervals and the significance test; 0: no intervals",
    )
    parser.add_argument(
        "--semantic",
        action="store_true",
        help="also measure similarity in meaning; needs the extra semantic",
    )
    add_engine(parser)
    cli.add_settings(parser, hparams.DECODING)
    return parser


def run(args: argparse.Namespace) -> None:
    """Translate, print the scores, and write the translations."""
    for flag in ("json", "sentence_scores"):
        path = getattr(args, flag)
        if path:
            files.refuse_missing_folder(path)
        if path and os.path.isdir(path):
            raise ValueError(f"--{flag}: expected a file, got a folder, {path}")
    inputs = ("files", "references", "compare", "logdir")
    cli.refuse_overwriting(
        {"--json": args.json, "--sentence_scores": args.sentence_scores},
        {
            f"--{name}": [split_label(path)[0] for path in getattr(args, name) or ()]
            for name in inputs
        },
    )
    if args.sentence_scores and args.checkpoint == ALL:
        raise ValueError(
            f"--sentence_scores: expected one checkpoint, got --checkpoint {ALL}"
        )
    changes = cli.read_settings(args, hparams.FIELDS)
    models = hparams.load_each(args.logdir, changes)
    encoder = evaluation.load_sentence_encoder() if args.semantic else None
    if not args.files:
        cli.refuse_overwriting(
            {"--json": args.json, "--sentence_scores": args.sentence_scores},
            {"--data": text_paths(models[0][0].data, args.split)},
        )
    text = read_parallel(models[0][0].data, args.split, args.files)
    text = text._replace(
        more_references=[
            read_all_lines(path, text, "reference") for path in args.references
        ]
    )
    evaluation.check_samples(args.samples)
    name = " + ".join(args.logdir)
    refuse_comparison(args.checkpoint, args.logdir, args.compare, args.samples)
    others = read_systems(args.compare, changes, text)
    cli.start_tensorflow(args.verbose)
    engine = Engine(args.engine, args.quantization, args.warn)

    def measure(lines):
        return measure_quality(lines, text, args.samples, encoder)

    if args.checkpoint == ALL:
        by_checkpoint = run_all(models, text, engine, measure, args.json)
        newest = by_checkpoint[-1]
        warn_of_references(args, text, newest.lines)
        warn_of_translations(newest, text, args.warn)
        refuse_unwritten(by_checkpoint)
        return
    for other in others.values():
        if not isinstance(other, Translations):
            refuse_model(other, args.checkpoint)
    [translations] = translate(models, [args.checkpoint], text, engine)
    translations = write_translations(translations)
    print_lines(describe_translations(translations, text))
    warn_of_references(args, text, translations.lines)
    warn_of_translations(translations, text, args.warn)
    quality = measure(translations.lines)
    print_quality(quality)
    systems = {name: translations}
    for other_name, other in others.items():
        if not isinstance(other, Translations):
            [other] = translate([other], [args.checkpoint], text, engine)
            other = write_translations(other)
        warn_of_translations(other, text, args.warn)
        systems[other_name] = other
    report = make_report(translations, quality, lines=len(text.sources))
    if others:
        comparisons = compare_systems(systems, text, args.samples)
        print_comparisons(comparisons)
        report["compared"] = list(map(make_comparison_report, comparisons))
    write_json(args.json, report)
    write_sentence_scores(args.sentence_scores, translations.lines, text)
    refuse_unwritten(systems.values())


def run_all(
    models: List[Model],
    text: ParallelText,
    engine: Engine,
    measure: Callable[[List[str]], Quality],
    json_path: Optional[str],
) -> List[Translations]:
    """Score every checkpoint that is kept; print a line each, then the signatures.

    Args:
      models: one model.
      text: the text to translate.
      engine: what translates.
      measure: function of translations.
      json_path: where the scores are also written, if not None.

    Returns:
      The translations by each checkpoint, oldest first.
    """
    [(_, logdir)] = models
    best = manifests.list_steps(logdir, BEST)[-1:]
    newest = manifests.list_steps(logdir)
    which = [step if step in newest else "best" for step in sorted({*best, *newest})]
    print_lines(f"{format_count(len(text.sources), 'line')} of {text.name}")
    systems = []
    reports = []
    signatures: Sequence[str] = []
    for translations in map(write_translations, translate(models, which, text, engine)):
        quality = measure(translations.lines)
        step = checkpoint_step(translations.checkpoint)
        scores, signatures = zip(*format_scores(quality.scores))
        is_best = " (best on dev)" if step in best else ""
        print_lines(f"step {step}: {'; '.join(scores)}{is_best}")
        if quality.similarity:
            print_lines(format_similarity(quality.similarity))
        sys.stdout.flush()
        systems.append(translations)
        reports.append(make_report(translations, quality, step=step))
    if not systems:
        raise CheckpointNotFound(
            f"{logdir}: there is no checkpoint that can be scored", logdir
        )
    print_lines(*signatures)
    write_json(json_path, dict(lines=len(text.sources), checkpoints=reports))
    return systems


# The systems


def refuse_comparison(
    which: str, logdirs: Sequence[str], compared: Sequence[str], samples: int
) -> None:
    """Raise ValueError for a comparison that cannot be made.

    Args:
      which: the value of `--checkpoint`.
      logdirs: the log directories of the model.
      compared: the values of `--compare`.
      samples: the number of samples for the test.
    """
    if which == ALL and (compared or len(logdirs) > 1):
        raise ValueError(
            "--checkpoint all: expected one log directory, got more than one system"
        )
    if compared and not samples:
        raise ValueError("--compare: expected samples for the test, got --samples 0")
    names = [" + ".join(logdirs), *compared]
    if len(set(names)) < len(names):
        raise ValueError("--compare: expected different systems, got one twice")


def read_systems(
    paths: Sequence[str], changes: Dict[str, Any], text: ParallelText
) -> Dict[str, Union[Model, Translations]]:
    """Read the systems to compare with.

    Args:
      paths: log directories, and files of translations.
      changes: settings that replace the saved ones.
      text: the text that is translated.

    Returns:
      Path → a model that can translate, or the translations in a file.

    Raises:
      ValueError: a file does not have a translation for each line.
    """
    systems: Dict[str, Union[Model, Translations]] = {}
    for path in paths:
        if os.path.isdir(path):
            systems[path] = (hparams.load(path, changes), path)
            continue
        lines = read_all_lines(path, text, "translation")
        systems[path] = Translations(lines, path)
    return systems


def read_all_lines(path: str, text: ParallelText, kind: str) -> List[str]:
    """Read a line for each line of a text.

    Args:
      path: the file.
      text: the text.
      kind: what a line is: "translation" or "reference".

    Raises:
      ValueError: the file has more or fewer lines.
    """
    lines = read_translations(path, text)
    if len(lines) != len(text.sources):
        raise ValueError(
            f"{path}: expected {format_count(len(text.sources), kind)}, one for each "
            f"line of {text.name}, got {len(lines):,}"
        )
    return lines


def refuse_model(model: Model, which: str) -> None:
    """Raise ValueError or OSError for a model that will not be able to translate."""
    from transformer.runtime.precision import compute_type  # needs TensorFlow

    hp, logdir = model
    compute_type(hp.decode_precision, "decode_precision")
    manifests.find_checkpoint(logdir, which, lambda message: None)


def translate(
    models: List[Model],
    which: Sequence[Union[str, int]],
    text: ParallelText,
    engine: Engine,
) -> Iterator[Translations]:
    """Yield the translations of a text by each checkpoint.

    If there are several checkpoints, those that cannot be read, or have vanished, are
    left out.

    Args:
      models: the models; several translate together.
      which: the checkpoints: "best", "newest" or steps.
      text: the text.
      engine: what translates.
    """
    from transformer.translator import Translator  # needs TensorFlow

    hp, logdir = models[0]
    with Translator.for_settings(
        hp,
        logdir,
        other_models=models[1:],
        engine=engine.name,
        quantization=engine.quantization,
        warn=engine.warn,
    ) as translator:
        for checkpoint in which:
            try:
                path = translator.find_and_restore(checkpoint)
            except (ValueError, FileNotFoundError) as error:
                if len(which) == 1:
                    raise
                engine.warn(f"left out: {error}")
                continue
            lines = [best.text for best, *_ in translator.translate(text.sources)]
            others = translator.checkpoints[1:]
            is_fast = translator.engine == CTRANSLATE2
            name = name_of_translations(hp, logdir, text, engine if is_fast else None)
            file = translations_path(path, name, others)
            yield Translations(lines, file, path, others)


def name_of_translations(
    hp: hparams.HParams, logdir: str, text: ParallelText, fast: Optional[Engine]
) -> str:
    """Return the name of the translations of a text beside a checkpoint.

    Translations with another engine, precision or search than the saved ones have files
    of their own.

    Args:
      hp: the settings of the search.
      logdir: the log directory, with the saved settings.
      text: the text.
      fast: the fast engine, if it translated.
    """
    saved = hparams.load(logdir)
    name = name_text(text, saved.data)
    if fast:
        name += f".{fast.name}-{fast.quantization}"
    elif hp.decode_precision != "float32":
        name += f".{hp.decode_precision}"
    for setting, value in hparams.search_settings(hp).items():
        if value != getattr(saved, setting):
            name += f".{setting}-{value}"
    return name


def write_translations(translations: Translations) -> Translations:
    """Write translations to their file; return them, with the error if that fails."""
    try:
        with files.replace_file(translations.path) as file:
            file.writelines(line + "\n" for line in translations.lines)
    except OSError as error:
        return translations._replace(error=error)
    return translations


def refuse_unwritten(systems: Iterable[Translations]) -> None:
    """Raise OSError if translations could not be written."""
    for translations in systems:
        if translations.error:
            raise OSError(
                f"{translations.path} could not be written: "
                f"{translations.error.strerror}; the scores are complete; for the "
                "translations, copy the log directory to a place with enough space and "
                "write permission, and score it there"
            )


# Warnings


def warn_of_references(
    args: argparse.Namespace, text: ParallelText, translations: List[str]
) -> None:
    """Warn, in a line for each file of a text, of what makes the scores wrong.

    Args:
      args: the command line.
      text: the text.
      translations: of each line.
    """
    names = args.files or [
        f"the {side} of {text.name}" for side in ("sources", "references")
    ]
    warn_of(names[0], [describe_line_ends(text.sources)], args.warn)
    pairs = zip([names[1], *args.references], [text.references, *text.more_references])
    for index, (name, references) in enumerate(pairs):
        side = Side(references, translations, text.sources, is_reference=True)
        anomalies = [*find_anomalies(side), describe_line_ends(references)]
        if index == 0 and any(text.unmatched):
            anomalies.insert(0, describe_unmatched(text.unmatched))
        warn_of(name, anomalies, args.warn)


def warn_of_translations(
    translations: Translations, text: ParallelText, warn: Callable[[str], None]
) -> None:
    """Warn in a line of what makes the scores of translations wrong."""
    anomalies = find_anomalies(Side(translations.lines, text.references, text.sources))
    anomalies.append(describe_line_ends(translations.lines))
    if not translations.checkpoint and are_references(translations, text):
        anomalies.append("this is the text of the references, or nearly so")
    warn_of(translations.path, anomalies, warn)


def are_references(translations: Translations, text: ParallelText) -> bool:
    """Return whether translations are references, but for case and spaces."""
    lines = list(map(normalize, translations.lines))
    return any(
        lines == list(map(normalize, references))
        for references in (text.references, *text.more_references)
    )


def warn_of(name: str, findings: List[str], warn: Callable[[str], None]) -> None:
    """Warn in a line of what is wrong with a text, leaving out empty findings."""
    description = "; ".join(filter(None, findings))
    if description:
        warn(f"{name}: {description}")


# The scores


def measure_quality(
    lines: List[str], text: ParallelText, samples: int, encoder: Any
) -> Quality:
    """Score translations by all metrics and, with an encoder, in meaning."""
    scores = evaluation.score(
        lines,
        text.references,
        samples,
        list(METRICS),
        text.tokenizer,
        text.more_references,
    )
    if not encoder:
        return Quality(scores)
    similarity = evaluation.semantic_similarity(encoder, lines, text.references)
    return Quality(scores, similarity)


def compare_systems(
    systems: Dict[str, Translations], text: ParallelText, samples: int
) -> List[Comparison]:
    """Compare systems with the first one, by each metric."""
    lines = {name: translations.lines for name, translations in systems.items()}
    return evaluation.compare(
        lines, text.references, samples, text.tokenizer, text.more_references
    )


# What is printed


def describe_translations(translations: Translations, text: ParallelText) -> str:
    """Say what was translated, by which step, and where the translations are."""
    steps = " + ".join(
        str(checkpoint_step(checkpoint))
        for checkpoint in [translations.checkpoint, *translations.others]
    )
    path = "not written" if translations.error else translations.path
    lines = format_count(len(text.sources), "line")
    return f"{lines} of {text.name}, step {steps}: {path}"


def format_scores(scores: Scores) -> List[Tuple[str, str]]:
    """Return (a line, the signature) for each score."""
    rows = []
    for key, (value, signature, interval) in scores.items():
        limits = ""
        if interval:
            limits = ", 95 % interval {:.2f} to {:.2f}".format(*interval)
        rows.append((f"{METRICS[key].name} = {value:.2f}{limits}", signature))
    return rows


def format_similarity(similarity: Similarity) -> str:
    """Say how similar translations and references are in meaning."""
    return (
        f"semantic similarity = {similarity.mean:.4f} (multilingual-e5-small, 4 bits); "
        f"{100 * similarity.recognized:.1f} % of the translations are nearer to their "
        "own reference than to the next line's"
    )


def print_quality(quality: Quality) -> None:
    """Print the scores, each followed by its signature."""
    for line, signature in format_scores(quality.scores):
        print_lines(line, signature)
    if quality.similarity:
        print_lines(format_similarity(quality.similarity))


def print_comparisons(comparisons: Iterable[Comparison]) -> None:
    """Print a table for each metric, and a sentence for each system."""
    for comparison in comparisons:
        print_lines("", *evaluation.format_table(comparison))
        first, *others = comparison.systems
        for other in others:
            print_lines(
                evaluation.describe_difference(other, first.name, comparison.metric)
            )


# The JSON report


def make_report(
    translations: Translations, quality: Quality, **fields: Any
) -> Dict[str, Any]:
    """Make the report about one checkpoint: bleu, bleu_signature, bleu_interval, …

    Args:
      translations: its translations.
      quality: their scores.
      fields: further fields of the report.
    """
    report: Dict[str, Any] = {}
    for key, (value, signature, interval) in quality.scores.items():
        report[key] = value
        report[f"{key}_signature"] = signature
        report[f"{key}_interval"] = interval
    if quality.similarity:
        report["semantic_similarity"] = quality.similarity.mean
        report["recognized"] = quality.similarity.recognized
    report.update(fields)
    report["checkpoint"] = translations.checkpoint
    report["translations"] = None if translations.error else translations.path
    if translations.others:
        report["others"] = list(translations.others)
    return report


def make_comparison_report(comparison: Comparison) -> Dict[str, Any]:
    """Return a Comparison as a dict of JSON types."""
    systems = [system._asdict() for system in comparison.systems]
    return dict(comparison._asdict(), systems=systems)


def write_sentence_scores(
    path: Optional[str], lines: List[str], text: ParallelText
) -> None:
    """Write the scores of each line as a table, if a path is given."""
    if path:
        scores = evaluation.score_sentences(
            lines,
            text.references,
            tokenizer=text.tokenizer,
            more_references=text.more_references,
        )
        # Not `files.replace_file`: the path may be /dev/stdout.
        with files.name_file_in_errors(path), open(path, "w", encoding="utf-8") as file:
            file.write("\t".join(METRICS[key].name for key in scores) + "\n")
            for row in zip(*scores.values()):
                file.write("\t".join(f"{value:.2f}" for value in row) + "\n")


def write_json(path: Optional[str], report: Dict[str, Any]) -> None:
    """Write the scores as JSON if a path is given."""
    if path:
        # Not `files.replace_file`: the path may be /dev/stdout.
        with files.name_file_in_errors(path), open(path, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=2)
