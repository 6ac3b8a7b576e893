"""Checkpoints by their names and manifests: list, find and verify them.

This file does not need TensorFlow. `model.ckpt-STEP` are the newest checkpoints;
`best.ckpt-STEP` is a copy of the one with the best dev BLEU. They are found by their
names, so a log directory may be moved.

A checkpoint consists of two TensorFlow files and a manifest. The manifest lists the
checksums of these files and of the vocabulary, which `sha256sum --check
model.ckpt-STEP.sha256` can also read. A comment in it describes the checkpoint: the
settings of the model, and the checksums of the corpus. If the log directory has other
settings, `find_checkpoint` refuses the checkpoint.
"""

import json
import os
import re
import warnings
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Union

from transformer.logdir.names import (
    BEST,
    INDEX,
    MANIFEST,
    REGULAR,
    SAVING,
    SETTINGS,
    checkpoint_path,
    checkpoint_step,
)
from transformer.runtime import files
from transformer.runtime.errors import CheckpointError, CheckpointNotFound

MANIFEST_LINE = re.compile(r"([0-9a-f]{64})  ([\w.-]+)\n")
COMMENT = "# "  # begins the line that describes the checkpoint
MAX_FAULTS = 3  # named in a message


class Manifest(NamedTuple):
    """The content of a manifest."""

    checksums: Dict[str, str]  # name of a file → SHA-256
    # "settings": the settings of the model, name → value; "corpus": the checksums of
    # the corpus. Manifests of earlier versions have neither.
    description: Dict[str, Any]


# --- List and find --------------------------------------------------------------------


def list_steps(logdir: str, kind: str = REGULAR, ending: str = INDEX) -> List[int]:
    """List the steps of the checkpoints of one kind in `logdir`, ascending.

    Args:
      logdir: the log directory, which may be missing.
      kind: REGULAR or BEST.
      ending: the extension of the file by which a checkpoint is recognized.
    """
    pattern = re.compile(re.escape(kind) + r"-(\d+)" + re.escape(ending))
    names = os.listdir(logdir) if os.path.isdir(logdir) else []
    matches = [pattern.fullmatch(name) for name in names]
    return sorted(int(match.group(1)) for match in matches if match)


def list_all_steps(logdir: str, kind: str = REGULAR) -> List[int]:
    """List the steps of the checkpoints, whole or not, the latest first."""
    # The index of a checkpoint is moved last.
    unfinished = list_steps(os.path.join(logdir, SAVING), kind)
    manifests = set(list_steps(logdir, kind, MANIFEST)).difference(unfinished)
    return sorted({*list_steps(logdir, kind), *manifests}, reverse=True)


def has_checkpoint(logdir: str) -> bool:
    """Return whether `logdir` has a checkpoint, whole or broken."""
    return bool(list_steps(logdir) or list_steps(logdir, BEST))


def is_present(checkpoint: str) -> bool:
    """Return whether a file of this checkpoint exists."""
    return any(os.path.lexists(checkpoint + ending) for ending in (INDEX, MANIFEST))


def list_candidates(logdir: str, which: Union[str, int] = "best") -> List[str]:
    """List the checkpoints to try, whole or not, in order of preference.

    Args:
      logdir, which: as in `find_checkpoint`.
    """
    newest = [checkpoint_path(logdir, step) for step in list_all_steps(logdir, REGULAR)]
    best = [
        checkpoint_path(logdir, step, BEST) for step in list_all_steps(logdir, BEST)
    ]
    if which == "best":
        return best + newest
    if which == "newest":  # the best one may outlive its original
        return sorted(newest + best, key=checkpoint_step, reverse=True)
    return [path for path in newest + best if str(checkpoint_step(path)) == str(which)]


def find_checkpoint(
    logdir: str,
    which: Union[str, int] = "best",
    warn: Callable[[str], None] = warnings.warn,
) -> str:
    """Find the checkpoint to use, and verify it.

    Args:
      logdir: the log directory.
      which: "best" (by dev BLEU; the newest if none was scored), "newest" (of both
        kinds), or a step.
      warn: function of a text; called for each broken checkpoint that is skipped.

    Returns:
      The path, without file extensions.

    Raises:
      CheckpointNotFound: there is no such checkpoint.
      CheckpointError: there is no whole one.
    """
    candidates = list_candidates(logdir, which)
    if not candidates:
        steps = sorted({*list_steps(logdir), *list_steps(logdir, BEST)})
        expected = f"'best', 'newest' or a step of {steps}" if steps else "a checkpoint"
        raise CheckpointNotFound(
            f"checkpoint {which!r}: expected {expected} in {logdir}", logdir
        )
    faults: List[str] = []
    for checkpoint in candidates:
        fault = find_fault(checkpoint)
        if not fault:
            for skipped in faults:
                warn(f"{skipped}; {os.path.basename(checkpoint)} is used instead")
            return checkpoint
        if not is_present(checkpoint):  # a training run removed it for a newer one
            return find_checkpoint(logdir, which, warn)
        faults.append(fault)
    more = f"; and {len(faults) - MAX_FAULTS} more" if len(faults) > MAX_FAULTS else ""
    raise CheckpointError(
        f"checkpoint {which!r}: expected one that can be used, got none in {logdir} "
        f"({'; '.join(faults[:MAX_FAULTS])}{more})"
    )


# --- Verify ---------------------------------------------------------------------------


def find_fault(checkpoint: str) -> Optional[str]:
    """Verify a checkpoint: describe its first fault, or return None if it is whole."""
    logdir, name = os.path.split(checkpoint)
    try:
        manifest = read_manifest(checkpoint)
    except FileNotFoundError:
        return f"{name}{MANIFEST} is missing"
    except ValueError:
        return f"{name}{MANIFEST} is truncated or damaged"
    for file_name, expected in manifest.checksums.items():
        try:
            checksum = files.sha256_of(os.path.join(logdir, file_name))
        except OSError as error:
            return f"{file_name}: {error.strerror}"
        if checksum != expected:
            return f"{file_name} does not match its checksum in {name}{MANIFEST}"
    path = os.path.join(logdir, SETTINGS)
    saved = files.read_json(path, "settings") if os.path.exists(path) else {}
    for setting, value in manifest.description.get("settings", {}).items():
        if saved.get(setting, value) != value:
            return (
                f"{SETTINGS} has {setting} {saved[setting]}, but {name} was trained "
                f"with {value}"
            )
    return None


def read_description(checkpoint: str) -> Dict[str, Any]:
    """Read the description of a checkpoint from its manifest: see `Manifest`.

    Raises:
      FileNotFoundError: there is no manifest.
      ValueError: the manifest is damaged.
    """
    return read_manifest(checkpoint).description


def read_manifest(checkpoint: str) -> Manifest:
    """Read the manifest of a checkpoint.

    Raises:
      FileNotFoundError: there is no manifest.
      ValueError: the manifest is truncated or damaged.
    """
    description: Dict[str, Any] = {}
    checksums = {}
    with open(checkpoint + MANIFEST, encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith(COMMENT):
                try:
                    description = dict(json.loads(line[len(COMMENT) :]))
                except (TypeError, RecursionError) as error:
                    raise ValueError(line) from error
                continue
            match = MANIFEST_LINE.fullmatch(line)
            if not match:
                raise ValueError(line)
            checksums[match.group(2)] = match.group(1)
    ends_with_index = list(checksums)[-1:] == [os.path.basename(checkpoint) + INDEX]
    are_objects = all(type(value) is dict for value in description.values())
    if not ends_with_index or not are_objects:
        raise ValueError(checkpoint)
    return Manifest(checksums, description)
