"""Progress reports: dev scores in the log directory, speed, a bar on the terminal.

`trainer.Training.log_metrics` says which numbers are logged.
"""

import contextlib
import json
import math
import os
import time
from typing import Any, Callable, Dict, List, Optional, TextIO, Tuple

from transformer.runtime import files
from transformer.runtime.terminal import shown

DEV_SCORES = "dev_scores.jsonl"


class DevScores:
    """The evaluations of a training run, a JSON object a line: step, bleu, chrf, loss.

    Those on another dev set stay in the file, and are compared with none.

    Args:
      logdir: the log directory, which may have scores of earlier processes.
      start: the step from which training continues. Later scores are dropped: a process
        made them that was stopped before its next checkpoint, and they are made again.
      dev: a name of the dev set. Rows without one are of the same.

    Raises:
      ValueError: the file in `logdir` is broken.
    """

    def __init__(self, logdir: str, start: int, dev: str = ""):
        self._path, self._dev = os.path.join(logdir, DEV_SCORES), dev
        self._all = [row for row in read_dev_scores(logdir) if row["step"] <= start]
        self._rows = [row for row in self._all if row.get("dev", dev) == dev]

    def add(self, row: Dict[str, float]) -> None:
        """Append an evaluation; the file is complete at any time."""
        self._rows.append(row)
        self._all.append(dict(row, dev=self._dev) if self._dev else row)
        with files.replaced(self._path) as file:
            file.writelines(json.dumps(each) + "\n" for each in self._all)

    def has(self, step: int) -> bool:
        """Return whether a step was evaluated."""
        return any(row["step"] == step for row in self._rows)

    def best(self) -> Optional[Dict[str, float]]:
        """Return the row with the highest BLEU, the first of equals; None if empty."""
        return max(self._rows, key=lambda row: row["bleu"], default=None)

    def evaluations_since_best(self) -> int:
        """Return how many evaluations came after the best one."""
        return len(self._rows) - 1 - self._rows.index(self.best()) if self._rows else 0


def read_dev_scores(logdir: str) -> List[Dict[str, Any]]:
    """Return the rows of a log directory's dev scores; none where it has none yet.

    Raises:
      ValueError: a line is no evaluation. A last line that is cut off is ignored.
    """

    def is_evaluation(row):
        return {type(row["step"]), type(row["bleu"])} <= {int, float}

    path = os.path.join(logdir, DEV_SCORES)
    return read_rows(path, is_evaluation, "the step and BLEU of an evaluation")


def read_rows(
    path: str, is_row: Callable[[Any], bool], wanted: str
) -> List[Dict[str, Any]]:
    """Return the rows of a file of JSON lines; none where there is no file.

    Args:
      path: the file.
      is_row: function of a decoded line: whether it holds what it must.
      wanted: what that is, for the message.

    Raises:
      ValueError: a line does not hold it. A last line that is cut off is ignored.
    """
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = file.read().split("\n")[:-1]
    return [
        _row(line, is_row, f"{path}:{number}", wanted)
        for number, line in enumerate(lines, 1)
    ]


def _row(line: str, is_row: Callable[[Any], bool], where: str, wanted: str):
    """Return a decoded line; ValueError where it does not hold what it must."""
    try:
        row = json.loads(line)
        if is_row(row):
            return row
    except (ValueError, TypeError, LookupError, RecursionError):
        pass
    raise ValueError(
        f"{where}: found {line.strip()!r:.60}, wanted {wanted}; remove the line"
    )


class Meter:
    """Average the loss and the speed between two lines of the log, without pauses."""

    def __init__(self):
        self._seconds_before = self._seconds = 0.0
        self._restart()

    def _restart(self) -> None:
        self._seconds_before += self._seconds
        self._loss = self._tokens = self._seconds = 0.0
        self._since = time.monotonic()

    def add(self, loss: float, tokens: float) -> None:
        """Count an update.

        Args:
          loss: the mean, in nats per token; where it is not finite, float16 has skipped
            the update, and it does not count.
          tokens: target tokens without padding.
        """
        if math.isfinite(loss):
            self._loss += loss * tokens
            self._tokens += tokens

    def pause(self) -> None:
        """Stop the clock: what follows is not training."""
        self._seconds += time.monotonic() - self._since

    def resume(self) -> None:
        """Start the clock again."""
        self._since = time.monotonic()

    def minutes(self) -> float:
        """Return how long this process has trained, up to the last pause or reading."""
        return (self._seconds_before + self._seconds) / 60

    def read(self) -> Tuple[float, float]:
        """Return (mean loss, tokens per second) since the last reading."""
        self.pause()
        loss, rate = self._loss / (self._tokens or 1), self._tokens / self._seconds
        self._restart()
        return loss, rate


# Not tqdm: a fifth package to install, and no plain lines where stderr is a file.
class Progress:
    """Shows how far a task is: a bar redrawn on a terminal, plain lines elsewhere.

    Args:
      stream: a text stream, standard error for example.
      start: what was done before this process began.
      every: show no line sooner than so many seconds after the last; 0: show all.
    """

    BAR = 20

    def __init__(self, stream: TextIO, start: int = 0, every: float = 0.0):
        self._stream, self._start, self._every = stream, start, every
        self._began = time.monotonic()
        self._next = self._began
        self._live = stream.isatty()

    def show(self, done: int, total: int, text: str) -> None:
        """Show the latest state; the last one, `done == total`, always.

        Args:
          done: steps, or bytes.
          total: as many when all is done; 0 where that is not known, and no bar.
          text: what follows the bar.
        """
        if time.monotonic() < self._next and done != total:
            return
        self._next, text = time.monotonic() + self._every, shown(text)
        if self._live:
            filled = int(self.BAR * done / total) if total else 0
            bar = "█" * filled + "░" * (self.BAR - filled) + " " if total else ""
            self._write(f"\r\x1b[K{bar}{text}")
        else:
            self._write(text + "\n")

    def left(self, done: int, total: int) -> str:
        """Return the time left, as `clock` writes it, at the speed of this process."""
        share = (done - self._start) / max(1, total - self._start)
        return clock((time.monotonic() - self._began) * (1 / max(share, 1e-9) - 1))

    def say(self, text: str) -> None:
        """Write a line that stays; on a terminal, in place of the bar."""
        self._write(("\r\x1b[K" if self._live else "") + shown(text) + "\n")

    def _write(self, text):
        """Write at once; nothing, if whoever read the stream has gone."""
        with contextlib.suppress(OSError):
            self._stream.write(text)
            self._stream.flush()


def clock(seconds: float) -> str:
    """Return a duration as h:mm:ss, or as m:ss below an hour."""
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (
        f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
    )
