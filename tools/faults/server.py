"""Run commands in forked children, one fault in each: TensorFlow is imported once.

    LD_PRELOAD=shim.so python tools/faults/server.py

Requests are read from standard input, a JSON object a line, as `sweep.Server` writes
them; each answer is the exit status on a line, -9 after SIGKILL.
"""

import contextlib
import ctypes
import importlib
import json
import os
import sys
import traceback

COMMANDS = (
    "prepare",
    "train",
    "import_checkpoint",
    "average_checkpoints",
    "export",
    "small",
)
# What the commands import once they have checked their flags.
LATER = (
    "transformer.trainer",
    "transformer.export",
    "transformer.originals.convert",
    "transformer.originals.recommender",
)
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def import_everything() -> None:
    """Import what the commands import: a child only works."""
    sys.path[:0] = [ROOT, os.path.join(ROOT, "scripts")]
    importlib.import_module("transformer.runtime.cli").start_tensorflow()
    for name in (*LATER, *COMMANDS):
        importlib.import_module(name)
    with contextlib.suppress(ImportError):  # then no scenario needs it
        importlib.import_module("ctranslate2")
    sys.modules["small"].use()


def work(request) -> int:
    """Run a command in this process, with its fault; return the exit status."""
    said = os.open(request["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    trace = os.open(request["trace"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for stream in (1, 2):
        os.dup2(said, stream)
    os.chdir(request["root"])
    arm = ctypes.CDLL(None).faults_arm
    arm(request["root"].encode(), request["at"], request["mode"], trace)
    status = 0
    try:
        sys.modules[request["command"]].main(request["argv"])
    except SystemExit as ended:
        status = ended.code or 0
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return status


def main() -> None:
    """Answer requests until there are no more."""
    os.environ.pop("LD_PRELOAD")  # the processes that a command starts have none
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import_everything()
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        child = os.fork()
        if not child:
            os._exit(work(json.loads(line)))
        _, status = os.waitpid(child, 0)
        ended = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
        print(ended, file=answers, flush=True)


if __name__ == "__main__":
    main()
