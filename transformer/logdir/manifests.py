"""Checkpoints by their names and manifests: list, find and verify them.

This file does not need TensorFlow. `model.ckpt-STEP` are the newest checkpoints;
`best.ckpt-STEP` is a copy of the one with the best dev BLEU. They are found by their
names, so a log directory may be moved.

A checkpoint consists of two TensorFlow files and a manifest. The manifest lists the
checksums of these files and of the vocabulary, which `sha256sum --check
model.ckpt-STEP.sha256` can also read. A comment in it describes the checkpoint: the
settings of the model, and the checksums of the corpus. If the log directory has other
settings, `find` refuses the checkpoint.
"""

import json
import os
import re
import warnings
from typing import Any, Callable, Dict, List, Optional, Union

from transformer.commands.terminal import command_name
from transformer.runtime import files

NEWEST = "model.ckpt"
BEST = "best.ckpt"
INDEX = ".index"
MANIFEST = ".sha256"
SAVING = ".saving"  # the folder of a log directory in which a checkpoint is written
SETTINGS = "hparams.json"
LINE = re.compile(r"([0-9a-f]{64})  ([\w.-]+)\n")  # of a manifest
COMMENT = "# "  # begins the line that describes the checkpoint


def steps(logdir: str, kind: str = NEWEST, ending: str = INDEX) -> List[int]:
    """Return the steps of the checkpoints of one kind in `logdir`, ascending.

    Args:
      logdir: the log directory, which may be missing.
      kind: NEWEST or BEST.
      ending: the extension of the file by which a checkpoint is recognized.
    """
    pattern = re.compile(re.escape(kind) + r"-(\d+)" + re.escape(ending))
    names = os.listdir(logdir) if os.path.isdir(logdir) else []
    matches = [pattern.fullmatch(name) for name in names]
    return sorted(int(match.group(1)) for match in matches if match)


def exist(logdir: str) -> bool:
    """Return whether `logdir` has a checkpoint, whole or broken."""
    return bool(steps(logdir) or steps(logdir, BEST))


def path_of(logdir: str, step: int, kind: str = NEWEST) -> str:
    """Return the path of a checkpoint, without file extensions."""
    return os.path.join(logdir, f"{kind}-{step}")


def step_of(checkpoint: str) -> int:
    """Return the step in the name of a checkpoint."""
    return int(checkpoint.rsplit("-", 1)[1])


def to_try(logdir: str, which: Union[str, int] = "best") -> List[str]:
    """Return the checkpoints to try, whole or not, in order of preference.

    Args:
      logdir, which: as in `find`.
    """
    newest = [path_of(logdir, step) for step in all_steps(logdir, NEWEST)]
    best = [path_of(logdir, step, BEST) for step in all_steps(logdir, BEST)]
    if which == "best":
        return best + newest
    if which == "newest":  # the best one may outlive its original
        return sorted(newest + best, key=step_of, reverse=True)
    return [path for path in newest + best if str(step_of(path)) == str(which)]


def find(
    logdir: str,
    which: Union[str, int] = "best",
    warn: Callable[[str], None] = warnings.warn,
) -> str:
    """Return the checkpoint to use, verified.

    Args:
      logdir: the log directory.
      which: "best" (by dev BLEU; the newest if none was scored), "newest" (of both
        kinds), or a step.
      warn: function of a text; called for each broken checkpoint that is skipped.

    Returns:
      The path, without file extensions.

    Raises:
      FileNotFoundError: there is no such checkpoint.
      ValueError: there is no whole one.
    """
    candidates = to_try(logdir, which)
    if not candidates:
        known = sorted({*steps(logdir), *steps(logdir, BEST)})
        expected = f"'best', 'newest' or a step of {known}" if known else "a checkpoint"
        raise FileNotFoundError(
            f"checkpoint {which!r}: expected {expected} in {logdir}; "
            f"{command_name('train')} writes them"
        )
    faults: List[str] = []
    for checkpoint in candidates:
        fault = fault_of(checkpoint)
        if not fault:
            for each in faults:
                warn(f"{each}; {os.path.basename(checkpoint)} is used instead")
            return checkpoint
        if not is_there(checkpoint):  # a training run removed it for a newer one
            return find(logdir, which, warn)
        faults.append(fault)
    more = f"; and {len(faults) - 3} more" if len(faults) > 3 else ""
    raise ValueError(
        f"checkpoint {which!r}: expected an intact one, got only damaged ones in "
        f"{logdir} ({'; '.join(faults[:3])}{more})"
    )


def fault_of(checkpoint: str) -> Optional[str]:
    """Return what is wrong with a checkpoint, naming a file; None if it is whole."""
    logdir, name = os.path.split(checkpoint)
    try:
        listed, described = _manifest(checkpoint)
    except FileNotFoundError:
        return f"{name}{MANIFEST} is missing"
    except ValueError:
        return f"{name}{MANIFEST} is truncated or damaged"
    for each, checksum in listed.items():
        try:
            found = files.sha256_of(os.path.join(logdir, each))
        except OSError as error:
            return f"{each}: {error.strerror}"
        if found != checksum:
            return f"{each} does not match its checksum in {name}{MANIFEST}"
    path = os.path.join(logdir, SETTINGS)
    saved = files.read_json(path, "settings") if os.path.exists(path) else {}
    for setting, value in described.get("settings", {}).items():
        if saved.get(setting, value) != value:
            return (
                f"{SETTINGS} has {setting} {saved[setting]}, but {name} was trained "
                f"with {value}"
            )
    return None


def description_of(checkpoint: str) -> Dict[str, Any]:
    """Return what a manifest says about the meaning of a checkpoint.

    Returns:
      "settings": the settings of the model, name → value; "corpus": part → SHA-256.
      Manifests of earlier versions have neither.

    Raises:
      ValueError: the manifest is damaged.
    """
    return _manifest(checkpoint)[1]


def _manifest(checkpoint):
    """Return a manifest: (checksums: name → SHA-256, the description).

    Raises:
      FileNotFoundError: there is no manifest.
      ValueError: the manifest is truncated or damaged.
    """
    described = {}
    listed = {}
    with open(checkpoint + MANIFEST, encoding="utf-8", errors="replace") as file:
        for text in file:
            if text.startswith(COMMENT):
                try:
                    described = dict(json.loads(text[len(COMMENT) :]))
                except (TypeError, RecursionError) as error:
                    raise ValueError(text) from error
                continue
            match = LINE.fullmatch(text)
            if not match:
                raise ValueError(text)
            listed[match.group(2)] = match.group(1)
    is_last = list(listed)[-1:] == [os.path.basename(checkpoint) + INDEX]
    if not is_last or not all(type(part) is dict for part in described.values()):
        raise ValueError(checkpoint)
    return listed, described


def all_steps(logdir, kind):
    """Return the steps of the checkpoints, whole or not, the latest first."""
    unfinished = steps(os.path.join(logdir, SAVING), kind)  # the index is moved last
    manifests = set(steps(logdir, kind, MANIFEST)).difference(unfinished)
    return sorted({*steps(logdir, kind), *manifests}, reverse=True)


def is_there(checkpoint):
    """Return whether a checkpoint with this name, or a part of it, exists."""
    return any(os.path.lexists(checkpoint + ending) for ending in (INDEX, MANIFEST))
