"""Compare the bits that several numbers of threads give: losses, translations.

    python tools/threads/threads.py --logdir logs/sample
    python tools/threads/threads.py --logdir logs/sample --deterministic

For each number of threads per operation, a process makes some updates of a new model,
with the settings of the log directory, and translates lines of the test split with the
model in it. The table has a letter for each result; the same letter in a column is the
same to the last bit.
"""

import dataclasses
import hashlib
import json
import os
import subprocess
import sys

import hparams
from transformer.runtime import cli
from transformer.runtime.terminal import say

PROG = "threads.py"
COLUMNS = ("losses", "variables", "translations", "scores")


def measure(args, hp):
    """Return the results of this process, a checksum for each column.

    Args:
      args: the parsed arguments.
      hp: the settings.
    """
    import tensorflow.compat.v1 as tf

    from transformer import verification
    from transformer.evaluation import load_text
    from transformer.runtime.sessions import make_session
    from transformer.training_graph import Data, TrainingGraph
    from transformer.translator import Translator

    with tf.Graph().as_default():
        graph = TrainingGraph(hp, Data(hp), 0)
        with make_session(hp) as session:
            graph.open(session, None)
            folder = verification.ModelFolder(hp, args.logdir)
            training = verification.ReplayedTraining(session, graph, folder, 0)
            for _ in range(args.steps):
                training.update()
            variables = session.run({v.op.name: v for v in tf.global_variables()})
    with Translator(hp, args.logdir) as translator:
        translator.restore()
        lines = load_text(hp.data, "test")[0][: args.lines]
        best = [each for each, *_ in translator.translate(lines)]
    arrays = [variables[name].tobytes() for name in sorted(variables)]
    return {
        "losses": _checksum([repr(loss).encode() for loss in training.meter.losses]),
        "variables": _checksum(arrays),
        "translations": _checksum([each.text.encode("utf-8") for each in best]),
        "scores": _checksum([repr(each.score).encode() for each in best]),
    }


def _checksum(parts):
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def measured_with(threads, argv):
    """Return the results of a process that has so many threads for an operation.

    Args:
      threads: how many.
      argv: the arguments of this command.
    """
    environment = dict(os.environ, TF_NUM_INTRAOP_THREADS=str(threads))
    done = subprocess.run(
        [sys.executable, os.path.abspath(__file__), *argv, "--one"],
        env=environment,
        stdout=subprocess.PIPE,
        universal_newlines=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def table(results):
    """Return the lines of the table: a letter for each different result.

    Args:
      results: threads → column → checksum.
    """
    yield f"| threads | {' | '.join(COLUMNS)} |"
    yield "|---" * (len(COLUMNS) + 1) + "|"
    seen = {column: [] for column in COLUMNS}
    for threads, found in results.items():
        letters = []
        for column in COLUMNS:
            if found[column] not in seen[column]:
                seen[column].append(found[column])
            letters.append("ABCDEFGH"[seen[column].index(found[column])])
        yield f"| {threads} | {' | '.join(letters)} |"


def parser():
    """Return the parser of the command line."""
    made = cli.make_parser(PROG, __doc__)
    cli.add_logdir(made)
    cli.add_data(made)
    made.add_argument("--steps", type=int, default=6, metavar="INT", help="updates [6]")
    made.add_argument(
        "--lines", type=int, default=100, metavar="INT", help="translations [100]"
    )
    made.add_argument(
        "--threads",
        type=int,
        nargs="+",
        default=[1, 2, 4, 8],
        metavar="INT",
        help="for an operation [1 2 4 8]",
    )
    made.add_argument(
        "--deterministic", action="store_true", help="as train.py --deterministic"
    )
    made.add_argument(
        "--one", action="store_true", help="this process alone: print checksums"
    )
    return made


def run(args) -> None:
    """Print the table."""
    given = {"data": args.data} if "data" in vars(args) else {}
    hp = hparams.load(args.logdir, given)
    if args.one:
        cli.start_tensorflow(args.verbose)
        hp = dataclasses.replace(hp, deterministic=args.deterministic)
        say(json.dumps(measure(args, hp)))
        return
    argv = [f"--logdir={args.logdir}", f"--steps={args.steps}", f"--lines={args.lines}"]
    argv += [f"--data={hp.data}"] + ["--deterministic"] * args.deterministic
    results = {threads: measured_with(threads, argv) for threads in args.threads}
    for line in table(results):
        say(line)


def main(argv=None):
    cli.main(parser(), run, argv)


if __name__ == "__main__":
    main()
