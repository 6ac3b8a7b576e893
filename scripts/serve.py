"""Serve a page: what a model looks at, and what else it could have said.

    python scripts/serve.py --logdir logs/sample
    python scripts/serve.py --logdir logs/sample logs/other       # to compare two
    python scripts/serve.py --logdir logs/sample --checkpoint best newest
    python scripts/serve.py --logdir logs/sample logs/other --ensemble

It prints one address, which a browser on this machine opens; docs/seeing.md is a tour.
Ctrl-C and SIGTERM end it after the answers that are under way.
"""

import itertools
import sys
import threading

import hparams
from transformer.runtime import cli
from transformer.runtime.process import StopSignals
from transformer.runtime.terminal import say

PROG = "serve.py"
SECONDS_BETWEEN_LOOKS = 0.1  # at the signals


def parser():
    """Return the parser of the command line."""
    made = cli.make_parser(PROG, __doc__)
    made.add_argument(
        "--logdir", required=True, nargs="+", metavar="DIR", help="what train.py wrote"
    )
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
        help="the address to listen at; 0.0.0.0: every one, for everybody [127.0.0.1]",
    )
    made.add_argument(
        "--port", type=int, default=8000, metavar="INT", help="0: a free one [8000]"
    )
    cli.add_settings(made, hparams.DECODING)
    return made


def opened(args, warn):
    """Return the models of the command line, each ready."""
    models = hparams.load_each(args.logdir, cli.given(args, hparams.FIELDS))
    if args.ensemble and len(models) < 2:
        raise ValueError("--ensemble: found one --logdir, wanted two or more")
    others = models[1:] if args.ensemble else []
    cli.start_tensorflow(args.verbose)
    from transformer.seeing.models import Model

    return [
        Model(hp, logdir, which, warn, others)
        for hp, logdir in (models[:1] if args.ensemble else models)
        for which in args.checkpoint
    ]


def serve(server, url: str) -> None:
    """Serve until a signal comes, then finish what was begun."""
    with StopSignals() as signals:
        thread = threading.Thread(target=server.serve_forever, args=[0.1], daemon=True)
        thread.start()
        say(url)
        sys.stdout.flush()
        while not signals.received:
            thread.join(SECONDS_BETWEEN_LOOKS)
        server.drain()


def run(args) -> None:
    """Open the models, serve the page."""
    if not 0 <= args.port < 1 << 16:
        raise ValueError(f"--port: found {args.port}, wanted 0 to 65535")
    models = opened(args, cli.warner(PROG))
    from transformer.seeing.jobs import Jobs
    from transformer.seeing.server import Server

    idle = itertools.chain.from_iterable(each.count_confidence() for each in models)
    server = Server((args.host, args.port), models, Jobs(idle))
    host = f"[{args.host}]" if ":" in args.host else args.host
    serve(server, f"http://{host}:{server.server_address[1]}/")
    for model in models:
        model.close()


def main(argv=None):
    cli.main(parser(), run, argv)


if __name__ == "__main__":
    main()
