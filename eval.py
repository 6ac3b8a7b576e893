"""Score a trained model: BLEU and chrF of a split, or of any two files.

    python eval.py --logdir logs/sample --split test
    python eval.py --logdir logs/sample --files news.de news.en --json scores.json
    python eval.py --logdir logs/sample --compare logs/other other_system.en
    python eval.py --logdir logs/sample --checkpoint all
    python eval.py --logdir logs/sample logs/other    # both, averaged

Each score has its 95 % interval, by bootstrap. --compare tests the difference to other
systems: log directories, or files with a translation a line. The translations are
written beside the checkpoint.
"""

import json
import os
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence

import hparams
from transformer.runtime import cli, files
from transformer.text.lines import read_lines

PROG = "eval.py"
ALL = "all"  # the checkpoints that are kept


class Translated(NamedTuple):
    """The translations of a checkpoint, and where they were written."""

    hypotheses: List[str]
    checkpoint: str
    others: List[str]  # of the models that translated together with it
    written: str
    fault: Optional[OSError]  # why they could not be written

    def where(self) -> str:
        """Return where the translations are, in words."""
        return "not written" if self.fault else self.written


def parser():
    """Return the parser of the command line."""
    made = cli.make_parser(PROG, __doc__)
    cli.add_models(made, ALL)
    cli.add_text(made, split="test")
    made.add_argument("--json", metavar="FILE", help="write the scores there too")
    made.add_argument(
        "--compare",
        nargs="+",
        default=[],
        metavar="DIR_OR_FILE",
        help="other log directories, or files of translations, to compare with",
    )
    made.add_argument(
        "--samples",
        type=int,
        default=1000,
        metavar="INT",
        help="drawn for the intervals and the test; 0: no intervals [1000]",
    )
    cli.add_settings(made, hparams.DECODING)
    return made


def run(args) -> None:
    """Translate, print the scores, write the translations."""
    changes = cli.given(args, hparams.FIELDS)
    models = hparams.load_each(args.logdir, changes)
    others = opened(args, changes)
    cli.start_tensorflow(args.verbose)
    # Only here: TensorFlow, which most of them import, takes seconds.
    from transformer.evaluation import check_samples, read_parallel, score
    from transformer.runtime import checkpoints

    text = read_parallel(models[0][0].data, args.split, args.files)
    check_samples(args.samples, len(text.sources))
    refuse_other_lengths(others, text)
    if args.checkpoint == ALL:
        return score_all(args, models, text)
    [made] = translated(models, [args.checkpoint], text)
    steps = " + ".join(
        str(checkpoints.step_of(each)) for each in [made.checkpoint, *made.others]
    )
    print(f"{len(text.sources)} lines of {text.name}, step {steps}: {made.where()}")
    scores = score(made.hypotheses, text.references, args.samples)
    for line in shown(scores):
        print(line)
    found = dict(
        scores._asdict(),
        lines=len(text.sources),
        checkpoint=made.checkpoint,
        translations=None if made.fault else made.written,
    )
    if made.others:
        found["others"] = made.others
    every = {" + ".join(args.logdir): made}
    for name, other in others.items():
        if not isinstance(other, Translated):
            [other] = translated([other], [args.checkpoint], text)
        every[name] = other
    if others:
        systems = {name: each.hypotheses for name, each in every.items()}
        found["compared"] = compared(systems, text.references, args.samples)
    write_json(args.json, found)
    refuse_unwritten(every.values())


def score_all(args, models: List[tuple], text) -> None:
    """Score every checkpoint that is kept: a line for each, then the signatures."""
    from transformer.evaluation import score
    from transformer.runtime import checkpoints

    [logdir] = args.logdir
    newest = checkpoints.steps(logdir)
    best = checkpoints.steps(logdir, checkpoints.BEST)[-1:]
    kept = {**{step: "best" for step in best}, **{step: step for step in newest}}
    print(f"{len(text.sources)} lines of {text.name}")
    made, found, lines = [], [], []
    for each in translated(models, [kept[step] for step in sorted(kept)], text):
        made.append(each)
        scores = score(each.hypotheses, text.references, args.samples)
        step = checkpoints.step_of(each.checkpoint)
        lines = shown(scores)
        about = " (best on dev)" if step in best else ""
        print(f"step {step}: {'; '.join(lines[::2])}{about}", flush=True)
        written = None if each.fault else each.written
        row = dict(step=step, checkpoint=each.checkpoint, translations=written)
        found.append({**scores._asdict(), **row})
    if not made:
        raise ValueError(
            f"{logdir}: found no checkpoint that could be scored, wanted some; "
            "train.py writes them"
        )
    print(*lines[1::2], sep="\n")
    write_json(args.json, dict(lines=len(text.sources), checkpoints=found))
    refuse_unwritten(made)


def opened(args, changes: Dict[str, Any]) -> Dict[str, Any]:
    """Return what to compare with: name → (settings, log directory), or Translated.

    Raises:
      ValueError: there is nothing to compare with, or no sample to do it by.
    """
    if args.checkpoint == ALL and (args.compare or len(args.logdir) > 1):
        raise ValueError(
            "--checkpoint all: found more than one system, wanted one log directory"
        )
    if args.compare and not args.samples:
        raise ValueError("--compare: found --samples 0, wanted samples to compare by")
    names = [" + ".join(args.logdir), *args.compare]
    if len(set(names)) < len(names):
        raise ValueError("--compare: found a name twice, wanted different systems")
    return {
        name: (hparams.load(name, changes), name)
        if os.path.isdir(name)
        else Translated(list(read_lines(name)), "", [], name, None)
        for name in args.compare
    }


def refuse_other_lengths(others: Dict[str, Any], text) -> None:
    """Raise ValueError where a file has not a translation for each line."""
    for name, other in others.items():
        found = len(text.sources)
        if isinstance(other, Translated):
            found = len(other.hypotheses)
        if found != len(text.sources):
            raise ValueError(
                f"{name}: found {found} translations, wanted {len(text.sources)}, one "
                f"for each line of {text.name}"
            )


def translated(models: List[tuple], which: Sequence, text) -> Iterator[Translated]:
    """Yield the translations of a text by checkpoints, after writing them.

    Of several checkpoints, one that cannot be read, or vanished, is left out.

    Args:
      models: (settings, log directory) of each; several translate together.
      which: the checkpoints: "best", "newest" or steps.
      text: ParallelText.
    """
    from transformer.evaluation import translations_path
    from transformer.translator import Translator

    with Translator(*models[0], others=models[1:]) as translator:
        for each in which:
            try:
                checkpoint = translator.restore_found(each, cli.warner(PROG))
            except (ValueError, FileNotFoundError) as error:
                if len(which) == 1:
                    raise
                cli.warner(PROG)(f"left out: {error}")
                continue
            found = [best.text for best, *_ in translator.translate(text.sources)]
            others = translator.checkpoints[1:]
            path = translations_path(checkpoint, text.name, others)
            yield Translated(found, checkpoint, others, path, write_lines(path, found))


def shown(scores) -> List[str]:
    """Return the lines about Scores: each with its interval, and its signature."""
    lines = []
    for name, score, interval, signature in (
        ("BLEU", scores.bleu, scores.bleu_interval, scores.bleu_signature),
        ("chrF2", scores.chrf, scores.chrf_interval, scores.chrf_signature),
    ):
        about = ", 95 % interval {:.2f} to {:.2f}".format(*interval) if interval else ""
        lines += [f"{name} = {score:.2f}{about}", signature]
    return lines


def compared(systems: Dict[str, List[str]], references: List[str], samples: int):
    """Print how systems compare with the first one; return that as JSON has it."""
    from transformer import significance

    told = []
    for each in significance.compare(systems, references, samples):
        print("", *significance.table(each), sep="\n")
        first, *others = each.systems
        for other in others:
            print(significance.sentence(other, first.name, each.metric))
        rows = [system._asdict() for system in each.systems]
        told.append(dict(each._asdict(), systems=rows))
    return told


def write_json(path: Optional[str], found: Dict[str, Any]) -> None:
    """Write what was found, where that was asked for."""
    if path:
        with open(path, "w", encoding="utf-8") as file:  # /dev/stdout too
            json.dump(found, file, indent=2)


def write_lines(path: str, lines: List[str]) -> Optional[OSError]:
    """Write a text file; return the error where that was not possible."""
    try:
        with files.replaced(path) as file:
            file.writelines(line + "\n" for line in lines)
    except OSError as error:
        return error
    return None


def refuse_unwritten(made: Iterable[Translated]) -> None:
    """Raise OSError where translations could not be written."""
    for each in made:
        if each.fault:
            raise OSError(
                f"{each.written} could not be written: {each.fault.strerror}; the "
                "scores are complete; for the translations, copy the log directory to "
                "where there is room and permission, and score it there"
            )


def main(argv=None):
    cli.main(parser(), run, argv)


if __name__ == "__main__":
    main()
