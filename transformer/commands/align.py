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
from typing import Tuple

from transformer import alignment, hparams
from transformer.commands import cli
from transformer.commands.terminal import print_lines
from transformer.text.data_folder import read_parallel

SHOWN = 5  # heads


def parser() -> cli.Parser:
    """Return the parser of the command line."""
    made = cli.make_parser("align", __doc__)
    cli.add_logdir(made)
    cli.add_checkpoint(made)
    cli.add_data(made)
    made.add_argument(
        "--compare",
        nargs="+",
        default=[],
        type=cli.path,
        metavar="FILE",
        help="word pairs of test by other aligners, in Pharaoh format",
    )
    name = "decode_precision"
    cli.add_settings(made, {name: hparams.DECODING[name]})
    return made


def run(args: argparse.Namespace) -> None:
    """Choose a head on dev, store it, and print its error rate on test."""
    hp = hparams.load(args.logdir, cli.typed_settings(args, hparams.FIELDS))
    dev, known_dev = read(hp.data, "dev")
    test, known_test = read(hp.data, "test")
    others = {
        path: [pairs.sure for pairs in alignment.read_gold(path, len(known_test))]
        for path in args.compare
    }
    cli.start_tensorflow(args.verbose)
    from transformer.translator import Translator  # needs TensorFlow

    with Translator.for_settings(hp, args.logdir, warn=args.warn) as translator:
        checkpoint = translator.restore_found(args.checkpoint)
        heads = alignment.list_heads(hp)
        alignments = translator.align(dev.sources, dev.references, heads)
        rates = alignment.measure_heads(heads, alignments, known_dev)
        ordered = sorted(rates, key=rates.__getitem__)
        best = ordered[0]
        found = translator.align(test.sources, test.references, [best])
    ours = [pairs for [pairs] in found]
    alignment.refuse_unaligned(ours)
    aligned = [pairs is not None for pairs in ours]  # the lines that can be compared
    rate = alignment.error_rate(ours, known_test)
    numbers = {"dev_error_rate": rates[best], "test_error_rate": rate}
    print_lines(f"alignment error rate on dev, {len(rates)} choices, the best {SHOWN}:")
    print_lines(*(f"{100 * rates[each]:5.1f} %  {each}" for each in ordered[:SHOWN]))
    plain = alignment.default_head(hp.decoder_blocks)
    print_lines(f"{100 * rates[plain]:5.1f} %  default, if none is chosen: {plain}")
    part = "" if all(aligned) else f", {sum(aligned)} of {len(aligned)} lines"
    print_lines(f"on test{part}:", f"{100 * rate:5.1f} %  {best}")
    for path, pairs in others.items():
        same_lines = [
            theirs if is_aligned else None for theirs, is_aligned in zip(pairs, aligned)
        ]
        rate = alignment.error_rate(same_lines, known_test)
        print_lines(f"{100 * rate:5.1f} %  {path}")
    alignment.store_chosen_head(args.logdir, checkpoint, best, numbers)


def read(data: str, split: str) -> Tuple:
    """Return (the ParallelText of a split, its known word pairs)."""
    path = os.path.join(data, split + ".align")
    if not os.path.exists(path):
        raise ValueError(
            f"expected {path}, the word pairs of {split}, one line per sentence "
            "(0-0 1-2), got no such file; data/sample has such files"
        )
    text = read_parallel(data, split)
    return text, alignment.read_gold(path, len(text.sources))
