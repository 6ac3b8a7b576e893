"""scripts/export.py: CTranslate2, an implementation of its own, translates as we do."""

import dataclasses
import os
import sys

import corpora
import export
import pytest

import hparams
from transformer.dialects import DIALECTS
from transformer.export import compare, refuse_unsupported

pytestmark = pytest.mark.usefixtures("one_thread_only")


def check_that_ctranslate2_agrees(logdir, data, out):
    """Greedily both find the same, with the same scores. By beam search ours is never
    worse: CTranslate2 forgets a sentence that ends outside the best K continuations."""
    # Limits out of the way: ours is of each sentence, CTranslate2's of all.
    hp = dataclasses.replace(hparams.load(logdir), max_extra_length=60, search="greedy")
    lines = corpora.read_lines(os.path.join(data, "test.de"))
    pairs = compare(hp, logdir, "best", out, lines)
    assert [ours.text for ours, _ in pairs] == [theirs.text for _, theirs in pairs]
    assert max(abs(ours.score - theirs.score) for ours, theirs in pairs) < 1e-4
    assert len({ours.text for ours, _ in pairs}) > len(lines) / 2  # not all alike
    hp = dataclasses.replace(hp, search="beam", beam_size=3)
    pairs = compare(hp, logdir, "best", out, lines)
    gaps = [ours.score - theirs.score for ours, theirs in pairs]
    assert min(gaps) > -1e-4
    same = [gap for gap, (ours, theirs) in zip(gaps, pairs) if ours.text == theirs.text]
    assert max(same) < 1e-4


@pytest.mark.slow
def test_ctranslate2_agrees(trained, digits, tmp_path, capsys):
    pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")
    out = str(tmp_path / "exported")
    for _ in range(2):  # it may be written again
        export.main(
            [
                "--format",
                "ctranslate2",
                "--logdir",
                trained,
                "--out",
                out,
                "--check",
                "5",
            ]
        )
    assert "of 5 translations equal ours" in capsys.readouterr().out
    check_that_ctranslate2_agrees(trained, digits, out)


@pytest.mark.parametrize(
    "dialect", ["tensor2tensor", pytest.param("kyubyong", marks=pytest.mark.slow)]
)
def test_ctranslate2_agrees_on_other_dialects(digits, tmp_path, dialect):
    pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")
    logdir, out = str(tmp_path / "logs"), str(tmp_path / "exported")
    corpora.run_train(
        digits, logdir, *corpora.SMALL, "--dialect", dialect, "--eval_every", "240"
    )
    export.main(["--format", "ctranslate2", "--logdir", logdir, "--out", out])
    check_that_ctranslate2_agrees(logdir, digits, out)


@pytest.mark.parametrize(
    "settings, named",
    [
        ({"dialect": "tutorial"}, "projection_relu"),
        ({"positions": "learned"}, "learned positions"),
        ({"max_relative_position": 4}, "max_relative_position"),
        ({"proximity_bias": True}, "proximity_bias"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(settings, named):
    with pytest.raises(ValueError, match=named):
        refuse_unsupported(hparams.HParams(**settings))


def test_norms_at_unknown_places_are_refused(monkeypatch):
    odd = DIALECTS["tensor2tensor"]._replace(final_norm=False)
    monkeypatch.setitem(DIALECTS, "odd", odd)
    with pytest.raises(ValueError, match="norms neither"):
        refuse_unsupported(hparams.HParams(dialect="odd"))


def test_without_ctranslate2_one_line_says_so(trained, monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    flags = ["--format", "ctranslate2", "--logdir", trained, "--out", tmp_path / "x"]
    said = corpora.refusal(capsys, export.main, *flags)
    assert "pip install ctranslate2" in said


def test_other_files_are_not_overwritten(trained, capsys):
    flags = ["--format", "ctranslate2", "--logdir", trained, "--out", trained]
    assert "wanted a new folder" in corpora.refusal(capsys, export.main, *flags)
