"""Run a row of tests on each supported version of TensorFlow 2.

    python tools/versions/versions.py --envs .venv-versions
    python tools/versions/versions.py --envs .venv-versions --versions 2.16,2.21

Makes an environment for each version (Python 3.10 to 3.12 has all of them; 600 MB each)
that is kept and used again, and prints a table of what passed and failed.
"""

import argparse
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
VERSIONS = ("2.16", "2.17", "2.18", "2.19", "2.20", "2.21")
ROWS = {
    "blocks": ["modules", "local", "functional", "keras_layers"],
    "model": ["model", "dialects_oracle", "graph_hygiene"],
    "data": ["data", "vocabulary", "prepare"],
    "decoding": ["decoding", "translator"],
    "training": ["training_math", "train"],
}


def environment(envs, version):
    """Return the interpreter of an environment with a version, made if it is not there.

    Args:
      envs: the folder of the environments.
      version: "2.16": its newest release is taken.
    """
    folder = os.path.join(envs, version)
    python = os.path.join(folder, "bin", "python")
    stamp = os.path.join(folder, "installed")
    if not os.path.exists(stamp):
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        install = [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            f"tensorflow=={version}.*",
        ]
        subprocess.run([*install, "--editable", f"{ROOT}[test]"], check=True)
        open(stamp, "w").close()
    return python


def run_row(python, names):
    """Run test files; return (how many passed, how many failed, the last lines)."""
    paths = [os.path.join("tests", f"test_{name}.py") for name in names]
    finished = subprocess.run(
        [python, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", *paths],
        cwd=ROOT,
        env=dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    last = finished.stdout.splitlines()[-1]
    counts = {
        what: sum(int(count) for count in re.findall(rf"(\d+) {what}", last))
        for what in ("passed", "failed", "error")
    }
    failed = counts["failed"] + counts["error"]
    if finished.returncode and not failed:
        failed = 1  # pytest itself
    return counts["passed"], failed, finished.stdout[-3000:]


def release(python):
    """Return the exact version of TensorFlow in an environment."""
    code = "from importlib.metadata import version; print(version('tensorflow'))"
    done = subprocess.run([python, "-c", code], stdout=subprocess.PIPE, check=True)
    return done.stdout.decode().strip()


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--envs", required=True, help="the folder of the environments")
    parser.add_argument("--versions", default=",".join(VERSIONS), help="[all]")
    args = parser.parse_args(argv)
    lines, failures = [], 0
    for version in args.versions.split(","):
        python = environment(os.path.abspath(args.envs), version)
        cells = [release(python)]
        for row, names in ROWS.items():
            passed, failed, said = run_row(python, names)
            print(f"{version} {row}: {passed} passed, {failed} failed", flush=True)
            if failed:
                print(said, flush=True)
            failures += failed
            cells.append(f"{passed} passed" + (f", {failed} failed" if failed else ""))
        lines.append("| " + " | ".join(cells) + " |")
    print("\n| TensorFlow | " + " | ".join(ROWS) + " |")
    print("|---|" + "---|" * len(ROWS))
    print("\n".join(lines))
    sys.exit(1 if failures else None)


if __name__ == "__main__":
    main()
