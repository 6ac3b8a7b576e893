"""Checkpoints of a log directory: list, save, verify, restore.

`model.ckpt-STEP` are the newest ones; `best.ckpt-STEP` is a copy of the one with the
best dev BLEU. They are found by their names, so a log directory may be moved.

A checkpoint is two files of TensorFlow and a manifest of their checksums, which
`sha256sum --check model.ckpt-STEP.sha256` reads too. All are written to a folder of
their own and moved into place one after the other, the manifest last: the checkpoint
exists once its manifest does.
"""

import glob
import os
import re
import shutil
import warnings
from typing import Callable, Dict, List, Optional, Sequence, Union

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.runtime import files

NEWEST, BEST = "model.ckpt", "best.ckpt"
INDEX, MANIFEST = ".index", ".sha256"
ASIDE = ".saving"  # the folder of a log directory in which a checkpoint is written


def steps(logdir: str, kind: str = NEWEST) -> List[int]:
    """Return the steps of the checkpoints of a kind in `logdir`, ascending."""
    return sorted(_steps_with(MANIFEST, logdir, kind))


def exist(logdir: str) -> bool:
    """Return whether `logdir` has a checkpoint, or the remains of one."""
    return any(_steps_with_remains(logdir, kind) for kind in (NEWEST, BEST))


def prefix(logdir: str, step: int, kind: str = NEWEST) -> str:
    """Return the path of a checkpoint without the endings of its files."""
    return os.path.join(logdir, f"{kind}-{step}")


def step_of(checkpoint: str) -> int:
    """Return the step of a checkpoint, by its name."""
    return int(checkpoint.rsplit("-", 1)[1])


def find(
    logdir: str,
    which: Union[str, int] = "best",
    warn: Callable[[str], None] = warnings.warn,
) -> str:
    """Return the checkpoint to use, verified.

    Args:
      logdir: the log directory.
      which: "best" (by dev BLEU; the newest where none was scored), "newest", a step.
      warn: function of a text; called for each broken checkpoint that is skipped.

    Returns:
      The path without the endings of its files.

    Raises:
      FileNotFoundError: there is none.
      ValueError: there is none that is whole.
    """
    newest, best = (
        [
            prefix(logdir, step, kind)
            for step in sorted(_steps_with_remains(logdir, kind), reverse=True)
        ]
        for kind in (NEWEST, BEST)
    )
    candidates = {"best": best + newest, "newest": newest + best}.get(
        which, [path for path in newest if str(step_of(path)) == str(which)]
    )
    if not candidates:
        raise FileNotFoundError(
            f"checkpoint {which!r}: found steps {steps(logdir)} in {logdir}, wanted "
            "'best', 'newest' or one of them; python train.py writes them"
        )
    faults = []
    for checkpoint in candidates:
        fault = fault_of(checkpoint)
        if not fault:
            for each in faults:
                warn(f"{each}; {os.path.basename(checkpoint)} is used instead")
            return checkpoint
        faults.append(fault)
    raise ValueError(
        f"checkpoint {which!r}: found only broken ones in {logdir} "
        f"({'; '.join(faults)}), wanted a whole one"
    )


def fault_of(checkpoint: str) -> Optional[str]:
    """Return what is wrong with a checkpoint, naming a file; None if nothing is."""
    logdir, name = os.path.split(checkpoint)
    if not os.path.exists(checkpoint + MANIFEST):
        return f"{name}{MANIFEST} is missing"
    line = re.compile(
        r"([0-9a-f]{64})  (%s(?:\.index|\.data-\d+-of-\d+))\n" % re.escape(name)
    )
    with open(checkpoint + MANIFEST, encoding="utf-8", errors="replace") as file:
        listed = [line.fullmatch(each) for each in file]
    if not all(listed) or not listed or not listed[-1].group(2).endswith(INDEX):
        return f"{name}{MANIFEST} is cut off or damaged"
    for checksum, each in (match.groups() for match in listed):
        try:
            found = files.sha256_of(os.path.join(logdir, each))
        except OSError as error:
            return f"{each}: {error.strerror}"
        if found != checksum:
            return f"{each} does not have the checksum in {name}{MANIFEST}"
    return None


def save(
    session: tf.Session, saver: tf.train.Saver, logdir: str, step: int, keep: int
) -> None:
    """Write the checkpoint of `step`, then prune: remove all but the newest `keep`.

    Raises:
      OSError: it could not be written; those before it are untouched.
    """
    _publish(
        prefix(logdir, step),
        lambda path: saver.save(
            session, path, write_meta_graph=False, write_state=False
        ),
    )
    kept = [other for other in steps(logdir) if other <= step][-keep:]
    for old in _steps_with_remains(logdir, NEWEST):
        if old < step and old not in kept:
            _remove(prefix(logdir, old))


def save_best(logdir: str, step: int) -> None:
    """Copy the checkpoint of `step` as the best one, and remove the previous best.

    Raises:
      OSError: it could not be written; the previous best is untouched.
    """
    source = prefix(logdir, step)

    def copy(path):
        for each in _files(source):
            shutil.copyfile(each, path + each[len(source) :])

    _publish(prefix(logdir, step, BEST), copy)
    for old in _steps_with_remains(logdir, BEST):
        if old != step:
            _remove(prefix(logdir, old, BEST))


def sweep(logdir: str) -> None:
    """Remove what a killed process left of a checkpoint that it wrote or removed."""
    shutil.rmtree(os.path.join(logdir, ASIDE), ignore_errors=True)
    for kind in (NEWEST, BEST):
        for path in glob.glob(os.path.join(glob.escape(logdir), kind + "-*.data-*")):
            checkpoint = path.rsplit(".data-", 1)[0]
            if not (
                os.path.exists(checkpoint + INDEX)
                or os.path.exists(checkpoint + MANIFEST)
            ):
                os.remove(path)


def make_saver() -> tf.train.Saver:
    """Return a saver of the variables of the current graph, without local ones."""
    return tf.train.Saver(tf.global_variables(), max_to_keep=0)


def restore(session: tf.Session, saver: tf.train.Saver, checkpoint: str) -> None:
    """Load a checkpoint into the variables of `saver`.

    Raises:
      ValueError: it is broken, or of another model.
    """
    try:
        saver.restore(session, checkpoint)
    except (ValueError, tf.errors.OpError) as error:
        raise ValueError(
            f"{checkpoint}: found a checkpoint that cannot be read "
            f"({type(error).__name__}), wanted a whole one of this model; "
            "choose another, or remove it"
        ) from error


def write(arrays: Dict[str, np.ndarray], logdir: str, step: int) -> str:
    """Write variables that are in no graph as the only checkpoint of `logdir`.

    Args:
      arrays: name → value; train.py continues from them if they are all of a model's.
      logdir: the log directory.
      step: the step of the checkpoint.

    Returns:
      Its path without the endings of its files.
    """
    with tf.Graph().as_default(), tf.Session() as session:
        variables = {
            name: tf.get_variable(
                name, array.shape, tf.as_dtype(array.dtype), tf.zeros_initializer()
            )
            for name, array in sorted(arrays.items())
        }
        session.run(
            [variable.initializer for variable in variables.values()],
            {variables[name].initial_value: array for name, array in arrays.items()},
        )
        save(session, make_saver(), logdir, step, 1)
    return prefix(logdir, step)


def read(checkpoint: str) -> Dict[str, np.ndarray]:
    """Return the variables of a checkpoint: name → array.

    Args:
      checkpoint: its path without the endings of its files.
    """
    reader = tf.train.load_checkpoint(checkpoint)
    return {
        name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()
    }


def average(paths: Sequence[str]) -> Dict[str, np.ndarray]:
    """Return the variables of checkpoints of one training run, averaged.

    Variables that are not floats, the count of updates, are those of the last one.

    Args:
      paths: without the endings of their files.
    """
    arrays = read(paths[-1])
    sums = {
        name: array.astype(np.float64)
        for name, array in arrays.items()
        if array.dtype == np.float32
    }
    for path in paths[:-1]:
        others = read(path)
        for name in sums:
            sums[name] += others[name]
    for name, total in sums.items():
        arrays[name] = (total / len(paths)).astype(np.float32)
    return arrays


def _steps_with(ending, logdir, kind):
    """Return the steps for which `logdir` has a file of this kind and ending."""
    pattern = re.compile(re.escape(kind) + r"-(\d+)" + re.escape(ending))
    found = (
        pattern.fullmatch(name)
        for name in (os.listdir(logdir) if os.path.isdir(logdir) else [])
    )
    return {int(match.group(1)) for match in found if match}


def _steps_with_remains(logdir, kind):
    """Return the steps for which `logdir` has a checkpoint, or the remains of one."""
    return _steps_with(INDEX, logdir, kind) | _steps_with(MANIFEST, logdir, kind)


def _files(checkpoint):
    """Return the files of TensorFlow of a checkpoint, the .index last."""
    return sorted(glob.glob(glob.escape(checkpoint) + ".data-*")) + [checkpoint + INDEX]


def _publish(checkpoint, write):
    """Have `write(path)` write a checkpoint elsewhere, then move it into its place.

    Killed at any moment, this leaves the whole checkpoint or none; `sweep` removes what
    else it leaves. Each file is on the disk before the next one is moved, so that not
    even a power cut leaves a manifest without its files.
    """
    logdir, name = os.path.split(checkpoint)
    folder = os.path.join(logdir, ASIDE)
    aside = os.path.join(folder, name)
    try:
        sweep(logdir)
        os.makedirs(folder)
        write(aside)
        with open(aside + MANIFEST, "w", encoding="utf-8") as file:
            file.writelines(
                f"{files.sha256_of(path)}  {os.path.basename(path)}\n"
                for path in _files(aside)
            )
        paths = [*_files(aside), aside + MANIFEST]
        for path in paths:
            files.sync(path)
        _remove(checkpoint)
        for path in paths:
            os.replace(path, os.path.join(logdir, os.path.basename(path)))
            files.sync(logdir)
    except (OSError, tf.errors.OpError) as error:
        lines = str(error).splitlines()  # of TensorFlow's, one gives the reason
        reason = [line for line in lines if folder in line] or lines
        raise OSError(f"{checkpoint} could not be written: {reason[0]}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove(checkpoint):
    """Remove a checkpoint and what eval.py wrote beside it, the manifest first."""
    paths = glob.glob(glob.escape(checkpoint) + ".*")
    for path in sorted(
        paths, key=lambda path: (not path.endswith(MANIFEST), not path.endswith(INDEX))
    ):
        os.remove(path)
