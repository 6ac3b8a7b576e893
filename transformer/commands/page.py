"""Write a page with a model in it: it translates and explains without a server.

    transformer-tf page --logdir logs/sample --out page.html
    transformer-tf page --logdir logs/mine --out page.html --weights float32 \\
        --examples "Ein Satz." "Noch ein Satz."

The page is one file. It opens from a folder, from a mail and from any web server, and
needs no network. docs/seeing.md is a tour of it.
"""

import argparse
import os

from transformer import hparams
from transformer.commands import cli
from transformer.commands.terminal import print_lines
from transformer.exports.weights import INT8, TYPES
from transformer.runtime import files
from transformer.text.data_folder import choose_dev_lines, find_references

NUM_EXAMPLES = 6  # of the dev split


def parser() -> cli.Parser:
    """Return the parser of the command line."""
    parser = cli.make_parser("page", __doc__)
    cli.add_logdir(parser, "refused, because the page has no ensembles")
    cli.add_checkpoint(parser)
    parser.add_argument(
        "--out", required=True, type=cli.path, metavar="FILE", help="the page to write"
    )
    parser.add_argument(
        "--split",
        action="store_true",
        help="write a folder instead: index.html, which appears at once, and scripts "
        "with the weights",
    )
    parser.add_argument(
        "--weights",
        default=INT8,
        choices=TYPES,
        metavar="TYPE",
        help=f"{', '.join(TYPES)}: int8 has a quarter of the size of float32, and may "
        f"translate a little differently [{INT8}]",
    )
    parser.add_argument(
        "--examples",
        nargs="+",
        metavar="SENTENCE",
        help="sentences that the page offers; it opens with the first one, or "
        "with the one that is translated best, if they are from the dev split "
        f"[{NUM_EXAMPLES} of the dev split]",
    )
    cli.add_docs(parser)
    cli.add_settings(parser, hparams.DECODING)
    return parser


def run(args: argparse.Namespace) -> None:
    """Write the page."""
    if len(args.logdir) > 1:
        raise ValueError(
            f"--logdir: expected one log directory, got {len(args.logdir)}: a page "
            "does not translate with an ensemble"
        )
    [logdir] = args.logdir
    cli.refuse_overwriting({"--out": args.out}, {"--logdir": args.logdir})
    hp = hparams.load(logdir, cli.read_settings(args, hparams.FIELDS))
    examples = args.examples or choose_dev_lines(hp.data, NUM_EXAMPLES)
    cli.start_tensorflow(args.verbose)
    from transformer.logdir import checkpoints
    from transformer.viewer.model_page import PAGE, PART, make_model_page

    if args.split:
        files.refuse_used(args.out, "--out", PART.format(1))

    references = find_references(hp.data, examples)

    def make(checkpoint):
        return make_model_page(
            hp,
            checkpoint,
            examples,
            args.weights,
            None,
            args.split,
            references,
            has_example=True,
            docs=args.docs,
        )

    page = checkpoints.find_and_load(logdir, make, args.checkpoint, args.warn)
    if args.split:
        with files.new_folder(args.out, "--out", PART.format(1)) as folder:
            for name, content in page.items():
                with files.replace_file(os.path.join(folder, name)) as file:
                    file.write(content)
    else:
        with files.replace_file(args.out) as file:
            file.write(page[PAGE])
    size = sum(len(content.encode("utf-8")) for content in page.values())
    print_lines(f"{args.out}: {size / 1e6:.1f} MB, weights in {args.weights}")
