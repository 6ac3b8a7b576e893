"""Checkpoints of a log directory: list, save, verify, restore.

`model.ckpt-STEP` are the newest ones; `best.ckpt-STEP` is a copy of the one with the
best dev BLEU. They are found by their names, so a log directory may be moved.

A checkpoint is two files of TensorFlow and a manifest of their checksums, which
`sha256sum --check model.ckpt-STEP.sha256` reads too. All are written to a folder of
their own and moved into place one after the other, the manifest last: the checkpoint
exists once its manifest does. `checkpoint` names them for other tools of TensorFlow;
nothing here reads it.
"""

import contextlib
import glob
import os
import re
import shutil
import warnings
from typing import Any, Callable, Dict, List, Optional, Union

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.runtime import files, tensors

NEWEST, BEST = "model.ckpt", "best.ckpt"
INDEX, MANIFEST = ".index", ".sha256"
STATE = "checkpoint"  # what tf.train.latest_checkpoint reads
ASIDE = ".saving"  # the folder of a log directory in which a checkpoint is written


def steps(logdir: str, kind: str = NEWEST) -> List[int]:
    """Return the steps of the checkpoints of a kind in `logdir`, ascending."""
    return sorted(_steps_with(MANIFEST, logdir, kind))


def exist(logdir: str) -> bool:
    """Return whether `logdir` has a checkpoint, or the remains of one."""
    return any(_steps_with_remains(logdir, kind) for kind in (NEWEST, BEST))


def path_of(logdir: str, step: int, kind: str = NEWEST) -> str:
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
    while True:
        candidates, faults = _candidates(logdir, which), []
        if not candidates:
            raise FileNotFoundError(
                f"checkpoint {which!r}: found steps {steps(logdir)} in {logdir}, "
                "wanted 'best', 'newest' or one of them; python train.py writes them"
            )
        for checkpoint in candidates:
            fault = fault_of(checkpoint)
            if not fault:
                for each in faults:
                    warn(f"{each}; {os.path.basename(checkpoint)} is used instead")
                return checkpoint
            if not _is_there(checkpoint):
                break  # a training run removed it meanwhile, and wrote a newer one
            faults.append(fault)
        else:
            raise ValueError(
                f"checkpoint {which!r}: found only broken ones in {logdir} "
                f"({'; '.join(faults)}), wanted a whole one"
            )


def find_and_load(
    logdir: str,
    load: Callable[[str], Any],
    which: Union[str, int] = "best",
    warn: Callable[[str], None] = warnings.warn,
) -> Any:
    """Return what `load` returns of the checkpoint that `find` finds.

    If a training run removed it meanwhile, the next one is found, and loaded.

    Args:
      logdir: the log directory.
      load: function of the path of a checkpoint; it is called again if it fails while
        the checkpoint vanishes.
      which, warn: as in `find`.
    """
    while True:
        checkpoint = find(logdir, which, warn)
        try:
            return load(checkpoint)
        except (ValueError, OSError, tf.errors.OpError):
            if _is_there(checkpoint):
                raise


def fault_of(checkpoint: str) -> Optional[str]:
    """Return what is wrong with a checkpoint, naming a file; None if nothing is."""
    logdir, name = os.path.split(checkpoint)
    line = re.compile(
        r"([0-9a-f]{64})  (%s(?:\.index|\.data-\d+-of-\d+))\n" % re.escape(name)
    )
    try:
        with open(checkpoint + MANIFEST, encoding="utf-8", errors="replace") as file:
            listed = [line.fullmatch(each) for each in file]
    except FileNotFoundError:
        return f"{name}{MANIFEST} is missing"
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
    """Write the checkpoint of `step`, then remove all but the newest `keep`.

    Raises:
      OSError: it could not be written; those before it are untouched.
    """
    kept = [*[other for other in steps(logdir) if other < step], step][-keep:]

    def write(path):
        saver.save(session, path, write_meta_graph=False, write_state=False)
        with open(os.path.join(os.path.dirname(path), STATE), "w") as file:
            file.write(_state(kept))

    _publish(path_of(logdir, step), write, [STATE])
    _remove_older(logdir, step, kept)


def save_best(logdir: str, step: int) -> None:
    """Copy the checkpoint of `step` as the best one, and remove the previous best.

    Raises:
      OSError: it could not be written; the previous best is untouched.
    """
    source = path_of(logdir, step)

    def copy(path):
        for each in _files(source):
            shutil.copyfile(each, path + each[len(source) :])

    _publish(path_of(logdir, step, BEST), copy)
    for old in _steps_with_remains(logdir, BEST):
        if old != step:
            _remove(path_of(logdir, old, BEST))


def clean_up(logdir: str, step: int, keep: int) -> None:
    """Remove incomplete and surplus checkpoints; write the list of those that are left.

    Args:
      logdir: the log directory.
      step: that of the checkpoint from which training continues.
      keep: how many of those up to this step are kept.

    Raises:
      OSError: something could not be removed or written.
    """
    remove_unfinished(logdir)
    kept = [other for other in steps(logdir) if other <= step][-keep:]
    if kept:
        with files.replaced(os.path.join(logdir, STATE)) as file:
            file.write(_state(kept))
    _remove_older(logdir, step, kept)


def remove_unfinished(logdir: str) -> None:
    """Remove what a killed process left of a checkpoint that it wrote or removed."""
    for kind in (NEWEST, BEST):
        for step in _unpublished(logdir, kind):
            _remove(path_of(logdir, step, kind))
        for path in glob.glob(os.path.join(glob.escape(logdir), kind + "-*.data-*")):
            if not _is_there(path.rsplit(".data-", 1)[0]):
                os.remove(path)
    shutil.rmtree(os.path.join(logdir, ASIDE), ignore_errors=True)


def make_saver(scope: str = "") -> tf.train.Saver:
    """Return a saver of the graph's variables under a scope, without local ones."""
    return tf.train.Saver(tensors.variables(scope), max_to_keep=0)


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
    if os.path.exists(os.path.join(logdir, ASIDE)):
        shutil.rmtree(os.path.join(logdir, ASIDE))  # or say why that is not possible
    return path_of(logdir, step)


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
    found = _steps_with(INDEX, logdir, kind) | _steps_with(MANIFEST, logdir, kind)
    return found - _unpublished(logdir, kind)


def _unpublished(logdir, kind):
    """Return the steps of which a killed process moved some files, not the manifest."""
    written = _steps_with(MANIFEST, os.path.join(logdir, ASIDE), kind)
    return written - _steps_with(MANIFEST, logdir, kind)


def _candidates(logdir, which):
    """Return the checkpoints that `which` may mean, the first choice first."""
    newest, best = (
        [
            path_of(logdir, step, kind)
            for step in sorted(_steps_with_remains(logdir, kind), reverse=True)
        ]
        for kind in (NEWEST, BEST)
    )
    return {"best": best + newest, "newest": newest + best}.get(
        which, [path for path in newest if str(step_of(path)) == str(which)]
    )


def _is_there(checkpoint):
    """Return whether there is a checkpoint of this name, or the remains of one."""
    return any(os.path.exists(checkpoint + ending) for ending in (INDEX, MANIFEST))


def _state(kept):
    """Return what names the checkpoints of some steps: the folder may be moved."""
    names = [f"{NEWEST}-{step}" for step in kept]
    return f'model_checkpoint_path: "{names[-1]}"\n' + "".join(
        f'all_model_checkpoint_paths: "{name}"\n' for name in names
    )


def _remove_older(logdir, step, kept):
    """Remove the checkpoints before a step, and their remains, but for the kept."""
    for old in _steps_with_remains(logdir, NEWEST):
        if old < step and old not in kept:
            _remove(path_of(logdir, old))


def _files(checkpoint):
    """Return the files of TensorFlow of a checkpoint, the .index last."""
    return sorted(glob.glob(glob.escape(checkpoint) + ".data-*")) + [checkpoint + INDEX]


def _publish(checkpoint, write, others=()):
    """Have `write(path)` write a checkpoint elsewhere, then move it into its place.

    The files named `others`, which it writes beside the checkpoint, follow.

    Killed at any moment, this leaves the whole checkpoint or none, and what
    `remove_unfinished` removes. Each file is on the disk before the next one is moved,
    so that not even a power cut leaves a manifest without its files.
    """
    logdir, name = os.path.split(checkpoint)
    folder = os.path.join(logdir, ASIDE)
    aside = os.path.join(folder, name)
    try:
        remove_unfinished(logdir)
        os.mkdir(folder)  # not the log directory, should it be gone
        write(aside)
        with open(aside + MANIFEST, "w", encoding="utf-8") as file:
            file.writelines(
                f"{files.sha256_of(path)}  {os.path.basename(path)}\n"
                for path in _files(aside)
            )
        paths = [*_files(aside), aside + MANIFEST]
        paths += [os.path.join(folder, each) for each in others]
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
        with contextlib.suppress(OSError):
            remove_unfinished(logdir)


def _remove(checkpoint):
    """Remove a checkpoint and what eval.py wrote beside it, the manifest first."""
    paths = glob.glob(glob.escape(checkpoint) + ".*")
    for path in sorted(
        paths, key=lambda path: (not path.endswith(MANIFEST), not path.endswith(INDEX))
    ):
        os.remove(path)
