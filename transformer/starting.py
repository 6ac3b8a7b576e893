"""What a training run starts with: checked settings, a checkpoint, facts to compare."""

import dataclasses
import hashlib
import os
from typing import Any, Callable, Dict, Optional

from transformer.blocks.positions import LEARNED, POSITIONS
from transformer.decoding import SEARCHES
from transformer.runtime import checkpoints
from transformer.runtime.cli import refuse_unknown
from transformer.runtime.history import PLACES, versions
from transformer.runtime.precision import PRECISIONS
from transformer.runtime.reporting import read_dev_scores
from transformer.schedules import SCHEDULES


def refuse_unknown_names(hp) -> None:
    """Raise ValueError for a setting that names no row of its table."""
    for name, table in (
        ("search", SEARCHES),
        ("schedule", [*SCHEDULES, ""]),
        ("positions", [*POSITIONS, LEARNED, ""]),
        ("precision", PRECISIONS),
    ):
        refuse_unknown(name, getattr(hp, name), table)


def newest_checkpoint(logdir: str, warn: Callable[[str], None]) -> Optional[str]:
    """Return the checkpoint to continue from, None where nothing was trained yet.

    Raises:
      ValueError: there was one, and now there is none that is whole.
    """
    if checkpoints.exist(logdir):
        return checkpoints.find(logdir, "newest", warn)
    if read_dev_scores(logdir):
        raise ValueError(
            f"{logdir}: found dev scores, but no checkpoint; choose "
            "another --logdir to train from the beginning"
        )
    return None


def facts(hp, corpus: Dict[str, str]) -> Dict[str, Any]:
    """Return what must be the same on all workers: name → value.

    Args:
      hp: the settings.
      corpus: the checksum of each part of the corpus.
    """
    found = {
        name: value
        for name, value in dataclasses.asdict(hp).items()
        if name not in PLACES
    }
    found.update(versions(), code=checksum_of_code())
    found.update((f"corpus {name}", value[:8]) for name, value in corpus.items())
    return found


def checksum_of_code() -> str:
    """Return a checksum of the files of this package."""
    package, digest = os.path.dirname(os.path.abspath(__file__)), hashlib.sha256()
    for folder, folders, names in os.walk(package):
        folders.sort()
        for name in sorted(names):
            if name.endswith(".py"):
                with open(os.path.join(folder, name), "rb") as file:
                    digest.update(name.encode("utf-8") + b"\0" + file.read())
    return digest.hexdigest()[:8]


def welcome(checkpoint: Optional[str]) -> Dict[str, str]:
    """Return what the other workers need to know of the checkpoint to continue from.

    Args:
      checkpoint: its path without the endings of its files; None: none.
    """
    if not checkpoint:
        return {}
    with open(checkpoint + checkpoints.MANIFEST, encoding="utf-8") as file:
        return {"checkpoint": os.path.basename(checkpoint), "manifest": file.read()}


def welcomed(logdir: str, told: Dict[str, str]) -> Optional[str]:
    """Return the checkpoint that the chief continues from, verified; None for none.

    Args:
      logdir: the log directory of this worker: the chief's, or a copy of it.
      told: what `welcome` returned there.

    Raises:
      ValueError: it is not the chief's.
    """
    if not told:
        return None
    path = os.path.join(logdir, os.path.basename(told["checkpoint"]))
    fault = checkpoints.fault_of(path)
    if not fault and welcome(path) != told:
        fault = f"{os.path.basename(path)} is another one"
    if fault:
        raise ValueError(
            f"{logdir}: found that {fault}, wanted the checkpoint from which the chief "
            "continues; give all workers the same folder, or a copy of it"
        )
    return path
