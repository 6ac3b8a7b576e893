"""What a benchmark needs on disk: prepared text, an environment for OpenNMT-tf."""

import contextlib
import glob
import os
import shutil
import subprocess
import sys

import prepare
import work

OPENNMT = ["OpenNMT-tf==2.32.0", "tensorflow-cpu==2.13.1", "sentencepiece"]
SPLITS = {"train": ["train"], "dev": ["dev", "val"], "test": ["test"]}
LANGUAGES = ["de", "en"]


def prepared(data, folder):
    """The prepared folder of `data`, which is one itself, or has text in it.

    Args:
      data: a folder of scripts/prepare.py, or one with files like train.de.gz, val.de,
        test_2016_flickr.de and their translations, .en.
      folder: where text is prepared, if need be.

    Raises:
      ValueError: there is neither.
    """
    if os.path.exists(os.path.join(data, "corpus.json")):
        return data
    flags = ["--out", folder, "--vocab-size", str(work.VOCAB_SIZE)]
    for split, names in SPLITS.items():
        pair = [_text(data, names, language) for language in LANGUAGES]
        flags += [f"--{split}", *pair]
    with contextlib.redirect_stdout(sys.stderr):  # standard output is for the table
        prepare.main(flags)
    return folder


def _text(data, names, language):
    """The text of a split: the first file, by name, that begins and ends like it."""
    found = sorted(
        path
        for name in names
        for ending in ("", ".gz")
        for path in glob.glob(
            os.path.join(glob.escape(data), f"{name}*.{language}{ending}")
        )
    )
    if not found:
        raise ValueError(
            f"{data}: found neither corpus.json nor a file like "
            f"{names[0]}.{language}, wanted a folder of "
            "scripts/prepare.py, or one with text for it"
        )
    return found[0]


def opennmt_python(folder):
    """The interpreter of an environment with OpenNMT-tf, which is made if missing.

    Raises:
      ValueError: it cannot be made.
    """
    python = os.path.join(folder, "bin", "python")
    done = os.path.join(folder, "installed")
    if os.path.exists(done):
        return python
    base = (
        sys.executable
        if (3, 8) <= sys.version_info[:2] <= (3, 11)
        else (shutil.which("python3.11") or shutil.which("python3.10"))
    )
    if base is None:
        raise ValueError("TensorFlow 2.13 needs Python 3.8 to 3.11, and none is found")
    try:
        subprocess.run([base, "-m", "venv", folder], check=True)
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", *OPENNMT], check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise ValueError(f"its environment cannot be made: {error}") from error
    with open(done, "w", encoding="utf-8"):
        return python
