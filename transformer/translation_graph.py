"""The graph of translation: one model, or an ensemble, with a search.

`TranslationGraph` creates two kinds of ops: those that search for translations, and
those of forced decoding, in which the model reads given translations. `Translator`
feeds them.

An ensemble averages the probabilities of its models. The models may differ in size,
dialect and seed, but must have the same vocabularies. Each has its own variable scope,
and its own state during the search.
"""

import threading
from typing import (
    Any,
    Callable,
    Dict,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Union,
)

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.blocks.layers import cast_to_int64
from transformer.blocks.masks import is_token
from transformer.decoding import SEARCHES, Hypotheses, SearchOptions
from transformer.hparams import HParams
from transformer.length_penalty import length_penalty
from transformer.logdir import checkpoints
from transformer.model import Transformer
from transformer.modules import HeadTensors, Probe
from transformer.runtime.errors import EngineError, VocabularyError
from transformer.runtime.precision import compute_type, make_getter
from transformer.text.vocabulary import (
    Vocabularies,
    has_same_vocabulary,
    load_vocabularies,
)


class Member(NamedTuple):
    """A model of an ensemble, or the only model."""

    hp: HParams
    logdir: str
    vocabularies: Vocabularies
    scope: str  # of its variables in the graph; empty if it is the only model


class Inspection(NamedTuple):
    """What the model computes in forced decoding, as it reads given translations."""

    weights: Dict[str, tf.Tensor]  # attention weights [N, H, Tq, Tk] by scope name
    log_probs: tf.Tensor  # float [N, T, V], of every piece at each position
    target_log_probs: tf.Tensor  # float [N, T], of the given pieces; 0 for padding
    scores: tf.Tensor  # float [N], sum of `target_log_probs` / length penalty


class ProbedOps(NamedTuple):
    """The ops of translation, with attention heads that can be read and switched off.

    What has a name of its own is by scope name, such as "decoder/block_0/feedforward".
    """

    head_masks: Dict[str, tf.Tensor]  # float [N, H], 0 = off; by default all are on
    heads: Dict[str, HeadTensors]  # of forced decoding
    sums: Dict[str, tf.Tensor]  # float [N, T, D] of each sub-layer: see Probe
    logits: tf.Tensor  # float [N, T, V], of forced decoding
    inspection: Inspection
    hypotheses: Hypotheses  # of a search
    output_layer: tuple  # float [D, V], float [V] or None
    variables: Dict[str, tf.Variable]  # by name


def load_members(models: Sequence[Tuple[HParams, str]]) -> List[Member]:
    """Load the vocabularies of models, and check that they fit.

    Args:
      models: (settings, log directory) of each model.

    Raises:
      VocabularyError: a vocabulary does not fit its model, or differs from the first
        one.
    """
    members: List[Member] = []
    for i, (hp, logdir) in enumerate(models):
        scope = f"model_{i}" if len(models) > 1 else ""
        member = Member(hp, logdir, load_vocabularies(logdir), scope)
        _check_vocabulary_sizes(member)
        members.append(member)
        if not has_same_vocabulary(members[0].logdir, logdir):
            raise VocabularyError(
                f"{logdir}: expected the vocabulary of {members[0].logdir}, got "
                "another; models that translate together share their vocabularies; "
                "train both on the same prepared data"
            )
    return members


def _check_vocabulary_sizes(member: Member) -> None:
    """Raise VocabularyError if the sizes of vocabulary and model differ."""
    for side in ("source", "target"):
        size = getattr(member.vocabularies, side).size
        expected = getattr(member.hp, f"{side}_vocab_size")
        if size != expected:
            raise VocabularyError(
                f"{member.logdir}: expected a {side} vocabulary of {expected} pieces, "
                f"as in hparams.json, got {size}; put back the vocabulary that the "
                "model was trained with"
            )


# The search


def make_search_options(
    hp: HParams, vocabularies: Vocabularies, n_best: int = 1, keep_history: bool = False
) -> SearchOptions:
    """Make the SearchOptions of the settings.

    Args:
      hp: the settings.
      vocabularies: the vocabularies of the model.
      n_best, keep_history: as in Translator.
    """
    target = vocabularies.target
    return SearchOptions(
        beam_size=hp.beam_size,
        length_penalty=hp.length_penalty,
        length_penalty_form=hp.length_penalty_form,
        n_best=n_best,
        keep_open=hp.keep_open,
        bos=target.bos,
        eos=target.eos,
        forbidden=target.forbidden,
        min_length=hp.min_length,
        no_repeat_ngram=hp.no_repeat_ngram,
        repetition_penalty=hp.repetition_penalty,
        temperature=hp.temperature,
        top_k=hp.top_k,
        top_p=hp.top_p,
        keep_history=keep_history,
    )


def draw_by_line(seed: int, line_numbers: Any) -> Callable:
    """Make `SearchOptions.draws` that depend on the seed and a line's number alone.

    So a sample does not depend on the batch, except by rounding, or on threads.

    Args:
      seed: the seed.
      line_numbers: int64 [N], the number of each line.
    """

    def draw_line(number, max_length):
        key = tf.stack([np.int64(seed), number])
        return tf.random.stateless_uniform([max_length], key, 0, 2**24, tf.int64)

    def draw(max_length):
        integers = tf.map_fn(
            lambda number: draw_line(number, max_length), line_numbers
        )  # [N, T]
        return tf.cast(integers, tf.float32) / 2**24

    return draw


def search_from_memory(
    hp: HParams,
    model: Union[Transformer, "Ensemble"],
    memory: Any,
    source: tf.Tensor,
    prefix: tf.Tensor,
    options: SearchOptions,
) -> Hypotheses:
    """Search for the translations of encoded sources.

    Args:
      hp: the settings.
      model: a Transformer, or an Ensemble.
      memory: the output of its encoder.
      source: int32 [N, S], with EOS.
      prefix: int32 [N, P], the first pieces of each translation; P may be 0.
      options: SearchOptions.

    Returns:
      Hypotheses, tensors.
    """
    limits = _count_tokens(source) + hp.max_extra_length  # both count EOS
    limits = tf.maximum(limits, _count_tokens(prefix) + 1)  # int64 [N]
    if hp.min_length:
        limits = tf.maximum(limits, np.int64(hp.min_length + 1))
    step, state = model.start_search(memory, hp.num_hypotheses)
    search = SEARCHES[hp.search]
    return search(step, state, limits, options._replace(prefix=prefix))


def length_limit(hp: HParams, num_source: int, num_prefix: int = 0) -> int:
    """Return the largest number of pieces of a translation, as `search_from_memory`.

    Args:
      hp: the settings.
      num_source: the number of pieces of the source.
      num_prefix: the number of pieces of the prefix.
    """
    longest = max(num_source + hp.max_extra_length, num_prefix, hp.min_length)
    return longest + hp.keep_open  # instead of the end


def _count_tokens(ids):
    """Count the ids that are not padding: int32 [N, T] → int64 [N]."""
    return tf.reduce_sum(tf.cast(is_token(cast_to_int64(ids)), tf.int64), 1)


class TranslationGraph:
    """The ops of a translator, created in the current graph.

    The ops of `inspection` and `probe` are created by their first calls, because most
    translators only search.

    Args:
      members: the models; the search uses the settings of the first.
      options: SearchOptions.
    """

    def __init__(self, members: Sequence[Member], options: SearchOptions):
        self._hp = members[0].hp
        self.source = tf.placeholder(tf.int32, [None, None], "source")  # [N, S]
        self.target_in = tf.placeholder(tf.int32, [None, None], "target_in")  # [N, T]
        self.target_out = tf.placeholder(tf.int32, [None, None], "target_out")
        self.line_numbers = tf.placeholder(tf.int64, [None], "numbers")  # [N]
        draws = draw_by_line(self._hp.seed, self.line_numbers)
        self._options = options._replace(draws=draws)
        self.prefix = tf.placeholder_with_default(
            tf.zeros([tf.shape(self.source)[0], 0], tf.int32), [None, None], "prefix"
        )
        self._getter = make_getter(
            compute_type(self._hp.decode_precision, "decode_precision")
        )
        self._model: Union[Transformer, Ensemble] = Transformer(self._hp, self._getter)
        if len(members) > 1:
            self._model = Ensemble(members, self._getter)
        self._weights: Dict[str, tf.Tensor] = {}
        self._memory: Any = self._model.encode(self.source, weights=self._weights)
        self.hypotheses = search_from_memory(
            self._hp, self._model, self._memory, self.source, self.prefix, self._options
        )
        self.savers = [checkpoints.make_saver(member.scope) for member in members]
        self._lock = threading.Lock()
        self._inspection: Optional[Inspection] = None
        self._probed: Optional[ProbedOps] = None

    def inspection(self) -> Inspection:
        """Return the Inspection for the target that is fed."""
        with self._lock, self.source.graph.as_default():
            if self._inspection is None:
                logits = self._model.decode(
                    self.target_in, self._memory, weights=self._weights
                )
                self._inspection = self._inspect(logits, self._weights)
            return self._inspection

    def probe(self) -> ProbedOps:
        """Return the ProbedOps for the source, target and prefix that are fed.

        Raises:
          EngineError: this is an ensemble.
        """
        if isinstance(self._model, Ensemble):
            raise EngineError(
                "expected one model, whose attention heads can be read and switched "
                "off, got several that translate together"
            )
        with self._lock, self.source.graph.as_default():
            if self._probed is None:
                self._probed = self._create_probe()
            return self._probed

    def _create_probe(self) -> ProbedOps:
        """Create a second model with the same variables, and all its ops."""
        hp = self._hp
        scopes = [f"encoder/block_{i}/self_attention" for i in range(hp.encoder_blocks)]
        for i in range(hp.decoder_blocks):
            scopes += [f"decoder/block_{i}/{x}_attention" for x in ("self", "cross")]
        sizes = [tf.shape(self.source)[0], hp.num_heads]
        head_masks = {
            scope: tf.placeholder_with_default(tf.ones(sizes), [None, hp.num_heads])
            for scope in scopes
        }
        probe = Probe(head_masks, {}, {})
        model = Transformer(hp, self._getter, probe)
        weights: Dict[str, tf.Tensor] = {}
        memory = model.encode(self.source, weights=weights)
        logits = model.decode(self.target_in, memory, weights=weights)
        # The tensors of its steps are inside a loop.
        searching = Transformer(hp, self._getter, Probe(head_masks, {}, {}))
        hypotheses = search_from_memory(
            hp, searching, memory, self.source, self.prefix, self._options
        )
        variables = {x.op.name: x for x in tf.trainable_variables()}
        return ProbedOps(
            head_masks,
            probe.heads,
            probe.sums,
            logits,
            self._inspect(logits, weights),
            hypotheses,
            model.output_layer(),
            variables,
        )

    def _inspect(self, logits, weights) -> Inspection:
        """Create the ops of an Inspection.

        Args:
          logits: float [N, T, V], of the pieces of the target.
          weights: the attention weights by scope name.
        """
        log_probs = tf.nn.log_softmax(logits)
        is_piece = tf.cast(is_token(self.target_out), tf.float32)  # [N, T]
        target_log_probs = tf.gather(
            log_probs, self.target_out[..., None], batch_dims=2
        )
        target_log_probs = target_log_probs[..., 0] * is_piece
        lengths = tf.cast(_count_tokens(self.target_out), tf.float32)
        scores = tf.reduce_sum(target_log_probs, -1) / length_penalty(
            lengths, self._hp.length_penalty, self._hp.length_penalty_form
        )
        return Inspection(weights, log_probs, target_log_probs, scores)


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
        self._models = [
            (Transformer(member.hp, getter), member.scope) for member in members
        ]

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
        return log_mean_probs(
            [
                self._call(model.decode, scope, weights, target_in, model_memory)
                for (model, scope), model_memory in zip(self._models, memory)
            ]
        )

    def start_search(self, memory, beam_size: int = 1) -> Tuple[Callable, tuple]:
        """Return (step function, states of all models): see `decoding`."""
        steps = []
        states = []
        for (model, scope), model_memory in zip(self._models, memory):
            with _reuse_scope(scope):
                step, state = model.start_search(model_memory, beam_size)
            steps.append(step)
            states.append(state)

        def step_all(ids, parents, states):
            logits = []
            next_states = []
            for (_, scope), step, state in zip(self._models, steps, states):
                with _reuse_scope(scope):
                    model_logits, state = step(ids, parents, state)
                logits.append(model_logits)
                next_states.append(state)
            return log_mean_probs(logits), tuple(next_states)

        return step_all, tuple(states)

    def _call(self, method, scope, weights, *arguments):
        """Call a method of a model in its scope; collect its attention weights."""
        model_weights: Dict[str, Any] = {}
        with _reuse_scope(scope):
            result = method(*arguments, weights=model_weights)
        if weights is not None:
            first_scope = self._models[0][1]
            for name, value in model_weights.items():
                short_name = name[len(scope) + 1 :]
                weights[short_name if scope == first_scope else name] = value
        return result


def log_mean_probs(logits: Sequence):
    """Average the probabilities of models; return their logarithms: float [..., V].

    Args:
      logits: the logits of each model, float [..., V].
    """
    log_probs = tf.stack([tf.nn.log_softmax(model_logits) for model_logits in logits])
    return tf.reduce_logsumexp(log_probs, axis=0) - tf.log(float(len(logits)))


def _reuse_scope(scope):
    """Return the variable scope of a model."""
    return tf.variable_scope(scope, reuse=tf.AUTO_REUSE)
