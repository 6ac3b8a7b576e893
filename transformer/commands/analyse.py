"""Find the errors of a model, and compare it with other systems.

    transformer-tf analyse --logdir logs/sample
    transformer-tf analyse --logdir logs/sample --compare logs/other other_system.en
    transformer-tf analyse --logdir logs/sample --html errors.html

It prints BLEU and chrF by length, by rare words and by confidence; repeated, copied and
missing words; the worst lines, and those that differ most. --compare takes log
directories, or files with one translation per line.
"""

import argparse
import collections
import os
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from transformer import hparams
from transformer.runtime import cli, files
from transformer.runtime.terminal import command, say
from transformer.text.lines import read_lines

if TYPE_CHECKING:
    from transformer.analysis import System
    from transformer.evaluation import ParallelText

MOST_PAIRS = 200_000  # the first pairs of the training data, whose words are counted


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = cli.make_parser("analyse", __doc__)
    cli.add_checkpoint(made)
    cli.add_text(made, split="test")
    made.add_argument(
        "--compare",
        nargs="+",
        default=[],
        metavar="DIR_OR_FILE",
        help="other log directories, or files of translations",
    )
    made.add_argument(
        "--html", metavar="FILE", help="also write the report to this file"
    )
    cli.add_settings(made, hparams.DECODING)
    return made


def run(args: argparse.Namespace) -> None:
    """Translate, analyse, print; write the page."""
    changes = cli.given(args, hparams.FIELDS)
    hp = hparams.load(args.logdir, changes)
    if len({args.logdir, *args.compare}) <= len(args.compare):
        raise ValueError("--compare: expected different systems, got a name twice")
    others = {
        name: hparams.load(name, changes)
        if os.path.isdir(name)
        else list(read_lines(name))
        for name in args.compare
    }
    cli.start_tensorflow(args.verbose)
    from transformer import analysis
    from transformer.evaluation import read_parallel
    from transformer.viewer.report_page import as_text, report_page

    text = read_parallel(hp.data, args.split, args.files)
    refuse_other_lengths(others, text)
    texts = analysis.Texts(text.sources, text.references, frequencies(hp.data))
    systems = [translated(hp, args.logdir, args.checkpoint, text.sources)]
    for name, other in others.items():
        if isinstance(other, list):
            systems.append(analysis.System(name, other, None))
        else:
            systems.append(translated(other, name, args.checkpoint, text.sources))
    report = analysis.analyse(f"Errors on {text.name}", texts, systems)
    say(*as_text(report))
    if args.html:
        with files.replaced(args.html) as file:
            file.write(report_page(report))
        say("", args.html)


def refuse_other_lengths(others: Dict[str, Any], text: "ParallelText") -> None:
    """Raise ValueError unless each file has a translation for each line."""
    for name, other in others.items():
        if isinstance(other, list) and len(other) != len(text.sources):
            raise ValueError(
                f"{name}: expected {len(text.sources)} translations, one for "
                f"each line of {text.name}, got {len(other)}"
            )


def translated(
    hp: hparams.HParams, logdir: str, which: str, sources: List[str]
) -> "System":
    """Translate with the model of a log directory; return its System."""
    from transformer import analysis
    from transformer.translator import Translator

    with Translator(hp, logdir) as translator:
        translator.restore_found(which, cli.warner(command("analyse")))
        found = [best.text for best, *_ in translator.translate(sources)]
        sure = analysis.confidences(translator, sources, found)
    return analysis.System(logdir, found, sure)


def frequencies(data: str) -> Optional[Dict[str, int]]:
    """Count the words in the target of the training data.

    Returns:
      None if there is no data folder.
    """
    from transformer.analysis import tokens
    from transformer.data import Corpus
    from transformer.text.data_folder import read_summary
    from transformer.text.vocabulary import load_vocabularies

    try:
        corpus = Corpus(data, "train")
        copies = read_summary(data).get("bpe_dropout", {}).get("copies", 1)
        vocabulary = load_vocabularies(data).target
    except (OSError, ValueError) as error:
        cli.warner(command("analyse"))(f"no table of rare words: {error}")
        return None
    counts: collections.Counter = collections.Counter()
    for number in range(min(len(corpus) // copies, MOST_PAIRS)):
        counts.update(tokens(vocabulary.decode(corpus.target(number).tolist())))
    return counts


def main(argv: Optional[List[str]] = None) -> None:
    """Run the command line."""
    cli.main(parser(), run, argv)
