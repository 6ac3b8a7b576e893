"""Calls that write a file fail, or are the last before SIGKILL: a sample of them.

`make faults` tries all of them.
"""

import re
import subprocess
import sys

import pytest
import sweep
from documents import ROOT


@pytest.mark.slow
@pytest.mark.skipif(
    not sys.platform.startswith("linux") or not sweep.compiler(),
    reason="no Linux, or no C compiler: calls cannot be made to fail",
)
def test_a_sample_of_every_command_loses_nothing():
    done = subprocess.run(
        [sys.executable, "tools/faults/sweep.py", "--every", "150"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        universal_newlines=True,
    )
    assert done.returncode == 0, done.stdout
    tried = re.search(r"^(\d+) fault points tried, lost 0$", done.stdout, re.M)
    assert int(tried[1]) > 25
