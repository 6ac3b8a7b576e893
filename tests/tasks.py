"""What the workers of test_large_corpora do; they import this file and no other."""

import os
import signal
import sys


def negate(task):
    """Return -task, or do what the task says."""
    if task == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if task == "refused":
        raise ValueError("expected a number")
    if task == "tensorflow":
        return "tensorflow" in sys.modules
    return -task


def negating():
    return negate
