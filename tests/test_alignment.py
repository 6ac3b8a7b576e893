"""alignment.py, align.py: pairs of words by attention, and their error rate."""

import io
import json
import os
import shutil
import sys

import corpora
import pytest
from slow import slow_except

from transformer import alignment, hparams
from transformer.alignment import Gold, Head
from transformer.logdir import manifests
from transformer.translator import Translator
from transformer.viewer.inspection import inspect_line

pytestmark = pytest.mark.usefixtures("one_thread_only")


@pytest.fixture(scope="module")
def translator(trained):
    with Translator.for_settings(hparams.load(trained), trained) as translator:
        translator.find_and_restore()
        yield translator


@pytest.fixture(scope="module")
def data(digits, tmp_path_factory):
    """The corpus, with the pairs of its words: the target is the source backwards."""
    folder = corpora.copy_folder(digits, tmp_path_factory.mktemp("aligned") / "data")
    for split in ("dev", "test"):
        lines = corpora.read_lines(os.path.join(folder, split + ".de"))
        pairs = [
            " ".join(
                f"{len(line.split()) - 1 - j}-{j}" for j in range(len(line.split()))
            )
            for line in lines
        ]
        corpora.write_lines(os.path.join(folder, split + ".align"), pairs)
    return folder


@pytest.fixture(scope="module")
def lines(digits):
    return [
        corpora.read_lines(os.path.join(digits, "test." + side))
        for side in ("de", "en")
    ]


# --- Rates ----------------------------------------------------------------------------


def test_the_error_rate_by_hand():
    gold = [Gold({(0, 0), (1, 2)}, {(0, 0), (1, 2), (1, 1)}), Gold({(0, 0)}, {(0, 0)})]
    rate = alignment.error_rate
    assert rate([{(0, 0), (1, 2), (1, 1)}, {(0, 0)}], gold) == 0
    assert rate([{(3, 3)}, set()], gold) == 1
    # Of 3 pairs, 1 is sure and 2 are possible; the second line is left out.
    actual = [{(0, 0), (1, 1), (2, 2)}, None]
    assert rate(actual, gold) == pytest.approx(1 - (1 + 2) / (3 + 2))
    assert rate([None], gold[:1]) == 0


def test_pairs_are_read_and_written(tmp_path):
    path = corpora.write_lines(tmp_path / "x.align", ["0-0 12?3", "", "1-1"])
    actual = alignment.read_gold(path, 3)
    assert actual[0] == Gold({(0, 0)}, {(0, 0), (12, 3)})
    assert actual[1] == Gold(set(), set())
    assert alignment.format_pairs({(1, 1), (0, 2), (2, 0), (1, 0)}) == "1-0 2-0 1-1 0-2"
    assert alignment.format_pairs(None) == ""
    with pytest.raises(ValueError, match="expected 4 lines, got 3"):
        alignment.read_gold(path, 4)
    for wrong in ("0", "0-", "a-1", "0_1", "-1-0"):
        path = corpora.write_lines(tmp_path / "x.align", ["0-0", f"1-1 {wrong}"])
        with pytest.raises(ValueError, match=f"x.align:2: expected .* got '{wrong}'"):
            alignment.read_gold(path, 2)


# --- Attention ------------------------------------------------------------------------


@pytest.mark.parametrize("head", slow_except([0, None], [0, 3, None]))
@pytest.mark.parametrize("when_read", [False, True])
def test_pairs_are_where_attention_is_highest(translator, lines, head, when_read):
    """As `inspect_line` shows the attention: a digit is a word is a piece."""
    actual = translator.align(*lines, [Head(0, head, when_read)])
    for line in range(5):
        source, target = (side[line] for side in lines)
        ids = translator.vocabularies.target.encode(target)
        [cross] = inspect_line(translator, source, target=ids).attention["cross"]
        weights = cross.mean(0) if head is None else cross[head]
        words = len(target.split())
        rows = weights[1 : words + 1] if when_read else weights[:words]
        best = rows[:, : len(source.split())].argmax(-1)
        assert actual[line] == [{(int(i), j) for j, i in enumerate(best)}]


# --- The commands ---------------------------------------------------------------------


@pytest.fixture
def logdir(trained, data, tmp_path):
    copy = corpora.copy_folder(trained, tmp_path / "logs")
    hparams.save(hparams.load(copy, {"data": data}), copy)
    return copy


def run_translate(logdir, capsys, monkeypatch, lines, *flags):
    """(standard output, standard error) of translate.py."""
    stdin = io.TextIOWrapper(io.BytesIO("".join(x + "\n" for x in lines).encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    corpora.run_command("translate", "--logdir", logdir, *flags)
    return capsys.readouterr()


def test_align_chooses_the_best_head_and_translate_uses_it(
    logdir, data, lines, translator, capsys, monkeypatch
):
    perfect = os.path.join(data, "test.align")
    corpora.run_command("align", "--logdir", logdir, "--compare", perfect)
    message = capsys.readouterr().out.splitlines()
    checkpoint = manifests.find_checkpoint(logdir)
    head = alignment.read_chosen_head(logdir, checkpoint, translator.hp)
    dev = [corpora.read_lines(os.path.join(data, f"dev.{x}")) for x in ("de", "en")]
    gold = alignment.read_gold(os.path.join(data, "dev.align"), 20)
    heads = alignment.list_heads(translator.hp)
    rates = alignment.measure_heads(heads, translator.align(*dev, heads), gold)
    assert rates[head] == min(rates.values())
    assert message[1] == f"{100 * rates[head]:5.1f} %  {head}"
    assert message[-1] == f"  0.0 %  {perfect}"
    actual = translator.align(*lines, [head])
    of_test = alignment.read_gold(perfect, 20)
    rate = alignment.error_rate([actual[i][0] for i in range(20)], of_test)
    assert message[-2] == f"{100 * rate:5.1f} %  {head}"

    flags = ["--alignments", "--scores"]
    output = run_translate(logdir, capsys, monkeypatch, lines[0], *flags)
    assert "--alignments" not in output.err
    best = [row[0] for row in translator.translate(lines[0])]
    texts = [translation.text for translation in best]
    pairs = translator.align(lines[0], texts, [head])
    assert output.out.splitlines() == [
        " ||| ".join([text, f"{score:.4f}", alignment.format_pairs(of_head)])
        for (text, score, *_), [of_head] in zip(best, pairs)
    ]


@pytest.mark.parametrize(
    "content",
    [
        "",
        '{"best.ckpt-1": {"layer": 0, "head": 0, "when_read": true}}',
        '{"NAME": {"layer": 9, "head": 0, "when_read": true}}',
        '{"NAME": {"layer": 0}}',
        "[" * 60000,
    ],
    ids=["none", "of_another", "too_high", "half", "nested"],
)
def test_a_choice_that_is_none(trained, translator, tmp_path, content):
    checkpoint = manifests.find_checkpoint(trained)
    name = os.path.basename(checkpoint)
    (tmp_path / "alignment.json").write_text(content.replace("NAME", name))
    actual = alignment.read_chosen_head(str(tmp_path), checkpoint, translator.hp)
    assert actual is None
    alignment.store_chosen_head(str(tmp_path), checkpoint, Head(0, 1, True), {"x": 1})
    actual = alignment.read_chosen_head(str(tmp_path), checkpoint, translator.hp)
    assert actual == Head(0, 1, True)
    stored = json.loads((tmp_path / "alignment.json").read_text())
    assert stored[name]["x"] == 1


def test_the_choices_for_other_checkpoints_are_kept(trained, tmp_path):
    first, second, gone = (str(tmp_path / f"best.ckpt-{step}") for step in (1, 2, 3))
    for i, checkpoint in enumerate([gone, first, second]):
        choice = Head(0, i, False)
        alignment.store_chosen_head(str(tmp_path), checkpoint, choice, {})
        corpora.write_lines(checkpoint + ".index", [])
        if checkpoint == gone:
            os.remove(checkpoint + ".index")
    stored = json.loads((tmp_path / "alignment.json").read_text())
    assert {name: fields["head"] for name, fields in stored.items()} == {
        "best.ckpt-1": 1,
        "best.ckpt-2": 2,
    }


def test_a_head_is_not_chosen_by_lines_that_it_cannot_align(
    logdir, data, tmp_path, capsys
):
    """A zero-width space is a word between spaces, but has no piece."""
    other = corpora.copy_folder(data, tmp_path / "data")
    flags = ["--logdir", logdir, "--data", other]

    def spoil(split, count):
        path = os.path.join(other, f"{split}.de")
        lines = corpora.read_lines(path)
        lines[:count] = ["\u200b " + line for line in lines[:count]]
        corpora.write_lines(path, lines)

    spoil("test", 5)
    corpora.run_command("align", *flags)
    assert "on test, 15 of 20 lines:" in capsys.readouterr().out
    os.remove(os.path.join(logdir, "alignment.json"))
    spoil("dev", 20)
    path = os.path.join(other, "dev.de")
    corpora.write_lines(path, ["", *corpora.read_lines(path)[1:]])
    assert "got none among 20" in corpora.refusal(capsys, "align", *flags)
    assert not os.path.exists(os.path.join(logdir, "alignment.json"))


def test_what_align_cannot_use_is_one_line(logdir, data, trained, tmp_path, capsys):
    other = corpora.copy_folder(data, tmp_path / "data")
    flags = ["--logdir", logdir, "--data", other]
    short = corpora.write_lines(tmp_path / "short.align", ["0-0"])
    output = corpora.refusal(capsys, "align", *flags, "--compare", short)
    assert "short.align: expected 20 lines, got 1" in output
    os.remove(os.path.join(other, "test.align"))
    assert "test.align" in corpora.refusal(capsys, "align", *flags)
    shutil.rmtree(other)
    assert other in corpora.refusal(capsys, "align", *flags)
