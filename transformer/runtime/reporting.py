"""What a training tells: TensorBoard events, dev scores, a line on the terminal."""

import json
import os
import socket
import time
from typing import Dict, List, Optional, Tuple

import tensorflow.compat.v1 as tf

DEV_SCORES = "dev_scores.jsonl"


class Events:
    """TensorBoard's scalars in a log directory, a new file for each run.

    Not a `tf.summary.FileWriter`: it writes in a thread, and on TensorFlow 1.15 what it
    cannot write is lost without a word.
    """

    def __init__(self, logdir: str):
        self._logdir, self._writer = logdir, None

    def write(self, step: int, values: Dict[str, float]) -> None:
        """Writes the values of a step; OSError if that is not possible."""
        summary = tf.Summary(
            value=[
                tf.Summary.Value(tag=name, simple_value=value)
                for name, value in values.items()
            ]
        )
        try:
            if self._writer is None:
                self._writer = self._open()
            self._put(tf.Event(wall_time=time.time(), step=step, summary=summary))
        # TensorFlow makes an IndexError of "File too large".
        except (tf.errors.OpError, IndexError) as error:
            self._writer = None  # behind half a record nothing can be read
            raise OSError(f"events could not be written: {error}") from error

    def close(self) -> None:
        if self._writer:
            self._writer.close()

    def _open(self):
        """A writer of a new file, whose first record says which format it has."""
        name = f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}"
        self._writer = tf.io.TFRecordWriter(os.path.join(self._logdir, name))
        self._put(tf.Event(wall_time=time.time(), file_version="brain.Event:2"))
        return self._writer

    def _put(self, event) -> None:
        self._writer.write(event.SerializeToString())
        self._writer.flush()


class DevScores:
    """The evaluations of a training, a JSON object a line: step, bleu, chrf, loss.

    Those beyond `start`, made by a run that was stopped before its next checkpoint, are
    forgotten: they will be made again.
    """

    def __init__(self, logdir: str, start: int):
        self._path = os.path.join(logdir, DEV_SCORES)
        self._rows = [row for row in read_dev_scores(logdir) if row["step"] <= start]

    def add(self, row: Dict[str, float]) -> None:
        """Appends an evaluation; the file is complete at any time."""
        self._rows.append(row)
        with open(self._path + ".tmp", "w", encoding="utf-8") as file:
            file.writelines(json.dumps(each) + "\n" for each in self._rows)
            file.flush()
            os.fsync(file.fileno())
        os.replace(self._path + ".tmp", self._path)

    def has(self, step: int) -> bool:
        return any(row["step"] == step for row in self._rows)

    def best(self) -> Optional[Dict[str, float]]:
        """The row with the highest BLEU, the first of equals; None without any."""
        return max(self._rows, key=lambda row: row["bleu"], default=None)

    def evaluations_since_best(self) -> int:
        return len(self._rows) - 1 - self._rows.index(self.best()) if self._rows else 0


def read_dev_scores(logdir: str) -> List[Dict[str, float]]:
    """The rows of a log directory's dev scores; none where it has none yet.

    Raises:
      ValueError: a line is no evaluation. The last may be cut off, and does not count.
    """
    path = os.path.join(logdir, DEV_SCORES)
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines.pop()
    return [
        _dev_scores_row(line, f"{path}:{number}")
        for number, line in enumerate(lines, 1)
    ]


def _dev_scores_row(line: str, where: str) -> Dict[str, float]:
    """A line of the dev scores; ValueError where it holds no step and BLEU."""
    try:
        row = json.loads(line)
        if {type(row["step"]), type(row["bleu"])} <= {int, float}:
            return row
    except (ValueError, TypeError, LookupError):
        pass
    raise ValueError(
        f"{where}: found {line.strip()!r:.60}, wanted the step and "
        "BLEU of an evaluation; remove the line"
    )


class Meter:
    """Sums up the updates between two lines of the log; pauses do not count."""

    def __init__(self):
        self._seconds_before = self._seconds = 0.0
        self._restart()

    def _restart(self) -> None:
        self._seconds_before += self._seconds
        self._loss = self._tokens = self._seconds = 0.0
        self._since = time.monotonic()

    def add(self, loss: float, tokens: float) -> None:
        """Counts an update: mean loss in nats a token, real target tokens."""
        self._loss += loss * tokens
        self._tokens += tokens

    def pause(self) -> None:
        """Stops the clock: what follows is not training."""
        self._seconds += time.monotonic() - self._since

    def go_on(self) -> None:
        self._since = time.monotonic()

    def minutes(self) -> float:
        """How long this run has trained, up to the last pause or reading."""
        return (self._seconds_before + self._seconds) / 60

    def read(self) -> Tuple[float, float]:
        """(mean loss, tokens a second) since the last reading."""
        self.pause()
        loss, rate = self._loss / self._tokens, self._tokens / self._seconds
        self._restart()
        return loss, rate


class Progress:
    """How far the training is: a bar that is redrawn on a terminal, else plain lines.

    Args:
      stream: a text stream, standard error for example.
      start: steps already done when this run began.
      last: the step at which training ends.
    """

    BAR = 20

    def __init__(self, stream, start: int, last: int):
        self._stream, self._start, self._last = stream, start, last
        self._began = time.monotonic()
        self._live = stream.isatty()

    def show(self, step: int, loss: float, tokens_per_second: float) -> None:
        """Shows the latest step; loss in nats a token."""
        done = (step - self._start) / max(1, self._last - self._start)
        left = (time.monotonic() - self._began) * (1 / max(done, 1e-9) - 1)
        text = (
            f"step {step}/{self._last}  loss {loss:.3f}  "
            f"{tokens_per_second:,.0f} tokens/s  {clock(left)} left"
        )
        if self._live:
            filled = int(self.BAR * step / self._last)
            bar = "█" * filled + "░" * (self.BAR - filled)
            self._stream.write(f"\r\x1b[K{bar} {text}")
        else:
            self._stream.write(text + "\n")
        self._stream.flush()

    def say(self, text: str) -> None:
        """Writes a line that stays."""
        self._stream.write(("\r\x1b[K" if self._live else "") + text + "\n")
        self._stream.flush()


def clock(seconds: float) -> str:
    """h:mm:ss, or m:ss below an hour."""
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (
        f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
    )
