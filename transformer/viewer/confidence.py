"""Calibration: how many of the words with a given probability are in the reference.

This is counted on the dev set once, and stored in `confidence.json` in the log
directory.
"""

import collections
import contextlib
import json
import os
from typing import Any, Dict, Generator, List, Optional

import numpy as np

from transformer.decoding import NEVER
from transformer.runtime import files
from transformer.text.words import tokens

FILE_NAME = "confidence.json"
EDGES = (0.0, 0.3, 0.5, 0.7, 0.9, 1.0)  # of the five shades that the page draws
MOST_LINES = 500
CHUNK = 32  # sentences in one part of the work done while no client waits


def read(logdir: str, checkpoint: str) -> Optional[Dict[str, Any]]:
    """Return the legend counted with a checkpoint; None if there is none.

    A damaged file, or a file for another checkpoint, is ignored.

    Args:
      logdir: the log directory.
      checkpoint: the path of the checkpoint.
    """
    try:
        with open(os.path.join(logdir, FILE_NAME), "rb") as file:
            kept = json.loads(file.read(1 << 16).decode("utf-8"))
        legend = kept[os.path.basename(checkpoint)]
        shades = [
            [float(low), float(high), int(words), int(found)]
            for low, high, words, found in legend["shades"]
        ]
        return {"lines": int(legend["lines"]), "shades": shades}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def count(
    translator, sources: List[str], references: List[str]
) -> Generator[None, None, Dict[str, Any]]:
    """Yield while counting; return the legend, as `read` does.

    Args:
      translator: a Translator.
      sources: lines.
      references: the reference of each line.
    """
    sources = sources[:MOST_LINES]
    references = references[:MOST_LINES]
    words, found = np.zeros([2, len(EDGES) - 1], int)
    for start in range(0, len(sources), CHUNK):
        ids = translator.encode(sources[start : start + CHUNK])
        for i, sure in _words(translator, ids):
            left = collections.Counter(references[start + i].split())
            for word, probability in sure:
                shade = np.searchsorted(EDGES[1:-1], probability, "right")
                words[shade] += 1
                found[shade] += left[word] > 0
                left[word] -= 1
        yield
    shades = zip(EDGES, EDGES[1:], words.tolist(), found.tolist())
    return {"lines": len(sources), "shades": [list(each) for each in shades]}


def write(logdir: str, checkpoint: str, legend: Dict[str, Any]) -> None:
    """Store a legend in the log directory, if the file can be written."""
    with contextlib.suppress(OSError):
        with files.replaced(os.path.join(logdir, FILE_NAME)) as file:
            json.dump({os.path.basename(checkpoint): legend}, file)


def _words(translator, sources):
    """Yield (line number, [(word, probability)] of the translation)."""
    vocabulary = translator.vocabularies.target
    for indices, found in translator.search(sources):
        targets = [vocabulary.before_end(row) for row in found.ids[:, 0]]
        rows = [sources[i] for i in indices]
        log_probs = translator.inspect(rows, targets, lambda inside: inside.of_target)
        for i, target, row, score in zip(indices, targets, log_probs, found.scores):
            if target and score[0] > NEVER:
                made = tokens(vocabulary, target)
                sure = [np.exp(row[begin:end].sum()) for begin, end in made.spans]
                yield i, list(zip(made.words, sure))
