"""Training on a worker that is not the chief: the same updates, nothing is written."""

import tensorflow.compat.v1 as tf

from transformer import loss_scale
from transformer.runtime import checkpoints
from transformer.runtime.cluster import Ended
from transformer.runtime.exchange import FAILURES
from transformer.runtime.nonfinite import FiniteGuard
from transformer.runtime.process import told_of_signals
from transformer.runtime.sessions import make_session
from transformer.runtime.workers import Member
from transformer.starting import welcomed
from transformer.training_graph import Data, TrainingGraph


def follow(hp, logdir: str, data: Data, team: Member) -> None:
    """Train with the chief, from the checkpoint that it names, until it ends the run.

    Args:
      hp: the settings, the same as the chief's.
      logdir: the log directory; it is only read.
      data: the corpora, the same as the chief's.
      team: the connection to the chief.

    Raises:
      ValueError: something differs from the chief.
      FloatingPointError: a loss or gradient is not finite.
      Ended: the chief was stopped, or a worker was lost.
    """
    try:
        with team, tf.Graph().as_default():
            checkpoint = welcomed(logdir, team.meet())
            start = checkpoints.step_of(checkpoint) if checkpoint else 0
            cluster = team.cluster
            graph = TrainingGraph(hp, data, start, cluster)
            with make_session(hp, cluster=cluster) as session:
                guard = FiniteGuard(
                    session,
                    graph.update,
                    graph.feed,
                    hp,
                    logdir,
                    graph.shards.workers > 1,
                )
                team.computed(
                    lambda: graph.open(session, checkpoint, team.begin), FAILURES
                )
                with told_of_signals(team.tell_signal):
                    _update(session, graph, guard, team, range(start, hp.max_steps))
                    team.wait_for_the_end()
    except Ended as ended:
        if ended.status:
            raise


def _update(session, graph, guard, team, steps):
    """Make the updates that follow some steps."""
    every = graph.hp.audit_every
    for step in steps:
        metrics = team.computed(lambda: graph.make_step(session), FAILURES)
        if not loss_scale.are_fine(metrics):
            raise team.cause(guard.error(step))
        if every and (step + 1) % every == 0:
            sums = team.computed(lambda: graph.checksums(session), FAILURES)
            team.audit(step + 1, sums)
