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

import itertools
import logging
import sys
import threading

from transformer import hparams
from transformer.commands import cli
from transformer.commands.terminal import say
from transformer.exports.ctranslate2 import add_engine
from transformer.runtime.signals import StopSignals
from transformer.serving.jobs import Jobs
from transformer.serving.requests import SentenceRequest

SECONDS_BETWEEN_LOOKS = 0.1  # checks for a signal


def parser():
    """Return the parser of the command line."""
    made = cli.make_parser("serve", __doc__)
    cli.add_logdir(made, "to compare them on the page, or see --ensemble")
    made.add_argument(
        "--checkpoint",
        default=["best"],
        nargs="+",
        metavar="WHICH",
        help="best (by dev BLEU), newest, or steps; of each log directory [best]",
    )
    made.add_argument(
        "--ensemble",
        action="store_true",
        help="the log directories translate together: their probabilities are averaged",
    )
    made.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="NAME",
        help="the address to listen on; 0.0.0.0 accepts other machines [127.0.0.1]",
    )
    cli.add_number(made, "port", 8000, "0: any free port")
    made.add_argument(
        "--server_name",
        default=[],
        nargs="+",
        metavar="NAME",
        help="host names that requests may use, besides those of this machine",
    )
    made.add_argument(
        "--split",
        type=cli.parse_bool,
        nargs="?",
        const=True,
        metavar="BOOL",
        help="translate texts sentence by sentence; a request can override this [true; "
        "false if it asks for n_best, scores or alignments]",
    )
    made.add_argument(
        "--languages",
        nargs="+",
        metavar="LANGUAGE",
        help="source and target, of each log directory if there are several; what "
        "/languages returns [the languages of the data folders]",
    )
    add_engine(made)
    cli.add_settings(made, hparams.DECODING)
    return made


def opened(args):
    """Return the models of the command line, each ready to translate."""
    models = hparams.load_each(args.logdir, cli.given(args, hparams.FIELDS))
    if args.ensemble and len(models) < 2:
        raise ValueError("--ensemble: expected two or more --logdir, got one")
    others = models[1:] if args.ensemble else []
    served = models[:1] if args.ensemble else models
    languages = args.languages or []
    counts = sorted({2, 2 * len(served)})
    if languages and len(languages) not in counts:
        raise ValueError(
            f"--languages: expected {' or '.join(map(str, counts))}, two for each "
            f"model, got {len(languages)}: {' '.join(languages)}"
        )
    pairs = list(zip(languages[::2], languages[1::2])) or [None]
    cli.start_tensorflow(args.verbose)
    from transformer.viewer.models import Model

    return [
        Model(
            hp,
            logdir,
            which,
            args.warn,
            others,
            pair,
            engine=args.engine,
            quantization=args.quantization,
        )
        for (hp, logdir), pair in zip(served, itertools.cycle(pairs))
        for which in args.checkpoint
    ]


def serve(server, url: str) -> None:
    """Serve until a signal arrives, then finish the answers in progress."""
    with StopSignals() as signals:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        say(url)
        sys.stdout.flush()
        while not signals.received:
            thread.join(SECONDS_BETWEEN_LOOKS)
        server.drain()


def log_to_stderr() -> None:
    """Log each request in one line on stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    log = logging.getLogger("transformer.service")
    log.addHandler(handler)
    log.setLevel(logging.INFO)


def run(args) -> None:
    """Open the models, and serve them."""
    for flag, names in (("--host", [args.host]), ("--server_name", args.server_name)):
        if not all(names):
            raise ValueError(
                f"{flag}: expected a name or an address, got an empty one; --host "
                "0.0.0.0 accepts other machines"
            )
    if not 0 <= args.port < 1 << 16:
        raise ValueError(f"--port: expected 0 to 65535, got {args.port}")
    try:
        from transformer.serving.service import Server, listen
    except ImportError as error:
        raise ValueError(
            f"expected uvicorn, starlette and prometheus-client, got none "
            f"({error}): pip install 'transformer-tf[serve]', with Python 3.10 or newer"
        ) from error
    address = (args.host, args.port)
    listen(address).close()  # refuse a port in use before the models are loaded
    models = opened(args)
    for model in models:
        model.translate([SentenceRequest(0, "x")])  # the first run takes seconds
    log_to_stderr()
    server = Server(address, models, Jobs(), args.server_name, args.split)
    host = f"[{args.host}]" if ":" in args.host else args.host
    serve(server, f"http://{host}:{server.server_address[1]}/")
    for model in models:
        model.close()
