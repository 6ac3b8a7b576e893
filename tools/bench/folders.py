"""Make the folders for a benchmark: prepared text, an environment for OpenNMT-tf."""

import glob
import os
import shutil
import subprocess
import sys
from typing import List

import work
from worker import ROOT

OPENNMT = ["OpenNMT-tf==2.32.0", "tensorflow-cpu==2.13.1", "sentencepiece"]
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


def opennmt_python(folder: str) -> str:
    """Return the Python of an environment with OpenNMT-tf; make it if it is missing.

    Raises:
      ValueError: the environment cannot be made.
    """
    python = os.path.join(folder, "bin", "python")
    marker = os.path.join(folder, "installed")
    if os.path.exists(marker):
        return python
    base = (
        sys.executable
        if (3, 8) <= sys.version_info[:2] <= (3, 11)
        else (shutil.which("python3.11") or shutil.which("python3.10"))
    )
    if base is None:
        raise ValueError(
            "Python 3.8 to 3.11, which TensorFlow 2.13 needs, is not installed"
        )
    try:
        subprocess.run([base, "-m", "venv", folder], check=True)
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", *OPENNMT], check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise ValueError(f"its environment cannot be made: {error}") from error
    with open(marker, "w", encoding="utf-8"):
        return python
