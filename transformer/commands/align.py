"""Find the attention head that aligns words best, and its alignment error rate.

    transformer-tf align --logdir logs/sample
    transformer-tf align --logdir logs/sample --compare other.align

The data folder must contain dev.align and test.align. For each pair of sentences, these
files list the indices of the words that correspond: 0-0 2-1, or 1?2 for words that
possibly do. The head with the lowest error rate on dev is stored in the log directory,
for transformer-tf translate --alignments. The command prints its error rate on test,
and the error rates of the files given by --compare, which other word aligners wrote for
test.
"""

import argparse
import os
from typing import List, NamedTuple

from transformer import alignment, hparams
from transformer.commands import cli
from transformer.commands.terminal import print_lines
from transformer.runtime.files import refuse_irregular
from transformer.text.data_folder import ParallelText, read_parallel

SHOWN = 5  # heads


class Aligned(NamedTuple):
    """A split with its gold alignments."""

    text: ParallelText
    gold: List[alignment.Gold]


def parser() -> cli.Parser:
    """Return the parser of the command line."""
    parser = cli.make_parser("align", __doc__)
    cli.add_logdir(parser)
    cli.add_checkpoint(parser)
    cli.add_data(parser)
    parser.add_argument(
        "--compare",
        nargs="+",
        default=[],
        type=cli.path,
        metavar="FILE",
        help="word pairs of test by other aligners, in Pharaoh format",
    )
    name = "decode_precision"
    cli.add_settings(parser, {name: hparams.DECODING[name]})
    return parser


def run(args: argparse.Namespace) -> None:
    """Choose a head on dev, store it, and print its error rate on test."""
    hp = hparams.load(args.logdir, cli.read_settings(args, hparams.FIELDS))
    dev = read_aligned(hp.data, "dev")
    test = read_aligned(hp.data, "test")
    others = {
        path: [pairs.sure for pairs in alignment.read_gold(path, len(test.gold))]
        for path in args.compare
    }
    cli.start_tensorflow(args.verbose)
    from transformer.translator import Translator  # needs TensorFlow

    heads = alignment.list_heads(hp)
    with Translator.for_settings(hp, args.logdir, warn=args.warn) as translator:
        checkpoint = translator.find_and_restore(args.checkpoint)
        of_dev = translator.align(dev.text.sources, dev.text.references, heads)
        rates = alignment.measure_heads(heads, of_dev, dev.gold)
        best, *_ = ranking = sorted(rates, key=rates.__getitem__)
        of_test = translator.align(test.text.sources, test.text.references, [best])
    alignments = [pairs for [pairs] in of_test]
    alignment.refuse_unaligned(alignments)
    rate = alignment.error_rate(alignments, test.gold)
    default = alignment.default_head(hp.decoder_blocks)
    print_lines(
        f"alignment error rate on dev, {len(rates)} choices, the best {SHOWN}:",
        *(f"{100 * rates[head]:5.1f} %  {head}" for head in ranking[:SHOWN]),
        f"{100 * rates[default]:5.1f} %  default, if none is chosen: {default}",
    )
    is_aligned = [pairs is not None for pairs in alignments]  # these can be compared
    part = ""
    if not all(is_aligned):
        part = f", {sum(is_aligned)} of {len(is_aligned)} lines"
    print_lines(f"on test{part}:", f"{100 * rate:5.1f} %  {best}")
    for path, other in others.items():
        same_lines = [
            pairs if is_so else None for pairs, is_so in zip(other, is_aligned)
        ]
        other_rate = alignment.error_rate(same_lines, test.gold)
        print_lines(f"{100 * other_rate:5.1f} %  {path}")
    error_rates = {"dev_error_rate": rates[best], "test_error_rate": rate}
    alignment.store_chosen_head(args.logdir, checkpoint, best, error_rates)


def read_aligned(data: str, split: str) -> Aligned:
    """Read a split of a data folder, and its gold alignments.

    Raises:
      ValueError: there are none.
    """
    path = os.path.join(data, split + ".align")
    if not os.path.exists(path):
        raise ValueError(
            f"{path} is missing: the word pairs of {split}, one line per sentence "
            "(0-0 1-2); data/sample has such files"
        )
    refuse_irregular(path)
    text = read_parallel(data, split)
    return Aligned(text, alignment.read_gold(path, len(text.sources)))
