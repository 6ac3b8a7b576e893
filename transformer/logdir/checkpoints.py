"""Checkpoints of a log directory: read, restore, write.

`manifests.py` defines and finds the files of a checkpoint; this module re-exports its
names.

All files are written to a separate folder and then moved into the log directory one by
one, the index last: a checkpoint exists once its index does. The file `checkpoint`
lists the checkpoints for TensorFlow's other tools; nothing here reads it.
"""

import contextlib
import glob
import json
import os
import re
import shutil
import tempfile
import warnings
from typing import (
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Union,
)

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.logdir.manifests import (
    BEST,
    COMMENT,
    INDEX,
    MANIFEST,
    NEWEST,
    SAVING,
    all_steps,
    description_of,
    find,
    is_there,
    path_of,
    steps,
)
from transformer.logdir.manifests import exist as exist
from transformer.logdir.manifests import fault_of as fault_of
from transformer.logdir.manifests import step_of as step_of
from transformer.runtime import files
from transformer.text.vocabulary import FILE_NAMES
from transformer.training import LOSS_SCALE

STATE = "checkpoint"  # what tf.train.latest_checkpoint reads
PATTERN = frozenset("*?[]\\")  # what TensorFlow treats as a pattern in a path

# --- Read one -------------------------------------------------------------------------


def find_and_load(
    logdir: str,
    load: Callable[[str], Any],
    which: Union[str, int] = "best",
    warn: Callable[[str], None] = warnings.warn,
) -> Any:
    """Return what `load` returns for the checkpoint that `find` finds.

    If a training run removes the checkpoint in the meantime, load the next one.

    Args:
      logdir: the log directory.
      load: function of the path of a checkpoint; it is called again if it fails because
        the checkpoint vanished.
      which, warn: as in `find`.
    """
    while True:
        checkpoint = find(logdir, which, warn)
        try:
            return load(checkpoint)
        except (ValueError, OSError, tf.errors.OpError):
            if is_there(checkpoint):
                raise


@contextlib.contextmanager
def literal(checkpoint: str) -> Iterator[str]:
    """Yield a path to a checkpoint that is not a pattern, valid while the body runs.

    TensorFlow reads `[`, `*` and `?` in the path of a checkpoint as a glob pattern.

    Args:
      checkpoint: its path, without file extensions.
    """
    if not PATTERN.intersection(checkpoint):
        yield checkpoint
        return
    with tempfile.TemporaryDirectory() as folder:
        link = os.path.join(folder, "checkpoint")
        for path in glob.glob(glob.escape(checkpoint) + ".*"):
            os.symlink(os.path.abspath(path), link + path[len(checkpoint) :])
        yield link


def shapes(checkpoint: str) -> Dict[str, List[int]]:
    """Return the variables of a checkpoint: name → shape.

    Raises:
      tf.errors.OpError: the index cannot be read.
    """
    with literal(checkpoint) as path:
        return tf.train.load_checkpoint(path).get_variable_to_shape_map()


def read(checkpoint: str) -> Dict[str, np.ndarray]:
    """Return the variables of a checkpoint: name → array."""
    with literal(checkpoint) as path:
        reader = tf.train.load_checkpoint(path)
        return {
            name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()
        }


def average(paths: Sequence[str]) -> Dict[str, np.ndarray]:
    """Return the averaged variables of several checkpoints of one training run.

    Variables that are not floats, such as the count of updates, and the loss scale come
    from the last checkpoint.

    Args:
      paths: the paths of the checkpoints, without file extensions.
    """
    arrays = read(paths[-1])
    sums = {
        name: array.astype(np.float64)
        for name, array in arrays.items()
        if array.dtype == np.float32 and not name.startswith(f"{LOSS_SCALE}/")
    }
    for path in paths[:-1]:
        others = read(path)
        for name in sums:
            sums[name] += others[name]
    for name, total in sums.items():
        arrays[name] = (total / len(paths)).astype(np.float32)
    return arrays


def variables(scope: str = "") -> Dict[str, tf.Variable]:
    """Return the graph's variables under a scope, by their names in that scope."""
    start = scope and scope + "/"
    return {
        each.op.name[len(start) :]: each
        for each in tf.global_variables()
        if each.op.name.startswith(start)
    }


def make_saver(scope: str = "") -> tf.train.Saver:
    """Return a saver for the graph's variables under a scope, without local ones."""
    return tf.train.Saver(variables(scope), max_to_keep=0)


def restore(
    session: tf.Session, saver: tf.train.Saver, checkpoint: str, scope: str = ""
) -> None:
    """Load a checkpoint into the variables of a session's graph.

    Args:
      session: the session.
      saver: a saver of the variables under the scope.
      checkpoint: its path, without file extensions.
      scope: the scope of the graph's variables; those in the checkpoint have no scope.

    Raises:
      ValueError: the checkpoint cannot be read, or belongs to another model.
    """
    with session.graph.as_default():
        _restore(session, variables(scope), checkpoint, saver)


def restore_weights(session: tf.Session, checkpoint: str) -> None:
    """Load only the trainable variables of a checkpoint, without Adam and step.

    Args:
      session, checkpoint: as in `restore`.

    Raises:
      ValueError: the checkpoint cannot be read, or belongs to another model.
    """
    with session.graph.as_default():
        graph = {each.op.name: each for each in tf.trainable_variables()}
        _restore(session, graph, checkpoint, tf.train.Saver(graph))


def _restore(session, graph, checkpoint, saver):
    """Load the variables (name → variable) of a saver from a checkpoint."""
    try:
        found = shapes(checkpoint)
        kept = {
            name: variable
            for name, variable in graph.items()
            if name in found or not name.startswith(f"{LOSS_SCALE}/")
        }
        if len(kept) < len(graph):  # the others keep their initial values
            saver = tf.train.Saver(kept)
        expected = {name: each.shape.as_list() for name, each in kept.items()}
        refuse_other_shapes(checkpoint, found, expected)
        with literal(checkpoint) as path:
            saver.restore(session, path)
    except tf.errors.OpError as error:
        raise ValueError(
            f"{checkpoint}: expected an intact checkpoint of this model, got one that "
            f"cannot be read ({type(error).__name__}); choose another, or remove it"
        ) from error


def refuse_other_shapes(
    checkpoint: str,
    found: Mapping[str, Sequence[int]],
    expected: Mapping[str, List[int]],
) -> None:
    """Raise ValueError if a checkpoint lacks a variable, or has it in another shape.

    Args:
      checkpoint: its path, for the message.
      found: the shapes in the checkpoint.
      expected: the shapes in the model.
    """
    others = sorted(
        name for name in expected if list(found.get(name, [-1])) != expected[name]
    )
    if others:
        name = others[0]
        shape = f"shape {list(found[name])}" if name in found else "none"
        more = f", and {len(others) - 1} more such variables" if others[1:] else ""
        raise ValueError(
            f"{checkpoint}: expected {name} of shape {expected[name]}, as hparams.json "
            f"and the vocabulary imply, got {shape}{more}: the checkpoint belongs to "
            "another model; restore those files as they were when it was trained"
        )


# --- Write one ------------------------------------------------------------------------


def save(
    session: tf.Session,
    saver: tf.train.Saver,
    logdir: str,
    step: int,
    keep: int,
    described: Optional[Dict[str, Any]] = None,
) -> None:
    """Write the checkpoint of `step`, then remove all but the newest `keep`.

    Args:
      session, saver: the session with the variables, and their saver.
      logdir: the log directory, with its vocabulary.
      step: the number of updates.
      keep: how many checkpoints stay.
      described: what `description_of` is to return for this checkpoint.

    Raises:
      OSError: the checkpoint could not be written; earlier checkpoints are untouched.
    """

    def write(path):
        saver.save(session, path, write_meta_graph=False, write_state=False)

    _publish(path_of(logdir, step), write, described)
    _keep(logdir, step, keep)


def save_best(logdir: str, step: int) -> None:
    """Copy the checkpoint of `step` as the best one; remove the previous best.

    Raises:
      OSError: the copy could not be written; the previous best is untouched.
    """
    _copy(path_of(logdir, step), path_of(logdir, step, BEST))
    for old in all_steps(logdir, BEST):
        if old != step:
            _remove(path_of(logdir, old, BEST))


def copy_best(logdir: str, step: int) -> None:
    """Copy the best checkpoint as the newest one of its step, which is damaged or gone.

    Raises:
      OSError: the copy could not be written.
    """
    _copy(path_of(logdir, step, BEST), path_of(logdir, step))


def _copy(source, target):
    """Write a copy of a checkpoint under another name."""

    def copy(path):
        for each in [*_data_of(source), source + INDEX]:
            shutil.copyfile(each, path + each[len(source) :])

    _publish(target, copy, description_of(source))


def write(
    arrays: Dict[str, np.ndarray],
    logdir: str,
    step: int,
    described: Optional[Dict[str, Any]] = None,
) -> str:
    """Write variables that are not in a graph as the only checkpoint of `logdir`.

    Args:
      arrays: name → value; training can continue from them if they are all variables of
        a model.
      logdir: the log directory.
      step: the step of the checkpoint.
      described: as in `save`.

    Returns:
      The path of the checkpoint, without file extensions.
    """

    def save_arrays(path):
        with tf.Graph().as_default(), tf.Session() as session:
            values = {
                tf.placeholder(array.dtype, array.shape): array
                for array in arrays.values()
            }
            names = list(arrays)
            slices = [""] * len(names)  # whole variables
            made = tf.raw_ops.SaveV2(
                prefix=path,
                tensor_names=names,
                shape_and_slices=slices,
                tensors=list(values),
            )
            session.run(made, values)

    _publish(path_of(logdir, step), save_arrays, described)
    _keep(logdir, step, 1)
    return path_of(logdir, step)


def clean_up(logdir: str, step: int, keep: int) -> None:
    """Remove incomplete and surplus checkpoints; write the list of the remaining ones.

    Args:
      logdir: the log directory.
      step: the step of the checkpoint from which training continues.
      keep: how many checkpoints up to this step are kept.

    Raises:
      OSError: something could not be removed or written.
    """
    remove_unfinished(logdir)
    _keep(logdir, step, keep)


def _keep(logdir, step, keep):
    """Remove all but the newest `keep` checkpoints up to a step, whole or not.

    The list of the remaining ones contains no paths, so the log directory may be moved.
    """
    kept = [other for other in steps(logdir) if other <= step][-keep:]
    names = [f"{NEWEST}-{step}" for step in kept]
    if names:
        with files.replaced(os.path.join(logdir, STATE)) as file:
            file.write(f'model_checkpoint_path: "{names[-1]}"\n')
            file.writelines(f'all_model_checkpoint_paths: "{name}"\n' for name in names)
    for old in all_steps(logdir, NEWEST):
        if old < step and old not in kept:
            _remove(path_of(logdir, old))


def remove_unfinished(logdir: str) -> None:
    """Remove parts of checkpoints that a killed process was writing or removing."""
    pattern = re.compile(rf"((?:{NEWEST}|{BEST})-\d+)(?:\.sha256|\.data-.*)")
    for name in os.listdir(logdir):
        match = pattern.fullmatch(name)
        if match and not os.path.exists(os.path.join(logdir, match.group(1) + INDEX)):
            os.remove(os.path.join(logdir, name))
    shutil.rmtree(os.path.join(logdir, SAVING), ignore_errors=True)


def _publish(checkpoint, write, described):
    """Let `write(path)` write a checkpoint elsewhere, then move it to its own path.

    `described` goes into its manifest.

    If it is killed at any moment, it leaves the whole checkpoint or none, apart from
    files that `remove_unfinished` removes. Each file is on disk before the next one is
    moved, so that not even a power failure leaves an index without its files.
    """
    logdir, name = os.path.split(checkpoint)
    folder = os.path.join(logdir, SAVING)
    draft = os.path.join(folder, name)
    try:
        remove_unfinished(logdir)
        os.mkdir(folder)  # does not create a missing log directory
        write(draft)
        data = _data_of(draft)
        names = [name for kind in FILE_NAMES for name in kind]
        vocabulary = [os.path.join(logdir, name) for name in names]
        vocabulary = [path for path in vocabulary if os.path.exists(path)]
        with open(draft + MANIFEST, "w", encoding="utf-8") as file:
            if described:
                file.write(f"{COMMENT}{json.dumps(described, sort_keys=True)}\n")
            file.writelines(
                f"{files.sha256_of(path)}  {os.path.basename(path)}\n"
                for path in [*vocabulary, *data, draft + INDEX]
            )
        paths = [*data, draft + MANIFEST, draft + INDEX]
        for path in paths:
            files.sync(path)
        _remove(checkpoint)
        for path in paths:
            os.replace(path, os.path.join(logdir, os.path.basename(path)))
            files.sync(logdir)
        os.rmdir(folder)
    except (OSError, tf.errors.OpError) as error:
        lines = str(error).splitlines()  # in TensorFlow's errors, one gives the reason
        reason = [line for line in lines if folder in line] or lines
        raise OSError(f"{checkpoint} could not be written: {reason[0]}") from error
    finally:
        with contextlib.suppress(OSError):
            remove_unfinished(logdir)


def _data_of(checkpoint):
    """Return the data files of a checkpoint."""
    return sorted(glob.glob(glob.escape(checkpoint) + ".data-*"))


def _remove(checkpoint):
    """Remove a checkpoint and the translations next to it, the index first."""
    paths = glob.glob(glob.escape(checkpoint) + ".*")
    for path in sorted(paths, key=lambda path: not path.endswith(INDEX)):
        os.remove(path)
