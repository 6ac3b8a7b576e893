"""savedmodel.py, card.py: what TensorFlow Serving opens; its client; the model card."""

import dataclasses
import http.server
import io
import json
import os
import shlex
import sys
import threading
import urllib.parse

import corpora
import numpy as np
import pytest
import serving_client
import tensorflow.compat.v1 as tf

from transformer import hparams
from transformer.exports import card, savedmodel
from transformer.logdir import history as run
from transformer.logdir import manifests
from transformer.logdir.names import checkpoint_step
from transformer.runtime.errors import ExportDamaged
from transformer.translator import Translator

pytestmark = pytest.mark.usefixtures("one_thread_only")


def has_tensorflow_text():
    try:
        savedmodel.import_tensorflow_text()
    except (ImportError, tf.errors.OpError):
        return False
    return not tf.__version__.startswith("1.")


@pytest.fixture(scope="module")
def by_tensorflow(trained, digits):
    """(lines, our translations of them); one line is empty, one has a soft hyphen."""
    lines = ["", "1\u00ad2 3 4", *corpora.read_lines(os.path.join(digits, "test.de"))]
    with Translator(trained) as translator:
        return lines, [best for best, *_ in translator.translate(lines)]


def check_that_it_agrees(folder, trained, by_tensorflow):
    lines, expected = by_tensorflow
    hp = hparams.load(trained, {"decode_batch_size": 8})
    actual = savedmodel.SavedTranslator(folder, hp).translate(lines)
    assert [translation.text for translation in actual] == [
        translation.text for translation in expected
    ]
    scores = [
        [translation.score for translation in rows] for rows in (actual, expected)
    ]
    np.testing.assert_allclose(*scores, atol=1e-4)


def test_ids_in_a_batch_of_any_size(trained, by_tensorflow, tmp_path, monkeypatch):
    """Without tensorflow-text, which is said, and on both TensorFlows."""
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)
    out = str(tmp_path / "model")
    hp = hparams.load(trained)
    remark = savedmodel.write(hp, manifests.find_checkpoint(trained), out, "float32")
    assert "ids only" in remark
    check_that_it_agrees(out, trained, by_tensorflow)


@pytest.mark.skipif(not has_tensorflow_text(), reason="tensorflow-text is missing")
def test_text_in_a_batch_of_any_size(trained, by_tensorflow, tmp_path):
    out = str(tmp_path / "model")
    hp = hparams.load(trained)
    assert (
        savedmodel.write(hp, manifests.find_checkpoint(trained), out, "float32") == ""
    )
    check_that_it_agrees(out, trained, by_tensorflow)


def test_the_command_writes_what_serving_opens_and_checks_it(trained, tmp_path, capsys):
    """The check runs in a process of its own."""
    out = tmp_path / "reversed"
    flags = ["--format", "savedmodel", "--logdir", trained, "--out", str(out)]
    corpora.run_command("export", *flags, "--check", "6", "--search", "greedy")
    assert "6 of 6 translations equal ours" in capsys.readouterr().out
    for path in ("saved_model.pb", "variables", savedmodel.WARM_UP):
        assert (out / "1" / path).exists()
    card = (out / "README.md").read_text("utf-8")
    assert f"/v1/models/{out.name}:predict" in card and "fixed: greedy," in card
    assert "expected a new folder" in corpora.refusal(capsys, "export", *flags)
    flags[-1] = str(tmp_path / "other")
    message = corpora.refusal(capsys, "export", *flags, "--search", "x")
    assert "unknown search x (greedy, beam, sample)" in message
    message = corpora.refusal(capsys, "export", *flags, "--quantization", "int8")
    assert "expected float32" in message


# --- The client -----------------------------------------------------------------------


class Stub(http.server.BaseHTTPRequestHandler):
    """TensorFlow Serving's predict method, of a model that turns lines around."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status = 200
        answer = {
            "predictions": [
                {"text": line[::-1], "score": -len(line)} for line in body["instances"]
            ]
        }
        if body["signature_name"] != "translate" or "bad" in body["instances"]:
            status, answer = 400, {"error": "no such thing"}
        if self.path != "/v1/models/m:predict":
            status, answer = 404, {"error": "Servable not found"}
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *args):
        pass


@pytest.fixture
def url():
    server = http.server.HTTPServer(("127.0.0.1", 0), Stub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1/models/m"
    server.shutdown()
    server.server_close()


def test_the_client_translates_standard_input(url, monkeypatch, capsys):
    lines = [f"Zeile {number} ü" for number in range(100)]  # two requests
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines) + "\n"))
    serving_client.main(["--url", url + "/"])
    assert capsys.readouterr().out.splitlines() == [line[::-1] for line in lines]
    monkeypatch.setattr(sys, "stdin", io.StringIO("ab\n"))
    serving_client.main(["--url", url, "--scores"])
    assert capsys.readouterr().out == "ba ||| -2.0000\n"


def test_the_client_names_the_reason_of_the_server(url):
    with pytest.raises(ValueError, match="400 .*no such thing"):
        serving_client.translate(url, ["bad"])
    with pytest.raises(ValueError, match="404 .*Servable not found"):
        serving_client.translate(url + "x", ["good"])


# --- The model card -------------------------------------------------------------------


def scores(text):
    """The section of the scores."""
    return text.split("\n## ")[3]


def test_the_card_says_what_the_log_directory_knows(trained, tmp_path):
    logdir = corpora.copy_folder(trained, tmp_path / "logs")
    hp = hparams.load(logdir)
    exported = savedmodel.describe_export(hp, "model", "float32")
    checkpoint = manifests.find_checkpoint(logdir)
    before = card.model_card(hp, checkpoint, exported, samples=0)
    assert "| dev, while training |" in before and "\n| test |" not in scores(before)
    corpora.run_command("eval", "--logdir", logdir, "--samples", "0")
    text = card.model_card(hp, checkpoint, exported, samples=0)
    assert "\n| test |" in scores(text)
    for expected in (
        f"step {checkpoint_step(checkpoint)}",
        "dialect `paper`",
        "| train | 2,000 |",
        "nrefs:1|case:mixed|",
        f"--d_model {hp.d_model} ",
        f"tensorflow {tf.__version__}",
        "Apache License 2.0",
        "`train.source.ids.npy` ",
        *(f"\n## {name}\n" for name in ("Use", "Data", "Scores", "Limits", "Licence")),
    ):
        assert expected in text, expected
    assert str(tmp_path) not in text and hp.data not in text  # no path of this machine
    # Scores of another search are not those of this export.
    before_change = text
    changed = dataclasses.replace(
        hp, min_length=3, no_repeat_ngram=2, repetition_penalty=1.5, keep_open=True
    )
    of_changed = savedmodel.describe_export(changed, "model", "float32")
    text = card.model_card(changed, checkpoint, of_changed, samples=0)
    assert "None are known for this search" in scores(text)
    rules = "min_length 3, no_repeat_ngram 2, repetition_penalty 1.5, keep_open True."
    assert rules in text and "--min_length" not in text
    unused = dataclasses.replace(hp, seed=hp.seed + 1, temperature=0.5)
    assert card.model_card(unused, checkpoint, exported, samples=0) == before_change


def test_the_signature_of_dev_is_that_of_the_target_language(trained, monkeypatch):
    hp, checkpoint = hparams.load(trained), manifests.find_checkpoint(trained)
    summary = dict(card.read_summary(hp.data), target_lang="zh")
    monkeypatch.setattr(card, "read_summary", lambda _: summary)
    text = card.model_card(
        hp, checkpoint, savedmodel.describe_export(hp, "m", "float32")
    )
    assert "dev, while training" in text and "tok:zh" in text


def test_nothing_is_exported_that_cannot_be_checked(trained, tmp_path, capsys):
    out = tmp_path / "out"
    flags = [f"--logdir={trained}", f"--out={out}", f"--data={tmp_path}", "--check=3"]
    message = corpora.refusal(capsys, "export", "--format=savedmodel", *flags)
    assert "corpus.json is missing" in message and not out.exists()


@pytest.mark.parametrize("name", ["model", "my model's"])
def test_the_commands_on_the_card_name_the_folder(name):
    usage = savedmodel.describe_export(hparams.HParams(), name, "float32").usage
    docker, curl = (
        shlex.split(line) for line in usage if line.startswith(("docker", "curl"))
    )
    assert f"MODEL_NAME={name}" in docker and f"$PWD/{name}:/models/{name}" in docker
    address = urllib.parse.unquote(curl[1])
    assert address.endswith(f"/v1/models/{name}:predict")
    assert json.loads(curl[-1])["signature_name"] == "translate"
    usage = savedmodel.describe_export(hparams.HParams(), name, "float32", False).usage
    [curl] = [shlex.split(line) for line in usage if line.startswith("curl")]
    assert json.loads(curl[-1])["signature_name"] == "ids"
    assert "translate" not in "".join(usage)


def test_the_card_of_a_model_without_its_data(trained, tmp_path, monkeypatch):
    logdir = corpora.copy_folder(trained, tmp_path / "logs")
    hp = hparams.load(logdir, {"data": str(tmp_path / "none")})
    hparams.save(hp, logdir)
    exported = savedmodel.describe_export(hp, "model", "float32")
    text = card.model_card(hp, manifests.find_checkpoint(logdir), exported)
    assert "The data folder was not there" in text
    os.remove(os.path.join(logdir, run.RUN))  # as if averaged
    text = card.model_card(hp, manifests.find_checkpoint(logdir), exported)
    assert "The data folder was not there" in text
    assert "does not record how the model was trained" in text
    monkeypatch.setattr(manifests, "read_description", lambda _: {})  # or imported
    text = card.model_card(hp, manifests.find_checkpoint(logdir), exported)
    assert "The log directory does not record the corpus" in text
    assert "# source → target" in text


def test_a_damaged_savedmodel_is_one_line(trained, tmp_path):
    out = tmp_path / "exported"
    hp = hparams.load(trained)
    checkpoint = manifests.find_checkpoint(trained)
    savedmodel.write(hp, checkpoint, str(out), "float32")
    [path] = (out / "1" / "variables").glob("variables.data-*")
    content = path.read_bytes()
    for damaged in (bytes(len(content)), content[:99], None):
        path.unlink()
        if damaged is not None:
            path.write_bytes(damaged)
        with pytest.raises(ExportDamaged, match="export the model again") as stopped:
            savedmodel.SavedTranslator(str(out), hp)
        assert "\n" not in str(stopped.value)
