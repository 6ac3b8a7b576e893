"""Checkpoints of a log directory: which there are, save, restore.

`model.ckpt-STEP` are the newest ones; `best.ckpt-STEP` is a copy of the one with the
best dev BLEU. They are found by their names, so a log directory may be moved.
"""
import glob
import os
import re
import shutil

import tensorflow.compat.v1 as tf

NEWEST, BEST = "model.ckpt", "best.ckpt"


def steps(logdir, kind=NEWEST):
    """The steps of the checkpoints of a kind in `logdir`, ascending."""
    found = (re.fullmatch(re.escape(kind) + r"-(\d+)\.index", name)
             for name in (os.listdir(logdir) if os.path.isdir(logdir) else []))
    return sorted(int(match.group(1)) for match in found if match)


def prefix(logdir, step, kind=NEWEST):
    """The path of a checkpoint without the endings of its files."""
    return os.path.join(logdir, f"{kind}-{step}")


def step_of(checkpoint):
    """The step of a checkpoint, by its name."""
    return int(checkpoint.rsplit("-", 1)[1])


def find(logdir, which="best"):
    """The checkpoint to use.

    Args:
      logdir: the log directory.
      which: "best" (by dev BLEU; the newest where none was scored), "newest", a step.

    Returns:
      The path without the endings of its files.

    Raises:
      FileNotFoundError: there is none.
    """
    newest, best = steps(logdir), steps(logdir, BEST)
    if which == "best" and best:
        return prefix(logdir, best[-1], BEST)
    if which in ("best", "newest") and newest:
        return prefix(logdir, newest[-1])
    if str(which).isdigit() and int(which) in newest:
        return prefix(logdir, int(which))
    raise FileNotFoundError(
        f"checkpoint {which!r}: found steps {newest} in {logdir}, wanted "
        "'best', 'newest' or one of them; python train.py writes them")


def save(session, saver, logdir, step, keep):
    """Writes the checkpoint of `step`, then removes all but the newest `keep`."""
    saver.save(session, prefix(logdir, step), write_meta_graph=False, write_state=False)
    for old in steps(logdir)[:-keep]:
        _remove(prefix(logdir, old))


def save_best(logdir, step):
    """Copies the checkpoint of `step` to be the best, and removes the one before."""
    source, target = prefix(logdir, step), prefix(logdir, step, BEST)
    for path in sorted(glob.glob(glob.escape(source) + ".*")):  # .index comes last
        shutil.copyfile(path, target + path[len(source):])
    for old in steps(logdir, BEST):
        if old != step:
            _remove(prefix(logdir, old, BEST))


def make_saver():
    """A saver of all variables of the current graph that belong into a checkpoint."""
    return tf.train.Saver(tf.global_variables(), max_to_keep=0)


def restore(session, saver, checkpoint):
    """Loads a checkpoint into the variables of `saver`.

    Raises:
      ValueError: it is broken, or of another model.
    """
    try:
        saver.restore(session, checkpoint)
    except (ValueError, tf.errors.OpError) as error:
        raise ValueError(f"{checkpoint}: found a checkpoint that cannot be read "
                         f"({type(error).__name__}), wanted a whole one of this model; "
                         "choose another, or remove it") from error


def _remove(checkpoint):
    """Removes a checkpoint, the .index that makes it one first."""
    for path in sorted(glob.glob(glob.escape(checkpoint) + ".*"), reverse=True):
        os.remove(path)
