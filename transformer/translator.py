"""Translation: a log directory and lines of text → translations."""

import collections
import functools
import warnings
from typing import Any, Callable, Iterator, List, NamedTuple, Sequence, Tuple, Union

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.data import make_batch, pad, pad_with_end
from transformer.decoding import RANDOM, SEARCHES, SearchOptions, hypotheses_kept
from transformer.ensemble import members_of
from transformer.ranking import NEVER
from transformer.runtime import checkpoints, ram, tensors
from transformer.runtime.cli import refuse_unknown
from transformer.runtime.devices import device_names
from transformer.runtime.sessions import (
    batches_at_once,
    run_at_once,
    sessions_of,
    set_up_process,
)
from transformer.text.vocabulary import PAD, UNK
from transformer.translation_graph import Inside, TranslationGraph

# A batch holds `decode_batch_size` sentences of so many pieces, and fewer longer ones:
# the memory of attention grows with the square of their length.
FULL_LENGTH = 64


class Translation(NamedTuple):
    """One translation of one line."""

    text: str
    score: float  # log-probability / length penalty, in nats


class Translator:
    """A graph, a session and a checkpoint of a log directory.

        tf.disable_eager_execution()  # once, as every command does
        with Translator(hp, "logs/sample") as translator:
            translator.restore()
            [[best]] = translator.translate(["Der Hund schläft."])

    Args:
      hp: the settings, of the model and of the search.
      logdir: the log directory; its vocabulary and checkpoints are read.
      n_best: how many translations of a line are wanted.
      keep_history: whether `search` returns the SearchHistory of a beam search.
      others: (settings, log directory) of models that translate together with it: the
        probabilities of all are averaged. How to search is said by `hp`.

    Raises:
      ValueError: the search is unknown, or keeps fewer than `n_best`; or the models do
        not share their vocabularies.
    """

    def __init__(
        self,
        hp,
        logdir: str,
        n_best: int = 1,
        keep_history: bool = False,
        others: Sequence[Tuple[Any, str]] = (),
    ):
        self.hp, self.logdir = hp, logdir
        self._members = members_of([(hp, logdir), *others])
        self.vocabularies = self._members[0].vocabularies
        self.checkpoints = [""] * len(self._members)  # those that are loaded
        for member in self._members:
            ram.refuse_too_large(member.hp)
        self.oddities = collections.Counter()  # how many source lines were odd, and how
        refuse_unknown("search", hp.search, SEARCHES)
        most = hypotheses_kept(hp.search, hp.beam_size)
        if not 1 <= n_best <= most:
            raise ValueError(
                f"n_best: found {n_best}, wanted 1 to {most}: search "
                f"{hp.search} finds no more"
            )
        ends = self.vocabularies.target
        forbidden = {PAD, ends.bos} - {ends.eos}
        self._options = SearchOptions(
            hp.beam_size,
            hp.length_penalty,
            n_best,
            bos=ends.bos,
            eos=ends.eos,
            forbidden=tuple(sorted(forbidden)),
            keep_history=keep_history,
        )
        names = device_names(hp.devices)[: 1 if hp.search in RANDOM else None]
        set_up_process(hp)
        with tf.Graph().as_default() as graph, tf.device(names[0]):
            tf.set_random_seed(hp.seed)  # `deterministic` asks for one in every graph
            self._ops = TranslationGraph(self._members, self._options)
            self._at_once = 1 if hp.search in RANDOM else batches_at_once(hp)
            self._sessions = sessions_of(hp, graph, names, self._at_once)
            self._session = self._sessions[0]

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        for session in self._sessions:
            session.close()

    def restore(self, checkpoint: str = "", number: int = 0) -> str:
        """Load a checkpoint, the best one if none is given; return its path.

        Args:
          checkpoint: the path without the endings of its files.
          number: which model it is of, where several translate together.
        """
        if not checkpoint:
            return self.restore_found()
        saver, scope = self._ops.savers[number], self._members[number].scope
        for session in self._sessions:
            tensors.restore(session, saver, checkpoint, scope)
        self.checkpoints[number] = checkpoint
        return checkpoint

    def restore_found(
        self,
        which: Union[str, int] = "best",
        warn: Callable[[str], None] = warnings.warn,
    ) -> str:
        """Load the checkpoint that `checkpoints.find` finds; return its path.

        Of several models, one of each; the path is that of the first.
        """
        for number, member in enumerate(self._members):
            restore = functools.partial(self.restore, number=number)
            checkpoints.find_and_load(member.logdir, restore, which, warn)
        return self.checkpoints[0]

    def translate(
        self, lines: List[str], prefix: Sequence[Union[str, Sequence[int]]] = ()
    ) -> List[List[Translation]]:
        """Translate lines, each independently of the others.

        Args:
          lines: sentences; one without a piece gets an empty translation, and one with
            more than `max_source_length` pieces is cut off there.
          prefix: what the translation of each line begins with, as text or as ids of
            pieces: the search continues it. Empty: nothing is given.

        Returns:
          For each line its n best translations, best first.

        Raises:
          ValueError: not as many prefixes as lines, or with ids that are no pieces.
        """
        translations = [[Translation("", 0.0)] * self._options.n_best for _ in lines]
        sources, prefixes = self.encode(lines), self.encode_prefixes(prefix, lines)
        for indices, found in self.search(sources, prefixes):
            for i, *n_best in zip(indices, found.ids, found.scores):
                translations[i] = [
                    self.translation(ids, score)
                    for ids, score in zip(*n_best)
                    if score > NEVER
                ]
        return translations

    def encode(self, lines: Sequence[str]) -> List[List[int]]:
        """Return the ids of source lines, cut off where too long; count odd lines."""
        most = self.hp.max_source_length
        sources = self.vocabularies.source.encode_lines(lines)
        self.oddities.update(
            {
                "empty": sum(not ids for ids in sources),
                "with unknown pieces": sum(UNK in ids for ids in sources),
                f"cut at {most:,} pieces": sum(len(ids) > most for ids in sources),
            }
        )
        return [ids[:most] for ids in sources]

    def encode_prefixes(self, prefixes, lines):
        """Return the ids of the beginnings of translations, [] where none is given."""
        if not prefixes:
            return []
        if len(prefixes) != len(lines):
            raise ValueError(
                f"prefix: found {len(prefixes)} prefixes and {len(lines)} lines, "
                "wanted as many of both"
            )
        target = self.vocabularies.target
        ids = [
            target.encode(each) if isinstance(each, str) else list(each)
            for each in prefixes
        ]
        refused = (PAD, target.bos, target.eos)
        for each in ids:
            wrong = [one for one in each if one in refused or not 0 < one < target.size]
            if wrong:
                raise ValueError(
                    f"prefix: found the id {wrong[0]}, wanted ids of pieces below "
                    f"{target.size:,}, without padding, beginning or end"
                )
        return ids

    def search(self, sources, prefixes=()):
        """Yield what the search finds: (the numbers of some lines, their Hypotheses).

        Args:
          sources: for each line its ids, without EOS; one without any is left out.
          prefixes: as many lists of ids that translations begin with, or none at all.
        """
        batches = list(self._batches([len(source) for source in sources]))
        feeds = []
        for indices in batches:
            ids = pad_with_end([sources[i] for i in indices], self._options.eos)
            feeds.append({self._ops.source: ids})
            if prefixes:
                feeds[-1][self._ops.prefix] = pad([prefixes[i] for i in indices])
        for indices, found in zip(
            batches, run_at_once(self._sessions, self._ops.found, feeds, self._at_once)
        ):
            self._refuse_no_numbers(found.scores[:, 0], found.scores)
            yield indices, found

    def _batches(self, lengths: Sequence[int]) -> Iterator[Sequence[int]]:
        """Yield batches of the numbers of lines that have a piece, longest first."""
        order = [i for i in np.argsort(lengths, kind="stable")[::-1] if lengths[i]]
        most, start = self.hp.decode_batch_size, 0
        while start < len(order):
            fitting = most * FULL_LENGTH // lengths[order[start]]
            end = start + min(most, max(1, fitting))
            yield order[start:end]
            start = end

    def _refuse_no_numbers(self, best, scores):
        """Raise FloatingPointError for scores that no finite weights give.

        Args:
          best: of each line, finite.
          scores: all; those of hypotheses that were not found are NEVER.
        """
        if not np.isfinite(best).all() or np.isnan(scores).any():
            raise FloatingPointError(
                f"{' + '.join(self.checkpoints)}: found translations whose scores are "
                "no numbers, wanted finite ones: the weights are damaged, or training "
                "diverged; choose another --checkpoint, or train again with a lower "
                "--learning_rate"
            )

    def translation(self, ids, score):
        """Return one translation, on one line whatever the pieces contain."""
        text = " ".join(self.vocabularies.target.decode(ids).splitlines())
        return Translation(text, float(score))

    def inside(self, sources, targets, pick: Callable[[Inside], Any]):
        """Return what the model computes of given translations, all in one batch.

        Args:
          sources, targets: as many lists of ids each, without BOS and EOS.
          pick: function of Inside that returns what is wanted of it: a nest of tensors.
        """
        batch = make_batch(sources, targets, 0, self._options.bos, self._options.eos)
        return self._session.run(pick(self._ops.inside), self._feed(batch))

    def in_batches(self, sources: Sequence[str], targets: Sequence[str]):
        """Yield (numbers of some lines, their source ids, their target ids).

        Args:
          sources: lines; one without a piece is left out, a long one is cut off. They
            are not counted as odd: `encode` does that.
          targets: as many lines, their translations.
        """
        most, (source, target, *_) = self.hp.max_source_length, self.vocabularies
        ids = [
            [each[:most] for each in source.encode_lines(sources)],
            target.encode_lines(targets),
        ]
        lengths = [len(s) and max(len(s), len(t)) for s, t in zip(*ids)]
        for indices in self._batches(lengths):
            yield (indices, *([side[i] for i in indices] for side in ids))

    def score(self, sources: List[str], targets: List[str]) -> List[float]:
        """Return the scores of given translations, as `translate` would score them.

        Args:
          sources: lines.
          targets: as many lines, their translations.

        Raises:
          ValueError: not as many of both.
        """
        if len(sources) != len(targets):
            raise ValueError(
                f"score: found {len(sources)} source and {len(targets)} "
                "target lines, wanted as many of both"
            )
        results = [0.0] * len(sources)
        for indices, *rows in self.in_batches(sources, targets):
            batch = make_batch(*rows, 0, self._options.bos, self._options.eos)
            scores = self._session.run(self._ops.scores, self._feed(batch))
            self._refuse_no_numbers(scores, scores)
            for i, score in zip(indices, scores):
                results[i] = float(score)
        return results

    def _feed(self, batch):
        """Return what the placeholders are fed: a Batch."""
        return {
            self._ops.source: batch.source,
            self._ops.target_in: batch.target_in,
            self._ops.target_out: batch.target_out,
        }
