"""scripts/plot_curves.py: dev BLEU against minutes, from the log directory alone."""

import glob
import os
import sys
import xml.etree.ElementTree

import corpora
import plot_curves
import pytest

from transformer.runtime.events import Events


def write_run(folder, rows):
    """The events of a run: (step, minutes, dev BLEU or None)."""
    os.makedirs(str(folder), exist_ok=True)
    events = Events(str(folder))
    for step, minutes, bleu in rows:
        scores = {} if bleu is None else {"dev/bleu": bleu}
        events.write(step, dict(scores, minutes=minutes))
    return str(folder)


@pytest.fixture
def timed(tmp_path):
    return write_run(
        tmp_path / "timed",
        [
            (5, 0.25, None),
            (10, 0.5, 5.0),
            (15, 1.0, None),
            (20, 1.5, 20.0),
            (30, 10.0, 25.0),
        ],
    )


def test_what_is_drawn(timed):
    assert plot_curves.curve(timed) == ([0.5, 1.5, 10.0], [5.0, 20.0, 25.0])


def test_a_run_goes_on_where_its_checkpoint_was(timed):
    """The checkpoint was that of step 15: what came later is made again."""
    write_run(timed, [(16, 0.125, None), (20, 0.75, 21.0), (40, 4.0, 30.0)])
    assert plot_curves.curve(timed) == ([0.5, 1.75, 5.0], [5.0, 21.0, 30.0])


def test_a_record_cut_off_ends_its_file(timed):
    [path] = glob.glob(os.path.join(timed, "events.*"))
    os.truncate(path, os.path.getsize(path) - 3)
    assert plot_curves.curve(timed) == ([0.5, 1.5], [5.0, 20.0])


def test_each_log_directory_is_a_curve(timed, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    other = write_run(tmp_path / "other", [(1, 1.0, 1.0)])
    out = str(tmp_path / "curves.svg")
    plot_curves.main(["--logdir", timed, other, "--out", out])
    assert xml.etree.ElementTree.parse(out).getroot().tag.endswith("svg")
    with open(out, encoding="utf-8") as file:
        drawn = file.read()
    assert all(
        f"<!-- {name} -->" in drawn
        for name in (timed, other, "minutes of training", "dev BLEU")
    )


@pytest.mark.parametrize("rows", [[], [(5, 1.0, None)]], ids=["none", "no_scores"])
def test_what_cannot_be_drawn_is_one_line(tmp_path, capsys, rows):
    logdir = write_run(tmp_path / "logs", rows)
    flags = ["--logdir", logdir, "--out", tmp_path / "x.png"]
    said = corpora.refusal(capsys, plot_curves.main, *flags)
    assert "found no evaluation" in said


def test_without_matplotlib_one_line_says_so(timed, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    flags = ["--logdir", timed, "--out", tmp_path / "x.png"]
    assert "[plot]" in corpora.refusal(capsys, plot_curves.main, *flags)
