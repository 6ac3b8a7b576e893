"""scripts/export.py: CTranslate2, an implementation of its own, translates as we do."""

import os
import re
import sys

import corpora
import pytest

from transformer import hparams
from transformer.exports.ctranslate2 import (
    FastTranslator,
    describe_export,
    refuse_unsupported,
    write,
)
from transformer.logdir import manifests
from transformer.text.vocabulary import load_vocabularies
from transformer.translator import Translator

pytestmark = pytest.mark.usefixtures("one_thread_only")


def check_that_ctranslate2_agrees(logdir, data, out):
    """Greedily both find the same, with the same scores. By beam search ours is never
    worse: CTranslate2 forgets a sentence that ends outside the best K continuations."""
    lines = corpora.read_lines(os.path.join(data, "test.de"))
    for search in ("greedy", "beam"):
        hp = hparams.load(logdir, {"search": search, "beam_size": 3})
        with Translator.for_settings(hp, logdir) as translator, FastTranslator(
            out, hp
        ) as fast:
            translator.find_and_restore()
            pairs = [
                (best, other)
                for [best, *_], [other, *_] in zip(
                    translator.translate(lines), fast.translate(lines)
                )
            ]
        gaps = [expected.score - actual.score for expected, actual in pairs]
        same = [
            gap
            for gap, (expected, actual) in zip(gaps, pairs)
            if expected.text == actual.text
        ]
        assert min(gaps) > -1e-4
        assert max(same) < 1e-4
        assert search == "beam" or len(same) == len(lines)
        different = {expected.text for expected, _ in pairs}
        assert len(different) > len(lines) / 2


@pytest.mark.slow
def test_the_call_on_the_card_gives_our_text(trained, lines, tmp_path):
    """Greedily; limits are out of the way."""
    pytest.importorskip("ctranslate2")
    changes = {"search": "greedy", "max_extra_length": 60}
    hp = hparams.load(trained, changes)
    out = str(tmp_path / "exported")
    write(hp, manifests.find_checkpoint(trained), out, "float32")
    target = load_vocabularies(out).target
    names = {"lines": lines}
    text = "\n".join(describe_export(hp, out, "float32").usage)
    [call] = re.findall("```python\n(.*?)\n```", text, re.DOTALL)
    exec(call, names)
    ids = {piece: i for i, piece in enumerate(target.pieces(range(target.size)))}
    actual = [
        target.decode([ids[piece] for piece in pieces]) for pieces in names["best"]
    ]
    with Translator(trained, **changes) as translator:
        assert actual == [best.text for best, *_ in translator.translate(lines)]


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["tensor2tensor", "kyubyong"])
def test_ctranslate2_agrees_on_other_dialects(digits, tmp_path, capsys, dialect):
    pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")
    logdir, out = str(tmp_path / "logs"), str(tmp_path / "exported")
    corpora.run_train(
        digits, logdir, *corpora.SMALL, "--dialect", dialect, "--eval_every", "240"
    )
    for _ in range(2):  # it may be written again
        where = [f"--logdir={logdir}", f"--out={out}"]
        corpora.run_command("export", "--format=ctranslate2", "--check=5", *where)
    assert "of 5 translations equal ours" in capsys.readouterr().out
    check_that_ctranslate2_agrees(logdir, digits, out)


@pytest.mark.parametrize(
    "settings, named",
    [
        ({"dialect": "tutorial"}, "projection_relu"),
        ({"positions": "learned"}, "learned positions"),
        ({"max_relative_position": 4}, "max_relative_position"),
        ({"proximity_bias": True}, "proximity_bias"),
        ({"d_k": 32, "d_v": 16}, "d_k, d_v$"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(settings, named):
    with pytest.raises(ValueError, match=named):
        refuse_unsupported(hparams.HParams(**settings))


def test_without_ctranslate2_one_line_says_so(trained, monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    flags = ["--format", "ctranslate2", "--logdir", trained, "--out", tmp_path / "x"]
    message = corpora.refusal(capsys, "export", *flags)
    assert "pip install 'transformer-tf[fast]'" in message


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--check", "-5"], "--check: expected 0 or more lines, got -5"),
        (["--check", "5", "--min_length", "3"], "supports, got min_length; change"),
    ],
)
def test_what_cannot_be_checked_is_refused_first(
    trained, tmp_path, capsys, flags, message
):
    out = tmp_path / "out"
    where = ["--format", "ctranslate2", "--logdir", trained, "--out", str(out)]
    assert message in corpora.refusal(capsys, "export", *where, *flags)
    assert not out.exists()


def test_other_files_are_not_overwritten(trained, capsys):
    flags = ["--format", "ctranslate2", "--logdir", trained, "--out", trained]
    assert "expected a new folder" in corpora.refusal(capsys, "export", *flags)
