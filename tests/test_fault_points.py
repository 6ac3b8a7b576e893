"""Calls that write a file fail, or are the last before SIGKILL: a sample of them.

One of each kind of command; `make faults` tries all calls of all of them.
"""

import re
import sys

import corpora
import pytest
import sweep


@pytest.mark.slow
@pytest.mark.skipif(
    not sys.platform.startswith("linux") or not sweep.find_compiler(),
    reason="no Linux, or no C compiler: calls cannot be made to fail",
)
def test_a_sample_of_the_commands_loses_nothing():
    scenarios = [
        "prepare over an older corpus",
        "train, continued",
        "average_checkpoints",
        "export over an older one",
    ]
    flags = ["--every", "150", "--scenarios", *scenarios]
    done = corpora.run_python("tools/faults/sweep.py", *flags)
    assert done.returncode == 0, done.stdout
    tried = re.search(r"^(\d+) fault points tried, lost 0$", done.stdout, re.M)
    assert int(tried[1]) > 12
