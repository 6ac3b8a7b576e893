"""Compare two log directories bit by bit: checkpoints, dev scores, losses."""

import collections
import glob
import os
from typing import Dict, List, Optional, Set

from runs import MAX_STEPS

from transformer.runtime import checkpoints
from transformer.runtime.events import read_events
from transformer.runtime.reporting import DEV_SCORES


def losses(logdir: str) -> Dict[int, Set[float]]:
    """Return every loss that was written: step → the set of its values."""
    found = collections.defaultdict(set)
    for path in glob.glob(os.path.join(logdir, "events.out.tfevents.*")):
        for step, values in read_events(path):
            if "loss" in values:
                found[step].add(values["loss"])
    return found


def differences(logdir: str, wanted: str) -> List[str]:
    """Return the names of what differs from the log directory `wanted` in any bit."""
    names = [DEV_SCORES] + [
        os.path.basename(path)
        for path in glob.glob(os.path.join(wanted, "best.*"))
        + glob.glob(checkpoints.path_of(wanted, MAX_STEPS) + ".*")
    ]
    different = [
        name for name in names if content(logdir, name) != content(wanted, name)
    ]
    found, right = losses(logdir), losses(wanted)
    return different + [
        f"loss of step {step}"
        for step in sorted({*found, *right})
        if found[step] != right[step]
    ]


def content(folder: str, name: str) -> Optional[bytes]:
    """Return the bytes of a file; None if there is none."""
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        return None
    with open(path, "rb") as file:
        return file.read()
