"""reporting.py, events.py: dev scores, the meter's arithmetic, a bar, plain lines."""

import io
import os

import corpora
import pytest

from transformer.runtime import reporting
from transformer.runtime.events import Events, read_events
from transformer.runtime.reporting import DevScores, Meter, Progress, clock


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def now(monkeypatch):
    """A clock that stands still: now[0] is the time."""
    time = [1000.0]
    monkeypatch.setattr(reporting.time, "monotonic", lambda: time[0])
    return time


# --- Events and dev scores ------------------------------------------------------------


def test_events_can_be_read_before_they_are_closed(tmp_path):
    events = Events(str(tmp_path))
    events.write(3, {"loss": 0.5, "dev/bleu": 25})
    events.write(4, {"loss": 0.25})
    assert corpora.events_of(tmp_path) == {
        "loss": {3: 0.5, 4: 0.25},
        "dev/bleu": {3: 25},
    }


def test_what_was_written_is_read_up_to_a_record_cut_off(tmp_path):
    events = Events(str(tmp_path))
    events.write(3, {"loss": 0.5, "dev/bleu": 25})
    events.write(4, {"loss": 0.25})
    [name] = os.listdir(str(tmp_path))
    path = str(tmp_path / name)
    assert list(read_events(path)) == [
        (3, {"loss": 0.5, "dev/bleu": 25}),
        (4, {"loss": 0.25}),
    ]
    os.truncate(path, os.path.getsize(path) - 3)
    assert [step for step, _ in read_events(path)] == [3]


def test_a_second_run_adds_its_events(tmp_path):
    for step in (1, 2):
        (tmp_path / str(step)).mkdir()
        events = Events(str(tmp_path / str(step)))
        events.write(step, {"loss": step})
    for step in (1, 2):  # two writers within a second would share a name
        (name,) = os.listdir(str(tmp_path / str(step)))
        (tmp_path / str(step) / name).rename(tmp_path / f"{name}.{step}")
    assert corpora.events_of(tmp_path) == {"loss": {1: 1, 2: 2}}


def row(step, bleu):
    return {"step": step, "bleu": bleu, "chrf": 1.5, "loss": 2.5}


def scored(folder, *bleus, start=100):
    scores = DevScores(str(folder), start)
    for number, bleu in enumerate(bleus, 1):
        scores.add(row(10 * number, bleu))
    return scores


def test_dev_scores_come_back_as_they_were(tmp_path):
    rows = [row(10, 0.1 + 0.2), row(20, 100.0)]
    scores = DevScores(str(tmp_path), 0)
    for each in rows:
        scores.add(each)
        assert reporting.read_dev_scores(str(tmp_path))[-1] == each
    assert reporting.read_dev_scores(str(tmp_path)) == rows
    assert os.listdir(str(tmp_path)) == [reporting.DEV_SCORES]


def test_a_folder_without_dev_scores_has_none(tmp_path):
    assert reporting.read_dev_scores(str(tmp_path)) == []
    scores = DevScores(str(tmp_path), 0)
    assert scores.best() is None
    assert not scores.has(0)
    assert scores.evaluations_since_best() == 0


@pytest.mark.parametrize(
    "bleus, best, since",
    [
        ([5], 10, 0),
        ([5, 6, 7], 30, 0),
        ([5, 7, 6], 20, 1),
        ([7, 7, 7], 10, 2),
        ([0, 0], 10, 1),
    ],
)
def test_the_best_is_the_first_of_equals(tmp_path, bleus, best, since):
    scores = scored(tmp_path, *bleus)
    assert scores.best()["step"] == best
    assert scores.evaluations_since_best() == since
    again = DevScores(str(tmp_path), 100)
    assert again.best() == scores.best()
    assert again.evaluations_since_best() == since


def test_what_comes_after_the_start_is_forgotten(tmp_path):
    scored(tmp_path, 5, 6, 7)
    scores = DevScores(str(tmp_path), 20)
    assert [scores.has(step) for step in (10, 20, 30)] == [True, True, False]
    assert scores.best()["step"] == 20
    scores.add(row(30, 1))
    assert [each["bleu"] for each in reporting.read_dev_scores(str(tmp_path))] == [
        5,
        6,
        1,
    ]


# --- The meter ------------------------------------------------------------------------


def test_the_meter_weighs_losses_by_tokens(now):
    meter = Meter()
    meter.add(4.0, 100)
    meter.add(1.0, 300)
    now[0] += 8
    assert meter.read() == (1.75, 50)


def test_a_reading_starts_the_meter_anew(now):
    meter = Meter()
    meter.add(4.0, 100)
    now[0] += 1
    meter.read()
    meter.add(2.0, 10)
    now[0] += 2
    assert meter.read() == (2.0, 5)


def test_pauses_do_not_count(now):
    meter = Meter()
    now[0] += 1
    meter.pause()
    now[0] += 1000
    meter.resume()
    now[0] += 3
    meter.add(1.0, 8)
    assert meter.read() == (1.0, 2)


def test_a_pause_right_after_a_reading_does_not_count(now):
    meter = Meter()
    meter.add(1.0, 8)
    now[0] += 4
    meter.read()
    meter.pause()
    now[0] += 1000
    meter.resume()
    meter.add(1.0, 8)
    now[0] += 2
    assert meter.read() == (1.0, 4)


# --- Progress -------------------------------------------------------------------------


def test_plain_lines_where_there_is_no_terminal(now):
    stream = io.StringIO()
    progress = Progress(stream)
    progress.say("hello")
    progress.show(10, 40, "step 10")
    progress.show(20, 40, "step 20")
    assert stream.getvalue() == "hello\nstep 10\nstep 20\n"


def test_the_time_left_counts_what_this_process_did(now):
    progress = Progress(io.StringIO(), start=100)
    now[0] += 50
    assert progress.left(150, 200) == "0:50"
    assert progress.left(200, 200) == "0:00"
    assert Progress(io.StringIO(), start=40).left(40, 40) == "0:00"


def test_a_bar_on_a_terminal(now):
    stream = Terminal()
    progress = Progress(stream)
    widths = []
    for step in (1, 10, 20, 40):
        progress.show(step, 40, f"step {step}/40")
        assert "\n" not in stream.getvalue()
        drawn = stream.getvalue().split("\r\x1b[K")[-1]
        assert f"step {step}/40" in drawn
        assert drawn.count("█") == progress.BAR * step // 40
        widths.append(drawn.count("█") + drawn.count("░"))
    assert widths == [progress.BAR] * 4


def test_without_a_known_end_there_is_no_bar(now):
    stream = Terminal()
    Progress(stream).show(7, 0, "7 bytes")
    assert stream.getvalue() == "\r\x1b[K7 bytes"


@pytest.mark.parametrize("make", [io.StringIO, Terminal])
def test_lines_keep_their_distance_and_the_last_is_always_shown(now, make):
    stream = make()
    progress, times = Progress(stream, every=10.0), []
    for second in range(25):
        shown = len(stream.getvalue())
        progress.show(second, 24, "text")
        times += [second] if len(stream.getvalue()) > shown else []
        now[0] += 1
    assert times == [0, 10, 20, 24]


def test_what_is_said_stays_and_the_bar_begins_below(now):
    stream = Terminal()
    progress = Progress(stream)
    progress.show(10, 40, "step 10/40")
    progress.say("hello")
    progress.show(20, 40, "step 20/40")
    visible = [line.split("\x1b[K")[-1] for line in stream.getvalue().split("\n")]
    assert visible[0] == "hello"
    assert "step 20/40" in visible[1] and len(visible) == 2


def test_a_reader_that_has_gone_stops_nothing(now):
    """A closed terminal, or the end of a pipe that nobody reads."""

    class Gone(Terminal):
        def flush(self):
            raise BrokenPipeError

    progress = Progress(Gone())
    progress.show(10, 40, "step 10/40")
    progress.say("hello")


def test_the_last_step_ends_the_line_before_the_next_program_writes(now):
    stream = Terminal()
    progress = Progress(stream)
    progress.show(40, 40, "step 40/40")
    progress.say("stopped")
    assert stream.getvalue().endswith("stopped\n")


@pytest.mark.parametrize(
    "seconds, text",
    [
        (0, "0:00"),
        (0.9, "0:00"),
        (59.9, "0:59"),
        (60, "1:00"),
        (3599, "59:59"),
        (3600, "1:00:00"),
        (360000, "100:00:00"),
    ],
)
def test_clock(seconds, text):
    assert clock(seconds) == text
