"""A training run in its log directory: its lock, history, dev scores, events, speed.

`run.jsonl` has one line, a JSON object, for each segment of the run: its first step,
its settings, the checksums of the corpus and the vocabulary, and the versions. Resuming
with all of these unchanged adds no line. `dev_scores.jsonl` has the evaluations, each
with the dev set and the search that it was made with.
`trainer.Training.log_metrics` decides which numbers are logged.
"""

import contextlib
import dataclasses
import itertools
import json
import math
import os
import platform
import socket
import time
from typing import IO, Any, Callable, Dict, List, Mapping, Optional, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.hparams import FIELDS, HParams, search_settings
from transformer.logdir.names import DEV_SCORES, EVENTS, LOCK, RUN, SETTINGS
from transformer.runtime import files
from transformer.runtime.errors import (
    CorpusChanged,
    CorpusVocabularyMismatch,
    LogDirectoryError,
    LogDirectoryInUse,
)
from transformer.text.vocabulary import FILE_NAMES

MIN_BLEU = 1.0  # a BLEU below this is chance: the dev loss then decides which is best
PATHS = ("data",)  # settings that are paths: their changes are not reported


class Lock:
    """Keep other training runs out of a log directory while this process lives.

        with Lock(logdir) as lock:      # taken here, if the folder exists
            os.makedirs(logdir, exist_ok=True)
            lock.take()                 # else here

    The system releases the lock when the process ends, even after `kill -9`. The file
    stays; its presence does not mean that the lock is taken.

    Raises:
      LogDirectoryInUse: another process has the lock.
    """

    def __init__(self, logdir: str):
        self.logdir = logdir
        self._file: Optional[IO[str]] = None

    def __enter__(self):
        if os.path.isdir(self.logdir):
            self.take()
        return self

    def take(self) -> None:
        """Take the lock if this object does not have it yet."""
        import fcntl  # Windows has none

        if self._file:
            return
        path = os.path.join(self.logdir, LOCK)
        if os.path.islink(path):
            raise LogDirectoryError(f"{path}: expected a file, got a link; remove it")
        if os.path.exists(path):
            files.refuse_irregular(path)
        file = open(path, "a+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            with file:
                raise LogDirectoryInUse(
                    f"{self.logdir}: a training run is in progress, "
                    f"{file.read().strip() or 'just started'}; wait for it, or stop it",
                    self.logdir,
                ) from None
        with files.name_file_in_errors(file.name):
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
            file.flush()
        self._file = file

    def __exit__(self, *exception):
        if self._file:
            with contextlib.suppress(OSError):  # its content does not matter
                self._file.truncate(0)
                self._file.close()


# --- Files of JSON lines --------------------------------------------------------------


def read_rows(
    path: str, is_row: Callable[[Any], bool], expected: str
) -> List[Dict[str, Any]]:
    """Read the rows of a file of JSON lines; [] if there is no file.

    Args:
      path: the file.
      is_row: function of a decoded line; returns whether it is a valid row.
      expected: what a valid row contains, for the message.

    Raises:
      LogDirectoryError: a line is not a valid row. A truncated last line is ignored.
    """
    if not os.path.exists(path):
        return []
    lines = files.read_file(path).decode("utf-8", "replace").split("\n")[:-1]
    rows = []
    for line_number, line in enumerate(lines, 1):
        row = None
        with contextlib.suppress(ValueError, TypeError, LookupError, RecursionError):
            content = json.loads(line)
            row = content if is_row(content) else None
        if row is None:
            settings = os.path.join(os.path.dirname(path), SETTINGS)
            raise LogDirectoryError(
                f"{path}:{line_number}: expected {expected}, got {line.strip()!r:.60}; "
                + (files.describe_later_version(settings) or "remove the line")
            )
        rows.append(row)
    return rows


def _write_rows(path, rows):
    """Write a file of JSON lines, which is complete at any time."""
    with files.replace_file(path) as file:
        file.writelines(json.dumps(row, sort_keys=True) + "\n" for row in rows)


class RunHistory:
    """The segments before a step, and the segment that begins there.

    Args:
      logdir: the log directory, which may not have segments yet.
      start: the step from which training continues. Later segments are dropped, because
        no checkpoint of theirs is left.
      hp: the settings.
      checksums: the SHA-256 of each file of the corpus.
      init_from: the log directory whose weights are used at step 0; None: the recorded
        one, if any.

    Raises:
      LogDirectoryError: the file in `logdir` is broken.
    """

    def __init__(
        self,
        logdir: str,
        start: int,
        hp: HParams,
        checksums: Dict[str, str],
        init_from: Optional[str] = None,
    ):
        self._logdir = logdir
        rows = read_run(logdir)
        self._before = [row for row in rows if row["step"] < start]
        self.begun_from = read_init_from(rows)
        self.init_from = init_from or self.begun_from
        self._segment: Dict[str, Any] = {
            "step": start,
            "settings": dataclasses.asdict(hp),
            "corpus": checksums,
            "versions": current_versions(),
        }
        if start == 0 and self.init_from:
            self._segment["init_from"] = os.path.abspath(self.init_from)

    def refuse_other_corpus(self, trained_on: Mapping[str, str], accept: bool) -> None:
        """Refuse a corpus that is not the one of the previous steps.

        Args:
          trained_on: the checksums recorded in the checkpoint; {}: the history decides.
          accept: only refuse another vocabulary.

        Raises:
          CorpusVocabularyMismatch: the vocabulary is another one.
          CorpusChanged: the text is another one.
        """
        checksums = self._segment["corpus"]
        data = self._segment["settings"]["data"]
        changed = [
            name
            for name, checksum in checksums.items()
            if trained_on.get(name, checksum) != checksum
        ]
        changed = changed or self._list_changed("corpus")
        vocabularies = itertools.chain(*FILE_NAMES)
        if changed and not set(changed).isdisjoint(vocabularies):
            raise CorpusVocabularyMismatch(
                f"data: expected the vocabulary of {self._logdir}, got another one in "
                f"{data}",
                data,
                self._logdir,
            )
        if changed and not accept:
            raise CorpusChanged(
                f"data: expected the corpus of the steps up to "
                f"{self._segment['step']}, got a different one in {data} "
                f"({', '.join(changed)} differ)",
                self._logdir,
            )

    def describe_changes(self) -> str:
        """Describe the changes since the previous segment in a line; "" for none."""
        texts = [
            f"{name} {self._previous(kind)[name]} -> {self._segment[kind][name]}"
            for kind in ("settings", "versions")
            for name in self._list_changed(kind)
            if name not in PATHS
        ]
        if self._list_changed("corpus"):
            texts.append("another corpus")
        if not texts:
            return ""
        text = f"changed at step {self._segment['step']}: {', '.join(texts)}"
        searches = [
            dev_search(settings)
            for settings in (self._previous("settings"), self._segment["settings"])
        ]
        if self._before and searches[0] != searches[1]:
            text += (
                "; dev scores of another search are not compared with the new ones, "
                "which alone decide on the best checkpoint and on patience"
            )
        return text

    def write(self) -> None:
        """Write the segments; add this one if it differs from the previous one."""
        kinds = ("settings", "corpus", "versions")
        is_new = any(self._previous(kind) != self._segment[kind] for kind in kinds)
        path = os.path.join(self._logdir, RUN)
        _write_rows(path, [*self._before, self._segment] if is_new else self._before)

    def _previous(self, kind: str) -> Dict[str, Any]:
        """Return an entry of the previous segment; {} if there is none."""
        return self._before[-1][kind] if self._before else {}

    def _list_changed(self, kind: str) -> List[str]:
        """List the names whose values differ from the previous segment."""
        previous = self._previous(kind)
        return [
            name
            for name, value in self._segment[kind].items()
            if name in previous and previous[name] != value
        ]


def read_run(logdir: str) -> List[Dict[str, Any]]:
    """Read the segments of a log directory; [] if none is recorded yet."""

    def is_segment(row):
        entries = [row[kind] for kind in ("settings", "corpus", "versions")]
        return type(row["step"]) is int and all(
            type(entry) is dict for entry in entries
        )

    path = os.path.join(logdir, RUN)
    return read_rows(path, is_segment, "the step, settings and corpus of a segment")


def read_init_from(segments: List[Dict[str, Any]]) -> Optional[str]:
    """Return the log directory that gave the first segment its weights, or None."""
    return segments[0].get("init_from") if segments else None


def current_versions() -> Dict[str, str]:
    """Return the versions of Python, TensorFlow and NumPy."""
    return {
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "numpy": np.__version__,
    }


def dev_hash(checksums: Dict[str, str]) -> str:
    """Compute a short hash of the dev set of a corpus from its checksums."""
    dev = sorted(item for item in checksums.items() if item[0].startswith("dev."))
    return files.short_hash(repr(dev))


def dev_search(settings: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the settings on which dev translations depend: name → value.

    Args:
      settings: name → value; a setting that an older version lacked has its default.
    """
    fields = {name: value for name, value in settings.items() if name in FIELDS}
    hp = HParams(**fields)
    return dict(search_settings(hp), decode_precision=hp.decode_precision)


class DevScores:
    """The evaluations of a training run: step, bleu, chrf, loss.

    Scores on another dev set, or of another search, stay in the file, but are never
    compared.

    Args:
      logdir: the log directory, which may have scores from earlier processes.
      start: the step from which training continues. Later scores come from a process
        that was stopped before its next checkpoint: they are dropped, and computed
        again.
      dev: from `dev_hash`. Rows without it count as scores on the same dev set.
      search: from `dev_search`; None: all searches are compared. In rows without a
        search, from an older version, it is the search of their segment.

    Raises:
      LogDirectoryError: the file in `logdir` is broken.
    """

    def __init__(
        self,
        logdir: str,
        start: int,
        dev: str = "",
        search: Optional[Dict[str, Any]] = None,
    ):
        self._path = os.path.join(logdir, DEV_SCORES)
        self._conditions: Dict[str, Any] = {}
        if dev:
            self._conditions["dev"] = dev
        if search:
            self._conditions["search"] = search
        segments = read_run(logdir)
        self._all = [row for row in read_dev_scores(logdir) if row["step"] <= start]
        # The rows since the conditions changed last: the best checkpoint of before was
        # replaced when they changed.
        self._rows: List[Dict[str, Any]] = []
        for row in self._all:
            is_same = row.get("dev", dev) == dev and (
                not search or _search_of(row, segments, search) == search
            )
            self._rows = [*self._rows, row] if is_same else []

    def add(self, row: Dict[str, float]) -> None:
        """Append an evaluation; the file is complete at any time."""
        self._rows.append(row)
        self._all.append(dict(row, **self._conditions))
        _write_rows(self._path, self._all)

    def has(self, step: int) -> bool:
        """Return whether a step has been evaluated."""
        return any(row["step"] == step for row in self._rows)

    def rank_steps(self) -> List[int]:
        """Return the steps of the rows, best first; of equals, the first one first."""
        rows = sorted(self._rows, key=quality_key, reverse=True)
        return [int(row["step"]) for row in rows]

    def best(self) -> Optional[Dict[str, Any]]:
        """Return the best row, the first if tied; None without rows."""
        return max(self._rows, key=quality_key, default=None)

    def is_best(self, row: Dict[str, float]) -> bool:
        """Return whether an evaluation is better than all previous ones."""
        best = self.best()
        return best is None or quality_key(row) > quality_key(best)

    def evaluations_since_best(self) -> int:
        """Count the evaluations after the best one."""
        best = self.best()
        return len(self._rows) - 1 - self._rows.index(best) if best else 0


def rank_evaluated_steps(logdir: str) -> List[int]:
    """Return the steps with a dev score, best first.

    Only those since the dev set or the search changed last are compared.

    Raises:
      LogDirectoryError: as in DevScores.
    """
    rows = read_dev_scores(logdir)
    if not rows:
        return []
    newest = rows[-1]
    scores = DevScores(
        logdir, newest["step"], newest.get("dev", ""), newest.get("search")
    )
    return scores.rank_steps()


def _search_of(row, segments, default) -> Dict[str, Any]:
    """Return the search of an evaluation, or `default` if it is unknown."""
    if "search" in row:  # that of an older version lacks settings
        return {**{name: FIELDS[name].default for name in default}, **row["search"]}
    before = [segment for segment in segments if segment["step"] < row["step"]]
    return dev_search(before[-1]["settings"]) if before else default


def quality_key(row: Dict[str, Any]) -> Tuple[float, float]:
    """Return the key that ranks evaluations: BLEU; below MIN_BLEU, the dev loss."""
    if row["bleu"] < MIN_BLEU:
        return 0.0, -row.get("loss", math.inf)
    return row["bleu"], 0.0


def read_dev_scores(logdir: str) -> List[Dict[str, Any]]:
    """Read the dev scores of a log directory; [] if there are none yet.

    Raises:
      LogDirectoryError: a line is not an evaluation. A truncated last line is ignored.
    """

    def is_evaluation(row):
        return {type(row["step"]), type(row["bleu"])} <= {int, float}

    path = os.path.join(logdir, DEV_SCORES)
    return read_rows(path, is_evaluation, "the step and BLEU of an evaluation")


# --- What a run reports ---------------------------------------------------------------


class Meter:
    """Average the loss and the speed between two log lines, excluding pauses."""

    def __init__(self):
        self._seconds_before = 0.0
        self._seconds = 0.0
        self._restart()

    def _restart(self) -> None:
        self._seconds_before += self._seconds
        self._loss = 0.0
        self._tokens = 0.0
        self._seconds = 0.0
        self._since = time.monotonic()

    def add(self, loss: float, tokens: float) -> None:
        """Count an update.

        Args:
          loss: the mean loss, in nats per token. If it is not finite, float16 has
            skipped the update, which does not count.
          tokens: the number of target tokens, without padding.
        """
        if math.isfinite(loss):
            self._loss += loss * tokens
            self._tokens += tokens

    def pause(self) -> None:
        """Stop the clock, because what follows is not training."""
        self._seconds += time.monotonic() - self._since

    def resume(self) -> None:
        """Start the clock again."""
        self._since = time.monotonic()

    def minutes(self) -> float:
        """Return the training time of this process, up to the last pause or reading."""
        return (self._seconds_before + self._seconds) / 60

    def read(self) -> Tuple[float, float]:
        """Return (mean loss, tokens per second) since the last reading.

        The loss is NaN if every update was skipped.
        """
        self.pause()
        loss = self._loss / self._tokens if self._tokens else math.nan
        rate = self._tokens / self._seconds
        self._restart()
        return loss, rate


class Events:
    """Write scalars for TensorBoard, into a new file for each process.

    Args:
      logdir: the log directory.
      start: the step from which the process continues.
    """

    # Not a tf.summary.FileWriter: after a failed write, it silently drops later events.

    def __init__(self, logdir: str, start: int = 0):
        self._logdir = logdir
        self._writer: Any = None
        self._restart: Optional[int] = start + 1

    def write(self, step: int, values: Dict[str, float]) -> None:
        """Write the values of a step immediately; raise OSError if that fails."""
        summary = tf.Summary()
        for name, value in values.items():
            summary.value.add(tag=name, simple_value=value)
        try:
            if self._writer is None:
                name = f"{EVENTS}{time.time():.6f}.{socket.gethostname()}"
                self._writer = tf.io.TFRecordWriter(os.path.join(self._logdir, name))
                self._put(file_version="brain.Event:2")  # the format
            if self._restart is not None:
                # TensorBoard drops what an earlier process wrote from this step on.
                restarted = tf.SessionLog(status=tf.SessionLog.START)
                self._put(step=self._restart, session_log=restarted)
                self._restart = None
            self._put(step=step, summary=summary)
        # TensorFlow raises IndexError for "File too large".
        except (tf.errors.OpError, IndexError) as error:
            self._writer = None  # after half a record, the file is unreadable
            raise OSError(f"events could not be written: {error}") from error

    def _put(self, **fields) -> None:
        event = tf.Event(wall_time=time.time(), **fields)
        self._writer.write(event.SerializeToString())
        self._writer.flush()
