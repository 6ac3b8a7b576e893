"""Several models that translate together: the mean of their probabilities.

They may differ in their sizes, dialects and seeds; they share their vocabularies.
"""

import filecmp
from typing import NamedTuple, Optional, Sequence

import tensorflow.compat.v1 as tf

from transformer.model import Transformer
from transformer.text.vocabulary_files import Vocabularies, load_vocabularies


class Member(NamedTuple):
    """A log directory whose model takes part."""

    hp: object  # its settings
    logdir: str
    vocabularies: Vocabularies
    scope: str  # of its variables in the graph; empty for a model that is alone


class Ensemble:
    """Models as one, with the methods of `Transformer` that translation needs.

    What they call logits is the logarithm of the mean probability of each piece.

    Args:
      members: the Members, each with a scope of its own.
    """

    def __init__(self, members: Sequence[Member]):
        self.hp = members[0].hp
        self._models = [(Transformer(each.hp), each.scope) for each in members]

    def encode(self, source, weights: Optional[dict] = None):
        """Run the encoder of each model.

        Args:
          source: int32 [N, S], 0 = padding.
          weights: dict; receives the attention weights of the first model by its scope
            names, and those of the others with their scopes before them.

        Returns:
          A Memory of each.
        """
        return tuple(
            self._call(model.encode, scope, weights, source)
            for model, scope in self._models
        )

    def decode(self, target_in, memory, weights: Optional[dict] = None):
        """Run the decoder of each model on whole targets.

        Args:
          target_in: int32 [N, T].
          memory: what `encode` returned.
          weights: as in `encode`.

        Returns:
          float [N, T, V], the logarithm of the mean probability.
        """
        return log_of_mean(
            [
                self._call(model.decode, scope, weights, target_in, each)
                for (model, scope), each in zip(self._models, memory)
            ]
        )

    def start_search(self, memory, beam_size: int = 1):
        """Return (the step function, the states of all models); see `decoding`."""
        steps, states = [], []
        for (model, scope), each in zip(self._models, memory):
            with _under(scope):
                step, state = model.start_search(each, beam_size)
            steps.append(step)
            states.append(state)

        def step_all(ids, parents, states):
            logits, after = [], []
            for (_, scope), step, state in zip(self._models, steps, states):
                with _under(scope):
                    of_model, state = step(ids, parents, state)
                logits.append(of_model)
                after.append(state)
            return log_of_mean(logits), tuple(after)

        return step_all, tuple(states)

    def _call(self, method, scope, weights, *arguments):
        """Call a method of a model under its scope; collect its attention weights."""
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
    """Return the logarithm of the mean of softmaxes: float [..., V].

    Args:
      logits: float [..., V] of each model.
    """
    of_each = tf.stack([tf.nn.log_softmax(each) for each in logits])
    return tf.reduce_logsumexp(of_each, axis=0) - tf.log(float(len(logits)))


def _under(scope):
    """Return the variable scope of a model."""
    return tf.variable_scope(scope, reuse=tf.AUTO_REUSE)


def make_model(members: Sequence[Member]):
    """Return a Transformer, or the Ensemble of several."""
    return Transformer(members[0].hp) if len(members) == 1 else Ensemble(members)


def members_of(directories: Sequence) -> Sequence[Member]:
    """Return the Members, their vocabularies loaded and compared.

    Args:
      directories: (settings, log directory) of each.

    Raises:
      ValueError: a vocabulary is not that of its model, or not that of the first one.
    """
    members = []
    for number, (hp, logdir) in enumerate(directories):
        scope = f"model_{number}" if len(directories) > 1 else ""
        member = Member(hp, logdir, load_vocabularies(logdir), scope)
        _refuse_other_sizes(member)
        members.append(member)
        for side in ("source", "target"):
            _refuse_other_vocabulary(members[0], member, side)
    return members


def _refuse_other_sizes(member):
    """Raise ValueError where a vocabulary has another size than the model."""
    for side in ("source", "target"):
        found = getattr(member.vocabularies, side).size
        wanted = getattr(member.hp, f"{side}_vocab_size")
        if found != wanted:
            raise ValueError(
                f"{member.logdir}: found a {side} vocabulary of {found} pieces, "
                f"wanted {wanted} as in hparams.json; put back the vocabulary that "
                "the model was trained with"
            )


def _refuse_other_vocabulary(first, member, side):
    """Raise ValueError, naming the first difference, where vocabularies differ."""
    ours, theirs = (getattr(each.vocabularies, side) for each in (first, member))
    if filecmp.cmp(ours.path, theirs.path, shallow=False):
        return
    if ours.size != theirs.size:
        found, wanted = f"{theirs.size:,} pieces", f"{ours.size:,}"
    else:
        ids = range(ours.size)
        differ = [
            (one, *pair)
            for one, *pair in zip(ids, theirs.pieces(ids), ours.pieces(ids))
            if pair[0] != pair[1]
        ] + [(0, "the same pieces with other scores or rules", "the same file")]
        one, found, wanted = differ[0]
        if len(differ) > 1:
            found, wanted = f"{found!r} as piece {one}", repr(wanted)
    raise ValueError(
        f"{member.logdir}: found a {side} vocabulary with {found}, wanted {wanted} as "
        f"in {first.logdir}: models that translate together share their vocabularies; "
        "train both on the same prepared data"
    )
