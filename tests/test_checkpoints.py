"""checkpoints.py: which are found, kept, copied, moved; none that is not whole."""

import hashlib
import os
import shutil

import corpora
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from transformer.commands.advice import advice_for
from transformer.logdir import checkpoints, manifests
from transformer.logdir.names import BEST, LATEST, REGULAR, SAVING, checkpoint_step
from transformer.runtime.errors import CheckpointNotFound


@pytest.fixture
def session(graph):
    with tf.Session(graph=graph) as opened:
        yield opened


@pytest.fixture
def write(session, tmp_path):
    """write(step, …): a checkpoint in which every number of `x` is the step."""
    variable = tf.get_variable("x", [3])
    saver = checkpoints.make_saver()

    def write(*steps, keep=100):
        for step in steps:
            session.run(variable.assign([step] * 3))
            checkpoints.save(session, saver, str(tmp_path), step, keep)
        return str(tmp_path)

    return write


def numbers_in(checkpoint):
    return tf.train.load_checkpoint(checkpoint).get_tensor("x").tolist()


def step_found(logdir, which="best"):
    """(the step in the name, the step in the numbers) of what `find` finds."""
    checkpoint = manifests.find_checkpoint(logdir, which)
    return checkpoint_step(checkpoint), numbers_in(checkpoint)[0]


def test_find_newest_a_step_and_the_best(write):
    logdir = write(9, 100, 20)
    assert step_found(logdir, "newest") == (100, 100)
    assert step_found(logdir, "20") == (20, 20)
    assert step_found(logdir, 9) == (9, 9)
    assert step_found(logdir) == (100, 100)  # until one is kept as the best
    checkpoints.save_best(logdir, 20)
    assert step_found(logdir) == (20, 20)
    write(200, keep=1)
    assert manifests.list_steps(logdir) == [200]
    assert step_found(logdir) == (20, 20)


def test_only_one_best_is_kept_and_the_later_one_wins(write):
    logdir = write(9, 100)
    for step in (9, 100, 100):
        checkpoints.save_best(logdir, step)
        assert manifests.list_steps(logdir, BEST) == [step]
    assert not [name for name in os.listdir(logdir) if name.startswith("best.ckpt-9.")]


def test_what_is_not_there_is_refused_and_what_is_there_is_said(write):
    with pytest.raises(CheckpointNotFound) as missing:
        manifests.find_checkpoint(write())
    assert "train.py" in advice_for(missing.value)
    logdir = write(10, 20)
    for which in ("1", "-10", "latest"):
        with pytest.raises(FileNotFoundError) as error:
            manifests.find_checkpoint(logdir, which)
        assert repr(which) in str(error.value) and "[10, 20]" in str(error.value)


def test_save_removes_the_oldest_with_all_their_files(write):
    """And not those whose names begin alike."""
    logdir = write(1, 10, 11, keep=2)
    assert manifests.list_steps(logdir) == [10, 11]
    names = set(os.listdir(logdir)) - {LATEST}
    assert {name.split(".")[1] for name in names} == {"ckpt-10", "ckpt-11"}
    assert step_found(logdir, "10") == (10, 10)


def test_the_saver_holds_global_variables_and_no_local_ones(session, tmp_path):
    tf.get_variable("kept", [])
    tf.get_variable("counter", [], trainable=False)
    tf.get_variable("sum", [], collections=[tf.GraphKeys.LOCAL_VARIABLES])
    session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    checkpoints.save(session, checkpoints.make_saver(), str(tmp_path), 1, 1)
    reader = tf.train.load_checkpoint(manifests.find_checkpoint(str(tmp_path)))
    assert sorted(reader.get_variable_to_shape_map()) == ["counter", "kept"]


# --- Checkpoints never lie ------------------------------------------------------------

ENDINGS = [".data-00000-of-00001", ".index", ".sha256"]


def flip(path, bit):
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(bytes(content))


def cut(path):
    path.write_bytes(path.read_bytes()[:-2])


def test_the_manifest_is_one_that_sha256sum_reads(write, tmp_path):
    write(7)
    checkpoints.save_best(str(tmp_path), 7)
    for kind in (REGULAR, BEST):
        lines = (tmp_path / f"{kind}-7.sha256").read_text().split("\n")
        assert lines == [
            hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() + "  " + name
            for name in (f"{kind}-7{ending}" for ending in ENDINGS[:2])
        ] + [""]


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "".join(text.splitlines(keepends=True)[:1]),  # cut after a line
        lambda text: '# {"settings": 1}\n' + text,
        lambda text: text.replace("model.ckpt-7.index", "model.ckpt-8.index"),
    ],
    ids=["cut", "no object", "of another step"],
)
def test_a_manifest_that_is_damaged_is_refused(write, tmp_path, damage):
    write(7)
    path = tmp_path / "model.ckpt-7.sha256"
    path.write_text(damage(path.read_text()))
    with pytest.raises(ValueError):
        manifests.read_manifest(str(tmp_path / "model.ckpt-7"))


def test_what_a_checkpoint_means_goes_with_it(session, tmp_path):
    """The vocabulary and the settings of the model; each change of one is refused."""
    variable = tf.get_variable("x", [3])
    session.run(variable.assign([1.0] * 3))
    logdir = str(tmp_path)
    vocabulary = tmp_path / "spm.model"
    settings = tmp_path / "hparams.json"
    vocabulary.write_bytes(b"pieces")
    settings.write_text('{"num_heads": 4, "seed": 1}')
    described = {"settings": {"num_heads": 4}, "corpus": {"train": "0"}}
    checkpoints.save(session, checkpoints.make_saver(), logdir, 7, 1, described)
    checkpoints.save_best(logdir, 7)
    settings.write_text('{"num_heads": 4, "seed": 2}')  # no part of its meaning
    for which in ("best", "newest"):
        checkpoint = manifests.find_checkpoint(logdir, which)
        assert manifests.read_description(checkpoint) == described
    settings.write_text('{"num_heads": 8}')
    with pytest.raises(ValueError, match="num_heads 8, .* was trained with 4"):
        manifests.find_checkpoint(logdir)
    settings.write_text('{"num_heads": 4}')
    vocabulary.write_bytes(b"PIECES")
    with pytest.raises(ValueError, match="spm.model does not match its checksum"):
        manifests.find_checkpoint(logdir)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(
    "damage",
    [os.remove, cut, lambda path: flip(path, 77)],
    ids=["removed", "cut", "flipped"],
)
def test_a_broken_checkpoint_is_named_and_the_one_before_it_used(
    write, tmp_path, ending, damage
):
    logdir, warnings = write(9, 100, 20), []
    damage(tmp_path / f"model.ckpt-100{ending}")
    assert step_of_find(logdir, "newest", warnings) == 20
    assert len(warnings) == 1 and f"model.ckpt-100{ending}" in warnings[0]
    assert "model.ckpt-20 " in warnings[0]
    with pytest.raises(ValueError, match=f"model.ckpt-100{ending}"):
        manifests.find_checkpoint(logdir, "100")
    assert step_of_find(logdir, "9", warnings) == 9 and len(warnings) == 1
    write(100)  # as training does when it is there again
    assert step_of_find(logdir, "newest", warnings) == 100 and len(warnings) == 1


def step_of_find(logdir, which, warnings):
    """The step that `find` finds, also by its numbers; what it warns of is `said`."""
    checkpoint = manifests.find_checkpoint(logdir, which, warnings.append)
    assert checkpoint_step(checkpoint) == numbers_in(checkpoint)[0]
    return checkpoint_step(checkpoint)


def test_links_to_what_was_removed_are_damaged(write, tmp_path):
    logdir, warnings = write(10, 20), []
    for name in os.listdir(logdir):
        if name.startswith("model.ckpt-20"):
            os.remove(tmp_path / name)
            os.symlink(tmp_path / "gone" / name, tmp_path / name)
    assert step_of_find(logdir, "newest", warnings) == 10
    assert len(warnings) == 1 and "model.ckpt-20" in warnings[0]


def test_a_broken_best_falls_back_on_the_newest_and_the_newest_on_the_best(
    write, tmp_path
):
    logdir, warnings = write(10, 20, 30), []
    checkpoints.save_best(logdir, 20)
    flip(tmp_path / "best.ckpt-20.index", 3)
    assert step_of_find(logdir, "best", warnings) == 30
    assert len(warnings) == 1 and "best.ckpt-20.index" in warnings[0]
    checkpoints.save_best(logdir, 20)
    for step in (10, 20, 30):
        flip(tmp_path / f"model.ckpt-{step}.index", 3)
    assert manifests.find_checkpoint(logdir, "newest", warnings.append).endswith(
        "best.ckpt-20"
    )
    assert len(warnings) == 3


def test_the_best_is_the_newest_if_what_it_was_copied_from_is_gone(write, tmp_path):
    """Training continues from it, and loses nothing."""
    logdir = write(10, 20)
    checkpoints.save_best(logdir, 20)
    for path in tmp_path.glob("model.ckpt-20.*"):
        path.unlink()
    assert step_found(logdir, "newest") == (20, 20)
    assert manifests.find_checkpoint(logdir, "newest").endswith("best.ckpt-20")
    checkpoints.copy_best_as_newest(logdir, 20)
    assert manifests.find_checkpoint(logdir, "newest").endswith("model.ckpt-20")
    assert step_found(logdir, "newest") == step_found(logdir) == (20, 20)


def test_broken_later_ones_are_not_kept_in_place_of_whole_ones(write, tmp_path):
    """Training goes on before them, and its own checkpoints are the ones to keep."""
    logdir = write(10, 20)
    cut(tmp_path / "model.ckpt-20.index")
    write(14, 18, keep=2)
    assert manifests.list_steps(logdir) == [14, 18, 20]


class Killed(BaseException):
    """Ends what writes a checkpoint, as SIGKILL would."""


class Life:
    """So many changes of the file system are made, then none any more."""

    PLACES = [
        (os, "mkdir"),
        (os, "replace"),
        (os, "remove"),
        (os, "fsync"),
        (shutil, "rmtree"),
        (shutil, "copyfile"),
        (tf.train.Saver, "save"),
    ]

    def __init__(self, changes):
        self.remaining = changes

    def limit(self, patched):
        for place, name in self.PLACES:
            patched.setattr(place, name, self.limited(getattr(place, name)))

    def limited(self, function):
        def call(*args, **named):
            if self.remaining <= 0:  # and nothing cleans up
                raise Killed
            self.remaining -= 1
            return function(*args, **named)

        return call


def test_killed_at_any_moment_there_is_the_whole_checkpoint_or_none(
    write, tmp_path, monkeypatch
):
    """Each change of the file system is once the one before which it is killed."""
    logdir, moments = write(5), 0
    for act in (
        lambda: write(10, keep=1),
        lambda: write(15, keep=2),
        lambda: checkpoints.save_best(logdir, 15),
        lambda: (write(20, keep=1), checkpoints.save_best(logdir, 20)),
    ):
        alive = False
        for changes in range(100):
            before = manifests.list_steps(logdir)[-1]
            with monkeypatch.context() as patched:
                Life(changes).limit(patched)
                try:
                    act()
                    alive = True
                except Killed:
                    moments += 1
            assert step_of_find(logdir, "newest", []) >= before
            assert step_of_find(logdir, "best", []) in (5, 10, 15, 20)
            if alive:
                break
        assert alive
    assert moments > 20
    assert manifests.list_steps(logdir)[-1] == 20
    assert manifests.list_steps(logdir, BEST) == [20]
    assert set(os.listdir(logdir)) == {LATEST} | {
        f"{kind}-20{ending}" for kind in (BEST, REGULAR) for ending in ENDINGS
    }


class Move(Life):
    """After so many changes of the file system, another process moves a folder."""

    def __init__(self, changes, *paths):
        super().__init__(changes)
        self.paths = paths

    def limited(self, function):
        def call(*args, **named):
            if self.remaining == 0:
                os.rename(*self.paths)
            self.remaining -= 1
            return function(*args, **named)

        return call


def test_moved_at_any_moment_the_folder_has_a_whole_checkpoint(
    session, tmp_path, monkeypatch
):
    """What fails is an OSError, which training expects; nothing is left elsewhere."""
    logdir, moved = (str(tmp_path / name) for name in ("logs", "moved"))
    variable = tf.get_variable("x", [3])
    saver = checkpoints.make_saver()
    for changes in range(100):
        os.mkdir(logdir)
        for step in (5, 10):
            session.run(variable.assign([step] * 3))
            has_failed = False
            with monkeypatch.context() as patched:
                if step == 10:
                    Move(changes, logdir, moved).limit(patched)
                try:
                    checkpoints.save(session, saver, logdir, step, keep=1)
                except OSError:
                    has_failed = True
        if not os.path.exists(moved):
            break
        assert os.listdir(str(tmp_path)) == ["moved"]
        steps = [5, 10] if has_failed else [10]
        assert step_of_find(moved, "newest", []) in steps
        shutil.rmtree(moved)
    assert changes > 8


def test_sweeping_leaves_what_is_whole_and_what_others_wrote(write, tmp_path):
    logdir = write(10, 20)
    checkpoints.save_best(logdir, 20)
    (tmp_path / "best.ckpt-20.test.translations").write_text("mine")
    before = corpora.read_tree(tmp_path)
    (tmp_path / SAVING).mkdir()
    (tmp_path / SAVING / "model.ckpt-30.index").write_bytes(b"half")
    for kind in (REGULAR, BEST):
        (tmp_path / f"{kind}-30.data-00000-of-00001").write_bytes(b"half")
    checkpoints.remove_unfinished(logdir)
    assert corpora.read_tree(tmp_path) == before


def test_the_first_checkpoint_killed_before_its_index_is_none(write, tmp_path):
    """Else training would refuse to continue: all it has is broken."""
    logdir = write(10)
    saving = tmp_path / SAVING
    saving.mkdir()
    (tmp_path / "model.ckpt-10.index").rename(saving / "model.ckpt-10.index")
    assert not manifests.has_checkpoint(logdir)
    checkpoints.remove_unfinished(logdir)
    assert os.listdir(logdir) == [LATEST]


def test_what_a_killed_process_did_not_finish_is_finished(write, tmp_path):
    logdir = write(10, 20, 30)
    content = (tmp_path / LATEST).read_text()
    (tmp_path / LATEST).write_text('model_checkpoint_path: "model.ckpt-1"')
    checkpoints.clean_up(logdir, 30, 3)
    assert (tmp_path / LATEST).read_text() == content
    checkpoints.clean_up(
        logdir, 20, 1
    )  # that of step 30 is broken: training goes on at 20
    assert manifests.list_steps(logdir) == [20, 30]
    assert tf.train.latest_checkpoint(logdir) == os.path.join(logdir, "model.ckpt-20")


def test_averages_of_every_floating_type(tmp_path):
    """In the type of the variable; what is no float is that of the last checkpoint."""
    types = [np.float64, np.float32, tf.bfloat16.as_numpy_dtype, np.float16, np.int64]
    paths = []
    for step, value in enumerate([1.0, 2.0, 6.0], 1):
        arrays = {f"v{i}": np.full([2], value).astype(t) for i, t in enumerate(types)}
        folder = tmp_path / str(step)
        folder.mkdir()
        paths.append(checkpoints.save_arrays(arrays, str(folder), step))
    averages = checkpoints.average(paths)
    for i, expected_type in enumerate(types):
        assert averages[f"v{i}"].dtype == expected_type
        expected = 6 if expected_type is np.int64 else 3
        assert averages[f"v{i}"].astype(np.float64).tolist() == [expected, expected]
