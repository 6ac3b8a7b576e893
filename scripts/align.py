"""Find out which head aligns words best, and how well: by pairs that are known.

    python scripts/align.py --logdir logs/sample
    python scripts/align.py --logdir logs/sample --compare other.align

Reads dev.align and test.align of the data folder: for each pair of sentences the
numbers of the words that correspond, 0-0 2-1, or 1?2 where they only possibly do. The
head with the lowest error rate on dev is kept in the log directory for
translate.py --alignments; its rate on test stands beside that of files of --compare,
which word aligners wrote for test.
"""

import os

import hparams
from transformer.runtime import cli, files
from transformer.runtime.terminal import say

PROG = "align.py"
SHOWN = 5  # heads


def parser():
    """Return the parser of the command line."""
    made = cli.make_parser(PROG, __doc__)
    cli.add_checkpoint(made)
    cli.add_data(made)
    made.add_argument(
        "--compare",
        nargs="+",
        default=[],
        metavar="FILE",
        help="pairs of words of test by other aligners, as Pharaoh wrote them",
    )
    return made


def run(args) -> None:
    """Choose a head on dev, keep it, print its error rate on test."""
    hp = hparams.load(args.logdir, cli.given(args, hparams.FIELDS))
    cli.start_tensorflow(args.verbose)
    from transformer.seeing import alignment
    from transformer.translator import Translator

    dev, known_dev = read(hp.data, "dev")
    test, known_test = read(hp.data, "test")
    others = {
        path: [pairs.sure for pairs in alignment.read_known(path, len(known_test))]
        for path in args.compare
    }
    with Translator(hp, args.logdir) as translator:
        checkpoint = translator.restore_found(args.checkpoint, cli.warner(PROG))
        rates = alignment.measure(translator, dev.sources, dev.references, known_dev)
        best, *_ = ordered = sorted(rates, key=rates.get)
        found = dict(alignment.align(translator, test.sources, test.references, [best]))
    rate = alignment.error_rate([found[i][0] for i in range(len(found))], known_test)
    numbers = {"dev_error_rate": rates[best], "test_error_rate": rate}
    alignment.write_choice(args.logdir, checkpoint, best, numbers)
    say(f"alignment error rate on dev, {len(rates)} choices, the best {SHOWN}:")
    say(*(f"{100 * rates[each]:5.1f} %  {each}" for each in ordered[:SHOWN]))
    plain = alignment.default_head(hp.num_blocks)
    say(f"{100 * rates[plain]:5.1f} %  where none is chosen: {plain}")
    say("on test:", f"{100 * rate:5.1f} %  {best}")
    for path, pairs in others.items():
        say(f"{100 * alignment.error_rate(pairs, known_test):5.1f} %  {path}")


def read(data: str, split: str):
    """Return (the lines of a split, the pairs of words that are known of them)."""
    from transformer.evaluation import read_parallel
    from transformer.seeing import alignment

    path = files.regular(os.path.join(data, split + ".align"))
    if not os.path.exists(path):
        raise ValueError(
            f"found no {path}, wanted the pairs of words of {split}, a line for each "
            "sentence: 0-0 1-2; data/sample has them"
        )
    text = read_parallel(data, split)
    return text, alignment.read_known(path, len(text.sources))


def main(argv=None):
    cli.main(parser(), run, argv)


if __name__ == "__main__":
    main()
