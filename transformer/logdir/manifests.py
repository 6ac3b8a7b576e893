"""Checkpoints by their names and manifests: list, find and verify them.

This file does not need TensorFlow. `model.ckpt-STEP` are the newest checkpoints;
`best.ckpt-STEP` is a copy of the one with the best dev BLEU. They are found by their
names, so a log directory may be moved.

A checkpoint consists of two TensorFlow files and a manifest. The manifest lists the
checksums of these files and of the vocabulary, which `sha256sum --check
model.ckpt-STEP.sha256` can also read. A comment in it describes the checkpoint: the
settings of the model, and the checksums of the corpus. If the log directory has other
settings, `find_checkpoint` refuses the checkpoint.

`write_manifest` and `find_damage` also serve other files, such as exported models.
"""

import io
import json
import os
import re
import warnings
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Union

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
from transformer.runtime.errors import CheckpointError, CheckpointNotFound, FileError

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
    damage = find_damage(checkpoint + MANIFEST, name + INDEX)
    if damage:
        return damage
    path = os.path.join(logdir, SETTINGS)
    if not os.path.exists(path):
        return None
    saved = files.read_json(path, "settings")
    for setting, value in read_description(checkpoint).get("settings", {}).items():
        if setting not in saved or saved[setting] != value:
            actual = (
                f"has {setting} {saved[setting]}"
                if setting in saved
                else (f"lacks {setting}")
            )
            later = files.describe_later_version(path)
            return f"{SETTINGS} {actual}, but {name} was trained with {value}" + (
                later and f" ({later})"
            )
    return None


def find_damage(path: str, last: str) -> Optional[str]:
    """Compare files with their manifest: describe the first fault, or return None.

    Args:
      path: the manifest, in the folder of the files.
      last: the name of the file that it lists last.
    """
    folder, name = os.path.split(path)
    try:
        checksums = _read(path, last).checksums
    except FileNotFoundError:
        return f"{name} is missing"
    except FileError as error:
        return str(error)
    except ValueError:
        return f"{name} is truncated or damaged"
    for file_name, expected in checksums.items():
        try:
            checksum = files.sha256_of(os.path.join(folder, file_name))
        except OSError as error:
            return f"{file_name}: {error.strerror}"
        except FileError as error:
            return str(error)
        if checksum != expected:
            return f"{file_name} does not match its checksum in {name}"
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
    return _read(checkpoint + MANIFEST, os.path.basename(checkpoint) + INDEX)


def _read(path, last) -> Manifest:
    """Read a manifest; see `find_damage`."""
    description: Dict[str, Any] = {}
    checksums = {}
    text = files.read_file(path).decode("utf-8", "replace")
    for line in io.StringIO(text, newline=None):
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
    are_objects = all(type(value) is dict for value in description.values())
    if list(checksums)[-1:] != [last] or not are_objects:
        raise ValueError(path)
    return Manifest(checksums, description)


def write_manifest(
    path: str, paths: Sequence[str], description: Optional[Dict[str, Any]] = None
) -> None:
    """Write a manifest.

    Args:
      path: the manifest.
      paths: the files, which will be in the same folder; see `find_damage` for the
        last.
      description: see `Manifest`.
    """
    with open(path, "w", encoding="utf-8") as file:
        if description:
            file.write(f"{COMMENT}{json.dumps(description, sort_keys=True)}\n")
        file.writelines(
            f"{files.sha256_of(path)}  {os.path.basename(path)}\n" for path in paths
        )
