"""Draw what a model looks at while it translates: a page, or a picture.

    python scripts/plot_attention.py --logdir logs/sample --html seen.html \\
        "Die Frau, die wir besuchen, ist müde."
    python scripts/plot_attention.py --logdir logs/sample --out all.png "Ein Satz."
    python scripts/plot_attention.py --logdir logs/sample --out one.svg \\
        --kind cross --layer 2 --head 3 "Ein Satz."

The page is one file, which needs no server and no network; it has the n best
translations of each sentence. A picture, PNG or SVG, has every layer and head as a
grid, or those that are chosen. docs/seeing.md is a tour.
"""

import hparams
from transformer.runtime import cli, files
from transformer.runtime.terminal import say

PROG = "plot_attention.py"


def parser():
    """Return the parser of the command line."""
    made = cli.make_parser(PROG, __doc__)
    made.add_argument(
        "sentences", nargs="+", metavar="SENTENCE", help="what is translated"
    )
    made.add_argument(
        "--logdir",
        required=True,
        nargs="+",
        metavar="DIR",
        help="what train.py wrote; several: to compare them on the page",
    )
    made.add_argument(
        "--checkpoint",
        default="best",
        metavar="WHICH",
        help="best (by dev BLEU), newest, or a step [best]",
    )
    made.add_argument("--html", metavar="FILE", help="the page")
    picture = made.add_argument_group("picture")
    for flag, options in {
        "--out": dict(metavar="FILE", help="the picture, .png or .svg"),
        "--kind": dict(nargs="+", metavar="KIND", help="encoder, decoder, cross [all]"),
        "--layer": dict(type=int, metavar="INT", help="from 1 [all]"),
        "--head": dict(metavar="WHICH", help="from 1, or mean, of all heads [each]"),
    }.items():
        picture.add_argument(flag, **options)
    picture.add_argument("--pieces", action="store_true", help="pieces, not words")
    cli.add_settings(made, hparams.DECODING)
    return made


def run(args) -> None:
    """Translate the sentences, write page and picture, print the translations."""
    head = checked_head(args)
    changes = cli.given(args, hparams.FIELDS)
    settings = [(logdir, hparams.load(logdir, changes)) for logdir in args.logdir]
    cli.start_tensorflow(args.verbose)
    from transformer.seeing.models import Model

    warn, models, said = cli.warner(PROG), [], []
    for logdir, hp in settings:
        models.append(Model(hp, logdir, args.checkpoint, warn))
    if args.out:
        said = write_picture(args, head, models[0].translator)
    if args.html:
        said = write_page(args, models)
    for model in models:
        model.close()
    say(*said, *filter(None, [args.html, args.out]))


def checked_head(args):
    """Return the head: a number, "mean" or None.

    Raises:
      ValueError: what is wanted is not clear.
    """
    if not args.html and not args.out:
        raise ValueError("found neither --html nor --out, wanted a file to write")
    if args.out and (len(args.sentences) > 1 or len(args.logdir) > 1):
        raise ValueError(
            f"--out: found {len(args.sentences)} sentences and {len(args.logdir)} log "
            "directories, wanted one of each; a page has room for more: --html"
        )
    for kind in args.kind or ():
        cli.refuse_unknown("--kind", kind, ("encoder", "decoder", "cross"))
    if args.head in (None, "mean"):
        return args.head
    if not args.head.isdigit():
        raise ValueError(f"--head: found {args.head}, wanted a number from 1, or mean")
    return int(args.head)


def write_page(args, models):
    """Write the page; return the translations."""
    from transformer.seeing import frozen

    text, translations = frozen.page_of(models, args.sentences)
    with files.replaced(args.html) as file:
        file.write(text)
    return translations


def write_picture(args, head, translator):
    """Write the picture; return the translation."""
    from transformer.seeing import picture
    from transformer.seeing.sight import KINDS, see

    sight = see(translator, " ".join(args.sentences[0].split()))
    kinds = args.kind or tuple(KINDS)
    rows = picture.maps(sight, kinds, args.layer, head, args.pieces)
    picture.draw(rows, args.out)
    return [sight.n_best[0].text]


def main(argv=None):
    cli.main(parser(), run, argv)


if __name__ == "__main__":
    main()
