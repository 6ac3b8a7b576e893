"""Change lines of transformer/, one at a time, and find the tests that notice.

    python tools/mutants/mutants.py --out mutants --collect
    python tools/mutants/mutants.py --out mutants --count 150
    python tools/mutants/mutants.py --out mutants --report
    python tools/mutants/mutants.py --out later --collect
    python tools/mutants/mutants.py --out later --again mutants

The first command runs the tests and stores which lines each of them executes, and for
how long it runs. The second changes lines that some test executes. For each change, it
runs the tests that execute the line, the shortest first, until a few have failed; when
it is stopped, the same command goes on. The third prints what was found, and what each
of the longest tests is needed for. The last two make the same changes in a later
commit, with its tests, as far as the changed lines are still there.

A change is made by one of RULES. Files and lines are drawn with a fixed seed, files in
proportion to the lines that tests execute. The tests run on a copy of the last commit,
which the first command makes, and whose files are changed in turn. So that importing
TensorFlow does not take most of the time, each change is tried in a fork of a process
that has imported it.
"""

import argparse
import ast
import collections
import glob
import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree
from typing import Dict, Iterator, List, NamedTuple, Set, Tuple

import coverage
import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PACKAGE = "transformer"
SECONDS_TO_HANG = 300  # beyond what the tests take without the change
HANGS, CRASHES = "hangs", "crashes"  # instead of the output of tests
QUIET = ["-q", "--no-header", "-p", "no:cacheprovider"]
ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONDONTWRITEBYTECODE": "1"}
OTHER_OPERATORS = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "+",
    ast.Div: "*",
    ast.FloorDiv: "*",
    ast.And: "or",
    ast.Or: "and",
}


class Mutant(NamedTuple):
    """A change of a file."""

    path: str
    line: int
    rule: str
    start: int  # in bytes
    end: int
    text: str  # what stands there instead


# --- The changes ----------------------------------------------------------------------


def list_mutants(folder: str, path: str, lines: Set[int]) -> List[Mutant]:
    """List the changes of a file.

    Args:
      folder: the copy of the checkout.
      path: the file, relative to the folder.
      lines: those that a test executes.
    """
    with open(os.path.join(folder, path), "rb") as file:
        source = file.read()
    starts = [0]
    for text in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(text))

    def begin(node):
        return starts[node.lineno - 1] + node.col_offset

    def end(node):
        return starts[node.end_lineno - 1] + node.end_col_offset

    def text(node):
        return source[begin(node) : end(node)].decode()

    mutants = []
    for node in ast.walk(ast.parse(source)):
        if getattr(node, "lineno", 0) in lines:
            for rule, apply in RULES.items():
                for first, last, new in apply(node, begin, end, text):
                    mutants.append(Mutant(path, node.lineno, rule, first, last, new))
    return mutants


def change_operator(node, begin, end, text) -> Iterator[Tuple[int, int, str]]:
    """Replace an operator: < by <=, + by -, and by or."""
    pairs = []
    if isinstance(node, ast.Compare):
        operands = [node.left, *node.comparators]
        pairs = list(zip(node.ops, operands, operands[1:]))
    elif isinstance(node, ast.BinOp) and not isinstance(node.left, ast.Constant):
        pairs = [(node.op, node.left, node.right)]
    elif isinstance(node, ast.BoolOp):
        pairs = [(node.op, *pair) for pair in zip(node.values, node.values[1:])]
    for operator, left, right in pairs:
        if type(operator) in OTHER_OPERATORS:
            new = f"({text(left)}) {OTHER_OPERATORS[type(operator)]} ({text(right)})"
            yield begin(left), end(right), new


def change_constant(node, begin, end, text) -> Iterator[Tuple[int, int, str]]:
    """Replace a number by the next one, True by False."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
        is_bool = isinstance(node.value, bool)
        yield (
            begin(node),
            end(node),
            repr(not node.value if is_bool else node.value + 1),
        )


def negate_condition(node, begin, end, text) -> Iterator[Tuple[int, int, str]]:
    """Negate the condition of `if`, `while` and conditional expressions."""
    if isinstance(node, (ast.If, ast.While, ast.IfExp)):
        yield begin(node.test), end(node.test), f"not ({text(node.test)})"


def drop_statement(node, begin, end, text) -> Iterator[Tuple[int, int, str]]:
    """Leave out a call, an assignment to an attribute or an item, or `raise`."""
    is_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    is_assignment = isinstance(node, (ast.Assign, ast.AugAssign)) and not isinstance(
        node.targets[0] if isinstance(node, ast.Assign) else node.target, ast.Name
    )
    if is_call or is_assignment or isinstance(node, ast.Raise):
        yield begin(node), end(node), "pass"


def return_none(node, begin, end, text) -> Iterator[Tuple[int, int, str]]:
    """Return None."""
    if isinstance(node, ast.Return) and node.value is not None:
        if not (isinstance(node.value, ast.Constant) and node.value.value is None):
            yield begin(node), end(node), "return None"


RULES = {
    "operator": change_operator,
    "constant": change_constant,
    "condition": negate_condition,
    "statement": drop_statement,
    "return": return_none,
}


def draw(
    folder: str, executed: Dict[str, Dict[int, Set[str]]], count: int, seed: int
) -> List[Mutant]:
    """Draw changes: first a file, then one of its lines, then a rule.

    Args:
      folder: the copy of the checkout.
      executed: file → line → the tests that execute it.
      count: how many.
      seed: of the drawing; more changes with the same seed begin with the same ones.
    """
    generator = random.Random(seed)
    paths = sorted(executed)
    weights = [len(executed[path]) for path in paths]
    by_line = {}
    for path in paths:
        lines = collections.defaultdict(lambda: collections.defaultdict(list))
        for mutant in list_mutants(folder, path, set(executed[path])):
            lines[mutant.line][mutant.rule].append(mutant)
        by_line[path] = lines
    chosen: Dict[Mutant, None] = {}
    while len(chosen) < count:
        lines = by_line[generator.choices(paths, weights)[0]]
        if lines:
            rules = lines[generator.choice(sorted(lines))]
            chosen[generator.choice(rules[generator.choice(sorted(rules))])] = None
    return list(chosen)


# --- The tests ------------------------------------------------------------------------


def run_tests(folder: str, arguments: List[str]) -> str:
    """Run tests in a copy of the checkout, a process a core; return their output."""
    command = [sys.executable, "-m", "pytest", *QUIET, "--numprocesses", "auto"]
    return subprocess.run(
        [*command, "--dist", "worksteal", *arguments],
        cwd=folder,
        env={**os.environ, **ENVIRONMENT, "PYTHONPATH": folder},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        universal_newlines=True,
        check=False,
    ).stdout


def run_in_fork(folder: str, arguments: List[str], limit: float) -> str:
    """Run tests in a fork of this process; return their output, HANGS or CRASHES."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        pid = os.fork()
        if not pid:
            try:
                os.setsid()
                os.chdir(folder)
                sys.path.insert(0, folder)
                os.dup2(output.fileno(), 1)
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                pytest.main([*QUIET, *arguments])
                sys.stdout.flush()
                os._exit(0)
            finally:
                os._exit(1)
        end = time.monotonic() + limit
        status = None
        try:
            while status is None and time.monotonic() < end:
                time.sleep(0.1)
                ended, ended_with = os.waitpid(pid, os.WNOHANG)
                status = ended_with if ended else None
        finally:
            if status is None:
                os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        if status is None:
            return HANGS
        output.seek(0)
        return CRASHES if status else output.read()


def copy_folder(out: str) -> str:
    """Return the folder of the copy, with the lines that the first command stored."""
    return os.path.join(os.path.abspath(out), "copy")


def copy_checkout(out: str) -> str:
    """Write a copy of the last commit; return its folder."""
    folder = copy_folder(out)
    os.makedirs(folder)
    archive = subprocess.run(
        ["git", "archive", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, check=True
    )
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
    return folder


def collect(out: str, folder: str, selection: str) -> None:
    """Run the tests; store the lines that each executes, and its seconds."""
    out = os.path.abspath(out)
    os.environ["COVERAGE_FILE"] = os.path.join(out, "coverage")
    arguments = ["--cov", "--cov-report=", "--cov-fail-under=0", "--cov-context=test"]
    print(
        run_tests(folder, ["-m", selection, f"--junitxml={out}/tests.xml", *arguments])
    )


def read_seconds(out: str) -> Dict[str, float]:
    """Read how long each test ran that passed: its identifier → seconds."""
    root = xml.etree.ElementTree.parse(os.path.join(out, "tests.xml")).getroot()
    return {
        case.get("classname", "").replace(".", "/")
        + ".py::"
        + case.get("name", ""): float(case.get("time", 0))
        for case in root.iter("testcase")
        if not {"failure", "error", "skipped"} & {child.tag for child in case}
    }


def read_executed(out: str) -> Dict[str, Dict[int, Set[str]]]:
    """Read which tests execute each line: file → line → identifiers of tests.

    Lines that run on import are left out.
    """
    data = coverage.CoverageData(os.path.join(out, "coverage"))
    data.read()
    executed: Dict[str, Dict[int, Set[str]]] = {}
    for path in data.measured_files():
        relative = path[path.index(PACKAGE + os.sep) :] if os.path.isabs(path) else path
        for line, contexts in data.contexts_by_lineno(path).items():
            tests = {context.rpartition("|")[0] for context in contexts}
            # Other tests depend on a line that runs on import, too.
            if "" not in tests and relative.startswith(PACKAGE + os.sep):
                executed.setdefault(relative, {})[line] = tests
    return executed


def try_mutant(
    mutant: Mutant, folder: str, tests: List[str], seconds: float, max_failures: int
) -> Dict:
    """Make a change, run tests, and undo it; return what happened."""
    path = os.path.join(folder, mutant.path)
    with open(path, "rb") as file:
        source = file.read()
    changed = source[: mutant.start] + mutant.text.encode() + source[mutant.end :]
    names = os.path.join(folder, "tests.txt")
    with open(names, "w", encoding="utf-8") as file:
        file.writelines(test + "\n" for test in tests)
    options = ["-m", "slow or not slow", "-rfE", f"--maxfail={max_failures}"]
    try:
        with open(path, "wb") as file:
            file.write(changed)
        output = run_in_fork(folder, [*options, "@" + names], seconds + SECONDS_TO_HANG)
    finally:
        with open(path, "wb") as file:
            file.write(source)
    lines = output.splitlines()
    failed = [
        line.split(" ", 1)[1].split(" - ")[0]
        for line in lines
        if line.startswith(("FAILED ", "ERROR "))
    ]
    return {
        **mutant._asdict(),
        "old": source[mutant.start : mutant.end].decode(),
        "failed": failed,
        "num_tests": len(tests),
        "last": lines[-1] if lines else "",
    }


def run_mutants(args: argparse.Namespace) -> None:
    """Try the changes that have not been tried; append the results."""
    executed, seconds = read_executed(args.out), read_seconds(args.out)
    folder = copy_folder(args.out)
    if args.again:
        mutants = find_again(args.again, folder)
    else:
        mutants = draw(folder, executed, args.count, args.seed)
    tried = [(row["path"], row["start"], row["text"]) for row in read_results(args.out)]
    untried = []
    for mutant in mutants:
        tests = executed.get(mutant.path, {}).get(mutant.line, set()) & set(seconds)
        if tests and (mutant.path, mutant.start, mutant.text) not in tried:
            untried.append((mutant, sorted(tests, key=seconds.__getitem__)))
        elif not tests:
            print(f"{mutant.path}:{mutant.line}: no test executes it")
    processes = []
    for i in range(args.processes):
        arguments = (args, i, untried[i :: args.processes], seconds)
        processes.append(multiprocessing.Process(target=run_share, args=arguments))
        processes[-1].start()
    for process in processes:
        process.join()


def run_share(args: argparse.Namespace, index: int, untried, seconds) -> None:
    """Try changes in a copy of the checkout of this process's own."""
    os.environ.update(ENVIRONMENT, TF_NUM_INTRAOP_THREADS="1")
    sys.dont_write_bytecode = True
    import tensorflow  # noqa: F401

    folder = copy_folder(args.out) + str(index)
    if os.path.exists(folder):  # with a change, if a run was killed
        shutil.rmtree(folder)
    shutil.copytree(copy_folder(args.out), folder)
    os.environ["PYTHONPATH"] = folder
    for mutant, tests in untried:
        total = sum(map(seconds.__getitem__, tests))
        row = try_mutant(mutant, folder, tests, total, args.max_failures)
        with open(results_path(args.out), "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        print(f"{mutant.path}:{mutant.line} {mutant.rule}: {row['last']}", flush=True)


def find_again(out: str, folder: str) -> List[Mutant]:
    """Find changes that were tried in an earlier commit in the files of a later one.

    A change is found if its line is there once, or as often as before.
    """
    found = []
    for row in read_results(out):
        earlier, later = (
            read_bytes(os.path.join(parent, row["path"]))
            for parent in (copy_folder(out), folder)
        )
        begin = earlier.rfind(b"\n", 0, row["start"]) + 1
        end = earlier.find(b"\n", row["end"]) + 1
        lines = earlier[begin:end]
        if earlier.count(lines) != later.count(lines):
            print(f"{row['path']}:{row['line']}: the line has changed")
            continue
        position = -1
        for _ in range(earlier.count(lines, 0, end)):
            position = later.find(lines, position + 1)
        start = position + row["start"] - begin
        number = later.count(b"\n", 0, start) + 1
        last = start + row["end"] - row["start"]
        found.append(Mutant(row["path"], number, row["rule"], start, last, row["text"]))
    return found


def read_bytes(path: str) -> bytes:
    """Read a file; return no bytes if there is none."""
    if not os.path.exists(path):
        return b""
    with open(path, "rb") as file:
        return file.read()


def results_path(out: str) -> str:
    """Return the file of the results."""
    return os.path.join(out, "results.jsonl")


def read_results(out: str) -> List[Dict]:
    """Read the results so far."""
    rows = []
    for path in glob.glob(results_path(out)):
        with open(path, encoding="utf-8") as file:
            rows += [json.loads(line) for line in file]
    return rows


def report(args: argparse.Namespace) -> None:
    """Print which changes were noticed, and what the longest tests are needed for."""
    executed, seconds = read_executed(args.out), read_seconds(args.out)
    rows = read_results(args.out)
    missed = [
        row for row in rows if not row["failed"] and row["last"] not in (HANGS, CRASHES)
    ]
    print(f"{len(rows)} changes, {len(rows) - len(missed)} noticed; not noticed:")
    for row in missed:
        print(f"  {row['path']}:{row['line']} {row['old']!r:.60} → {row['text']!r:.60}")
    own_lines: Dict[str, int] = collections.Counter()  # test → lines of it alone
    for lines in executed.values():
        own_lines.update(
            next(iter(tests)) for tests in lines.values() if len(tests) == 1
        )
    mutants = collections.defaultdict(list)  # test → changes in lines that it executes
    for row in rows:
        for test in executed[row["path"]].get(row["line"], ()):
            mutants[test].append(row)
    head = "| test | seconds | lines of it alone | changes in its lines | it noticed |"
    print(head)
    print("|---" * head.count(" |") + "|")
    for test in sorted(seconds, key=lambda test: -seconds[test])[: args.longest]:
        first = sum(test in row["failed"] for row in rows)
        print(
            f"| {test} | {seconds[test]:.1f} | {own_lines[test]} "
            f"| {len(mutants[test])} | {first} |"
        )


def main() -> None:
    """Do what the flags say."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", required=True, help="a folder for all results")
    parser.add_argument("--collect", action="store_true", help="run the tests first")
    parser.add_argument("--report", action="store_true", help="print what was found")
    parser.add_argument("--selection", default="not slow", help="the tests, as for -m")
    parser.add_argument("--count", type=int, default=150, help="of changes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", help="the folder of changes tried before: these")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--max_failures", type=int, default=3, help="then stop")
    parser.add_argument("--longest", type=int, default=60, help="tests in the report")
    args = parser.parse_args()
    if args.report:
        report(args)
    elif args.collect:
        collect(args.out, copy_checkout(args.out), args.selection)
    else:
        run_mutants(args)


if __name__ == "__main__":
    main()
