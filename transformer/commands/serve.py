"""Serve translations over HTTP, and a page that shows how they are made.

    transformer-tf serve --logdir logs/sample
    transformer-tf serve --logdir logs/sample logs/other       # to compare two
    transformer-tf serve --logdir logs/sample --checkpoint best newest
    transformer-tf serve --logdir logs/sample logs/other --ensemble

It prints an address to open in a browser on this machine. docs/seeing.md is a tour of
the page; docs/serving.md describes POST /translate and the rest. Each request is logged
in one line on stderr. On Ctrl-C or SIGTERM, it finishes the answers in progress, and
ends.
"""

import argparse
import itertools
import logging
import sys
import threading
from typing import List, Optional, Sequence, Tuple

from transformer import hparams
from transformer.commands import cli
from transformer.commands.terminal import print_lines
from transformer.commands.translate import add_engine, warn_of_simple_rules
from transformer.runtime.errors import missing_package
from transformer.runtime.signals import StopSignals
from transformer.serving.jobs import Jobs
from transformer.text.corpus import NEUTRAL_LANGUAGES
from transformer.viewer.sentence_request import SentenceRequest

POLL_SECONDS = 0.1  # between two checks for a signal


def parser() -> cli.Parser:
    """Return the parser of the command line."""
    parser = cli.make_parser("serve", __doc__)
    cli.add_logdir(parser, "to compare them on the page, or see --ensemble")
    parser.add_argument(
        "--checkpoint",
        default=["best"],
        nargs="+",
        metavar="WHICH",
        help="best (by dev BLEU), newest, or steps; of each log directory [best]",
    )
    parser.add_argument(
        "--ensemble",
        action="store_true",
        help="the log directories translate together: their probabilities are averaged",
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="NAME",
        help="the address to listen on; 0.0.0.0 accepts other machines [127.0.0.1]",
    )
    cli.add_number(parser, "port", 8000, "0: any free port")
    parser.add_argument(
        "--server_name",
        default=[],
        nargs="+",
        metavar="NAME",
        help="host names that requests may use, besides those of this machine",
    )
    parser.add_argument(
        "--split",
        type=cli.parse_bool,
        nargs="?",
        const=True,
        metavar="BOOL",
        help="translate texts sentence by sentence; a request can override this [true; "
        "false if it asks for n_best, scores or alignments]",
    )
    parser.add_argument(
        "--languages",
        nargs="+",
        metavar="LANGUAGE",
        help="source and target, of each log directory if there are several; what "
        "/languages returns [the languages of the data folders]",
    )
    parser.add_argument(
        "--references",
        nargs=2,
        type=cli.path,
        metavar=("SOURCE", "REFERENCE"),
        help="text files: the page lists their sentences, the worst translations first "
        "[the test or dev split of the data folders]",
    )
    cli.add_docs(parser)
    add_engine(parser)
    cli.add_settings(parser, hparams.DECODING)
    return parser


def pair_languages(
    languages: Sequence[str], num_models: int
) -> List[Optional[Tuple[str, str]]]:
    """Return the (source, target) of each model; None: those of its data folder.

    Args:
      languages: what the user named: nothing, two for all models, or two for each.
      num_models: the number of models.

    Raises:
      ValueError: `languages` has another length.
    """
    if not languages:
        return [None] * num_models
    counts = sorted({2, 2 * num_models})
    if len(languages) not in counts:
        raise ValueError(
            f"--languages: expected {' or '.join(map(str, counts))}, two for each "
            f"model, got {len(languages)}: {' '.join(languages)}"
        )
    pairs = itertools.cycle(zip(languages[::2], languages[1::2]))
    return [next(pairs) for _ in range(num_models)]


def check_address(host: str, port: int, server_names: Sequence[str]) -> None:
    """Raise ValueError for an empty name or an impossible port."""
    for flag, names in (("--host", [host]), ("--server_name", server_names)):
        if not all(names):
            raise ValueError(
                f"{flag}: expected a name or an address, got an empty one; --host "
                "0.0.0.0 accepts other machines"
            )
    if not 0 <= port < 1 << 16:
        raise ValueError(f"--port: expected 0 to 65535, got {port}")


def serve(server, url: str) -> None:
    """Print the address; serve until a signal arrives, then finish the answers."""
    with StopSignals() as signals:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        print_lines(url)
        sys.stdout.flush()
        while not signals.received:
            thread.join(POLL_SECONDS)
        server.drain()


def log_to_stderr() -> None:
    """Log each request in one line on stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    log = logging.getLogger("transformer.service")
    log.addHandler(handler)
    log.setLevel(logging.INFO)


def run(args: argparse.Namespace) -> None:
    """Open the models, and serve them."""
    check_address(args.host, args.port, args.server_name)
    try:
        from transformer.serving.service import Server, listen
    except ImportError as error:
        packages = "uvicorn, starlette, msgspec and prometheus-client"
        raise missing_package(packages, "serve", error) from error
    address = (args.host, args.port)
    try:
        listen(address).close()  # refuse a port in use before the models are loaded
    except OSError as error:
        raise OSError(f"{error}; choose another --port or --host") from error
    logdirs = hparams.load_each(args.logdir, cli.read_settings(args, hparams.FIELDS))
    others = []
    if args.ensemble:
        logdirs, others = logdirs[:1], logdirs[1:]
        if not others:
            raise ValueError("--ensemble: expected two or more --logdir, got one")
    languages = pair_languages(args.languages or [], len(logdirs))
    cli.start_tensorflow(args.verbose)
    from transformer.viewer.models import Model

    models = [
        Model(
            hp,
            logdir,
            which,
            args.warn,
            others,
            pair,
            engine=args.engine,
            quantization=args.quantization,
            references=args.references,
        )
        for (hp, logdir), pair in zip(logdirs, languages)
        for which in args.checkpoint
    ]
    for model in models:
        if model.languages == NEUTRAL_LANGUAGES and not args.languages:
            args.warn(
                f"{model.translator.hp.data}: the data folder is missing or names no "
                f"languages; clients find {' and '.join(model.languages)}: name them "
                "with --languages"
            )
        model.translate([SentenceRequest("x")])  # the first run takes seconds
    example = models[0].inspect_example()
    if args.split is not False:
        warn_of_simple_rules(args.warn)
    log_to_stderr()
    threads = max(model.translator.concurrent_batches for model in models)
    server = Server(
        address, models, Jobs(threads), args.server_name, args.split, example, args.docs
    )
    host = f"[{args.host}]" if ":" in args.host else args.host
    serve(server, f"http://{host}:{server.server_address[1]}/")
    for model in models:
        model.close()
