"""scripts/plot_curves.py: how training runs went, from the log directories alone."""

import glob
import os
import sys
import xml.etree.ElementTree

import corpora
import pytest

import hparams
from transformer.commands import plot_curves
from transformer.runtime.run import Events


def bleu(logdir):
    """(minutes, dev BLEU) of a run."""
    found = plot_curves.curve({logdir: plot_curves.read_run(logdir)}, "bleu")
    assert found.y == found.lowest == found.highest
    return found.x, found.y


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


def test_a_run_goes_on_where_its_checkpoint_was(timed):
    """The checkpoint was that of step 15: what came later is made again."""
    write_run(timed, [(16, 0.125, None), (20, 0.75, 21.0), (40, 4.0, 30.0)])
    assert bleu(timed) == ([0.5, 1.75, 5.0], [5.0, 21.0, 30.0])


def test_a_record_cut_off_ends_its_file(timed):
    [path] = glob.glob(os.path.join(timed, "events.*"))
    os.truncate(path, os.path.getsize(path) - 3)
    assert bleu(timed) == ([0.5, 1.5], [5.0, 20.0])


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


def write_losses(folder, rows):
    """The events of a run: (step, minutes, training loss, learning rate)."""
    os.makedirs(str(folder), exist_ok=True)
    events = Events(str(folder))
    for step, minutes, loss, rate in rows:
        events.write(step, {"loss": loss, "learning_rate": rate, "minutes": minutes})
    return str(folder)


def test_losses_and_rates_against_steps_or_minutes(tmp_path):
    logdir = write_losses(tmp_path / "a", [(5, 1.0, 4.0, 0.5), (10, 2.0, 3.0, 1.0)])
    write_losses(tmp_path / "a", [(8, 0.5, 3.5, 0.75), (12, 1.0, 2.0, 0.25)])
    runs = {logdir: plot_curves.read_run(logdir)}
    loss = plot_curves.curve(runs, "loss", "steps")
    assert (loss.x, loss.y) == ([5, 8, 12], [4.0, 3.5, 2.0])
    rate = plot_curves.curve(runs, "learning_rate")
    assert (rate.x, rate.y) == ([1.0, 1.5, 2.0], [0.5, 0.75, 0.25])
    with pytest.raises(ValueError, match="got no evaluation"):
        plot_curves.curve(runs, "dev_loss")


def test_the_band_of_seeds_is_from_the_lowest_to_the_highest(timed, tmp_path):
    """At the steps that all runs have."""
    other = write_run(tmp_path / "b", [(10, 1.5, 9.0), (20, 2.5, 18.0), (25, 3, 1.0)])
    runs = {each: plot_curves.read_run(each) for each in (timed, other)}
    found = plot_curves.curve(runs, "bleu")
    assert found.x == [1.0, 2.0] and found.y == [7.0, 19.0]
    assert (found.lowest, found.highest) == ([5.0, 18.0], [9.0, 20.0])
    alone = write_run(tmp_path / "c", [(7, 1.0, 1.0)])
    runs[alone] = plot_curves.read_run(alone)
    with pytest.raises(ValueError, match="expected steps with dev BLEU in all"):
        plot_curves.curve(runs, "bleu", "steps")


def with_settings(folder, **settings):
    hparams.save(hparams.HParams(**settings), str(folder))
    return str(folder)


def test_runs_that_differ_in_the_seed_alone_are_one(tmp_path):
    names = [
        with_settings(tmp_path / name, **settings)
        for name, settings in {
            "a": {"seed": 1},
            "b": {"seed": 1, "num_blocks": 2},
            "c": {"seed": 7},
        }.items()
    ]
    found = plot_curves.grouped(names)
    assert found == {f"{names[0]} (2 seeds)": names[::2], names[1]: [names[1]]}


@pytest.mark.parametrize("log", [[], ["--log"]], ids=["linear", "log"])
def test_diagrams_lines_and_bands(timed, tmp_path, monkeypatch, log):
    """Each line has its own look, which is not its colour alone."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    logdirs = [timed, write_run(tmp_path / "$a$ b", [(5, 1, 1.0), (10, 2, 9.0)])]
    for number, logdir in enumerate(logdirs):
        rows = [(5, 1.0, 4.0 + number, 0.5), (10, 2.0, 3.0, 1.0)]
        write_losses(logdir, rows)
        with_settings(logdir, seed=number)
    write_losses(timed, [])
    seen, original = [], plot_curves.draw_lines

    def look(axes, lines):
        original(axes, lines)
        seen.append(axes)

    monkeypatch.setattr(plot_curves, "draw_lines", look)
    out, show = str(tmp_path / "x.svg"), ["--show", "loss", "learning_rate"]
    common = ["--out", out, "--against", "steps", *show, *log]
    plot_curves.main(["--logdir", *logdirs, *common])
    assert [axes.get_ylabel() for axes in seen] == ["training loss", "learning rate"]
    for axes in seen:
        first, second = axes.lines
        assert list(first.get_xdata()) == list(second.get_xdata()) == [5, 10]
        assert first.get_linestyle() != second.get_linestyle()
        assert first.get_marker() != second.get_marker()
        assert axes.get_yscale() == ("log" if log else "linear")
        assert not axes.collections and axes.get_xlim()[0] == 0
    with open(out, encoding="utf-8") as file:
        drawn = file.read()
    assert "steps" in drawn and drawn.count("$a$ b") == 1
    plot_curves.main(["--logdir", *logdirs, *common, "--seeds"])
    [line], [band] = seen[2].lines, seen[2].collections
    assert list(line.get_ydata()) == [4.5, 3.0]
    heights = {tuple(point) for point in band.get_paths()[0].vertices}
    assert {(5.0, 4.0), (5.0, 5.0), (10.0, 3.0)} <= heights
    assert not seen[3].collections  # their rates are the same


@pytest.mark.parametrize(
    "flags, words", [(["--show", "blue"], "bleu"), (["--against", "step"], "steps")]
)
def test_what_cannot_be_shown_is_refused(timed, tmp_path, capsys, flags, words):
    flags = ["--logdir", timed, "--out", tmp_path / "x.png", *flags]
    assert words in corpora.refusal(capsys, plot_curves.main, *flags)


@pytest.mark.parametrize("rows", [[], [(5, 1.0, None)]], ids=["none", "no_scores"])
def test_what_cannot_be_drawn_is_one_line(tmp_path, capsys, rows):
    logdir = write_run(tmp_path / "logs", rows)
    flags = ["--logdir", logdir, "--out", tmp_path / "x.png"]
    said = corpora.refusal(capsys, plot_curves.main, *flags)
    assert "got no evaluation" in said


def test_without_matplotlib_one_line_says_so(timed, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    flags = ["--logdir", timed, "--out", tmp_path / "x.png"]
    assert "[plot]" in corpora.refusal(capsys, plot_curves.main, *flags)
