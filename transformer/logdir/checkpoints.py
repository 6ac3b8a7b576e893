"""Checkpoints of a log directory: read, restore, write.

`manifests.py` finds and verifies them; `names.py` names their files.

All files are written to a separate folder and then moved into the log directory one by
one, the index last: a checkpoint exists once its index does. The file `checkpoint`
lists the checkpoints for TensorFlow's other tools; nothing here reads it.
"""

import contextlib
import glob
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
    find_checkpoint,
    is_present,
    list_all_steps,
    list_steps,
    read_description,
    write_manifest,
)
from transformer.logdir.names import (
    BEST,
    DATA,
    INDEX,
    LATEST,
    MANIFEST,
    REGULAR,
    SAVING,
    checkpoint_path,
)
from transformer.logdir.tensor_index import check_index
from transformer.runtime import files
from transformer.runtime.errors import CheckpointError
from transformer.runtime.progress import format_count
from transformer.text.vocabulary import FILE_NAMES
from transformer.training import LOSS_SCALE

GLOB_CHARACTERS = frozenset("*?[]\\")  # TensorFlow treats them as a pattern in a path

# --- Read one -------------------------------------------------------------------------


def find_and_load(
    logdir: str,
    load: Callable[[str], Any],
    which: Union[str, int] = "best",
    warn: Callable[[str], None] = warnings.warn,
) -> Any:
    """Find a checkpoint and load it; return the result of `load`.

    If a training run removes the checkpoint in the meantime, load the next one.

    Args:
      logdir: the log directory.
      load: function of the path of a checkpoint; it is called again if it fails because
        the checkpoint vanished.
      which, warn: as in `find_checkpoint`.
    """
    while True:
        checkpoint = find_checkpoint(logdir, which, warn)
        try:
            return load(checkpoint)
        except (ValueError, OSError, tf.errors.OpError):
            if is_present(checkpoint):
                raise


@contextlib.contextmanager
def literal_path(checkpoint: str) -> Iterator[str]:
    """Yield a path to a checkpoint without glob characters, valid while the body runs.

    TensorFlow reads `[`, `*` and `?` in the path of a checkpoint as a glob pattern.

    Args:
      checkpoint: its path, without file extensions.
    """
    if not GLOB_CHARACTERS.intersection(checkpoint):
        yield checkpoint
        return
    with tempfile.TemporaryDirectory() as folder:
        link = os.path.join(folder, "checkpoint")
        for path in glob.glob(glob.escape(checkpoint) + ".*"):
            os.symlink(os.path.abspath(path), link + path[len(checkpoint) :])
        yield link


def read_shapes(checkpoint: str) -> Dict[str, List[int]]:
    """Read the shapes of the variables of a checkpoint: name → shape.

    Raises:
      CheckpointError: the index is damaged.
      OSError: a file is missing.
    """
    return check_index(checkpoint)


def read_variables(checkpoint: str) -> Dict[str, np.ndarray]:
    """Read the variables of a checkpoint: name → array.

    Raises:
      CheckpointError: the index is damaged.
      OSError: a file is missing.
      tf.errors.OpError: TensorFlow cannot read a variable.
    """
    if os.path.exists(checkpoint):  # the format of the first versions of TensorFlow
        files.refuse_irregular(checkpoint)
    else:
        check_index(checkpoint)
    with literal_path(checkpoint) as path:
        reader = tf.train.load_checkpoint(path)
        return {
            name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()
        }


def average(paths: Sequence[str]) -> Dict[str, np.ndarray]:
    """Average the variables of several checkpoints of one training run.

    Variables that are not floats, such as the count of updates, and the loss scale come
    from the last checkpoint.

    Args:
      paths: the paths of the checkpoints, without file extensions.

    Returns:
      Name of a variable → its average, in its own type, computed in float64.
    """
    arrays = read_variables(paths[-1])
    sums = {
        name: array.astype(np.float64)
        for name, array in arrays.items()
        if tf.as_dtype(array.dtype).is_floating
        and not name.startswith(f"{LOSS_SCALE}/")
    }
    for path in paths[:-1]:
        checkpoint = read_variables(path)
        for name in sums:
            sums[name] += checkpoint[name]
    for name, total in sums.items():
        arrays[name] = (total / len(paths)).astype(arrays[name].dtype)
    return arrays


def graph_variables(scope: str = "") -> Dict[str, tf.Variable]:
    """Return the graph's variables under a scope, by their names in that scope."""
    prefix = scope and scope + "/"
    return {
        variable.op.name[len(prefix) :]: variable
        for variable in tf.global_variables()
        if variable.op.name.startswith(prefix)
    }


def make_saver(scope: str = "") -> tf.train.Saver:
    """Make a saver for the graph's variables under a scope, without local ones."""
    return tf.train.Saver(graph_variables(scope), max_to_keep=0)


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
      CheckpointError: it cannot be read, or belongs to another model.
    """
    with session.graph.as_default():
        _restore(session, graph_variables(scope), checkpoint, saver)


def restore_weights(session: tf.Session, checkpoint: str) -> None:
    """Load only the trainable variables of a checkpoint, without Adam and step.

    Args:
      session, checkpoint: as in `restore`.

    Raises:
      CheckpointError: it cannot be read, or belongs to another model.
    """
    with session.graph.as_default():
        weights = {variable.op.name: variable for variable in tf.trainable_variables()}
        _restore(session, weights, checkpoint, tf.train.Saver(weights))


def _restore(session, variables, checkpoint, saver):
    """Load the variables (name → variable) of a saver from a checkpoint."""
    try:
        shapes = read_shapes(checkpoint)
        restored = {
            name: variable
            for name, variable in variables.items()
            if name in shapes or not name.startswith(f"{LOSS_SCALE}/")
        }
        if len(restored) < len(variables):  # the others keep their initial values
            saver = tf.train.Saver(restored)
        expected = {
            name: variable.shape.as_list() for name, variable in restored.items()
        }
        refuse_other_shapes(checkpoint, shapes, expected)
        with literal_path(checkpoint) as path:
            saver.restore(session, path)
    except tf.errors.OpError as error:
        raise CheckpointError(
            f"{checkpoint}: expected an intact checkpoint of this model, got one that "
            f"cannot be read ({type(error).__name__}); choose another, or remove it"
        ) from error


def refuse_other_shapes(
    checkpoint: str,
    shapes: Mapping[str, Sequence[int]],
    expected: Mapping[str, List[int]],
) -> None:
    """Raise CheckpointError if a variable is missing, or has another shape.

    Args:
      checkpoint: its path, for the message.
      shapes: the shapes in the checkpoint.
      expected: the shapes in the model.
    """
    different = sorted(
        name for name in expected if list(shapes.get(name, [-1])) != expected[name]
    )
    if different:
        name = different[0]
        shape = f"shape {list(shapes[name])}" if name in shapes else "none"
        num_more = len(different) - 1
        more = ""
        if num_more:
            more = f", and {format_count(num_more, 'more such variable')}"
        raise CheckpointError(
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
    description: Optional[Dict[str, Any]] = None,
) -> None:
    """Write the checkpoint of `step`, then remove all but the newest `keep`.

    Args:
      session, saver: the session with the variables, and their saver.
      logdir: the log directory, with its vocabulary.
      step: the number of updates.
      keep: how many checkpoints stay.
      description: the description in the manifest: see `manifests.Manifest`.

    Raises:
      OSError: the checkpoint could not be written; earlier checkpoints are untouched.
    """

    def write(path):
        saver.save(session, path, write_meta_graph=False, write_state=False)

    _publish(checkpoint_path(logdir, step), write, description)
    _keep_newest(logdir, step, keep)


def save_best(logdir: str, step: int) -> None:
    """Copy the checkpoint of `step` as the best one; remove the previous best.

    Raises:
      OSError: the copy could not be written; the previous best is untouched.
    """
    _copy(checkpoint_path(logdir, step), checkpoint_path(logdir, step, BEST))
    for old in list_all_steps(logdir, BEST):
        if old != step:
            _remove(checkpoint_path(logdir, old, BEST))


def copy_best_as_newest(logdir: str, step: int) -> None:
    """Copy the best checkpoint as the newest one of its step, which is damaged or gone.

    Raises:
      OSError: the copy could not be written.
    """
    _copy(checkpoint_path(logdir, step, BEST), checkpoint_path(logdir, step))


def _copy(source, target):
    """Write a copy of a checkpoint under another name."""

    def copy(path):
        for file in [*_list_data_files(source), source + INDEX]:
            shutil.copyfile(file, path + file[len(source) :])

    _publish(target, copy, read_description(source))


def save_arrays(
    arrays: Dict[str, np.ndarray],
    logdir: str,
    step: int,
    description: Optional[Dict[str, Any]] = None,
) -> str:
    """Write variables that are not in a graph as the only checkpoint of `logdir`.

    Args:
      arrays: name → value; training can continue from them if they are all variables of
        a model.
      logdir: the log directory.
      step: the step of the checkpoint.
      description: as in `save`.

    Returns:
      The path of the checkpoint, without file extensions.
    """

    def write(path):
        with tf.Graph().as_default(), tf.Session() as session:
            values = {
                tf.placeholder(array.dtype, array.shape): array
                for array in arrays.values()
            }
            names = list(arrays)
            slices = [""] * len(names)  # whole variables
            save = tf.raw_ops.SaveV2(
                prefix=path,
                tensor_names=names,
                shape_and_slices=slices,
                tensors=list(values),
            )
            session.run(save, values)

    checkpoint = checkpoint_path(logdir, step)
    _publish(checkpoint, write, description)
    _keep_newest(logdir, step, keep=1)
    return checkpoint


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
    _keep_newest(logdir, step, keep)


def _keep_newest(logdir, step, keep):
    """List the newest `keep` checkpoints up to a step; remove the earlier ones."""
    steps = [other for other in list_steps(logdir) if other <= step][-keep:]
    if steps:
        _write_list(logdir, [f"{REGULAR}-{step}" for step in steps])
    for old in list_all_steps(logdir, REGULAR):  # whole or not
        if old < step and old not in steps:
            _remove(checkpoint_path(logdir, old))


def _write_list(logdir, names):
    """Write the list of checkpoints, without paths: the folder may be moved."""
    with files.replace_file(os.path.join(logdir, LATEST)) as file:
        file.write(f'model_checkpoint_path: "{names[-1]}"\n')
        file.writelines(f'all_model_checkpoint_paths: "{name}"\n' for name in names)


def remove_unfinished(logdir: str) -> None:
    """Remove files of checkpoints that a killed process was writing or removing."""
    endings = f"{re.escape(MANIFEST)}|{re.escape(DATA)}.*"
    pattern = re.compile(rf"((?:{REGULAR}|{BEST})-\d+)(?:{endings})")
    for name in os.listdir(logdir):
        match = pattern.fullmatch(name)
        if match and not os.path.exists(os.path.join(logdir, match.group(1) + INDEX)):
            os.remove(os.path.join(logdir, name))
    files.remove_tree(os.path.join(logdir, SAVING))


def _publish(checkpoint, write, description):
    """Let `write(path)` write a checkpoint elsewhere, then move it to its own path.

    `description` goes into its manifest.

    This is atomic: a process killed at any moment leaves the whole checkpoint or none,
    and perhaps files that `remove_unfinished` removes. Each file is on disk before the
    next one is moved, so that not even a power failure leaves an index without its
    files.
    """
    logdir, name = os.path.split(checkpoint)
    folder = os.path.join(logdir, SAVING)
    draft = os.path.join(folder, name)
    try:
        remove_unfinished(logdir)
        os.mkdir(folder)  # does not create a missing log directory
        write(draft)
        data = _list_data_files(draft)
        names = [name for kind in FILE_NAMES for name in kind]
        vocabulary = [os.path.join(logdir, name) for name in names]
        vocabulary = [path for path in vocabulary if os.path.exists(path)]
        paths = [*vocabulary, *data, draft + INDEX]
        write_manifest(draft + MANIFEST, paths, description)
        paths = [*data, draft + MANIFEST, draft + INDEX]
        for path in paths:
            files.sync(path)
        _remove(checkpoint)
        for path in paths:
            os.replace(path, os.path.join(logdir, os.path.basename(path)))
            files.sync(logdir)
        os.rmdir(folder)
    except (OSError, ValueError, tf.errors.OpError) as error:
        # A Saver raises ValueError if the folder has vanished.
        lines = str(error).splitlines()  # in TensorFlow's errors, one gives the reason
        reason = [line for line in lines if folder in line] or lines
        raise OSError(f"{checkpoint} could not be written: {reason[0]}") from error
    finally:
        with contextlib.suppress(OSError):
            remove_unfinished(logdir)


def _list_data_files(checkpoint):
    """List the data files of a checkpoint."""
    return sorted(glob.glob(glob.escape(checkpoint) + DATA + "*"))


def _remove(checkpoint):
    """Remove a checkpoint and the translations next to it, the index first."""
    paths = glob.glob(glob.escape(checkpoint) + ".*")
    for path in sorted(paths, key=lambda path: not path.endswith(INDEX)):
        os.remove(path)
