"""Find out where the errors of a model are, and what another one does differently.

    python scripts/analyse.py --logdir logs/sample
    python scripts/analyse.py --logdir logs/sample --compare logs/other other_system.en
    python scripts/analyse.py --logdir logs/sample --html errors.html

BLEU and chrF by length, by rare words and by how sure the model was; repeated, copied
and missing words; the worst lines, and those that differ most. --compare takes log
directories, or files with a translation a line.
"""

import collections
import os
from typing import Any, Dict, List, Optional

import hparams
from transformer.runtime import cli, files
from transformer.runtime.terminal import say
from transformer.text.lines import read_lines

PROG = "analyse.py"
MOST_PAIRS = 200_000  # of the training data, whose words are counted: the first ones


def parser():
    """Return the parser of the command line."""
    made = cli.make_parser(PROG, __doc__)
    cli.add_checkpoint(made)
    cli.add_text(made, split="test")
    made.add_argument(
        "--compare",
        nargs="+",
        default=[],
        metavar="DIR_OR_FILE",
        help="other log directories, or files of translations",
    )
    made.add_argument("--html", metavar="FILE", help="write the report there too")
    cli.add_settings(made, hparams.DECODING)
    return made


def run(args) -> None:
    """Translate, analyse, print; write the page."""
    changes = cli.given(args, hparams.FIELDS)
    hp = hparams.load(args.logdir, changes)
    if len({args.logdir, *args.compare}) <= len(args.compare):
        raise ValueError("--compare: found a name twice, wanted different systems")
    others = {
        name: hparams.load(name, changes)
        if os.path.isdir(name)
        else list(read_lines(name))
        for name in args.compare
    }
    cli.start_tensorflow(args.verbose)
    from transformer import analysis
    from transformer.evaluation import read_parallel
    from transformer.seeing.report_page import as_text, report_page

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


def refuse_other_lengths(others: Dict[str, Any], text) -> None:
    """Raise ValueError where a file has not a translation for each line."""
    for name, other in others.items():
        if isinstance(other, list) and len(other) != len(text.sources):
            raise ValueError(
                f"{name}: found {len(other)} translations, wanted "
                f"{len(text.sources)}, one for each line of {text.name}"
            )


def translated(hp, logdir: str, which: str, sources: List[str]):
    """Return the System of a log directory."""
    from transformer import analysis
    from transformer.translator import Translator

    with Translator(hp, logdir) as translator:
        translator.restore_found(which, cli.warner(PROG))
        found = [best.text for best, *_ in translator.translate(sources)]
        sure = analysis.confidences(translator, sources, found)
    return analysis.System(logdir, found, sure)


def frequencies(data: str) -> Optional[Dict[str, int]]:
    """Return how often words stand in the target of the training data.

    None where the data folder is gone.
    """
    from transformer.analysis import tokens
    from transformer.data import Corpus
    from transformer.text.summary import read_summary
    from transformer.text.vocabulary_files import load_vocabularies

    try:
        corpus, copies = Corpus(data, "train"), read_summary(data).get("copies", 1)
        vocabulary = load_vocabularies(data).target
    except (OSError, ValueError) as error:
        cli.warner(PROG)(f"no table of rare words: {error}")
        return None
    counts = collections.Counter()
    for number in range(min(len(corpus) // copies, MOST_PAIRS)):
        counts.update(tokens(vocabulary.decode(corpus.target(number))))
    return counts


def main(argv=None):
    cli.main(parser(), run, argv)


if __name__ == "__main__":
    main()
