"""Folders that earlier versions wrote work as they did; newer ones are refused."""

import glob
import json
import os
import re

import corpora
import format_fixture
import numpy as np
import pytest

import transformer
from transformer import hparams
from transformer.logdir import manifests
from transformer.runtime import files
from transformer.text.data_folder import read_summary
from transformer.translator import Translator

pytestmark = pytest.mark.usefixtures("one_thread_only")

VERSIONS = sorted(os.listdir(format_fixture.WRITTEN_FOLDERS))


@pytest.fixture(params=VERSIONS)
def recording(request, tmp_path):
    """(folder with data and logs, what the model translated then)."""
    return tmp_path, format_fixture.unpack(request.param, tmp_path)


def test_this_version_is_kept_and_small():
    assert transformer.__version__ in VERSIONS
    for version in VERSIONS:
        paths = glob.glob(os.path.join(format_fixture.WRITTEN_FOLDERS, version, "*"))
        assert sum(map(os.path.getsize, paths)) < 150000


def test_it_translates_as_it_did(recording):
    folder, recorded = recording
    logs = str(folder / "logs")
    with Translator.for_settings(hparams.load(logs), logs) as translator:
        translator.find_and_restore()
        translations = [best for best, *_ in translator.translate(format_fixture.LINES)]
    assert [each.text for each in translations] == [each["text"] for each in recorded]
    scores = [each["score"] for each in recorded]
    np.testing.assert_allclose([each.score for each in translations], scores, atol=1e-4)


@pytest.mark.slow
def test_training_goes_on_and_what_reads_it_does(recording, capsys):
    folder, _ = recording
    data, logs, mean = (str(folder / name) for name in ("data", "logs", "mean"))
    last = manifests.list_steps(logs)[-1]
    corpora.run_command(
        "train", f"--data={data}", f"--logdir={logs}", f"--max_steps={last + 2}"
    )
    assert manifests.list_steps(logs)[-1] == last + 2
    assert f"step {last + 2}: dev BLEU " in capsys.readouterr().err
    corpora.run_command("average", f"--logdir={logs}", "--last=2", f"--out={mean}")
    corpora.run_command("eval", f"--logdir={mean}", f"--data={data}")
    assert "BLEU = " in capsys.readouterr().out


def test_it_is_exported(recording):
    pytest.importorskip("ctranslate2")
    folder, _ = recording
    out = folder / "exported"
    flags = ["--format=ctranslate2", f"--logdir={folder / 'logs'}", f"--out={out}"]
    corpora.run_command("export", *flags)
    assert (out / "model.bin").exists()


# --- Newer and older ones -------------------------------------------------------------


def edited(path, **changes):
    """Changes a file of JSON; None removes a name."""
    content = dict(json.loads(path.read_text()), **changes)
    recording = {name: value for name, value in content.items() if value is not None}
    path.write_text(json.dumps(recording))


@pytest.mark.parametrize("format", [files.FOLDER_FORMAT + 1, 0, "2", None, True, 2**70])
@pytest.mark.parametrize("version", ["0.9.1", "\x1b]52;c", 3])
def test_a_newer_format_names_the_version_to_install(tmp_path, format, version):
    path = tmp_path / "hparams.json"
    path.write_text(json.dumps({"format": format, "version": version, "x": 1}))
    with pytest.raises(ValueError) as raised:
        files.read_json(str(path), "settings")
    text = str(raised.value)
    assert re.search("expected format 1, got .*; install the version", text)
    assert repr(version) in text and "\x1b" not in text


def test_each_folder_of_a_newer_format_is_refused(tmp_path, capsys):
    format_fixture.unpack(VERSIONS[-1], tmp_path)
    data, logs = str(tmp_path / "data"), str(tmp_path / "logs")
    newer = {"format": files.FOLDER_FORMAT + 1, "version": "7.0.0", "other": []}
    edited(tmp_path / "logs" / "hparams.json", **newer)
    for name, flags in (
        ("train", [f"--data={data}"]),
        ("eval", []),
        ("average", [f"--out={tmp_path / 'mean'}"]),
    ):
        message = corpora.refusal(capsys, name, f"--logdir={logs}", *flags)
        assert message.endswith("that wrote it, '7.0.0', or a newer one")
    edited(tmp_path / "data" / "corpus.json", source_lang=None, **newer)
    with pytest.raises(
        ValueError, match="corpus.json: expected format 1, got 2.*7.0.0"
    ):
        read_summary(data)


def test_what_has_no_format_yet_is_read(tmp_path):
    format_fixture.unpack("0.1.0", tmp_path)
    before = hparams.load(str(tmp_path / "logs")), read_summary(str(tmp_path / "data"))
    for path in ("logs/hparams.json", "data/corpus.json"):
        edited(tmp_path / path, format=None, version=None)
    after = hparams.load(str(tmp_path / "logs")), read_summary(str(tmp_path / "data"))
    assert after == before
