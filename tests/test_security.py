"""Files from other people execute no code, and open no other file.

A log directory or a data folder may come from anyone. Reading it must have no other
effect than the numbers that come out.
"""

import json
import os
import shutil

import corpora
import numpy as np
import pytest

from transformer.commands.advice import advice_for
from transformer.logdir import manifests
from transformer.logdir.history import LOCK, DevScores, Lock
from transformer.logdir.names import MANIFEST
from transformer.runtime import files
from transformer.runtime.errors import DataFolderChanged
from transformer.text.batches import Split
from transformer.text.data_folder import load_text

# --- Arrays ---------------------------------------------------------------------------


class Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


@pytest.fixture
def data(digits, tmp_path):
    """A copy of a data folder, to be damaged."""
    shutil.copytree(digits, str(tmp_path / "data"))
    return tmp_path / "data"


ARRAYS = {
    "objects": lambda path, trap: np.save(str(path), np.array([trap], object)),
    "nothing": lambda path, trap: path.write_bytes(b""),
    "floats": lambda path, trap: np.save(str(path), np.zeros(9)),
    "cut_off": lambda path, trap: path.write_bytes(path.read_bytes()[:-1]),
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_files_that_are_not_arrays_are_refused_by_name(data, tmp_path, kind):
    path, caught = data / "train.target.ids.npy", tmp_path / "caught"
    ARRAYS[kind](path, Trap(caught))
    with pytest.raises(ValueError, match="expected") as stopped:
        Split(str(data), "train")
    assert str(path) in str(stopped.value) and "\n" not in str(stopped.value)
    assert not caught.exists()


@pytest.mark.parametrize("odd", [[2**62, -(2**62)], [9, 5]])
def test_offsets_that_lead_elsewhere_are_refused(data, odd):
    ids = np.load(str(data / "train.target.ids.npy"))
    path = data / "train.target.offsets.npy"
    np.save(str(path), np.array([0, *odd, len(ids)], np.int64))
    with pytest.raises(ValueError, match="expected ascending offsets from 0") as error:
        Split(str(data), "train")
    assert str(path) in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("split, bad_id", [("train", -1), ("dev", 25)])
def test_ids_outside_the_vocabulary_are_refused_in_one_line(
    data, tmp_path, capsys, split, bad_id
):
    path = data / f"{split}.target.ids.npy"
    ids = np.load(str(path)).astype(np.int32)
    ids[7] = bad_id
    np.save(str(path), ids)
    summary = json.loads((data / "corpus.json").read_text())
    del summary["sha256"]  # else that is refused first
    (data / "corpus.json").write_text(json.dumps(summary))
    message = corpora.refusal(
        capsys, "train", "--data", data, "--logdir", tmp_path / "logs", *corpora.TINY
    )
    assert path.name in message and str(bad_id) in message and "from 1 to 24" in message
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize("name", ["spm.model", "train.source.ids.npy"])
def test_a_file_that_changed_since_it_was_prepared_is_refused(
    data, tmp_path, capsys, name
):
    content = bytearray((data / name).read_bytes())
    content[-1] ^= 1
    (data / name).write_bytes(bytes(content))
    (data / "test.de").unlink()  # training does not need it
    message = corpora.refusal(
        capsys, "train", "--data", data, "--logdir", tmp_path / "logs", *corpora.TINY
    )
    assert str(data / name) in message and "prepare.py" in message
    assert not (tmp_path / "logs").exists()


# --- Names in files that become names of files ----------------------------------------


@pytest.mark.parametrize("side", ["source_lang", "target_lang"])
def test_a_language_that_leads_to_another_file_is_refused(data, tmp_path, side):
    language = "../../secret"
    (tmp_path / "secret").write_bytes(b"1 2 3\n")
    summary = json.loads((data / "corpus.json").read_text())
    (data / "corpus.json").write_text(json.dumps(dict(summary, **{side: language})))
    with pytest.raises(
        ValueError, match="expected letters, digits, - and _ only"
    ) as stopped:
        load_text(str(data), "test")
    assert str(data / "corpus.json") in str(stopped.value)
    assert repr(language) in str(stopped.value) and "\n" not in str(stopped.value)


@pytest.mark.parametrize(
    "content", ["", "{}", '{"source_lang": "de", "target_lang": "en", "splits": []}']
)
def test_a_broken_summary_is_refused(data, content):
    (data / "corpus.json").write_text(content)
    with pytest.raises(DataFolderChanged) as stopped:
        load_text(str(data), "test")
    assert str(data / "corpus.json") in str(stopped.value)
    assert "run prepare.py again" in advice_for(stopped.value)


def test_links_are_not_followed(tmp_path):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / LOCK).symlink_to(tmp_path / "mine")
    with pytest.raises(ValueError, match="got a link"), Lock(str(tmp_path)):
        raise AssertionError("the lock was taken")
    for name in ("hparams.json", "hparams.json.tmp"):
        (tmp_path / name).symlink_to(tmp_path / "mine")
    with files.replace_file(str(tmp_path / "hparams.json")) as file:
        file.write("theirs")
    assert (tmp_path / "mine").read_text() == "mine"
    assert (tmp_path / "hparams.json").read_text() == "theirs"
    assert not (tmp_path / "hparams.json").is_symlink()


NESTED = "[" * 60000


@pytest.mark.parametrize("content", ["5", "null", "[1]", NESTED])
def test_a_strange_manifest_is_a_damaged_one(trained, tmp_path, content):
    logdir = str(tmp_path / "logs")
    shutil.copytree(trained, logdir)
    path = manifests.find_checkpoint(logdir) + MANIFEST
    with open(path, encoding="utf-8") as file:
        lines = file.readlines()
    with open(path, "w", encoding="utf-8") as file:
        file.writelines([f"# {content}\n", *lines[1:]])
    skipped = []
    other = manifests.find_checkpoint(logdir, warn=skipped.append)
    assert other + MANIFEST != path and "damaged" in skipped[0]


@pytest.mark.parametrize("line", ["x", "{}", '{"step": "../../x", "bleu": 1.0}'])
def test_broken_dev_scores_are_refused(tmp_path, line):
    good = '{"step": 1, "bleu": 2.5, "chrf": 3, "loss": 1}\n'
    (tmp_path / "dev_scores.jsonl").write_text(good + line + "\n")
    with pytest.raises(ValueError, match="dev_scores.jsonl:2: "):
        DevScores(str(tmp_path), 9)


def test_checkpoints_are_found_by_their_names_alone(trained, tmp_path):
    logdir = tmp_path / "logs"
    shutil.copytree(trained, str(logdir))
    steps, best = manifests.list_steps(trained), manifests.find_checkpoint(trained)
    # TensorFlow's own file of that name would lead anywhere.
    (logdir / "checkpoint").write_text(
        'model_checkpoint_path: "/elsewhere/model.ckpt-999"\n'
        'all_model_checkpoint_paths: "../model.ckpt-999"\n'
    )
    for name in (
        "best.ckpt-..-997.index",
        "best.ckpt-998.index.x",
        "best.ckpt-.index",
        "model.ckpt-..index",
        "xmodel.ckpt-995.index",
        "best.ckpt--994.index",
    ):
        (logdir / name).write_bytes(b"")
    assert manifests.list_steps(str(logdir)) == steps
    assert manifests.find_checkpoint(str(logdir)) == str(
        logdir / os.path.basename(best)
    )
    for which in ("../model.ckpt-{}", "/model.ckpt-{}", "{0}/../{0}", "-{}"):
        with pytest.raises(FileNotFoundError):
            manifests.find_checkpoint(str(logdir), which.format(steps[-1]))
