"""Checkpoints of a log directory: which there are, save, verify, restore.

`model.ckpt-STEP` are the newest ones; `best.ckpt-STEP` is a copy of the one with the
best dev BLEU. They are found by their names, so a log directory may be moved.

A checkpoint is two files of TensorFlow's and a manifest of their checksums, which
`sha256sum --check model.ckpt-STEP.sha256` reads too. All are written to the side, and
moved into their place one after the other, the manifest last: with it, and not before,
there is a checkpoint.
"""

import glob
import hashlib
import os
import re
import shutil
import warnings

import tensorflow.compat.v1 as tf

NEWEST, BEST = "model.ckpt", "best.ckpt"
INDEX, MANIFEST = ".index", ".sha256"
ASIDE = ".saving"  # the folder of a log directory in which a checkpoint is written


def steps(logdir, kind=NEWEST):
    """The steps of the checkpoints of a kind in `logdir`, ascending.

    Those from before there were manifests, older than every one with a manifest, count
    without one.
    """
    whole = _steps_with(MANIFEST, logdir, kind)
    return sorted(
        whole.union(
            step
            for step in _steps_with(INDEX, logdir, kind)
            if step < min(whole, default=step + 1)
        )
    )


def exist(logdir):
    """Whether there is a checkpoint in `logdir`, or what is left of one."""
    return any(_named(logdir, kind) for kind in (NEWEST, BEST))


def prefix(logdir, step, kind=NEWEST):
    """The path of a checkpoint without the endings of its files."""
    return os.path.join(logdir, f"{kind}-{step}")


def step_of(checkpoint):
    """The step of a checkpoint, by its name."""
    return int(checkpoint.rsplit("-", 1)[1])


def find(logdir, which="best", warn=warnings.warn):
    """The checkpoint to use, verified.

    Args:
      logdir: the log directory.
      which: "best" (by dev BLEU; the newest where none was scored), "newest", a step.
      warn: a function of a text; hears of each broken checkpoint that is passed over
        for the next in line.

    Returns:
      The path without the endings of its files.

    Raises:
      FileNotFoundError: there is none.
      ValueError: there is none that is whole.
    """
    newest, best = (
        [
            prefix(logdir, step, kind)
            for step in sorted(_named(logdir, kind), reverse=True)
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


def fault_of(checkpoint):
    """What is wrong with the files of a checkpoint, naming one; None if nothing is."""
    logdir, name = os.path.split(checkpoint)
    if not os.path.exists(checkpoint + MANIFEST):
        if step_of(checkpoint) in steps(logdir, name.rsplit("-", 1)[0]):
            return _fault_without_manifest(checkpoint)
        return f"{name}{MANIFEST} is missing"
    line = re.compile(
        r"([0-9a-f]{64})  (%s(?:\.index|\.data-\d+-of-\d+))\n" % re.escape(name)
    )
    with open(checkpoint + MANIFEST, encoding="utf-8", errors="replace") as file:
        told = [line.fullmatch(each) for each in file]
    if not all(told) or not told or not told[-1].group(2).endswith(INDEX):
        return f"{name}{MANIFEST} is cut off or damaged"
    for checksum, each in (match.groups() for match in told):
        try:
            found = _checksum(os.path.join(logdir, each))
        except OSError as error:
            return f"{each}: {error.strerror}"
        if found != checksum:
            return f"{each} has not the checksum that {name}{MANIFEST} tells"
    return None


def save(session, saver, logdir, step, keep):
    """Writes the checkpoint of `step`, then removes all but the newest `keep`.

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
    for old in _named(logdir, NEWEST):
        if old < step and old not in kept:
            _remove(prefix(logdir, old))


def save_best(logdir, step):
    """Copies the checkpoint of `step` to be the best, and removes the one before.

    Raises:
      OSError: it could not be written; the one before it is untouched.
    """
    source = prefix(logdir, step)

    def copy(path):
        for each in _files(source):
            shutil.copyfile(each, path + each[len(source) :])

    _publish(prefix(logdir, step, BEST), copy)
    for old in _named(logdir, BEST):
        if old != step:
            _remove(prefix(logdir, old, BEST))


def sweep(logdir):
    """Removes what a killed training left of a checkpoint that it wrote or removed."""
    shutil.rmtree(os.path.join(logdir, ASIDE), ignore_errors=True)
    for kind in (NEWEST, BEST):
        for path in glob.glob(os.path.join(glob.escape(logdir), kind + "-*.data-*")):
            checkpoint = path.rsplit(".data-", 1)[0]
            if not (
                os.path.exists(checkpoint + INDEX)
                or os.path.exists(checkpoint + MANIFEST)
            ):
                os.remove(path)


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
        raise ValueError(
            f"{checkpoint}: found a checkpoint that cannot be read "
            f"({type(error).__name__}), wanted a whole one of this model; "
            "choose another, or remove it"
        ) from error


def _steps_with(ending, logdir, kind):
    """The steps for which `logdir` has the file of a checkpoint with this ending."""
    pattern = re.compile(re.escape(kind) + r"-(\d+)" + re.escape(ending))
    found = (
        pattern.fullmatch(name)
        for name in (os.listdir(logdir) if os.path.isdir(logdir) else [])
    )
    return {int(match.group(1)) for match in found if match}


def _named(logdir, kind):
    """The steps of which `logdir` has a checkpoint, or what is left of one."""
    return _steps_with(INDEX, logdir, kind) | _steps_with(MANIFEST, logdir, kind)


def _files(checkpoint):
    """TensorFlow's files of a checkpoint, the .index that makes it one last."""
    return sorted(glob.glob(glob.escape(checkpoint) + ".data-*")) + [checkpoint + INDEX]


def _publish(checkpoint, write):
    """Has `write(path)` write a checkpoint to the side, and moves it into its place.

    Killed at any moment, it leaves the whole checkpoint or none; what else it leaves,
    `sweep` removes. Each file is on the disk before the next one is moved, lest a power
    cut leaves a manifest without its files.
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
                f"{_checksum(path)}  {os.path.basename(path)}\n"
                for path in _files(aside)
            )
        paths = [*_files(aside), aside + MANIFEST]
        for path in paths:
            _write_through(path)
        _remove(checkpoint)
        for path in paths:
            os.replace(path, os.path.join(logdir, os.path.basename(path)))
            _write_through(logdir)
    except (OSError, tf.errors.OpError) as error:
        lines = str(error).splitlines()  # of TensorFlow's, one tells the reason
        told = [line for line in lines if folder in line] or lines
        raise OSError(f"{checkpoint} could not be written: {told[0]}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write_through(path):
    """Waits until a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _checksum(path):
    """The SHA-256 of a file, in hexadecimal digits."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def _fault_without_manifest(checkpoint):
    """What is wrong with a checkpoint, by the checksums that TensorFlow writes."""
    try:
        reader = tf.train.load_checkpoint(checkpoint)
        for name in reader.get_variable_to_shape_map():
            reader.get_tensor(name)
    except (ValueError, RuntimeError, tf.errors.OpError) as error:
        return f"{os.path.basename(checkpoint)} cannot be read ({type(error).__name__})"
    return None


def _remove(checkpoint):
    """Removes a checkpoint and what eval.py wrote beside it, the manifest first."""
    paths = glob.glob(glob.escape(checkpoint) + ".*")
    for path in sorted(
        paths, key=lambda path: (not path.endswith(MANIFEST), not path.endswith(INDEX))
    ):
        os.remove(path)
