"""A log directory anywhere, beside a training run, of another model: found or refused.

Its path may hold what TensorFlow takes for a pattern; it may vanish or change while a
command reads it; its settings or vocabulary may be those of another model.
"""

import json
import os
import shutil

import corpora
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from transformer import hparams
from transformer.compat import convert
from transformer.logdir import checkpoints, manifests
from transformer.logdir.names import (
    BEST,
    INDEX,
    MANIFEST,
    REGULAR,
    checkpoint_path,
    checkpoint_step,
)
from transformer.translator import Translator

pytestmark = pytest.mark.usefixtures("one_thread_only")

# --- Paths that are patterns ----------------------------------------------------------

ODD = ["run [1]", "back\\slash", "star*", "what?"]


@pytest.fixture
def session(graph):
    with tf.Session(graph=graph) as opened:
        yield opened


@pytest.mark.parametrize("name", ODD)
def test_a_checkpoint_is_written_and_read_whatever_its_path(session, tmp_path, name):
    logdir = str(tmp_path / name)
    os.makedirs(logdir)
    variable, saver = tf.get_variable("x", [3]), checkpoints.make_saver()
    session.run(variable.assign([1, 2, 3]))
    checkpoints.save(session, saver, logdir, 4, keep=1)
    checkpoints.save_best(logdir, 4)
    session.run(variable.assign([0, 0, 0]))
    checkpoint = manifests.find_checkpoint(logdir)
    checkpoints.restore(session, saver, checkpoint)
    assert session.run(variable).tolist() == [1, 2, 3]
    assert checkpoints.read_shapes(checkpoint) == {"x": [3]}
    assert checkpoints.read_variables(checkpoint)["x"].tolist() == [1, 2, 3]
    assert convert.read(checkpoint)["x"].tolist() == [1, 2, 3]


@pytest.mark.parametrize("name", ["model[1].ckpt", "best*.ckpt"])
def test_a_checkpoint_whose_own_name_is_a_pattern_is_read(tmp_path, name):
    """And none of the others, which the pattern fits."""
    for value, path in ((1, name), (2, "model1.ckpt"), (2, "best-2.ckpt"), (2, "ab")):
        checkpoints.save_arrays({"x": np.float32([value])}, str(tmp_path), 4)
        for written in tmp_path.glob("model.ckpt-4.*"):
            ending = written.name[len("model.ckpt-4") :]
            written.rename(tmp_path / (path + ending))
    path = str(tmp_path / name)
    assert checkpoints.read_shapes(path) == {"x": [1]}
    assert checkpoints.read_variables(path)["x"].tolist() == [1]
    assert checkpoints.average([path, path])["x"].tolist() == [1]


@pytest.mark.slow
def test_every_command_works_in_such_a_path(digits, tmp_path, capsys):
    logdir, out = tmp_path / "run [1]\\2*", tmp_path / "mean [1]"
    corpora.run_train(digits, logdir, "--max_steps", "8")
    corpora.run_train(digits, logdir, "--max_steps", "12")
    corpora.run_command("eval", "--logdir", logdir, "--split", "dev")
    corpora.run_command("average", "--logdir", logdir, "--last=2", "--out", out)
    with Translator.for_settings(hparams.load(str(out)), str(out)) as translator:
        translator.find_and_restore()
        assert len(translator.translate(["1 2 3"])) == 1
    # It has learned nothing, and that is found.
    assert corpora.exit_status("doctor", "--logdir", logdir) == 1
    assert "BLEU" in capsys.readouterr().out


# --- Beside a training run that removes ----------------------------------------------


@pytest.fixture
def removed(trained, tmp_path):
    """removed(times) → (log directory, restore): that often the file goes before it."""
    logdir = str(tmp_path / "logs")
    shutil.copytree(trained, logdir)

    def removed(times):
        remaining = [times]

        def remove(checkpoint):
            if remaining[0]:
                remaining[0] -= 1
                step = checkpoint_step(checkpoint)
                later = checkpoint_path(logdir, step + 40)
                for path in [
                    *checkpoints._list_data_files(checkpoint),
                    checkpoint + INDEX,
                    checkpoint + MANIFEST,
                ]:
                    renamed = later + path[len(checkpoint) :]
                    if path.endswith(MANIFEST):
                        with open(path) as file, open(renamed, "w") as written:
                            written.write(
                                file.read().replace(
                                    os.path.basename(checkpoint),
                                    os.path.basename(later),
                                )
                            )
                        os.remove(path)
                    else:
                        os.rename(path, renamed)

        return logdir, remove

    return removed


@pytest.mark.parametrize("when, times", [("read", 1), ("verified", 7)])
def test_a_checkpoint_that_was_removed_meanwhile_is_looked_for_again(
    removed, monkeypatch, times, when
):
    logdir, remove = removed(times)
    warnings = []
    module, name = {
        "read": (checkpoints, "restore"),
        "verified": (manifests, "find_fault"),
    }[when]
    original = getattr(module, name)

    def later(*args):
        remove(args[-1] or args[-2])  # the scope of the variables is empty
        return original(*args)

    hp = hparams.load(logdir)
    with Translator.for_settings(hp, logdir, warn=warnings.append) as translator:
        monkeypatch.setattr(module, name, later)
        checkpoint = translator.find_and_restore("newest")
    assert checkpoint_step(checkpoint) == 240 + 40 * times
    assert warnings == []


# --- Another model --------------------------------------------------------------------


@pytest.fixture
def logdir(trained, tmp_path):
    shutil.copytree(trained, str(tmp_path / "logs"))
    return str(tmp_path / "logs")


def change(logdir, **settings):
    path = os.path.join(logdir, hparams.FILE_NAME)
    with open(path, encoding="utf-8") as file:
        values = json.load(file)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(dict(values, **settings), file)


@pytest.mark.parametrize("name", ["translate", "eval", "doctor"])
def test_no_command_translates_with_settings_of_another_model(logdir, capsys, name):
    change(logdir, d_model=64)
    message = corpora.refusal(capsys, name, "--logdir", logdir)
    assert (
        "best.ckpt-" in message and "expected" in message and "hparams.json" in message
    )


def test_a_vocabulary_of_another_size_is_one_line(logdir, tmp_path, capsys):
    splits = corpora.reversed_symbols({"train": 100, "dev": 5}, "abcdefghijklmno")
    folder = corpora.write_text(tmp_path / "letters", splits)
    corpora.run_command("prepare", "--out", folder, "--vocab-size", "35")
    shutil.copy(os.path.join(folder, "spm.model"), logdir)
    capsys.readouterr()
    message = corpora.refusal(capsys, "translate", "--logdir", logdir)
    assert "35" in message and "25" in message and "vocabulary" in message


# --- Weights that are no numbers ------------------------------------------------------


def spoiled(logdir, spoil):
    """The log directory, its only checkpoint with variables that `spoil` changed."""
    arrays = checkpoints.read_variables(manifests.find_checkpoint(logdir))
    for kind in (REGULAR, BEST):
        for step in manifests.list_steps(logdir, kind):
            checkpoints._remove(checkpoint_path(logdir, step, kind))
    for name, array in arrays.items():
        if array.dtype == np.float32 and "Adam" not in name and array.ndim == 2:
            spoil(name, array)
    checkpoints.save_arrays(arrays, logdir, 240)
    return logdir


def some(name, array):
    if "decoder" in name and "feedforward" in name:
        array[0] = np.nan


def one_piece(name, array):
    if "lookup_table" in name:
        array[9] = np.nan


SPOILED = {
    "nan": lambda name, array: array.fill(np.nan),
    "huge": lambda name, array: array.fill(1e38),
    "infinite": lambda name, array: array.fill(np.inf),
    "some": some,
    "one piece": one_piece,
}
LINES = ["1 2 3 4", "", "5 6 7", "9 8 7 6 5 4 3 2 1"]


@pytest.mark.slow
@pytest.mark.parametrize("search, n_best", [("beam", 2), ("greedy", 1)])
def test_as_many_translations_as_lines_or_one_error(logdir, tmp_path, search, n_best):
    change(logdir, search=search)
    with Translator.for_settings(hparams.load(logdir), logdir, n_best) as translator:
        for kind, spoil in SPOILED.items():
            copy = shutil.copytree(logdir, str(tmp_path / kind))
            translator.restore(manifests.find_checkpoint(spoiled(copy, spoil)))
            for work in (
                translator.translate,
                lambda lines: translator.score(lines, lines),
            ):
                try:
                    translations = work(LINES)
                    assert len(translations) == len(LINES) and [] not in translations
                    assert kind == "one piece"
                except FloatingPointError as error:
                    assert "model.ckpt-240" in str(error) and "\n" not in str(error)


# --- TensorFlow's own state file ------------------------------------------------------


def test_the_tools_of_tensorflow_find_the_newest_checkpoint(logdir, tmp_path):
    newest = manifests.find_checkpoint(logdir, "newest")
    assert tf.train.latest_checkpoint(logdir) == newest
    state = tf.train.get_checkpoint_state(logdir)
    assert list(state.all_model_checkpoint_paths) == [
        checkpoint_path(logdir, step) for step in manifests.list_steps(logdir)
    ]
    moved = str(tmp_path / "moved")
    shutil.move(logdir, moved)
    assert tf.train.latest_checkpoint(moved) == manifests.find_checkpoint(
        moved, "newest"
    )
    variables = dict(tf.train.list_variables(moved))
    assert variables["global_step"] == []
