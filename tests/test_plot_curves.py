"""scripts/plot_curves.py: dev BLEU against minutes, from the log directory alone."""
import json
import os
import sys
import xml.etree.ElementTree

import pytest

from scripts import plot_curves
from transformer.reporting import DEV_SCORES


def logdir_with(folder, rows):
    """A log directory with these dev scores."""
    os.makedirs(str(folder))
    with open(os.path.join(str(folder), DEV_SCORES), "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return str(folder)


@pytest.fixture
def timed(tmp_path):
    return logdir_with(tmp_path / "timed", [
        {"step": 10, "bleu": 5.0, "seconds": 30.0},
        {"step": 20, "bleu": 20.0, "seconds": 90.0},
        {"step": 30, "bleu": 25.0, "seconds": 600.0}])


def test_seconds_become_minutes(timed):
    assert plot_curves.curve(timed) == ([0.5, 1.5, 10.0], [5.0, 20.0, 25.0])


def test_each_log_directory_is_a_curve(timed, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    other = logdir_with(tmp_path / "other", [{"step": 1, "bleu": 1.0, "seconds": 60.0}])
    out = str(tmp_path / "curves.svg")
    plot_curves.main(["--logdir", timed, other, "--out", out])
    assert xml.etree.ElementTree.parse(out).getroot().tag.endswith("svg")
    with open(out, encoding="utf-8") as file:
        drawn = file.read()
    assert all(f"<!-- {name} -->" in drawn for name in
               (timed, other, "minutes of training", "dev BLEU"))


@pytest.mark.parametrize("rows, said", [
    ([], "found no evaluation"),
    ([{"step": 5, "bleu": 1.0}], 'found no "seconds" in the row of step 5')])
def test_what_cannot_be_drawn_is_one_line(tmp_path, rows, said):
    logdir = logdir_with(tmp_path / "logs", rows)
    with pytest.raises(SystemExit, match=said):
        plot_curves.main(["--logdir", logdir, "--out", str(tmp_path / "x.png")])


def test_without_matplotlib_one_line_says_so(timed, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(SystemExit, match=r"\[plot\]"):
        plot_curves.main(["--logdir", timed, "--out", str(tmp_path / "x.png")])
