"""Sentences with references: their translations, each with its score.

The page lists them, the worst first. A translation is computed when it is first asked
for, and kept: a Model has one checkpoint.
"""

import contextlib
import threading
from typing import Any, Dict, List, Optional, Sequence

from sacrebleu.metrics import CHRF

from transformer.text.data_folder import ParallelText, read_parallel

MAX_SENTENCES = 3000  # the first ones of a longer text
BATCH_SIZE = 16  # of an answer: other requests wait for no more than these


def read_references(
    data: str, paths: Optional[Sequence[str]] = None
) -> Optional[ParallelText]:
    """Return the ParallelText of two files, or of the test or dev split, or None.

    Args:
      data: the data folder, which may be missing.
      paths: the source file and the reference file, or None.

    Raises:
      CorpusError, OSError: the files that `paths` names cannot be read.
    """
    if paths:
        return read_parallel(data, "", paths)
    for split in ("test", "dev"):
        with contextlib.suppress(ValueError, OSError):
            return read_parallel(data, split)
    return None


class TestSentences:
    """The translations of a text with references, by one checkpoint.

    Args:
      text: the ParallelText; None: there are no references.
      translator: a Translator.
    """

    __test__ = False  # not a test of pytest

    def __init__(self, text: Optional[ParallelText], translator):
        self.name = text.name if text else ""
        self.total = min(len(text.sources), MAX_SENTENCES) if text else 0
        self._text: Any = text
        self._translator = translator
        self._translations: Dict[int, str] = {}
        self._metric = CHRF()
        self._lock = threading.Lock()

    def translate(self, indices: Sequence[int]) -> List[Dict[str, Any]]:
        """Return sentences, each with its reference, its translation and its chrF.

        Args:
          indices: which sentences; each is translated once.
        """
        with self._lock:
            missing = [i for i in indices if i not in self._translations]
            lines = [self._text.sources[i] for i in missing]
            for i, [best, *_] in zip(missing, self._translator.translate(lines)):
                self._translations[i] = best.text
        return [self._score(i) for i in indices]

    def _score(self, index):
        reference = self._text.references[index]
        translation = self._translations[index]
        chrf = self._metric.sentence_score(translation, [reference]).score
        return {
            "source": self._text.sources[index],
            "reference": reference,
            "translation": translation,
            "chrf": round(chrf, 2),
        }
