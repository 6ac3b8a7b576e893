"""A measured system is a process of its own, stopped whenever it is not asked.

So systems can be measured in turn, A B A B, without starting each time, without two
versions of a library in one process, and without one that waits disturbing another.
The parent writes a request in JSON, a line each; the child writes an answer.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def serve(openers):
    """The child: opens the work of its specification, then answers requests.

    Args:
      openers: name of a work → function of the specification, a dict, that prepares it
        and returns a function of a request, a dict, that measures and returns a dict.
    """
    # Answers have the standard output for themselves: libraries print, too.
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
    """The parent's side of a child.

    Args:
      module: the module that calls `serve`.
      spec: what it is told; `work` is a key of its `openers`.
      python: the interpreter of the child.

    Raises:
      ChildProcessError: the child ended; the last line that it wrote says why.
    """

    def __init__(self, module, spec, python=sys.executable):
        self._errors = tempfile.TemporaryFile()
        settings = {
            "PYTHONPATH": os.pathsep.join([HERE, ROOT]),
            "PYTHONSAFEPATH": "1",  # not what lies in the current folder
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
        try:
            self._answer()
        except ChildProcessError:
            self.close()
            raise

    def ask(self, request):
        """The answer to a request: the child's dict, with `peak`, its memory in MiB."""
        self._process.send_signal(signal.SIGCONT)
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self):
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            said = self._errors.read().decode("utf-8", "replace").strip().splitlines()
            raise ChildProcessError(
                said[-1] if said else f"ended with status {self._process.returncode}"
            )
        self._process.send_signal(signal.SIGSTOP)
        return json.loads(line)

    def close(self):
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for file in (self._process.stdin, self._process.stdout, self._errors):
            file.close()
