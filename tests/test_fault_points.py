"""Calls that write a file fail, or are the last before SIGKILL: a sample of them.

`make faults` tries all of them.
"""

import re
import subprocess
import sys

import pytest
import sweep
from documents import ROOT

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or not sweep.compiler(),
    reason="no Linux, or no C compiler: calls cannot be made to fail",
)

# A command that writes in place, one file after the other.
CARELESS = """
import os, sys
sys.path.insert(0, "tools/faults")
import scenarios, sweep

def write(argv):
    os.makedirs("out", exist_ok=True)
    for path in (f"out/{os.getpid()}.tmp", "out/first"):
        with open(path, "w") as file:
            file.write("text")
            file.flush()
            os.fsync(file.fileno())
    os.rename(f"out/{os.getpid()}.tmp", "out/second")
    os.unlink("out/first")

scenarios.FUNCTIONS["careless"] = write
sweep.IMPORTED_LATE = ()
careless = scenarios.Scenario("careless", "", "out", read=scenarios.read_files)
scenarios.SCENARIOS.clear()
scenarios.SCENARIOS["careless"] = careless
sweep.main()
"""


def run(*words):
    """The exit status and the output of a sweep in a process of its own."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        universal_newlines=True,
    )
    return done.returncode, done.stdout


@pytest.mark.slow
def test_a_sample_of_every_command_loses_nothing():
    status, output = run("tools/faults/sweep.py", "--every", "150")
    assert status == 0, output
    assert int(re.search(r"^(\d+) fault points tried, lost 0$", output, re.M)[1]) > 25


def test_a_command_that_writes_in_place_is_reported(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(CARELESS)
    status, output = run(str(script))
    assert status == 1
    for words in ("neither old nor new", "status 1", ".tmp left"):
        assert words in output
    kinds = set(re.findall(r"call \d+, (\w+) ", output))
    assert kinds >= {"open", "write", "close", "fsync", "rename", "unlink"}
