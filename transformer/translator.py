"""Translation: a log directory and lines of text → translations.

Several log directories can translate together as an ensemble, which averages the
probabilities of the models. The models may differ in size, dialect and seed, but must
have the same vocabularies.

    from transformer import Translator

    with Translator("logs/sample") as translator:
        [[best]] = translator.translate(["Der Hund schläft."])

With `engine="ctranslate2"`, `translate` runs on CTranslate2: see `fast.py`.
"""

import contextlib
import dataclasses
import functools
import itertools
import os
import threading
import warnings
from typing import (
    Any,
    Callable,
    Dict,
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
from transformer.blocks.layers import cast_to_int64
from transformer.blocks.masks import is_token
from transformer.decoding import NEVER, SEARCHES, Hypotheses, SearchOptions
from transformer.exports.ctranslate2 import (
    CTRANSLATE2,
    ENGINES,
    QUANTIZATIONS,
    TENSORFLOW,
    FastTranslator,
    usable,
)
from transformer.hparams import (
    DECODING,
    HParams,
    checked,
    load_each,
    refuse_n_best,
    validate,
)
from transformer.length_penalty import length_penalty
from transformer.logdir import checkpoints
from transformer.model import Transformer
from transformer.runtime.errors import VocabularyError
from transformer.runtime.names import refuse_unknown
from transformer.runtime.precision import compute_type, getter_to
from transformer.runtime.sessions import (
    Pools,
    batches_at_once,
    make_session,
    run_at_once,
    set_up_process,
)
from transformer.text.batches import make_batch, pad, pad_with_end
from transformer.text.translations import BaseTranslator, Translation, as_lines
from transformer.text.vocabulary import (
    PAD,
    Vocabularies,
    has_same_vocabulary,
    load_vocabularies,
)

# A batch holds `decode_batch_size` sentences of up to this many pieces. It holds fewer
# longer sentences, because the memory for attention grows with the square of the
# length.
FULL_LENGTH = 64


class Member(NamedTuple):
    """A model in an ensemble, or the only model."""

    hp: HParams
    logdir: str
    vocabularies: Vocabularies
    scope: str  # of its variables in the graph; empty if it is the only model


class Translator(BaseTranslator):
    """Translates with a checkpoint of a log directory; owns a graph and a session.

        with Translator("logs/sample", beam_size=1) as translator:
            [[best]] = translator.translate(["Der Hund schläft."])

    It works with eager execution on or off, alongside other graphs and Translators, and
    several threads may use it at once. Three things apply to the whole process:
    `deterministic=True`; TensorFlow takes only as much GPU memory as it needs; and each
    session has its own threads. For the last two, this class sets the environment
    variables TF_FORCE_GPU_ALLOW_GROWTH and TF_OVERRIDE_GLOBAL_THREADPOOL, unless they
    are already set.

    Args:
      model: a log directory, or several that translate together; or the settings of the
        model and of the search.
      logdir: the log directory with the vocabulary and the checkpoints, if `model` is
        settings.
      n_best: the number of translations of each line.
      keep_history: whether `search` returns the SearchHistory of a beam search.
      others: (settings, log directory) of the other models in an ensemble, if `model`
        is settings. The search uses the settings of the first model.
      checkpoint: the checkpoint to load immediately: "best", "newest" or a step. None:
        the best one if `model` is a log directory; otherwise none: call `restore`.
      engine: "ctranslate2" for the fast engine, which only `translate` uses. Prefixes,
        alignments, the other methods, and whatever `usable` refuses run on TensorFlow.
      quantization: for the fast engine: "float32" or "int8".
      warn: function of a text; called for each broken checkpoint that is skipped, and
        if the fast engine cannot be used.
      changes: settings of the search that replace the saved ones, such as
        `beam_size=1`.

    Raises:
      ValueError: a setting or the search is unknown, the search keeps fewer than
        `n_best` hypotheses, or the models have different vocabularies.
    """

    def __init__(
        self,
        model: Union[str, "os.PathLike[str]", Sequence[str], HParams],
        logdir: str = "",
        n_best: int = 1,
        keep_history: bool = False,
        others: Sequence[Tuple[HParams, str]] = (),
        checkpoint: Union[str, int, None] = None,
        engine: str = TENSORFLOW,
        quantization: str = QUANTIZATIONS[0],
        warn: Callable[[str], None] = warnings.warn,
        **changes: Any,
    ):
        refuse_unknown("engine", engine, ENGINES)
        refuse_unknown("quantization", quantization, QUANTIZATIONS)
        for name in changes:
            refuse_unknown("search setting", name, DECODING)
        changes = checked(changes, "Translator")
        if isinstance(model, HParams):
            hp = dataclasses.replace(model, **changes)
            validate(hp)
            directories = [(hp, logdir), *others]
        else:
            logdirs = [model] if isinstance(model, (str, os.PathLike)) else model
            changes.setdefault("deterministic", False)  # applies to the process
            directories = load_each([os.fspath(each) for each in logdirs], changes)
            checkpoint = "best" if checkpoint is None else checkpoint
        hp = directories[0][0]
        self.hp = hp
        self.logdir = directories[0][1]
        self._members = members_of(directories)
        super().__init__(self._members[0].vocabularies, hp.max_source_length)
        self.checkpoints = [""] * len(self._members)  # the loaded ones
        refuse_unknown("search", hp.search, SEARCHES)
        refuse_n_best(n_best, hp)
        needs = {"ensembles": len(directories) > 1}
        self.engine = usable(engine, quantization, hp, warn, needs)
        self._warn = warn
        self._quantization = quantization
        self._fast: Optional[FastTranslator] = None
        self._options = search_options(hp, self.vocabularies, n_best, keep_history)
        set_up_process(hp)
        with tf.Graph().as_default() as graph:
            tf.set_random_seed(hp.seed)  # `deterministic` needs a seed in every graph
            self._ops = TranslationGraph(self._members, self._options)
        self._pools = Pools(batches_at_once(hp))
        self._drawn = 0  # lines that were translated with this checkpoint
        self._lock = threading.Lock()
        self._session = make_session(
            hp,
            graph,
            runs=self._pools.count,
            sequential=hp.decode_batch_size == 1,
            rewritten=False,
        )
        if checkpoint is not None:
            self.restore_found(checkpoint)

    def __enter__(self) -> "Translator":
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    def close(self) -> None:
        """Close the session; afterwards, this object cannot translate."""
        self._close_fast()
        self._session.close()

    def _close_fast(self) -> None:
        """Close the model of the fast engine, if one is open."""
        if self._fast:
            self._fast.__exit__()
            self._fast = None

    def restore(self, checkpoint: str = "", number: int = 0) -> str:
        """Load a checkpoint, by default the best; return its path.

        Args:
          checkpoint: the path, without file extensions.
          number: the index of its model in an ensemble.
        """
        if not checkpoint:
            return self.restore_found()
        saver = self._ops.savers[number]
        scope = self._members[number].scope
        with self._session.graph.as_default():  # a Saver checks whether this is eager
            checkpoints.restore(self._session, saver, checkpoint, scope)
        self.checkpoints[number] = checkpoint
        self._drawn = 0
        if self.engine == CTRANSLATE2:
            self._open_fast(checkpoint)
        return checkpoint

    def _open_fast(self, checkpoint: str) -> None:
        """Open the export of a checkpoint; see `export.find_or_make`."""
        from transformer.exports import (
            export,  # brings sacreBLEU, which only the card needs
        )

        self._close_fast()
        folder = export.find_or_make(self, checkpoint, self._quantization, self._warn)
        if not folder:
            self.engine = TENSORFLOW
            return
        self._fast = FastTranslator(folder, self.hp, self._options.n_best)
        self._fast.unusual_lines = self.unusual_lines

    def restore_found(self, which: Union[str, int] = "best") -> str:
        """Load the checkpoint that `checkpoints.find` finds; return its path.

        An ensemble loads a checkpoint for each model, and returns the path of the
        first.
        """
        for number, member in enumerate(self._members):
            restore = functools.partial(self.restore, number=number)
            checkpoints.find_and_load(member.logdir, restore, which, self._warn)
        return self.checkpoints[0]

    def translate(
        self,
        lines: Iterable[str],
        prefix: Iterable[Union[str, Sequence[int]]] = (),
        alignments: bool = False,
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

        Returns:
          For each line, its n best translations, best first.

        Raises:
          ValueError: `lines` or `prefix` is a string; the numbers of prefixes and lines
            differ, or an id is not a piece.
        """
        lines = as_lines(lines)
        if isinstance(prefix, str):
            raise ValueError(
                f"prefix: expected a list, one prefix for each line, got {prefix!r:.60}"
                "; for a single line, write [prefix]"
            )
        prefix = list(prefix)
        if self._fast and not prefix:
            translations = self._fast.translate(lines)
            return self._aligned(lines, translations) if alignments else translations
        translations = [[Translation("", 0.0)] * self._options.n_best for _ in lines]
        sources = self.encode(lines)
        prefixes = self.encode_prefixes(prefix, lines) if prefix else []
        for indices, found in self.search(sources, prefixes):
            for i, n_best, scores in zip(indices, found.ids, found.scores):
                translations[i] = [
                    self.translation(ids, score)
                    for ids, score in zip(n_best, scores)
                    if score > NEVER
                ]
        return self._aligned(lines, translations) if alignments else translations

    def chosen_head(self) -> Optional[alignment.Head]:
        """Return the head that was chosen to align words; None if none was."""
        return alignment.read_choice(self.logdir, self.checkpoints[0], self.hp)

    def _aligned(
        self, lines: Sequence[str], translations: List[List[Translation]]
    ) -> List[List[Translation]]:
        """Return the translations with their alignments."""
        head = self.chosen_head() or alignment.default_head(self.hp.decoder_blocks)
        sources = [line for line, n_best in zip(lines, translations) for _ in n_best]
        targets = [each.text for n_best in translations for each in n_best]
        pairs = dict(alignment.align(self, sources, targets, [head]))
        numbers = itertools.count()
        return [
            [
                each._replace(alignment=alignment.ordered(pairs[next(numbers)][0]))
                for each in n_best
            ]
            for n_best in translations
        ]

    def encode_prefixes(
        self, prefixes: Sequence[Union[str, Sequence[int]]], lines: Sequence[str]
    ) -> List[List[int]]:
        """Return the ids of the prefixes."""
        if len(prefixes) != len(lines):
            raise ValueError(
                f"prefix: expected {len(lines)} prefixes, one for each line, got "
                f"{len(prefixes)}"
            )
        target = self.vocabularies.target
        ids = [
            target.encode(as_lines([each])[0]) if isinstance(each, str) else _ids(each)
            for each in prefixes
        ]
        special = (PAD, target.bos, target.eos)
        for each in ids:
            wrong = [one for one in each if one in special or not 0 < one < target.size]
            if wrong:
                raise ValueError(
                    f"prefix: expected ids of pieces below {target.size:,}, without "
                    f"padding, beginning or end, got {wrong[0]}"
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
            first = self._drawn
            self._drawn += len(sources)
        feeds = []
        for indices in batches:
            ids = pad_with_end([sources[i] for i in indices], self._options.eos)
            numbers = [first + int(i) for i in indices]
            feeds.append({self._ops.source: ids, self._ops.numbers: numbers})
            if prefixes:
                feeds[-1][self._ops.prefix] = pad([prefixes[i] for i in indices])
        for indices, found in zip(
            batches, run_at_once(self._session, self._ops.found, feeds, self._pools)
        ):
            self._refuse_not_finite(found.scores)
            yield indices, found

    def _batches(self, lengths: Sequence[int]) -> Iterator[Sequence[int]]:
        """Yield batches of the indices of lines with pieces, the longest first."""
        order = [i for i in np.argsort(lengths, kind="stable")[::-1] if lengths[i]]
        most = self.hp.decode_batch_size
        start = 0
        while start < len(order):
            fitting = most * FULL_LENGTH // lengths[order[start]]
            end = start + min(most, max(1, fitting))
            yield order[start:end]
            start = end

    def _refuse_not_finite(self, scores: np.ndarray) -> None:
        """Raise FloatingPointError for scores that only damaged weights can give.

        Args:
          scores: float [N, n_best]. The first of a line must be finite; the others may
            be NEVER, for hypotheses that were not found.
        """
        if not np.isfinite(scores[:, 0]).all() or np.isnan(scores).any():
            rules = [
                f"--{name}"
                for name in ("min_length", "no_repeat_ngram")
                if getattr(self.hp, name)
            ]
            unmet = f"no translation meets {' and '.join(rules)}, or " if rules else ""
            raise FloatingPointError(
                f"{' + '.join(self.checkpoints)}: expected translations with finite "
                f"scores, got NaN or infinity: {unmet}the weights are damaged, or "
                "training diverged; choose another --checkpoint, or train again with a "
                "lower --learning_rate"
            )

    def inspect(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        pick: Callable[["Inspection"], Any],
    ) -> Any:
        """Return what the model computes for given translations, as one batch.

        Args:
          sources, targets: the ids of each line, without BOS and EOS.
          pick: function of an Inspection that returns a nest of some of its tensors.
        """
        batch = make_batch(sources, targets, 0, self._options.bos, self._options.eos)
        feed = {
            self._ops.source: batch.source,
            self._ops.target_in: batch.target_in,
            self._ops.target_out: batch.target_out,
        }
        return self._pools.run(self._session, pick(self._ops.inspection()), feed)

    def in_batches(
        self, sources: Sequence[str], targets: Sequence[str]
    ) -> Iterator[Tuple[Sequence[int], List[List[int]], List[List[int]]]]:
        """Yield batches: (indices of lines, their source ids, their target ids).

        Args:
          sources: lines. Lines without pieces are left out, and long lines are
            truncated. Unlike `encode`, this does not count them.
          targets: the translation of each line.
        """
        most = self.hp.max_source_length
        source_ids = [
            ids[:most] for ids in self.vocabularies.source.encode_lines(sources)
        ]
        target_ids = self.vocabularies.target.encode_lines(targets)
        lengths = [
            max(len(source), len(target)) if source else 0
            for source, target in zip(source_ids, target_ids)
        ]
        for indices in self._batches(lengths):
            yield (
                indices,
                [source_ids[i] for i in indices],
                [target_ids[i] for i in indices],
            )

    def score(self, sources: List[str], targets: List[str]) -> List[float]:
        """Return the scores of given translations, as `translate` would score them.

        An empty line has no translation but an empty one, with the score 0; any other
        has the score -inf.

        Args:
          sources: lines.
          targets: the translation of each line.

        Raises:
          ValueError: `sources` or `targets` is a string, or their numbers differ.
        """
        sources = as_lines(sources)
        targets = as_lines(targets)
        if len(sources) != len(targets):
            raise ValueError(
                f"score: expected {len(sources)} target lines, one for each source "
                f"line, got {len(targets)}"
            )
        results = [NEVER if target.strip() else 0.0 for target in targets]
        for indices, source_ids, target_ids in self.in_batches(sources, targets):
            scores = self.inspect(source_ids, target_ids, lambda found: found.scores)
            self._refuse_not_finite(scores[:, np.newaxis])
            for i, score in zip(indices, scores):
                results[i] = float(score)
        return results


def _ids(prefix: Any) -> List[int]:
    """Return the ids of a prefix that is not text."""

    def is_id(one):
        return isinstance(one, (int, np.integer)) and not isinstance(one, bool)

    with contextlib.suppress(TypeError):
        ids = list(prefix)
        if not isinstance(prefix, bytes) and all(map(is_id, ids)):
            return ids
    raise ValueError(f"prefix: expected a text or a list of ids, got {prefix!r:.60}")


# The graph: the search, and scores for given translations


class Inspection(NamedTuple):
    """What the model computes for given translations, as tensors or as values."""

    weights: Dict[str, tf.Tensor]  # attention weights [N, H, Tq, Tk] by scope name
    log_probs: tf.Tensor  # float [N, T, V], of every piece at each position
    of_target: tf.Tensor  # float [N, T], of the given pieces; 0 for padding
    scores: tf.Tensor  # float [N], sum of `of_target` / length penalty


def search_options(
    hp: HParams, vocabularies: Vocabularies, n_best: int = 1, keep_history: bool = False
) -> SearchOptions:
    """Return the SearchOptions of the settings.

    Args:
      hp: the settings.
      vocabularies: the vocabularies of the model.
      n_best, keep_history: as in Translator.
    """
    target = vocabularies.target
    return SearchOptions(
        beam_size=hp.beam_size,
        length_penalty=hp.length_penalty,
        n_best=n_best,
        bos=target.bos,
        eos=target.eos,
        forbidden=target.forbidden,
        min_length=hp.min_length,
        no_repeat_ngram=hp.no_repeat_ngram,
        temperature=hp.temperature,
        top_k=hp.top_k,
        top_p=hp.top_p,
        keep_history=keep_history,
    )


def draws_of(seed: int, numbers: Any) -> Callable:
    """Return `SearchOptions.draws` that depend on the seed and a line's number alone.

    So a sample does not depend on the batch, except by rounding, or on threads.

    Args:
      seed: the seed.
      numbers: int64 [N], the number of each line.
    """

    def of_line(number, longest):
        key = tf.stack([np.int64(seed), number])
        return tf.random.stateless_uniform([longest], key, 0, 2**24, tf.int64)

    def draws(longest):
        drawn = tf.map_fn(lambda number: of_line(number, longest), numbers)  # [N, T]
        return tf.cast(drawn, tf.float32) / 2**24

    return draws


def search_from(
    hp: HParams, model: Any, memory: Any, source: Any, prefix: Any, options: Any
) -> Hypotheses:
    """Return the translations of encoded sources, as tensors.

    Args:
      hp: the settings.
      model: a Transformer, or an Ensemble.
      memory: the output of its encoder.
      source: int32 [N, S], with EOS.
      prefix: int32 [N, P], the first pieces of each translation; P may be 0.
      options: SearchOptions.
    """
    limits = _count(source) + hp.max_extra_length  # both count EOS
    limits = tf.maximum(limits, _count(prefix) + 1)  # int64 [N]
    if hp.min_length:
        limits = tf.maximum(limits, np.int64(hp.min_length + 1))
    step, state = model.start_search(memory, hp.hypotheses)
    search = SEARCHES[hp.search]
    return search(step, state, limits, options._replace(prefix=prefix))


class TranslationGraph:
    """The ops of a translator, created in the current graph.

    The ops of `inspection` are created by its first call, because most translators only
    search.

    Args:
      members: the models; the search uses the settings of the first.
      options: SearchOptions.
    """

    def __init__(self, members: Sequence[Member], options: SearchOptions):
        self._hp = members[0].hp
        self.source = tf.placeholder(tf.int32, [None, None], "source")  # [N, S]
        self.target_in = tf.placeholder(tf.int32, [None, None], "target_in")  # [N, T]
        self.target_out = tf.placeholder(tf.int32, [None, None], "target_out")
        self.numbers = tf.placeholder(tf.int64, [None], "numbers")  # of the lines
        options = options._replace(draws=draws_of(self._hp.seed, self.numbers))
        self.prefix = tf.placeholder_with_default(
            tf.zeros([tf.shape(self.source)[0], 0], tf.int32), [None, None], "prefix"
        )
        getter = getter_to(compute_type(self._hp.decode_precision, "decode_precision"))
        self._model: Union[Transformer, Ensemble] = Transformer(self._hp, getter)
        if len(members) > 1:
            self._model = Ensemble(members, getter)
        self._weights: Dict[str, tf.Tensor] = {}
        self._memory: Any = self._model.encode(self.source, weights=self._weights)
        self.found = search_from(
            self._hp, self._model, self._memory, self.source, self.prefix, options
        )
        self.savers = [checkpoints.make_saver(each.scope) for each in members]
        self._lock = threading.Lock()
        self._inspection: Optional[Inspection] = None

    def inspection(self) -> Inspection:
        """Return the Inspection for the target that is fed."""
        with self._lock, self.source.graph.as_default():
            if self._inspection is not None:
                return self._inspection
            logits = self._model.decode(
                self.target_in, self._memory, weights=self._weights
            )
            log_probs = tf.nn.log_softmax(logits)
            real = tf.cast(is_token(self.target_out), tf.float32)  # [N, T]
            of_target = tf.gather(log_probs, self.target_out[..., None], batch_dims=2)
            of_target = of_target[..., 0] * real
            lengths = tf.cast(_count(self.target_out), tf.float32)
            scores = tf.reduce_sum(of_target, -1) / length_penalty(
                lengths, self._hp.length_penalty
            )
            self._inspection = Inspection(self._weights, log_probs, of_target, scores)
            return self._inspection


def _count(ids):
    """Return the number of ids that are not 0: int32 [N, T] → int64 [N]."""
    return tf.reduce_sum(tf.cast(is_token(cast_to_int64(ids)), tf.int64), 1)


# Ensembles


class Ensemble:
    """Several models with the interface of one `Transformer`, for translation.

    Its logits are the logarithms of the mean probabilities of the pieces.

    Args:
      members: the models, each with its own scope.
      getter: as in Transformer.
    """

    def __init__(self, members: Sequence[Member], getter: Optional[Callable] = None):
        self.hp = members[0].hp
        self._models = [(Transformer(each.hp, getter), each.scope) for each in members]

    def encode(self, source, weights: Optional[Dict] = None) -> tuple:
        """Run the encoder of each model.

        Args:
          source: int32 [N, S], 0 = padding.
          weights: dict; receives the attention weights. For the first model, the names
            are those of a single model; for the others, they begin with the scope.

        Returns:
          The Memory of each model.
        """
        return tuple(
            self._call(model.encode, scope, weights, source)
            for model, scope in self._models
        )

    def decode(self, target_in, memory: tuple, weights: Optional[Dict] = None):
        """Run the decoder of each model on whole targets.

        Args:
          target_in: int32 [N, T].
          memory: the Memory of each model.
          weights: as in `encode`.

        Returns:
          float [N, T, V], the logarithms of the mean probabilities.
        """
        return log_of_mean(
            [
                self._call(model.decode, scope, weights, target_in, each)
                for (model, scope), each in zip(self._models, memory)
            ]
        )

    def start_search(self, memory, beam_size: int = 1) -> Tuple[Callable, tuple]:
        """Return (step function, states of all models): see `decoding`."""
        steps = []
        states = []
        for (model, scope), each in zip(self._models, memory):
            with _under(scope):
                step, state = model.start_search(each, beam_size)
            steps.append(step)
            states.append(state)

        def step_all(ids, parents, states):
            logits = []
            after = []
            for (_, scope), step, state in zip(self._models, steps, states):
                with _under(scope):
                    model_logits, state = step(ids, parents, state)
                logits.append(model_logits)
                after.append(state)
            return log_of_mean(logits), tuple(after)

        return step_all, tuple(states)

    def _call(self, method, scope, weights, *arguments):
        """Call a method of a model in its scope; collect its attention weights."""
        own = {}
        with _under(scope):
            result = method(*arguments, weights=own)
        if weights is not None:
            first = self._models[0][1]
            for name, value in own.items():
                plain = name[len(scope) + 1 :]
                weights[plain if scope == first else name] = value
        return result


def log_of_mean(logits: Sequence):
    """Return the logarithm of the mean of the softmaxes: float [..., V].

    Args:
      logits: the logits of each model, float [..., V].
    """
    of_each = tf.stack([tf.nn.log_softmax(each) for each in logits])
    return tf.reduce_logsumexp(of_each, axis=0) - tf.log(float(len(logits)))


def _under(scope):
    """Return the variable scope of a model."""
    return tf.variable_scope(scope, reuse=tf.AUTO_REUSE)


def members_of(directories: Sequence[Tuple[HParams, str]]) -> List[Member]:
    """Load and compare the vocabularies of models; return their Members.

    Args:
      directories: (settings, log directory) of each model.

    Raises:
      ValueError: a vocabulary does not fit its model, or differs from the first one.
    """
    members = []
    for number, (hp, logdir) in enumerate(directories):
        scope = f"model_{number}" if len(directories) > 1 else ""
        member = Member(hp, logdir, load_vocabularies(logdir), scope)
        _refuse_other_sizes(member)
        members.append(member)
        if not has_same_vocabulary(members[0].logdir, logdir):
            raise VocabularyError(
                f"{logdir}: expected the vocabulary of {members[0].logdir}, got "
                "another; models that translate together share their vocabularies; "
                "train both on the same prepared data"
            )
    return members


def _refuse_other_sizes(member):
    """Raise ValueError if the sizes of the vocabulary and the model differ."""
    for side in ("source", "target"):
        found = getattr(member.vocabularies, side).size
        expected = getattr(member.hp, f"{side}_vocab_size")
        if found != expected:
            raise ValueError(
                f"{member.logdir}: expected a {side} vocabulary of {expected} pieces, "
                f"as in hparams.json, got {found}; put back the vocabulary that the "
                "model was trained with"
            )
