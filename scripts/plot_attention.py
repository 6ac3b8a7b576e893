"""Write what a model looks at while it translates, as a page that needs no server.

    python scripts/plot_attention.py --logdir logs/sample --html seen.html \\
        "Die Frau, die wir besuchen, ist müde."

One file, which asks for nothing else: it can be mailed, and opened without a
network. It has the n best translations of each sentence; docs/seeing.md is a tour.
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
        help="what train.py wrote; several: to compare them",
    )
    made.add_argument(
        "--checkpoint",
        default="best",
        metavar="WHICH",
        help="best (by dev BLEU), newest, or a step [best]",
    )
    made.add_argument("--html", required=True, metavar="FILE", help="the page")
    cli.add_settings(made, hparams.DECODING)
    return made


def run(args) -> None:
    """Translate the sentences, write the page, print the translations."""
    changes = cli.given(args, hparams.FIELDS)
    settings = [(logdir, hparams.load(logdir, changes)) for logdir in args.logdir]
    cli.start_tensorflow(args.verbose)
    from transformer.seeing import frozen
    from transformer.seeing.models import Model

    warn, models = cli.warner(PROG), []
    for logdir, hp in settings:
        models.append(Model(hp, logdir, args.checkpoint, warn))
    text, translations = frozen.page_of(models, args.sentences)
    with files.replaced(args.html) as file:
        file.write(text)
    for model in models:
        model.close()
    say(*translations, args.html)


def main(argv=None):
    cli.main(parser(), run, argv)


if __name__ == "__main__":
    main()
