"""run.jsonl: settings, corpus and versions of each segment of a training run.

`run.jsonl` of a log directory has a JSON object a line: a step, the settings from there
on, the checksums of the corpus and the vocabulary, the versions and the machine that it
ran on. A process that continues with all of them as before adds no line.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import platform
from typing import Any, Dict, List

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.runtime import files
from transformer.runtime.devices import cores
from transformer.runtime.reporting import read_rows

RUN = "run.jsonl"
PLACES = ("data",)  # settings that say where something is, not what


class RunHistory:
    """The segments before a step, and the one that begins there.

    Args:
      logdir: the log directory, which may have none yet.
      start: the step from which training continues. Later segments are dropped: of
        what they did, no checkpoint is left.
      hp: the settings.
      corpus: the checksum of each part of the corpus.

    Raises:
      ValueError: the file in `logdir` is broken.
    """

    def __init__(self, logdir: str, start: int, hp, corpus: Dict[str, str]):
        self._path = os.path.join(logdir, RUN)
        self._before = [row for row in read_run(logdir) if row["step"] < start]
        self._now = {
            "step": start,
            "settings": dataclasses.asdict(hp),
            "corpus": corpus,
            "versions": versions(),
            "machine": machine(),
        }

    def refuse_other_corpus(self) -> None:
        """Raise ValueError where the corpus is not that of the segment before."""
        parts = self._changed("corpus")
        if parts:
            raise ValueError(
                f"data: found another corpus in {self._now['settings']['data']} than "
                f"the one of the steps up to {self._now['step']} ({', '.join(parts)} "
                "differ), wanted the same; put it back, choose another --logdir, or "
                "continue with this one by --accept_changes"
            )

    def changes(self) -> str:
        """Return what changed since the segment before, in a line; "" for nothing."""
        texts = [
            f"{name} {self._last(kind)[name]} -> {self._now[kind][name]}"
            for kind in ("settings", "versions")
            for name in self._changed(kind)
            if name not in PLACES
        ]
        if self._changed("corpus"):
            texts.append("another corpus")
        return (
            f"changed at step {self._now['step']}: {', '.join(texts)}" if texts else ""
        )

    def write(self) -> None:
        """Write the segments, this one last if it differs from the one before."""
        kinds = ("settings", "corpus", "versions", "machine")
        is_new = any(self._last(kind) != self._now[kind] for kind in kinds)
        with files.replaced(self._path) as file:
            for row in self._before + [self._now] * is_new:
                file.write(json.dumps(row, sort_keys=True) + "\n")

    def _last(self, kind: str) -> Dict[str, Any]:
        """Return a part of the segment before; {} where it has none."""
        return self._before[-1].get(kind, {}) if self._before else {}

    def _changed(self, kind: str) -> List[str]:
        """Return the names whose values are not those of the segment before."""
        last, now = self._last(kind), self._now[kind]
        return [name for name in now if name in last and last[name] != now[name]]


def versions() -> Dict[str, str]:
    """Return the versions of what computes here."""
    return {
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "numpy": np.__version__,
    }


def machine() -> Dict[str, Any]:
    """Return what else decides the last bits of a sum: threads, processor."""
    threads = os.environ.get("TF_NUM_INTRAOP_THREADS", "")
    if not threads.isdigit() or not int(threads):
        threads = cores()
    return {"threads": int(threads), "processor": _processor()}


def _processor() -> str:
    """Return the name of the processor."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def read_run(logdir: str) -> List[Dict[str, Any]]:
    """Return the segments of a log directory; none where none is recorded yet."""

    def is_segment(row):
        parts = (row[kind] for kind in ("settings", "corpus", "versions"))
        return type(row["step"]) is int and all(type(part) is dict for part in parts)

    path = os.path.join(logdir, RUN)
    return read_rows(path, is_segment, "the step, settings and corpus of a segment")


def name_of_dev(corpus: Dict[str, str]) -> str:
    """Return a short name of the dev set among the parts of a corpus."""
    parts = sorted(item for item in corpus.items() if item[0].startswith("dev."))
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:8]
