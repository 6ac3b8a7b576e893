"""A Translator that remembers its latest searches, so that the page repeats none.

The page asks for the translation of a text, and then for all that led to it: the second
request needs the same search.
"""

import collections
import threading
from typing import Optional, Sequence

import numpy as np

from transformer.decoding import NEVER, Hypotheses
from transformer.length_penalty import length_penalty
from transformer.text.vocabulary import PAD
from transformer.translation_graph import length_limit
from transformer.translator import Translator

MAX_SEARCHES = 512  # some 10 KB each


class RecentTranslator(Translator):
    """A Translator whose `search_line` repeats no recent search."""

    def _create(self, *args) -> None:
        super()._create(*args)
        self._recent: collections.OrderedDict = collections.OrderedDict()
        self._recent_lock = threading.Lock()

    def restore(self, path: str, member: int = 0) -> None:
        """Load a checkpoint; forget the searches with the one before."""
        with self._recent_lock:
            self._recent.clear()
        super().restore(path, member)

    def search(self, sources, prefixes=()):
        """Search as Translator does, and remember the results."""
        for indices, hypotheses in super().search(sources, prefixes):
            for row, i in enumerate(indices):
                prefix = prefixes[i] if prefixes else ()
                self._remember(sources[i], prefix, take_line(hypotheses, row))
            yield indices, hypotheses

    def search_line(
        self, source: Sequence[int], prefix: Sequence[int] = ()
    ) -> Hypotheses:
        """Return the Hypotheses of one line, of the latest search if it is recent."""
        recent = self.find_recent(source, prefix)
        return recent or super().search_line(source, prefix)

    def find_recent(
        self, source: Sequence[int], prefix: Sequence[int] = ()
    ) -> Optional[Hypotheses]:
        """Return the Hypotheses of one line if its search is recent, otherwise None."""
        with self._recent_lock:
            return self._recent.get((tuple(source), tuple(prefix)))

    def _remember(self, source, prefix, hypotheses):
        if hypotheses.history:
            limit = length_limit(self.hp, len(source), len(prefix)) - self.hp.keep_open
            steps = self._count_steps(hypotheses, limit + 1)
            history = [field[:, :, :steps] for field in hypotheses.history]
            hypotheses = hypotheses._replace(history=type(hypotheses.history)(*history))
        with self._recent_lock:
            key = tuple(source), tuple(prefix)
            self._recent[key] = hypotheses
            self._recent.move_to_end(key)
            while len(self._recent) > MAX_SEARCHES:
                self._recent.popitem(last=False)

    def _count_steps(self, hypotheses, limit):
        """Count the steps that a search takes for this line alone; see `beam_search`.

        In a batch, a sentence may have more steps after it is done.

        Args:
          hypotheses: Hypotheses of one line.
          limit: the largest number of pieces, with EOS.
        """
        pieces, _, log_probs, scores, survivors = (x[0] for x in hypotheses.history)
        eos = self.vocabularies.target.eos
        hp = self.hp
        largest = length_penalty(limit, hp.length_penalty, hp.length_penalty_form)
        finished = [NEVER] * self.n_best
        for step in range(pieces.shape[1]):
            if (pieces[:, step] == PAD).all():
                return step
            ends = (pieces[:, step] == eos) & (log_probs[:, step] > NEVER)
            finished = sorted([*finished, *scores[ends, step]])[-self.n_best :]
            best = log_probs[survivors[0, step], step]
            if np.float32(best) / np.float32(largest) <= finished[0]:
                return step + 1
        return pieces.shape[1]


def take_line(hypotheses: Hypotheses, row: int) -> Hypotheses:
    """Copy the Hypotheses of one line of a batch."""

    def take(values):
        return np.array(values[row : row + 1])

    history = hypotheses.history
    if history:
        history = type(history)(*map(take, history))
    return Hypotheses(take(hypotheses.ids), take(hypotheses.scores), history)
