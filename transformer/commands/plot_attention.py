"""Draw the attention of a model while it translates: a page, or a picture.

    transformer-tf attention --logdir logs/sample --html seen.html \\
        "Die Frau, die wir besuchen, ist müde."
    transformer-tf attention --logdir logs/sample --out all.png "Ein Satz."
    transformer-tf attention --logdir logs/sample --out one.svg \\
        --kind cross --layer 2 --head 3 "Ein Satz."

The page is one file that needs neither a server nor a network; it shows the n best
translations of each sentence. A picture is a grid of all layers and heads, or of the
chosen ones. docs/seeing.md is a tour of the page.
"""

import argparse
import os
from typing import TYPE_CHECKING, Optional, Sequence, Union

from transformer import hparams
from transformer.commands import cli
from transformer.commands.terminal import print_lines
from transformer.runtime import files
from transformer.runtime.names import refuse_unknown
from transformer.text.corpus import NEUTRAL_LANGUAGES
from transformer.viewer.page_files import make_frozen_page

if TYPE_CHECKING:
    from transformer.translator import Translator
    from transformer.viewer.inspection import LineInspection

KINDS = ("encoder", "decoder", "cross")
PICTURES = (".png", ".svg", ".pdf")


def parser() -> cli.Parser:
    """Return the parser of the command line."""
    parser = cli.make_parser("attention", __doc__)
    parser.add_argument(
        "sentences", nargs="+", metavar="SENTENCE", help="text to translate"
    )
    cli.add_logdir(parser, "to compare them on the page")
    cli.add_checkpoint(parser)
    parser.add_argument(
        "--html", type=cli.path, metavar="FILE", help="the page to write"
    )
    picture = parser.add_group("picture")
    picture.add_argument(
        "--out",
        type=cli.path,
        metavar="FILE",
        help="the picture to write, .png, .svg or .pdf",
    )
    picture.add_argument(
        "--kind",
        action="append",
        metavar="KIND",
        help="encoder, decoder or cross; may be repeated [all]",
    )
    picture.add_argument("--layer", type=int, metavar="INT", help="from 1 [all]")
    picture.add_argument(
        "--head", metavar="WHICH", help="from 1, or mean for all heads [each]"
    )
    picture.add_argument("--pieces", action="store_true", help="pieces, not words")
    cli.add_settings(parser, hparams.DECODING)
    return parser


def run(args: argparse.Namespace) -> None:
    """Translate the sentences; write page and picture; print the translations."""
    refuse_flags(args)
    refuse_paths(args.html, args.out)
    cli.refuse_overwriting(
        {"--html": args.html, "--out": args.out}, {"--logdir": args.logdir}
    )
    head = parse_head(args.head)
    settings = hparams.load_each(args.logdir, cli.read_settings(args, hparams.FIELDS))
    cli.start_tensorflow(args.verbose)
    from transformer.viewer.models import Model

    models = [
        Model(hp, logdir, args.checkpoint, args.warn, languages=NEUTRAL_LANGUAGES)
        for hp, logdir in settings
    ]
    if args.out:
        [sentence] = args.sentences
        kinds = args.kind or KINDS
        inspection = write_picture(
            models[0].translator,
            sentence,
            args.out,
            kinds,
            args.layer,
            head,
            args.pieces,
        )
        translations = [inspection.n_best[0].text]
    if args.html:
        page, translations = make_frozen_page(models, args.sentences)
        with files.replace_file(args.html) as file:
            file.write(page)
    for model in models:
        model.close()
    print_lines(*translations, *filter(None, [args.html, args.out]))


def refuse_flags(args: argparse.Namespace) -> None:
    """Raise ValueError for flags that are missing, or contradict each other."""
    if not args.html and not args.out:
        raise ValueError("there is no file to write: give --html or --out")
    if args.out and (len(args.sentences) > 1 or len(args.logdir) > 1):
        raise ValueError(
            "--out: expected one sentence and one log directory, got "
            f"{len(args.sentences)} and {len(args.logdir)}; a page has "
            "room for more: --html"
        )
    of_picture = ("kind", "layer", "head", "pieces")
    unused = [f"--{name}" for name in of_picture if getattr(args, name)]
    if unused and not args.out:
        raise ValueError(
            f"{', '.join(unused)}: --out is missing, the picture that this is for; on "
            "the page of --html, everything can be chosen"
        )
    for kind in args.kind or ():
        refuse_unknown("--kind", kind, KINDS)


def parse_head(text: Optional[str]) -> Union[int, str, None]:
    """Parse the value of `--head`: a number, "mean" or None.

    Raises:
      ValueError: it is something else.
    """
    if text in (None, "mean"):
        return text
    if not text.isdecimal():
        raise ValueError(f"--head: expected a number from 1, or mean, got {text}")
    return int(text)


def refuse_paths(html: Optional[str], picture: Optional[str]) -> None:
    """Raise ValueError or OSError for a file that cannot be written.

    Args:
      html: the value of `--html`.
      picture: the value of `--out`.
    """
    for flag, path in (("--html", html), ("--out", picture)):
        if not path:
            continue
        if os.path.isdir(path):
            raise ValueError(
                f"{flag} {path}: expected a file, got a folder; add a file name"
            )
        files.refuse_missing_folder(path)
        files.refuse_unwritable(os.path.dirname(os.path.abspath(path)), flag)
    extension = os.path.splitext(picture or "")[1]
    if picture and extension.lower() not in PICTURES:
        raise ValueError(
            f"--out {picture}: expected a name that ends in {', '.join(PICTURES)}, "
            f"got {extension or 'no ending'}; choose one of them"
        )


def write_picture(
    translator: "Translator",
    sentence: str,
    path: str,
    kinds: Sequence[str],
    layer: Optional[int],
    head: Union[int, str, None],
    pieces: bool,
) -> "LineInspection":
    """Draw the attention for a sentence; return what was seen of its translation.

    Args:
      translator: what translates.
      sentence: the sentence.
      path: the picture to write.
      kinds, layer, head, pieces: as in `picture.select_maps`.
    """
    from transformer.text.translations import as_lines
    from transformer.viewer import picture
    from transformer.viewer.inspection import inspect_line

    [sentence] = as_lines([sentence])
    inspection = inspect_line(translator, " ".join(sentence.split()))
    try:
        rows = picture.select_maps(inspection, kinds, layer, head, pieces)
    except ValueError as error:
        raise ValueError(f"{error}; choose another, or a --kind that has it") from error
    picture.draw(rows, path)
    return inspection
