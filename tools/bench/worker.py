"""Worker processes: each measured system runs in one, which is stopped when idle.

Systems can thus be measured in turns, A B A B, without a new start each time, without
two versions of a library in one process, and without disturbing each other. The parent
writes requests, one line of JSON each; the child writes an answer to each.
"""

import contextlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Callable, Dict, List

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# Seconds within which a child must answer. On a CPU without bfloat16 instructions,
# PyTorch takes longer than this for 12 updates of bench-small.
TIMEOUT = 300

Measure = Callable[[dict], dict]  # function of a request that returns an answer


def serve(openers: Dict[str, Callable[[dict], Measure]]) -> None:
    """Prepare the work specified in argv, then answer requests.

    Args:
      openers: name of a work → function of the specification that prepares the work and
        returns the function that measures it.
    """
    # Only answers go to the original standard output, because libraries also print.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    spec = json.loads(sys.argv[1])
    measure = openers[spec["work"]](spec)
    answers.write(json.dumps({}) + "\n")
    answers.flush()
    for line in sys.stdin:
        answer = measure(json.loads(line))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        answers.write(json.dumps(dict(answer, peak=peak)) + "\n")
        answers.flush()


class Worker:
    """A child process that answers requests.

    It sends a first answer when it is ready: see `open_worker`.

    Args:
      module: the module that calls `serve`.
      spec: the specification of its work; `work` is a key of its `openers`.
      python: the interpreter of the child.
      is_stopped: whether it is stopped when idle.
    """

    def __init__(
        self,
        module: str,
        spec: dict,
        python: str = sys.executable,
        is_stopped: bool = True,
    ):
        self._is_stopped = is_stopped
        self._errors = tempfile.TemporaryFile()
        settings = {
            "PYTHONPATH": os.pathsep.join([HERE, ROOT]),
            "PYTHONSAFEPATH": "1",  # import nothing from the current folder
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        }
        if spec.get("device") != "gpu":
            settings["CUDA_VISIBLE_DEVICES"] = ""
        self._process = subprocess.Popen(
            [python, "-m", module, json.dumps(spec)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            universal_newlines=True,
            env=dict(os.environ, **settings),
        )
        self.pid = self._process.pid

    def ask(self, request: dict) -> dict:
        """Return the answer to a request, with `peak`, the peak memory in MiB."""
        self.send(request)
        return self.answer()

    def send(self, request: dict) -> None:
        """Send the child a request."""
        self._process.send_signal(signal.SIGCONT)
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def answer(self) -> dict:
        """Wait for the child's answer.

        Raises:
          ChildProcessError: the child ended (the message is the last line that it
            wrote), or it did not answer in time.
        """
        ready, _, _ = select.select([self._process.stdout], [], [], TIMEOUT)
        if not ready:
            self.kill()
            raise ChildProcessError(f"no answer within {TIMEOUT} s")
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
            raise ChildProcessError(
                lines[-1] if lines else f"ended with status {self._process.returncode}"
            )
        if self._is_stopped:
            self._process.send_signal(signal.SIGSTOP)
        return json.loads(line)

    def kill(self) -> None:
        """End the child."""
        # On Python 3.7, the process may be gone if another thread has waited for it.
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """End the child, and close its files."""
        self.kill()
        for file in (self._process.stdin, self._process.stdout, self._errors):
            file.close()


class Group:
    """Several child processes that compute together, asked as one.

    Args:
      workers: the children. None of them is stopped, because another may wait for
        it.
    """

    def __init__(self, workers: List[Worker]):
        self._workers, self.pid = workers, workers[0].pid

    def ask(self, request: dict) -> dict:
        """Return the answer of the first child, once all have answered."""
        for worker in self._workers:
            worker.send(request)
        return self.answer()

    def answer(self) -> dict:
        """Wait for the answers of all children; return the first child's.

        Raises:
          ChildProcessError: a child ended; the others, which may wait for it, are then
            ended.
        """
        with ThreadPoolExecutor(len(self._workers)) as executor:
            answers = [executor.submit(worker.answer) for worker in self._workers]
            done, _ = wait(answers, return_when=FIRST_EXCEPTION)
            errors = [answer.exception() for answer in done if answer.exception()]
            for worker in self._workers if errors else ():
                worker.kill()
        if errors:
            raise errors[0]
        return answers[0].result()

    def close(self) -> None:
        """End the children."""
        for worker in self._workers:
            worker.close()


def open_worker(module: str, spec: dict, python: str = sys.executable):
    """Return a Worker that is ready, or a Group of such workers.

    Args:
      module: as in Worker.
      spec: as in Worker; for a Group, `spec["group"]` has what differs between the
        workers.
      python: the interpreter of the children.

    Raises:
      ChildProcessError: a child ended.
    """
    group = spec.pop("group", None)
    if group is None:
        worker = Worker(module, spec, python)
    else:
        specs = [{**spec, **difference} for difference in group]
        worker = Group([Worker(module, spec, python, False) for spec in specs])
    try:
        worker.answer()
    except ChildProcessError:
        worker.close()
        raise
    return worker
