"""Translation: a log directory and lines of text → translations.

Several log directories can translate together as an ensemble: see
`translation_graph.py`.

    from transformer import Translator

    with Translator("logs/sample") as translator:
        [[best]] = translator.translate(["Der Hund schläft."])

With `engine="ctranslate2"`, `translate` runs on CTranslate2: see
`exports/ctranslate2.py`.
"""

import contextlib
import functools
import itertools
import os
import threading
import warnings
from typing import (
    Any,
    Callable,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Union,
)

import numpy as np
import tensorflow.compat.v1 as tf

from transformer import alignment
from transformer.decoding import NEVER, SEARCHES, Hypotheses
from transformer.exports.ctranslate2 import (
    CTRANSLATE2,
    ENGINES,
    QUANTIZATIONS,
    TENSORFLOW,
    FastTranslator,
    choose_engine,
    find_or_export,
)
from transformer.hparams import (
    DECODING,
    HParams,
    check_types,
    load_each,
    refuse_n_best,
    validate,
)
from transformer.logdir import checkpoints
from transformer.runtime.devices import count_cores
from transformer.runtime.errors import SettingsError, WeightsNotFinite
from transformer.runtime.names import refuse_unknown
from transformer.runtime.progress import format_count
from transformer.runtime.sessions import (
    ThreadPools,
    count_concurrent_batches,
    make_session,
    run_concurrently,
    set_up_process,
)
from transformer.text.batches import make_batch, pad, pad_with_end
from transformer.text.translations import BaseTranslator, Translation, as_lines
from transformer.text.vocabulary import PAD
from transformer.translation_graph import (
    Inspection,
    ProbedOps,
    TranslationGraph,
    length_limit,
    load_members,
    make_search_options,
)

# A batch holds at most `decode_batch_size` times this many pieces, but at least one
# sentence. If sentences are longer, it holds fewer of them.
FULL_LENGTH = 64


class PairBatch(NamedTuple):
    """A batch of lines with given translations."""

    indices: Sequence[int]  # of the lines
    sources: List[List[int]]  # ids of each line, without BOS and EOS
    targets: List[List[int]]


class Translator(BaseTranslator):
    """Translates with a checkpoint of a log directory; owns a graph and a session.

        with Translator("logs/sample", beam_size=1) as translator:
            [[best]] = translator.translate(["Der Hund schläft."])

    It works with eager execution on or off, alongside other graphs and Translators, and
    several threads may use it at once. In a fork of its process it raises EngineError,
    because a fork has none of its threads; processes that are started with the method
    "spawn" open a Translator each. It sets four things for the whole process:

    * `deterministic=True`: one thread, and deterministic kernels.
    * TF_FORCE_GPU_ALLOW_GROWTH, unless it is set: TensorFlow takes only as much GPU
      memory as it needs.
    * TF_OVERRIDE_GLOBAL_THREADPOOL, unless it is set: each session has its own threads.
    * ONEDNN_MAX_CPU_ISA, unless it is set, where AMX is broken: see
      `runtime.devices.avoid_broken_amx`.

    Args:
      logdirs: a log directory, or several that translate together. The search uses the
        settings of the first.
      n_best: the largest number of translations of each line.
      keep_history: whether `search` returns the SearchHistory of a beam search.
      checkpoint: which one to load: "best", "newest" or a step.
      engine: "ctranslate2" for the fast engine, which only `translate` uses. Prefixes,
        alignments, the other methods, and whatever `choose_engine` refuses run on
        TensorFlow.
      quantization: for the fast engine: "float32" or "int8".
      warn: function of a text; called for each broken checkpoint that is skipped, and
        if the fast engine cannot be used.
      overrides: settings of the search that replace the saved ones, such as
        `beam_size=1`.

    Raises:
      SettingsError: a setting or the search is unknown, or the search keeps fewer than
        `n_best` hypotheses.
      VocabularyError: a vocabulary is missing, or the models have different ones.
      CheckpointError: a checkpoint is missing or broken.
      EngineError: the export for the fast engine cannot be made.
    """

    def __init__(
        self,
        logdirs: Union[str, "os.PathLike[str]", Sequence[str]],
        n_best: int = 1,
        keep_history: bool = False,
        checkpoint: Union[str, int] = "best",
        engine: str = TENSORFLOW,
        quantization: str = QUANTIZATIONS[0],
        warn: Callable[[str], None] = warnings.warn,
        **overrides: Any,
    ):
        if isinstance(logdirs, HParams):
            raise SettingsError(
                "Translator: expected a log directory, got settings: write "
                "Translator.for_settings(hp, logdir)"
            )
        for name in overrides:
            refuse_unknown("search setting", name, DECODING)
        overrides = check_types(overrides, "Translator")
        overrides.setdefault("deterministic", False)  # applies to the process
        if isinstance(logdirs, (str, os.PathLike)):
            logdirs = [os.fspath(logdirs)]
        models = load_each([os.fspath(logdir) for logdir in logdirs], overrides)
        self._create(models, n_best, keep_history, engine, quantization, warn)
        self.find_and_restore(checkpoint)

    @classmethod
    def for_settings(
        cls,
        hp: HParams,
        logdir: str,
        n_best: int = 1,
        keep_history: bool = False,
        other_models: Sequence[Tuple[HParams, str]] = (),
        engine: str = TENSORFLOW,
        quantization: str = QUANTIZATIONS[0],
        warn: Callable[[str], None] = warnings.warn,
    ) -> "Translator":
        """Create a Translator from settings, before it has loaded a checkpoint.

        Training uses it: there may be no checkpoint yet. Call `find_and_restore` to
        load one.

        Args:
          hp: the settings of the model and of the search.
          logdir: the log directory with the vocabulary and the checkpoints.
          n_best, keep_history, engine, quantization, warn: as in Translator.
          other_models: (settings, log directory) of the others in an ensemble.

        Raises:
          SettingsError, VocabularyError: as in Translator.
        """
        validate(hp)
        translator = cls.__new__(cls)
        models = [(hp, logdir), *other_models]
        translator._create(models, n_best, keep_history, engine, quantization, warn)
        return translator

    def _create(
        self,
        models: Sequence[Tuple[HParams, str]],
        n_best: int,
        keep_history: bool,
        engine: str,
        quantization: str,
        warn: Callable[[str], None],
    ) -> None:
        """Check the settings; create the graph and the session."""
        refuse_unknown("engine", engine, ENGINES)
        refuse_unknown("quantization", quantization, QUANTIZATIONS)
        self.hp, self.logdir = hp, _ = models[0]
        self._members = load_members(models)
        super().__init__(self._members[0].vocabularies, hp.max_source_length)
        refuse_unknown("search", hp.search, SEARCHES)
        refuse_n_best(n_best, hp)
        needs = {"ensembles": len(models) > 1}
        self.engine = choose_engine(engine, quantization, hp, warn, needs)
        self.n_best = n_best
        self.checkpoints = [""] * len(self._members)  # the loaded ones
        self._warn = warn
        self._quantization = quantization
        self._fast: Optional[FastTranslator] = None
        options = make_search_options(hp, self.vocabularies, n_best, keep_history)
        set_up_process(hp.deterministic)
        with tf.Graph().as_default() as graph:
            tf.set_random_seed(hp.seed)  # `deterministic` needs a seed in every graph
            self._ops = TranslationGraph(self._members, options)
        self._pools = ThreadPools(count_concurrent_batches(hp.deterministic))
        self._line_count = 0  # lines that were translated with this checkpoint
        self._lock = threading.Lock()
        self._session = make_session(
            graph,
            deterministic=hp.deterministic,
            concurrent_runs=self._pools.count,
            sequential=hp.decode_batch_size == 1,
            optimize_graph=False,
        )

    def __enter__(self) -> "Translator":
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    def close(self) -> None:
        """Close the session; afterwards, this object cannot translate."""
        self._close_fast()
        self._session.close()

    @property
    def concurrent_batches(self) -> int:
        """The number of batches translated at once: on a CPU, one for each core."""
        return count_cores() if self.engine == CTRANSLATE2 else self._pools.count

    # Checkpoints

    def restore(self, path: str, member: int = 0) -> None:
        """Load a checkpoint.

        Args:
          path: the path of the checkpoint, without file extensions.
          member: the index of its model in an ensemble.
        """
        saver = self._ops.savers[member]
        scope = self._members[member].scope
        with self._session.graph.as_default():  # a Saver checks whether this is eager
            checkpoints.restore(self._session, saver, path, scope)
        self.checkpoints[member] = path
        self._line_count = 0
        if self.engine == CTRANSLATE2:
            self._open_fast(path)

    def find_and_restore(self, which: Union[str, int] = "best") -> str:
        """Find a checkpoint of the log directory and load it; return its path.

        An ensemble loads a checkpoint for each model, and returns the path of the
        first.

        Args:
          which: "best", "newest" or a step.
        """
        for i, member in enumerate(self._members):
            restore = functools.partial(self.restore, member=i)
            checkpoints.find_and_load(member.logdir, restore, which, self._warn)
        return self.checkpoints[0]

    def _open_fast(self, checkpoint: str) -> None:
        """Open the export of a checkpoint; without one, continue with TensorFlow."""
        self._close_fast()
        unusual_lines = self.unusual_lines.copy()
        folder = find_or_export(
            self.hp, checkpoint, self._quantization, self._search_lines, self._warn
        )
        self.unusual_lines = unusual_lines  # the lines of the comparison do not count
        if folder is None:
            self.engine = TENSORFLOW
            return
        self._fast = FastTranslator(folder, self.hp, self.n_best)
        self._fast.unusual_lines = self.unusual_lines

    def _close_fast(self) -> None:
        """Close the model of the fast engine, if one is open."""
        if self._fast:
            self._fast.close()
            self._fast = None

    # Translation

    def translate(
        self,
        lines: Iterable[str],
        prefix: Iterable[Union[str, Sequence[int]]] = (),
        alignments: bool = False,
        all_cores: bool = True,
    ) -> List[List[Translation]]:
        """Translate lines, each independently of the other lines.

        With `search="sample"`, a translation depends on the seed and on the number of
        its line, counted from the last `restore`; so a second call gives other samples.

        Args:
          lines: sentences. A line without pieces gets an empty translation; a line with
            more than `max_source_length` pieces is truncated.
          prefix: the beginning of each translation, as text or as ids, which the search
            continues. Empty: no prefixes.
          alignments: whether translations get an `alignment`. It is read from the head
            that was chosen for the checkpoint, otherwise from the mean of a layer; see
            `alignment.py`.
          all_cores: for the fast engine, see `FastTranslator.translate`.

        Returns:
          For each line, up to n_best translations, best first.

        Raises:
          ValueError: `lines` or `prefix` is a string; the numbers of prefixes and lines
            differ, or an id is not a piece.
        """
        lines = as_lines(lines)
        if isinstance(prefix, str):
            raise SettingsError(
                f"prefix: expected a list, one prefix for each line, got {prefix!r:.60}"
                "; for a single line, write [prefix]"
            )
        prefixes = list(prefix)
        if self._fast and not prefixes:
            translations = self._fast.translate(lines, all_cores)
        else:
            translations = self._search_lines(lines, prefixes)
        return self._add_alignments(lines, translations) if alignments else translations

    def start_at(self, line_number: int) -> None:
        """Number the lines to come, for a search that draws random numbers.

        Args:
          line_number: of the next line, counted from 0.
        """
        with self._lock:
            self._line_count = line_number

    def _search_lines(
        self, lines: Sequence[str], prefixes: Sequence[Union[str, Sequence[int]]] = ()
    ) -> List[List[Translation]]:
        """Translate lines with TensorFlow."""
        translations = [[Translation("", 0.0)] * self.n_best for _ in lines]
        sources = self.encode(lines)
        prefix_ids = self.encode_prefixes(prefixes, lines) if prefixes else []
        for indices, hypotheses in self.search(sources, prefix_ids):
            for i, n_best, scores in zip(indices, hypotheses.ids, hypotheses.scores):
                num_prefix = len(prefix_ids[i]) if prefix_ids else 0
                limit = length_limit(self.hp, len(sources[i]), num_prefix)
                translations[i] = [
                    self.translation(ids, score, limit)
                    for ids, score in zip(n_best, scores)
                    if score > NEVER
                ]
        self.count_truncated(translations)
        return translations

    def encode_prefixes(
        self,
        prefixes: Sequence[Union[str, Sequence[int]]],
        lines: Sequence[str],
        name: str = "prefix",
    ) -> List[List[int]]:
        """Encode the beginnings of translations, and check them.

        Args:
          prefixes: a text, or a list of ids, for each line.
          lines: the lines that they are for.
          name: what an error calls them.
        """
        if len(prefixes) != len(lines):
            raise SettingsError(
                "prefix: expected as many prefixes as lines, "
                f"{len(lines):,}, got {len(prefixes):,}"
            )
        target = self.vocabularies.target
        ids = [
            target.encode(as_lines([prefix])[0])
            if isinstance(prefix, str)
            else _as_ids(prefix)
            for prefix in prefixes
        ]
        special = (PAD, target.bos, target.eos)
        for piece in itertools.chain(*ids):
            if piece in special or not 0 < piece < target.size:
                raise SettingsError(
                    f"{name}: expected ids of pieces below {target.size:,}, without "
                    f"padding, beginning or end, got {piece}"
                )
        return ids

    def search(
        self, sources: Sequence[Sequence[int]], prefixes: Sequence[Sequence[int]] = ()
    ) -> Iterator[Tuple[Sequence[int], Hypotheses]]:
        """Search in batches: yield (indices of lines, their Hypotheses).

        Args:
          sources: the ids of each line, without EOS; empty lines are left out.
          prefixes: the ids of the prefix of each line, or no prefixes at all.
        """
        batches = list(self._batches([len(source) for source in sources]))
        with self._lock:
            first = self._line_count
            self._line_count += len(sources)
        feeds = []
        for indices in batches:
            ids = pad_with_end(
                [sources[i] for i in indices], self.vocabularies.target.eos
            )
            line_numbers = [first + int(i) for i in indices]
            feed = {self._ops.source: ids, self._ops.line_numbers: line_numbers}
            if prefixes:
                feed[self._ops.prefix] = pad([prefixes[i] for i in indices])
            feeds.append(feed)
        results = run_concurrently(
            self._session, self._ops.hypotheses, feeds, self._pools
        )
        for indices, hypotheses in zip(batches, results):
            self._check_finite(hypotheses.scores)
            yield indices, hypotheses

    def search_line(
        self, source: Sequence[int], prefix: Sequence[int] = ()
    ) -> Hypotheses:
        """Return the Hypotheses of one line.

        Args:
          source: the ids of the line, without EOS; at least one.
          prefix: the ids of its prefix.
        """
        [(_, hypotheses)] = self.search([source], [prefix])
        return hypotheses

    def _batches(self, lengths: Sequence[int]) -> Iterator[Sequence[int]]:
        """Yield batches of the indices of lines with pieces, the longest first."""
        order = [i for i in np.argsort(lengths, kind="stable")[::-1] if lengths[i]]
        batch_size = self.hp.decode_batch_size
        start = 0
        while start < len(order):
            num_fitting = batch_size * FULL_LENGTH // lengths[order[start]]
            end = start + min(batch_size, max(1, num_fitting))
            yield order[start:end]
            start = end

    def _check_finite(self, scores: np.ndarray) -> None:
        """Raise WeightsNotFinite for scores that only damaged weights can give.

        Args:
          scores: float [N, n_best]. The first of a line must be finite; the others may
            be NEVER, for hypotheses that were not found.
        """
        if np.isfinite(scores[:, 0]).all() and not np.isnan(scores).any():
            return
        rules = [
            name for name in ("min_length", "no_repeat_ngram") if getattr(self.hp, name)
        ]
        unmet = f"no translation meets {' and '.join(rules)}, or " if rules else ""
        raise WeightsNotFinite(
            f"{' + '.join(self.checkpoints)}: expected translations with finite "
            f"scores, got NaN or infinity: {unmet}the weights are damaged, or training "
            "diverged"
        )

    # Forced decoding: the model reads given translations

    def inspect(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        pick: Callable[[Inspection], Any],
    ) -> Any:
        """Force the decoder to given translations, and read its tensors, as one batch.

        Args:
          sources, targets: the ids of each line, without BOS and EOS.
          pick: function of an Inspection that returns a nest of some of its tensors.

        Returns:
          The values of these tensors.
        """
        target = self.vocabularies.target
        batch = make_batch(sources, targets, 0, target.bos, target.eos)
        feed = {
            self._ops.source: batch.source,
            self._ops.target_in: batch.target_in,
            self._ops.target_out: batch.target_out,
        }
        return self._pools.run(self._session, pick(self._ops.inspection()), feed)

    def probe(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        pick: Callable[[ProbedOps], Any],
        heads_off: Sequence[Sequence[Tuple[str, int]]] = (),
        prefixes: Sequence[Sequence[int]] = (),
    ) -> Any:
        """Translate as one batch with attention heads switched off; read the tensors.

        Args:
          sources, targets: as in `inspect`; a search does not need the targets.
          pick: function of ProbedOps that returns a nest of some of its tensors.
          heads_off: the (scope name, index) of each head of a line that is off; empty:
            all heads are on.
          prefixes: the ids of the prefix of each line, for a search; or no prefixes.

        Returns:
          The values of these tensors.

        Raises:
          EngineError: this is an ensemble.
        """
        ops = self._ops.probe()
        target = self.vocabularies.target
        batch = make_batch(sources, targets, 0, target.bos, target.eos)
        feed = {
            self._ops.source: batch.source,
            self._ops.target_in: batch.target_in,
            self._ops.target_out: batch.target_out,
            self._ops.line_numbers: range(len(sources)),
        }
        if prefixes:
            feed[self._ops.prefix] = pad(prefixes)
        for row, heads in enumerate(heads_off):
            for scope, head in heads:
                shape = [len(sources), self.hp.num_heads]
                mask = feed.setdefault(ops.head_masks[scope], np.ones(shape))
                mask[row, head] = 0
        return self._pools.run(self._session, pick(ops), feed)

    def pair_batches(
        self, sources: Sequence[str], targets: Sequence[str]
    ) -> Iterator[PairBatch]:
        """Yield lines and their translations in batches.

        Args:
          sources: lines. Lines without pieces are left out, and long lines are
            truncated. Unlike `encode`, this does not count them.
          targets: the translation of each line.
        """
        max_length = self.hp.max_source_length
        source_ids = [
            ids[:max_length] for ids in self.vocabularies.source.encode_lines(sources)
        ]
        target_ids = self.vocabularies.target.encode_lines(targets)
        lengths = [
            max(len(source), len(target)) if source else 0
            for source, target in zip(source_ids, target_ids)
        ]
        for indices in self._batches(lengths):
            yield PairBatch(
                indices,
                [source_ids[i] for i in indices],
                [target_ids[i] for i in indices],
            )

    def score(self, sources: List[str], targets: List[str]) -> List[float]:
        """Score given translations as `translate` would score them.

        An empty line has no translation but an empty one, with the score 0; any other
        has the score -inf.

        Args:
          sources: lines.
          targets: the translation of each line.

        Raises:
          ValueError: `sources` or `targets` is a string, or their numbers differ.
        """
        sources, targets = _as_line_pairs(sources, targets)
        results = [NEVER if target.strip() else 0.0 for target in targets]
        for batch in self.pair_batches(sources, targets):
            scores = self.inspect(
                batch.sources, batch.targets, lambda inspection: inspection.scores
            )
            self._check_finite(scores[:, np.newaxis])
            for i, score in zip(batch.indices, scores):
                results[i] = float(score)
        return results

    # Word alignment

    def align(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        heads: Sequence[alignment.Head],
    ) -> List[List[Optional[alignment.Pairs]]]:
        """Align the words of lines and their translations by attention.

        Args:
          sources: lines.
          targets: the translation of each line.
          heads: whose attention to read.

        Returns:
          For each line, the Pairs from each head. A line without pieces on one side has
          no pairs. Instead of Pairs there is None if the words of the vocabulary are
          not those between spaces.

        Raises:
          ValueError: `sources` or `targets` is a string, or their numbers differ.
        """
        sources, targets = _as_line_pairs(sources, targets)
        layers = range(self.hp.decoder_blocks)
        names = [f"decoder/block_{layer}/cross_attention" for layer in layers]
        results: List[List[Optional[alignment.Pairs]]] = [
            [set() for _ in heads] for _ in sources
        ]
        for batch in self.pair_batches(sources, targets):
            weights = self.inspect(
                batch.sources,
                batch.targets,
                lambda inspection: [inspection.weights[name] for name in names],
            )
            for row, (i, source, target) in enumerate(zip(*batch)):
                if target:
                    is_cut = len(source) == self.hp.max_source_length
                    results[i] = alignment.align_line(
                        [layer[row] for layer in weights],
                        alignment.Sentence(sources[i], source, is_cut),
                        alignment.Sentence(targets[i], target),
                        self.vocabularies,
                        heads,
                    )
        return results

    def read_chosen_head(self) -> Optional[alignment.Head]:
        """Read which head was chosen to align words; return None if none was."""
        return alignment.read_chosen_head(self.logdir, self.checkpoints[0], self.hp)

    def _add_alignments(
        self, lines: Sequence[str], translations: List[List[Translation]]
    ) -> List[List[Translation]]:
        """Return the translations with their alignments."""
        head = self.read_chosen_head() or alignment.default_head(self.hp.decoder_blocks)
        sources = [line for line, n_best in zip(lines, translations) for _ in n_best]
        targets = [best.text for n_best in translations for best in n_best]
        pairs = iter(self.align(sources, targets, [head]))
        return [
            [
                translation._replace(alignment=alignment.sort_pairs(next(pairs)[0]))
                for translation in n_best
            ]
            for n_best in translations
        ]


def _as_line_pairs(sources, targets) -> Tuple[List[str], List[str]]:
    """Return lines and their translations as in `as_lines`, of equal number."""
    sources, targets = as_lines(sources), as_lines(targets)
    if len(sources) != len(targets):
        raise SettingsError(
            f"expected {format_count(len(sources), 'target line')}, one for each "
            f"source line, got {len(targets):,}"
        )
    return sources, targets


def _as_ids(prefix: Any) -> List[int]:
    """Check a prefix that is not text; return its ids."""

    def is_id(item):
        return isinstance(item, (int, np.integer)) and not isinstance(item, bool)

    with contextlib.suppress(TypeError):
        ids = list(prefix)
        if not isinstance(prefix, bytes) and all(map(is_id, ids)):
            return ids
    raise SettingsError(f"prefix: expected a text or a list of ids, got {prefix!r:.60}")
