"""The one place where a session is opened: what it is told about the machine."""
from typing import Optional

import tensorflow.compat.v1 as tf


def make_session(hp, graph: Optional[tf.Graph] = None) -> tf.Session:
    """A session of `graph`, or of the default one, set up by the machine settings.

    `hp.deterministic` makes two runs of one command equal to the last bit. One thread
    runs one op at a time, so that no sum depends on who comes first or on the number of
    cores. Of a GPU, only kernels are used that promise the same (TensorFlow 2; 1.15 has
    no such promise). It holds for one build of TensorFlow on one kind of processor: the
    vector instructions of another round otherwise.
    """
    config = tf.ConfigProto()
    if hp.deterministic:
        config.intra_op_parallelism_threads = config.inter_op_parallelism_threads = 1
        if hasattr(tf.config.experimental, "enable_op_determinism"):
            tf.config.experimental.enable_op_determinism()
    return tf.Session(graph=graph, config=config)
