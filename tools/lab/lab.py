"""The laboratory: what each choice of the Transformer is worth, and what mistakes cost.

    python tools/lab/lab.py --text data/multi30k --out lab        # all rows, five seeds
    python tools/lab/lab.py --text data/multi30k --out lab --rows "no causal mask"
    python tools/lab/lab.py --out lab --list                      # rows, their diffs
    python tools/lab/lab.py --out lab --report                    # table.md, table.png

The first two prepare the corpus, train the base and the rows with each seed, and write
the table. Ctrl-C stops them; the same command continues. What `results.jsonl` has, with
the same settings, patch and code, is skipped. --workers N runs N processes side by
side, each on its share of the cores; of several GPUs, they use one each.
"""

import argparse
import ast
import dataclasses
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import patches
import table
from rows import BASE, ROWS, Row

sys.path.insert(0, patches.ROOT)

from transformer import hparams  # noqa: E402 (after the path)
from transformer.runtime.files import replace_file, short_hash  # noqa: E402
from transformer.runtime.signals import StopSignals  # noqa: E402

ONE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "one.py")
LANGUAGES = ("de", "en")
# Folders of the package whose code changes no result: training does not import it.
OTHER_FOLDERS = ("commands", "compat", "exports", "porting", "serving", "viewer")


class Run(NamedTuple):
    """A row with a seed, and what identifies its result."""

    row: Row
    seed: int
    key: Dict[str, Any]  # what the result depends on: a part of its line


class Lab:
    """The folder of a laboratory.

    Args:
      out: the folder.
      text: the folder with {train,dev}.{de,en}.
      preset: a name in `PRESETS`.
      overrides: settings that differ from the preset in all rows.
      vocab_size: the number of pieces, where a row does not say it.
      keep: keep the log directories of all runs.
    """

    def __init__(
        self,
        out: str,
        text: str,
        preset: str,
        overrides: Optional[Dict[str, Any]] = None,
        vocab_size: int = 8000,
        keep: bool = False,
    ):
        self.out = os.path.abspath(out)
        self.text = os.path.abspath(text)
        self.preset = preset
        self.overrides = overrides or {}
        self.vocab_size = vocab_size
        self.keep = keep
        self.code = checksum_of_code()
        self.base = short_hash(json.dumps([self.settings(BASE, 0), vocab_size]))
        self.lines: List[Dict[str, Any]] = table.read_lines(self.out)

    def settings(self, row: Row, seed: int) -> Dict[str, Any]:
        """Return all settings of a run, except the path of its data."""
        changes = {**self.overrides, **row.settings, "seed": seed, "data": "data"}
        return dataclasses.asdict(hparams.resolve(changes, self.preset))

    def make_run(self, row: Row, seed: int) -> Run:
        """Make the run of a row with a seed."""
        key = {
            "row": row.name,
            "seed": seed,
            "preset": self.preset,
            "settings": {**self.overrides, **row.settings},
            "patch": "\n".join(patches.diff(row.patch)) if row.patch else "",
            "prepare": list(row.prepare),
            "average": row.average,
            "base": self.base,
            "code": self.code,
        }
        return Run(row, seed, key)

    def is_done(self, run: Run) -> bool:
        """Return whether the results have a line of a run."""
        return any({**line, **run.key} == line for line in self.lines)

    def forget_lost_bases(self, runs: List[Run]) -> None:
        """Forget bases without a folder whose checkpoints some runs need."""
        for run in runs:
            base = self.make_run(BASE, run.seed)
            if run.row.uses_base and not os.path.isdir(self.folder(base)):
                self.lines = [x for x in self.lines if {**x, **base.key} != x]

    def folder(self, run: Run) -> str:
        """Return the folder of a run: another one for other settings or code."""
        name = short_hash(json.dumps(run.key, sort_keys=True))
        return os.path.join(self.out, "runs", name)

    def prepare(self, row: Row) -> str:
        """Return the data folder of a row; prepare it if it is not there.

        Raises:
          SystemExit: the text cannot be used.
        """
        flags = row.prepare
        if "--vocab_size" not in flags:
            flags = ("--vocab_size", str(self.vocab_size), *flags)
        name = "_".join(flags).replace("--", "")
        folder = os.path.join(self.out, "data", name)
        if not os.path.exists(os.path.join(folder, "corpus.json")):
            command = ["-m", "transformer", "prepare", "--out", folder, *flags]
            for split in ("train", "dev"):
                stem = os.path.join(self.text, split)
                command += [f"--{split}", *(f"{stem}.{name}" for name in LANGUAGES)]
            status = subprocess.call([sys.executable, *command], cwd=patches.ROOT)
            if status:
                sys.exit(status)
        return folder

    def start(self, run: Run, worker: int, workers: int) -> subprocess.Popen:
        """Start the process of a run.

        Args:
          run: the run.
          worker, workers: its share of the cores and GPUs: one in `workers`.
        """
        folder = self.folder(run)
        base = self.folder(self.make_run(BASE, run.seed))
        os.makedirs(folder, exist_ok=True)
        cores = sorted(os.sched_getaffinity(0))
        spec = {
            "row": run.row.name,
            "settings": self.settings(run.row, run.seed),
            "data": self.prepare(run.row),
            "logdir": os.path.join(folder, "logs"),
            "base_logdir": os.path.join(base, "logs"),
            "cores": cores[worker::workers] or [cores[worker % len(cores)]],
            "result": os.path.join(folder, "result.json"),
        }
        path = os.path.join(folder, "spec.json")
        with replace_file(path) as file:
            json.dump(spec, file)
        environment = dict(os.environ)
        gpus = [x for x in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if x]
        if len(gpus) > 1:
            environment["CUDA_VISIBLE_DEVICES"] = gpus[worker % len(gpus)]
        with open(os.path.join(folder, "log.txt"), "ab") as log:
            return subprocess.Popen(
                [sys.executable, ONE, path],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,  # Ctrl-C reaches it once, through this process
            )

    def finish(self, run: Run) -> bool:
        """Add the line of a run that ended; return whether it has a result."""
        folder = self.folder(run)
        path = os.path.join(folder, "result.json")
        if not os.path.exists(path):
            return False
        with open(path, encoding="utf-8") as file:
            result = json.load(file)
        self.lines.append({**run.key, "commit": describe_commit(), **result})
        with replace_file(os.path.join(self.out, table.RESULTS)) as file:
            for line in self.lines:
                file.write(json.dumps(line, sort_keys=True) + "\n")
        if run.row is not BASE and not self.keep:  # other rows use those of the base
            shutil.rmtree(folder)
        return True


def checksum_of_code() -> str:
    """Compute a checksum of the code that can change what a run learns."""
    digest = hashlib.sha256()
    package = os.path.join(patches.ROOT, "transformer")
    for folder, folders, names in os.walk(package):
        folders.sort()
        if folder == package:
            folders[:] = [name for name in folders if name not in OTHER_FOLDERS]
        for name in sorted(names):
            if name.endswith(".py"):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    digest.update(f"{name}\n{without_words(file.read())}".encode())
    return digest.hexdigest()[:12]


def without_words(source: str) -> str:
    """Return Python code without its comments and docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            if ast.get_docstring(node) is not None:
                del node.body[0]
    return ast.unparse(tree)


def describe_commit() -> str:
    """Return the commit of the checkout; "" if there is none."""
    command = ["git", "-C", patches.ROOT, "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    except OSError:
        return ""


def run_all(lab: Lab, runs: List[Run], workers: int) -> int:
    """Run what is not done, side by side; return the exit status.

    A run that uses the base waits for the base with the same seed.
    """
    lab.forget_lost_bases([run for run in runs if not lab.is_done(run)])
    waiting = [run for run in runs if not lab.is_done(run)]
    failed: List[Run] = []
    running: Dict[int, Tuple[Run, subprocess.Popen]] = {}  # by worker
    total = len(waiting)
    with StopSignals() as signals:
        while not signals.received:
            for worker in set(range(workers)) - set(running):
                run = choose_next(lab, waiting)
                if run:
                    waiting.remove(run)
                    running[worker] = (run, lab.start(run, worker, workers))
            if not running:
                break  # nothing waits, or only what needs a base that failed
            time.sleep(0.1)
            for worker, (run, process) in list(running.items()):
                if process.poll() is not None:
                    del running[worker]
                    count = f"{total - len(waiting) - len(running)}/{total}"
                    if not report_end(lab, run, process.returncode, count):
                        failed.append(run)
        for _, process in running.values():
            process.terminate()  # it saves a checkpoint
        for run, process in running.values():
            process.wait()
            lab.finish(run)
    if signals.received:
        print("stopped; the same command continues", file=sys.stderr)
        return 128 + signals.received
    for run in failed + waiting:
        print(f"no result: {run.row.name}, seed {run.seed}", file=sys.stderr)
    return 1 if failed or waiting else 0


def choose_next(lab: Lab, waiting: List[Run]) -> Optional[Run]:
    """Choose the first run that can start; None if there is none."""
    for run in waiting:
        if not run.row.uses_base or lab.is_done(lab.make_run(BASE, run.seed)):
            return run
    return None


def report_end(lab: Lab, run: Run, status: int, count: str) -> bool:
    """Print the result of a run that ended; return whether it has one."""
    name = f"{count} {run.row.name}, seed {run.seed}"
    if not lab.finish(run):
        log = os.path.join(lab.folder(run), "log.txt")
        print(f"{name}: status {status}; see {log}", flush=True)
        return False
    line = lab.lines[-1]
    findings = f"; doctor: {', '.join(line['doctor'])}" if line["doctor"] else ""
    print(f"{name}: BLEU {line['bleu']:.2f}{findings}", flush=True)
    return True


def parse_setting(text: str) -> Tuple[str, Any]:
    """Parse NAME=VALUE; a value is JSON, or else a string."""
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def list_rows() -> None:
    """Print each row with what it changes."""
    for row in ROWS:
        changes = [f"{name} = {value}" for name, value in row.settings.items()]
        changes += [" ".join(row.prepare)] if row.prepare else []
        changes += [f"expected {row.expected:+.1f}"]
        print(f"{row.group}: {row.name}: {', '.join(changes)}")
        for line in patches.diff(row.patch) if row.patch else []:
            print(f"    {line}")


def parser() -> argparse.ArgumentParser:
    """Make the parser of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", default="lab", metavar="DIR", help="written here [lab]"
    )
    parser.add_argument("--text", metavar="DIR", help="has {train,dev}.{de,en}")
    parser.add_argument(
        "--rows", nargs="+", metavar="NAME", help="rows or groups, and the base [all]"
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5])
    parser.add_argument("--workers", type=int, default=1, help="processes [1]")
    parser.add_argument("--preset", default="lab", help="of the base [lab]")
    parser.add_argument(
        "--set",
        nargs="+",
        type=parse_setting,
        default=[],
        metavar="NAME=VALUE",
        help="settings of the base that differ from the preset",
    )
    parser.add_argument("--vocab_size", type=int, default=8000, help="pieces [8000]")
    parser.add_argument("--keep", action="store_true", help="keep log directories")
    parser.add_argument("--list", action="store_true", help="print the rows")
    parser.add_argument("--report", action="store_true", help="only write the table")
    return parser


def main(argv: Optional[List[str]] = None) -> int:
    """Run the rows, and write the table and the picture; return the exit status."""
    args = parser().parse_args(argv)
    if args.list:
        list_rows()
        return 0
    names = args.rows or [row.name for row in ROWS]
    for name in names:
        if not any(name in (row.name, row.group) for row in ROWS):
            parser().error(f"--rows: unknown row {name!r}; --list shows them")
    lines = table.read_lines(args.out)
    status = 0
    if not args.report:
        if not args.text:
            parser().error("--text is missing: the folder with {train,dev}.{de,en}")
        overrides = dict(args.set)
        lab = Lab(
            args.out, args.text, args.preset, overrides, args.vocab_size, args.keep
        )
        chosen = [row for row in ROWS if {row.name, row.group} & {*names}]
        chosen = [BASE] + [row for row in chosen if row is not BASE]
        runs = [lab.make_run(row, seed) for seed in args.seeds for row in chosen]
        for run in runs:
            if not lab.is_done(run):
                lab.prepare(run.row)
        status = run_all(lab, runs, args.workers)
        lines = lab.lines
    if lines:
        table.write(lines, args.out)
    else:
        print(f"no results in {args.out}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
