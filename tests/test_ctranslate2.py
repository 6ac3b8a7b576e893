"""exports/ctranslate2.py: CTranslate2 answers as TensorFlow does, or is not used."""

import dataclasses
import glob
import os
import pathlib
import shutil
import threading

import corpora
import numpy as np
import pytest

from transformer import hparams
from transformer.exports import ctranslate2
from transformer.exports.ctranslate2 import (
    CTRANSLATE2,
    TENSORFLOW,
    FastTranslator,
    choose_engine,
    find_exported,
    open_exported,
    remove_outdated,
)
from transformer.runtime import files
from transformer.runtime.devices import count_cores
from transformer.runtime.errors import ExportDamaged
from transformer.runtime.sessions import count_concurrent_batches
from transformer.translator import Translator
from transformer.viewer.models import Model
from transformer.viewer.sentence_request import SentenceRequest

pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")
pytestmark = pytest.mark.usefixtures("one_thread_only")


@pytest.fixture(scope="module")
def exported(trained, tmp_path_factory):
    """A log directory beside whose checkpoint the model was exported."""
    logdir = corpora.copy_folder(trained, tmp_path_factory.mktemp("fast") / "logs")
    with Translator(logdir, search="greedy", engine=CTRANSLATE2) as translator:
        assert translator.engine == CTRANSLATE2
    return logdir


@pytest.mark.parametrize("more, form", [(0, "wu"), (50, "power")])
def test_greedily_the_same_up_to_each_limit(exported, lines, more, form):
    changes = {
        "search": "greedy",
        "max_extra_length": more,
        "length_penalty": 0.8,
        "length_penalty_form": form,
    }
    lines = ["", *lines]
    with Translator(exported, **changes) as translator:
        expected = [best for best, *_ in translator.translate(lines)]
    hp = hparams.load(exported, changes)
    with open_exported(exported, hp) as fast:
        actual = [best for best, *_ in fast.translate(lines)]
    assert [translation.text for translation in actual] == [
        translation.text for translation in expected
    ]
    assert [translation.pieces for translation in actual] == [
        translation.pieces for translation in expected
    ]
    truncated = [translation.is_truncated for translation in expected]
    assert [translation.is_truncated for translation in actual] == truncated
    assert any(truncated) == (more == 0)
    scores = [
        [translation.score for translation in rows] for rows in (actual, expected)
    ]
    np.testing.assert_allclose(*scores, atol=1e-4)


def test_by_beam_search_the_same_scores(exported, lines):
    """The model is a bad one, of ten words: some searches end elsewhere, at worse
    scores. On the sample corpus none does."""
    with Translator(exported) as translator:
        expected = [best for best, *_ in translator.translate(lines)]
        assert translator.concurrent_batches == count_concurrent_batches()
    with Translator(exported, engine=CTRANSLATE2) as fast:
        assert fast.concurrent_batches == count_cores()
        actual = [n_best[0] for n_best in fast.translate(lines)]
        prefixed = fast.translate(lines[:1], prefix=["3 3"])[0][0]
        aligned = fast.translate(lines[:1], alignments=True)[0][0]
    same = [a for a, b in zip(actual, expected) if a.text == b.text]
    assert len(same) >= 3 / 4 * len(lines)
    for fast_one, other in zip(actual, expected):
        assert fast_one.score < other.score + 1e-4
        assert fast_one.text != other.text or fast_one.score > other.score - 1e-4
    assert prefixed.text.startswith("3 3")  # TensorFlow's work
    assert aligned.text == actual[0].text and aligned.alignment is not None


def test_signals_need_not_wait_for_it(exported, monkeypatch):
    """Python handles them in the main thread."""
    with open_exported(exported) as fast:
        model, threads = fast._model, []

        class Watched:
            def translate_batch(self, *args, **kwargs):
                threads.append(threading.current_thread())
                return model.translate_batch(*args, **kwargs)

            unload_model = model.unload_model

        monkeypatch.setattr(fast, "_model", Watched())
        assert len(fast.translate(["1 2 3"])) == 1
    assert threads and threading.main_thread() not in threads


def test_a_fork_is_told_that_it_cannot_translate(exported):
    with open_exported(exported) as fast:
        assert fast.translate(["1 2 3"])
        message = corpora.call_in_fork(fast.translate, ["1 2 3"])
        assert "expected a model that process" in message and "spawn" in message
        assert corpora.call_in_fork(fast.close) == ""
        # As at the end of a process, which would wait for threads that it lacks.
        assert corpora.call_in_fork(vars(fast).clear) == ""


def test_the_n_best_come_best_first(exported, lines):
    with open_exported(exported, n_best=3) as fast:
        n_best = fast.translate(lines)
    assert {len(row) for row in n_best} == {3}
    for row in n_best:
        assert [translation.score for translation in row] == sorted(
            (x.score for x in row)
        )[::-1]
        assert len({translation.pieces for translation in row}) == 3
    with pytest.raises(ValueError, match="n_best: expected 1 to 4, got 5"):
        open_exported(exported, n_best=5)


def test_the_command_translates_without_tensorflow(exported, lines):
    code = (
        "import sys; from transformer.commands import program; "
        "program.main(['translate', *sys.argv[1:]]); "
        "sys.exit('tensorflow' in sys.modules)"
    )
    flags = ["--logdir", exported, "--engine", "ctranslate2", "--search", "greedy"]
    ran = corpora.run_python("-c", code, *flags, input="\n".join(lines))
    assert ran.returncode == 0, ran.stderr
    with Translator(exported, search="greedy") as translator:
        expected = [best.text for best, *_ in translator.translate(lines)]
    assert ran.stdout.split("\n")[:-1] == expected


def test_eval_and_the_service_have_it_too(exported, digits, tmp_path, capsys):
    logdir = corpora.copy_folder(exported, tmp_path / "logs")
    scores = []
    for engine in (CTRANSLATE2, TENSORFLOW):
        flags = ["--search", "greedy", "--engine", engine, "--samples", "0"]
        corpora.run_command("eval", "--logdir", logdir, *flags)
        scores.append(capsys.readouterr().out.splitlines()[1:])
    assert scores[0] == scores[1]
    pattern = os.path.join(logdir, "best.ckpt-*.test*.translations")
    names = sorted(os.path.basename(path) for path in glob.glob(pattern))
    assert [name.split(".test")[1] for name in names] == [
        ".ctranslate2-float32.search-greedy.translations",
        ".search-greedy.translations",
    ]
    hp = hparams.load(logdir, {"search": "greedy"})
    requests = [SentenceRequest("1 2 3 4")]
    answers = []
    for engine in (CTRANSLATE2, TENSORFLOW):
        model = Model(hp, logdir, engine=engine)
        assert model.translator.engine == engine
        answers.append(model.translate(requests)[0][0]["text"])
        model.close()
    assert answers[0] == answers[1]


def test_an_export_with_other_translations_is_refused(trained, tmp_path, monkeypatch):
    logdir = corpora.copy_folder(trained, tmp_path / "logs")
    sinusoids = ctranslate2.sinusoids
    monkeypatch.setattr(ctranslate2, "sinusoids", lambda *args: 0 * sinusoids(*args))
    with pytest.raises(
        ValueError, match="scores of .* different ones for .* of dev .* → "
    ):
        Translator(logdir, search="greedy", engine=CTRANSLATE2)
    assert find_exported(logdir) is None
    assert not glob.glob(os.path.join(logdir, "ctranslate2-*"))


def test_soft_hyphens_change_no_score(exported):
    """Neither of translations, nor in the comparison with TensorFlow."""
    with open_exported(exported, hparams.load(exported)) as fast:
        [[plain, *_]], [[marked, *_]] = map(fast.translate, (["12 3"], ["1\u00ad2 3"]))
        assert marked == plain
        scores = fast.score_pieces(["12 3", "1\u00ad2 3"], [plain.pieces] * 2)
    assert scores[0] == pytest.approx(scores[1], abs=1e-5)


def test_only_exports_of_its_own_are_removed(exported, tmp_path):
    logdir = corpora.copy_folder(exported, tmp_path / "logs")
    _, current = find_exported(logdir)
    for name in ("ctranslate2-int8", "ctranslate2-float32-" + 16 * "0"):
        os.makedirs(os.path.join(logdir, name))
    remove_outdated(logdir)
    remaining = sorted(map(os.path.basename, glob.glob(f"{logdir}/ctranslate2-*")))
    assert remaining == sorted([os.path.basename(current), "ctranslate2-int8"])


def test_int8_may_change_scores_and_dev_may_be_missing(trained, tmp_path, monkeypatch):
    logdir = corpora.copy_folder(trained, tmp_path / "logs")
    sinusoids = ctranslate2.sinusoids
    monkeypatch.setattr(ctranslate2, "sinusoids", lambda *args: 0 * sinusoids(*args))
    warnings = []
    changes = {"engine": CTRANSLATE2, "quantization": "int8"}
    hp = hparams.load(logdir)
    with Translator.for_settings(hp, logdir, warn=warnings.append, **changes) as fast:
        fast.find_and_restore()
    assert (
        len(warnings) == 1
        and "int8: " in warnings[0]
        and "of 20 lines of dev" in warnings[0]
    )
    for folder in glob.glob(os.path.join(logdir, "ctranslate2-int8-*")):
        shutil.rmtree(folder)
    hp = dataclasses.replace(hp, data=str(tmp_path / "none"))
    with Translator.for_settings(hp, logdir, warn=warnings.append, **changes) as fast:
        fast.find_and_restore()
    assert len(warnings) == 2 and "was not compared" in warnings[1]


def test_a_log_directory_that_may_not_be_written_is_one_line(trained, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(ValueError, match="there is no permission to write the export"):
        Translator(trained, engine=CTRANSLATE2)
    assert not glob.glob(os.path.join(trained, "ctranslate2-*"))


def test_a_broken_export_is_refused(exported, tmp_path):
    logdir = corpora.copy_folder(exported, tmp_path / "logs")
    _, folder = find_exported(logdir)
    with open(os.path.join(folder, "model.bin"), "r+b") as file:
        file.truncate(99)
    with pytest.raises(ValueError, match="remove the folder"):
        FastTranslator(folder, hparams.load(logdir))


@pytest.mark.parametrize(
    "settings, needs, feature",
    [
        ({"search": "sample"}, {}, "search sample"),
        ({"min_length": 3}, {}, "min_length"),
        ({"no_repeat_ngram": 2}, {}, "no_repeat_ngram"),
        ({"repetition_penalty": 1.2}, {}, "repetition_penalty"),
        ({"keep_open": True}, {}, "keep_open"),
        ({"max_extra_length": 200}, {}, "max_extra_length of 1,100 or more"),
        ({}, {"ensembles": True}, "ensembles"),
    ],
)
def test_what_it_cannot_do_is_tensorflows(settings, needs, feature):
    warnings = []
    hp = hparams.HParams(**settings)
    assert choose_engine(CTRANSLATE2, "int8", hp, warnings.append, needs) == TENSORFLOW
    assert len(warnings) == 1 and feature in warnings[0]
    plain = hparams.HParams()
    assert choose_engine(CTRANSLATE2, "int8", plain, warnings.append) == CTRANSLATE2
    assert (
        choose_engine(TENSORFLOW, "float32", hp, warnings.append, needs) == TENSORFLOW
    )
    assert len(warnings) == 1
    with pytest.raises(ValueError, match="expected the engine ctranslate2 too"):
        choose_engine(TENSORFLOW, "int8", plain, warnings.append)


@pytest.mark.parametrize("changes", [{"min_length": 3}, {"search": "sample"}])
def test_a_rule_of_the_search_is_not_left_out(exported, changes):
    hp = dataclasses.replace(hparams.load(exported), **changes)
    with pytest.raises(ValueError, match=f"{[*changes][0]}.*or use Translator"):
        open_exported(exported, hp)


def test_a_dialect_it_lacks_is_tensorflows(digits, tmp_path):
    logdir = str(tmp_path / "logs")
    flags = ["--max_steps", "1", "--dialect", "tutorial"]
    corpora.run_train(digits, logdir, *corpora.SMALL, *flags)
    with pytest.warns(UserWarning, match="projection_relu.*TensorFlow is used instead"):
        with Translator(logdir, engine=CTRANSLATE2) as translator:
            assert translator.engine == TENSORFLOW
            assert len(translator.translate(["1 2 3"])) == 1


# --- Damaged exports ------------------------------------------------------------------


@pytest.fixture
def copied(exported, tmp_path):
    """(log directory, its export), to be damaged."""
    logdir = corpora.copy_folder(exported, tmp_path / "logs")
    _, folder = find_exported(logdir)
    return logdir, pathlib.Path(folder)


def zero_weights(path):
    """Overwrite a stretch in the middle of a file, whose size stays the same."""
    content = path.read_bytes()
    start = len(content) // 2
    size = min(4096, start)
    path.write_bytes(content[:start] + bytes(size) + content[start + size :])


FAULTS = {
    "zeros": zero_weights,
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "empty": lambda path: path.write_bytes(b""),
    "missing": lambda path: path.unlink(),
    "folder": lambda path: (path.unlink(), path.mkdir()),
    "pipe": lambda path: (path.unlink(), os.mkfifo(str(path))),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_damaged_export_does_not_translate(copied, fault, lines, capsys):
    """Whichever file it is; CTranslate2 would translate with damaged weights."""
    logdir, folder = copied
    for path in sorted(folder.iterdir()):
        if path.name in ("README.md", ctranslate2.CHECKSUMS):
            continue
        content = path.read_bytes()
        FAULTS[fault](path)
        with pytest.raises(ExportDamaged) as stopped:
            FastTranslator(str(folder), hparams.load(logdir))
        message = str(stopped.value)
        assert path.name in message and "\n" not in message, path
        assert "export the model again" in message
        if path.name == "config.json" and fault != "missing":
            flags = ["--logdir", logdir, "--engine", CTRANSLATE2]
            assert path.name in corpora.refusal(capsys, "translate", *flags)
        if path.is_dir():
            path.rmdir()
        elif path.exists():
            path.unlink()
        path.write_bytes(content)
    with open_exported(logdir) as fast:
        assert len(fast.translate(lines)) == len(lines)


def test_an_export_without_a_manifest_is_one_of_an_earlier_version(copied, lines):
    logdir, folder = copied
    with open_exported(logdir) as fast:
        expected = fast.translate(lines)
    (folder / ctranslate2.CHECKSUMS).unlink()
    with open_exported(logdir) as fast:
        assert fast.translate(lines) == expected
    for path in folder.glob("*.json"):
        path.write_bytes(path.read_bytes().replace(b"3", b"\xff"))
    with pytest.raises(ValueError, match="export the model again"):
        with open_exported(logdir) as fast:
            fast.translate(lines)


def test_the_manifest_is_that_of_sha256sum(copied):
    _, folder = copied
    listed = dict(
        line.split("  ")[::-1]
        for line in (folder / ctranslate2.CHECKSUMS).read_text().splitlines()
    )
    names = {path.name for path in folder.iterdir()}
    assert set(listed) == names - {"README.md", ctranslate2.CHECKSUMS}
    assert all(files.sha256_of(str(folder / name)) == listed[name] for name in listed)


def test_an_export_without_its_model_is_made_again(copied, lines):
    logdir, folder = copied
    expected = corpora.read_tree(folder)
    (folder / "model.bin").unlink()
    with Translator(logdir, engine=CTRANSLATE2) as translator:
        assert translator.engine == CTRANSLATE2
    assert corpora.read_tree(folder) == expected


def test_nothing_is_written_through_a_link(copied, tmp_path):
    logdir, folder = copied
    target = tmp_path / "elsewhere"
    os.rename(str(folder), str(target))
    folder.symlink_to(target)
    open_exported(logdir).close()  # it may be read
    (target / "model.bin").unlink()
    before = corpora.read_tree(target)
    with pytest.raises(ValueError, match="got the link .*, which leads elsewhere"):
        Translator(logdir, engine=CTRANSLATE2)
    assert corpora.read_tree(target) == before and folder.is_symlink()
