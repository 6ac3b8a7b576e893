"""viewer/picture.py, plot_attention.py --out: pictures have the model's weights."""

import io
import os
import sys

import corpora
import numpy as np
import pytest

from transformer import hparams
from transformer.text.words import word_attention
from transformer.translator import Translator
from transformer.viewer import picture
from transformer.viewer.inspection import KINDS, inspect_line

pytestmark = pytest.mark.usefixtures("one_thread_only")
LINE = "1 22 3"


@pytest.fixture(scope="module")
def inspection(trained):
    with Translator.for_settings(
        hparams.load(trained), trained, 4, keep_history=True
    ) as translator:
        translator.find_and_restore()
        yield inspect_line(translator, LINE, padding=1)


@pytest.mark.slow
def test_every_layer_and_head_of_every_kind(inspection):
    rows = picture.select_maps(inspection)
    assert len(rows) == len(KINDS) and {len(row) for row in rows} == {4}
    titles = [attention_map.title for row in rows for attention_map in row]
    assert len(set(titles)) == 12 and "cross, layer 1, head 3" in titles
    sides = {
        "encoder": (inspection.source, inspection.source),
        "decoder": (inspection.target_in, inspection.target_in),
        "cross": (inspection.target, inspection.source),
    }
    for kind, row in zip(KINDS, rows):
        spans = [side.spans for side in sides[kind]]
        for head, attention_map in enumerate(row):
            assert attention_map.weights.shape == attention_map.allowed.shape
            assert attention_map.weights.shape == (
                len(attention_map.queries),
                len(attention_map.keys),
            )
            expected = word_attention(inspection.attention[kind][0, head], *spans)
            np.testing.assert_array_equal(attention_map.weights, expected)


def test_one_map_has_the_weights_between_words_or_pieces(inspection):
    [[words]] = picture.select_maps(inspection, ["cross"], 1, 3)
    spans = inspection.target.spans, inspection.source.spans
    of_head = inspection.attention["cross"][0, 2]
    np.testing.assert_array_equal(words.weights, word_attention(of_head, *spans))
    assert (
        words.keys == inspection.source.words
        and words.queries == inspection.target.words
    )
    [[pieces]] = picture.select_maps(inspection, ["encoder"], 1, 3, pieces=True)
    np.testing.assert_array_equal(pieces.weights, inspection.attention["encoder"][0, 2])
    assert pieces.keys == pieces.queries == inspection.source.pieces
    [[mean]] = picture.select_maps(inspection, ["cross"], 1, picture.MEAN, pieces=True)
    np.testing.assert_allclose(mean.weights, inspection.attention["cross"][0].mean(0))
    assert mean.title == "cross, layer 1, mean of the heads"


def test_masked_cells(inspection):
    [row] = picture.select_maps(inspection, ["decoder"])
    assert (row[0].allowed == np.tril(np.ones_like(row[0].allowed))).all()
    [row] = picture.select_maps(inspection, ["cross"])
    assert not row[0].allowed[:, -1].any() and row[0].allowed[:, :-1].all()


@pytest.mark.parametrize("layer, head", [(2, None), (1, 0)])
def test_missing_layers_and_heads_are_refused(inspection, layer, head):
    with pytest.raises(ValueError, match="expected 1 to"):
        picture.select_maps(inspection, ["cross"], layer, head)


# The command


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["png", "svg"])
@pytest.mark.parametrize(
    "flags, maps", [(["--kind", "cross", "--layer", "1", "--head", "mean"], 1)]
)
def test_the_command_draws_maps(trained, tmp_path, capsys, ending, flags, maps):
    image = pytest.importorskip("matplotlib.image")
    out = str(tmp_path / f"x.{ending}")
    corpora.run_command("attention", "--logdir", trained, "--out", out, *flags, LINE)
    assert capsys.readouterr().out.splitlines()[-1] == out
    if ending == "png":
        pixels = image.imread(out)[..., :3]
        assert pixels.min() == 0 and pixels.max() == 1
        assert np.ptp(pixels, axis=2).max() == 0, "black on white"
    else:
        with open(out, encoding="utf-8") as file:
            drawn = file.read()
        assert drawn.count("<image ") == maps
        assert "<!-- 22 -->" in drawn


def test_page_and_picture_at_once(trained, tmp_path, capsys):
    """Even of a line that is not UTF-8."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    page, out = str(tmp_path / "x.html"), str(tmp_path / "x.png")
    corpora.run_command(
        "attention", "--logdir", trained, "--out", out, "--html", page, LINE + "\udcff"
    )
    printed = capsys.readouterr().out.splitlines()
    assert printed[1:] == [page, out] and all(map(os.path.exists, printed[1:]))


@pytest.mark.parametrize(
    "flags, words",
    [
        ([], "--html"),
        (["--out", "x.png", "another line"], "expected one sentence"),
        (["--out", "x.jpg"], "ends in .png, .svg, .pdf, got .jpg"),
        (["--html", "."], "expected a file, got a folder"),
        (["--html", "none/x.html"], "the folder none is missing"),
        (["--out", "x.svg", "--html", "./x.svg"], "got a file of --html"),
        (["--out", "x.png", "--head", "9"], "expected 1 to 4"),
    ],
)
def test_invalid_flags_are_one_line(
    trained, tmp_path, capsys, monkeypatch, flags, words
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    lines = [flag for flag in flags if flag.startswith("another")]
    flags = [flag for flag in flags if flag not in lines]
    argv = [LINE, *lines, "--logdir", trained, *flags]
    assert words in corpora.refusal(capsys, "attention", *argv)
    assert os.listdir(str(tmp_path)) == []
