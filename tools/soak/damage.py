"""Damage the files of a checkpoint: truncate, flip a bit, remove."""

import glob
import os
import random
from typing import Optional

from transformer.runtime import checkpoints


def truncate(path: str, draw: random.Random) -> None:
    """Cut a file at a random place."""
    os.truncate(path, draw.randrange(os.path.getsize(path) - 1))


def flip_a_bit(path: str, draw: random.Random) -> None:
    """Change one random bit of a file."""
    with open(path, "r+b") as file:
        place = draw.randrange(os.path.getsize(path))
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ (1 << draw.randrange(8))]))


def remove(path: str, draw: random.Random) -> None:
    """Remove a file."""
    os.remove(path)


# The extension point for damages: name → function of (path, source of randomness).
DAMAGES = {"truncated": truncate, "a bit flipped": flip_a_bit, "removed": remove}


def damage_newest(logdir: str, kind: str, draw: random.Random) -> Optional[str]:
    """Damage a file of the newest whole checkpoint, unless it is the only one.

    Args:
      logdir: the log directory.
      kind: a key of DAMAGES.
      draw: chooses the file and the place in it.

    Returns:
      The name of the file; None if there is none.
    """
    whole = [
        step
        for step in checkpoints.steps(logdir)
        if not checkpoints.fault_of(checkpoints.path_of(logdir, step))
    ]
    if len(whole) < 2:
        return None
    path = draw.choice(sorted(glob.glob(checkpoints.path_of(logdir, whole[-1]) + ".*")))
    DAMAGES[kind](path, draw)
    return os.path.basename(path)
