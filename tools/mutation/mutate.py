"""Mutation testing: change the code a little, and see whether a test notices.

    python tools/mutation/mutate.py --count 300
    python tools/mutation/mutate.py --count 20 --modules data,decoding

Draws mutants of the modules, the same for the same seed. Each is written to a copy of
the checkout, where the tests of its module run until one fails. They run in a fork of a
process that has imported TensorFlow already, which takes longer than many a test. Needs
Python 3.10 or newer, and a system that can fork.
"""

import argparse
import collections
import glob
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback

from mutants import mutant, places_of

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Module → the files that are changed, and the tests that should notice, the quick ones
# and the likely ones first.
MODULES = {
    "blocks": (
        ["transformer/blocks/*.py"],
        "modules local dialects_oracle functional relative graph_hygiene model",
    ),
    "modules": (
        ["transformer/modules.py"],
        "modules dialects_oracle graph_hygiene functional model",
    ),
    "model": (
        ["transformer/model.py", "transformer/embeddings.py"],
        "dialects_oracle graph_hygiene decoding model dialects_whole",
    ),
    "decoding": (
        [
            "transformer/decoding.py",
            "transformer/ranking.py",
            "transformer/search_loop.py",
        ],
        "decoding tensor2tensor_beam model translator",
    ),
    "training": (
        [
            "transformer/schedules.py",
            "transformer/training.py",
            "transformer/training_graph.py",
        ],
        "training_math graph_hygiene train",
    ),
    "data": (["transformer/data.py"], "data shards properties prepare train"),
}
PASSED, FAILED = 0, (1, 2)  # what pytest ends with
CRASHED = 70  # what a fork ends with that did not run pytest
LONGEST = 900  # seconds, with the code as it is


class Copy:
    """A copy of the checkout in which one file at a time is changed."""

    def __init__(self, folder):
        self.folder = folder
        ignored = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "logs")
        shutil.copytree(ROOT, folder, ignore=ignored, dirs_exist_ok=True)
        shutil.copy(os.path.join(ROOT, "setup.cfg"), folder)

    def write(self, path, text):
        with open(os.path.join(self.folder, path), "w", encoding="utf-8") as file:
            file.write(text)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def run_tests(copy, names, timeout):
    """Run test files in a fork, until one test fails.

    Returns:
      (what pytest ends with, the last lines that it wrote); None and these for a
      process that was still running after `timeout` seconds, or that was killed.
    """
    said, write = os.pipe()  # not a file: tests limit how large files may grow
    child = os.fork()
    if not child:
        _run_tests_here(copy, names, write)
    os.close(write)
    lines = collections.deque(maxlen=20)
    with open(said, encoding="utf-8", errors="replace") as file:
        reader = threading.Thread(target=lines.extend, args=[file], daemon=True)
        reader.start()
        status, end = None, time.monotonic() + timeout
        while time.monotonic() < end:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                break
            time.sleep(0.05)
        _kill(child)
        if not done:
            os.waitpid(child, 0)
        reader.join()
    ended = done and os.WIFEXITED(status)
    return os.WEXITSTATUS(status) if ended else None, "".join(lines)


def _run_tests_here(copy, names, output):
    """Run pytest in this process, a leader of its own group, and end it."""
    try:
        os.setsid()
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(copy.folder)
        sys.path.insert(0, copy.folder)
        os.environ["PYTHONPATH"] = copy.folder
        import pytest

        paths = [os.path.join("tests", f"test_{name}.py") for name in names]
        flags = ["-x", "-q", "-p", "no:cacheprovider", "--no-header", "--tb=line"]
        status = int(pytest.main(flags + paths))
    except BaseException:
        traceback.print_exc()
        status = CRASHED
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _kill(group):
    """Kill a process and those that it started."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


def draw(modules, count, seed):
    """Draw places to change: [(module, path, place)], more of a file that has more."""
    every = [
        (module, path, place)
        for module in modules
        for pattern in MODULES[module][0]
        for path in sorted(glob.glob(pattern, root_dir=ROOT))
        for place in places_of(read(path))
    ]
    drawn = random.Random(seed).sample(every, min(count, len(every)))
    return sorted(drawn, key=lambda each: (modules.index(each[0]), *each[1:]))


def baseline(copy, modules, tests):
    """Run the tests of each module on the code as it is; return module → seconds."""
    seconds = {}
    for module in modules:
        start = time.monotonic()
        status, said = run_tests(copy, tests[module], LONGEST)
        if status != PASSED:
            raise ValueError(
                f"{module}: found that the tests end with {status} on the code as it "
                f"is, wanted 0:\n{said}"
            )
        seconds[module] = time.monotonic() - start
        print(f"{module}: its tests take {seconds[module]:.0f} s", flush=True)
    return seconds


def try_mutant(copy, path, place, tests, timeout):
    """Run tests with a mutant in place of its file.

    Returns:
      (what was changed, whether all tests passed)
    """
    original = read(path)
    text, change = mutant(original, place)
    copy.write(path, text)
    status, _ = run_tests(copy, tests, timeout)
    copy.write(path, original)
    if status not in (None, PASSED, *FAILED):
        raise ValueError(f"{path}:{place.line}: pytest ended with {status}")
    line = original.splitlines()[place.line - 1].strip()
    return f"`{change}` in `{line}`", status == PASSED


def report(results):
    """Print how many mutants of each module were noticed, and those that were not."""
    total = collections.Counter(module for module, *_ in results)
    lived = collections.Counter(module for module, *_, survived in results if survived)
    print("\n| module | mutants | noticed | score |\n|---|---|---|---|")
    for module in [*total, "all"]:
        count = total[module] if module != "all" else sum(total.values())
        noticed = count - (lived[module] if module != "all" else sum(lived.values()))
        print(f"| {module} | {count} | {noticed} | {100 * noticed / count:.0f} % |")
    print("\nNot noticed:\n")
    for _, path, line, change, survived in results:
        if survived:
            print(f"* {path}:{line}: {change}")


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--count", type=int, default=300, help="mutants [300]")
    parser.add_argument("--seed", type=int, default=1, help="of the draw [1]")
    parser.add_argument("--modules", default=",".join(MODULES), help="[all six]")
    parser.add_argument("--tests", help="names of test files, instead of a module's")
    parser.add_argument("--json", help="write the results there too")
    args = parser.parse_args(argv)
    modules = args.modules.split(",")
    tests = {each: (args.tests or MODULES[each][1]).split() for each in modules}
    os.environ.update(PYTHONDONTWRITEBYTECODE="1", TF_CPP_MIN_LOG_LEVEL="3")
    sys.dont_write_bytecode = True
    import hypothesis  # noqa: F401
    import tensorflow.compat.v1  # noqa: F401  (the forks have it then)

    results = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(folder)
        seconds = baseline(copy, modules, tests)
        for module, path, place in draw(modules, args.count, args.seed):
            timeout = 60 + 3 * seconds[module]
            start = time.monotonic()
            change, survived = try_mutant(copy, path, place, tests[module], timeout)
            results.append((module, path, place.line, change, survived))
            verdict = "NOT NOTICED" if survived else "noticed"
            took = f"{time.monotonic() - start:.0f} s"
            print(f"{path}:{place.line}: {change}: {verdict}, {took}", flush=True)
    report(results)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
