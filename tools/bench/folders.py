"""Make the folders for a benchmark: prepared text, environments of other systems."""

import glob
import os
import shutil
import subprocess
import sys
from typing import List, NamedTuple, Tuple

import work
from worker import ROOT


class Environment(NamedTuple):
    """What a system needs that cannot be in the environment of this project."""

    packages: List[str]
    versions: List[Tuple[int, int]]  # of Python, the best first


ENVIRONMENTS = {
    "opennmt-tf": Environment(
        ["OpenNMT-tf==2.32.0", "tensorflow-cpu==2.13.1", "sentencepiece"],
        [(3, 11), (3, 10)],
    ),
    "eole": Environment(
        ["eole==0.6.4", "torch==2.13.0", "tensorflow-cpu==2.21.0"],
        [(3, 11), (3, 12), (3, 13)],
    ),
}
SPLITS = {"train": ["train"], "dev": ["dev", "val"], "test": ["test"]}
LANGUAGES = ["de", "en"]


def prepare_data(data: str, folder: str) -> str:
    """Return a prepared folder: `data` itself, or `folder` with the text of `data`.

    Args:
      data: a folder written by scripts/prepare.py, or one with files such as
        train.de.gz, val.de, test_2016_flickr.de and their translations, .en.
      folder: where to prepare text, if necessary.

    Raises:
      ValueError: `data` is neither.
    """
    if os.path.exists(os.path.join(data, "corpus.json")):
        return data
    command = [sys.executable, os.path.join(ROOT, "scripts", "prepare.py")]
    command += ["--out", folder, "--vocab_size", str(work.VOCAB_SIZE)]
    for split, names in SPLITS.items():
        file_pair = [_find_text(data, names, language) for language in LANGUAGES]
        command += [f"--{split}", *file_pair]
    if subprocess.run(command, stdout=sys.stderr.fileno()).returncode:
        raise ValueError(f"{data}: scripts/prepare.py refuses its text; see above")
    return folder


def _find_text(data: str, names: List[str], language: str) -> str:
    """Return the first file of a split, found by the beginning and end of its name."""
    paths = sorted(
        path
        for name in names
        for ending in ("", ".gz")
        for path in glob.glob(
            os.path.join(glob.escape(data), f"{name}*.{language}{ending}")
        )
    )
    if not paths:
        raise ValueError(
            f"{data}: expected a folder of scripts/prepare.py, or one with text for "
            f"it, but corpus.json and {names[0]}.{language} are missing; choose "
            "another --data"
        )
    return paths[0]


def find_python(folder: str, environment: Environment) -> str:
    """Return the Python of an environment in a folder; make it if it is missing.

    Raises:
      ValueError: the environment cannot be made.
    """
    python = os.path.join(folder, "bin", "python")
    marker = os.path.join(folder, "installed")
    if os.path.exists(marker):
        return python
    base = (
        sys.executable
        if sys.version_info[:2] in environment.versions
        else next(
            filter(
                None, (shutil.which("python%d.%d" % v) for v in environment.versions)
            ),
            None,
        )
    )
    if base is None:
        names = " or ".join("%d.%d" % version for version in environment.versions)
        raise ValueError(f"it needs Python {names}, which is not installed")
    try:
        subprocess.run([base, "-m", "venv", folder], check=True)
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", *environment.packages],
            check=True,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise ValueError(f"its environment cannot be made: {error}") from error
    with open(marker, "w", encoding="utf-8"):
        return python
