"""What the workers of a training run agree on: settings, code, corpus, checkpoint."""

import dataclasses
import hashlib
import os
from typing import Any, Dict, Optional

import transformer
from transformer.hparams import HParams
from transformer.logdir.history import current_versions
from transformer.logdir.manifests import find_fault
from transformer.logdir.names import MANIFEST
from transformer.runtime.errors import CheckpointError
from transformer.runtime.files import read_file


def describe_configuration(hp: HParams, checksums: Dict[str, str]) -> Dict[str, Any]:
    """List what all workers must share: name → value.

    Args:
      hp: the settings.
      checksums: of the corpus and its vocabulary: name → SHA-256.
    """
    configuration = dataclasses.asdict(hp)
    del configuration["data"]  # its path may differ from machine to machine
    configuration.update(current_versions())
    configuration["code"] = checksum_of_code()
    for name, checksum in checksums.items():
        configuration[f"corpus {name}"] = checksum[:8]
    return configuration


def checksum_of_code() -> str:
    """Compute a checksum of the files of this package."""
    package = os.path.dirname(os.path.abspath(transformer.__file__))
    digest = hashlib.sha256()
    for folder, folders, names in os.walk(package):
        folders.sort()
        for name in sorted(names):
            if name.endswith(".py"):
                with open(os.path.join(folder, name), "rb") as file:
                    digest.update(name.encode("utf-8") + b"\0" + file.read())
    return digest.hexdigest()[:8]


def identify_checkpoint(checkpoint: Optional[str]) -> Dict[str, str]:
    """Identify a checkpoint by its name and its manifest, which lists its checksums.

    Args:
      checkpoint: its path, without file extensions, or None.

    Returns:
      "name" and "manifest"; {} for None.
    """
    if not checkpoint:
        return {}
    manifest = read_file(checkpoint + MANIFEST).decode("utf-8")
    return {"name": os.path.basename(checkpoint), "manifest": manifest}


def find_agreed_checkpoint(logdir: str, identity: Dict[str, str]) -> Optional[str]:
    """Find the checkpoint from which the chief continues, and verify it.

    Args:
      logdir: the log directory of this worker: the chief's, or a copy of it.
      identity: from `identify_checkpoint` on the chief.

    Returns:
      Its path, without file extensions; None: nothing was trained yet.

    Raises:
      CheckpointError: the checkpoint in `logdir` is not the chief's.
    """
    if not identity:
        return None
    name = os.path.basename(identity["name"])
    path = os.path.join(logdir, name)
    fault = find_fault(path)
    if not fault and identify_checkpoint(path) != identity:
        fault = f"{name} differs from the chief's"
    if fault:
        raise CheckpointError(
            f"{logdir}: expected the checkpoint from which the chief continues, got "
            f"none or another one ({fault}); give all workers the same folder, or a "
            "copy of it"
        )
    return path
