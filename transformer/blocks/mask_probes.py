"""Probes: what a mask does to a sentence that ends in padding.

A mask that is computed from ids or lengths can be tried out while the graph is built. A
probe copies the operations between the ids and the mask into a graph of its own, puts
ids there whose padding is known, and looks at the mask that comes out. So it makes no
difference how the mask is computed: `tf.equal(ids, 0)`, `1 - tf.sign(ids)` and
`tf.logical_not(tf.sequence_mask(lengths))` all turn out to be inverted. A mask that is
fed, or that is computed from anything but ids, lengths and shapes, cannot be probed.

No session is opened, because the first session of a process fixes the number of threads
of all later ones. TensorFlow evaluates constants when it infers shapes: that is enough.
"""

from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

BATCH, LENGTH = 4, 6  # N and T, where the graph does not fix them
PADDING_IDS = (0, 1)  # 0 in most vocabularies, 1 in those of fairseq
MAX_OPERATIONS = 200  # between the ids and a mask
# Operations whose outputs do not follow from their inputs.
BARRIERS = ("Enter", "Exit", "Merge", "NextIteration", "PlaceholderWithDefault")


def find_meaning(mask) -> Optional[str]:
    """Find out what a mask allows.

    Args:
      mask: a tensor, bool or numbers: [N, T], or [N, H, Tq, T].

    Returns:
      "tokens" or "padding", if it allows these keys and no others; "queries", if it
      allows all keys to queries that are tokens, and none to others; None: unknown.
    """

    def allows(keys_are_tokens: bool):
        def compare(values, is_token):
            allowed = tf.cast(values, tf.float32) > 0
            if allowed.shape.ndims == 4:
                allowed = tf.reduce_any(allowed, [1, 2])
            return tf.equal(allowed, is_token == keys_are_tokens)

        return compare

    def allows_queries(values, is_token):
        allowed = tf.cast(values, tf.float32) > 0
        if allowed.shape.ndims != 4 or allowed.shape.as_list()[2] != is_token.shape[1]:
            return False
        return tf.equal(allowed, is_token[:, None, :, None])

    questions = {
        "tokens": allows(True),
        "padding": allows(False),
        "queries": allows_queries,
    }
    answers = _probe(mask, list(questions.values()))
    for meaning, is_true in zip(questions, zip(*answers)):
        if any(is_true):
            return meaning
    return None


def is_zeros_and_ones(bias) -> bool:
    """Return whether a bias has the values of a mask: both 0 and 1, and no others.

    Args:
      bias: a tensor of numbers of any shape.
    """

    def has_both(values, _):
        return tf.reduce_any(tf.equal(values, 0)) & tf.reduce_any(tf.equal(values, 1))

    def has_no_other(values, _):
        return tf.equal(values, 0) | tf.equal(values, 1)

    answers = _probe(bias, [has_both, has_no_other])
    return any(both for both, _ in answers) and all(no_other for _, no_other in answers)


def _probe(mask, questions: Sequence[Callable]) -> List[List[bool]]:
    """Compute a mask from ids, for each of the padding ids, and look at its values.

    Args:
      mask: a tensor that is computed from ids, lengths or shapes.
      questions: functions of the values of the mask, a tensor in a graph of their own,
        and of `is_token`, bool array [N, T]. They return bool tensors of any shape.

    Returns:
      For each padding id, whether each of the questions has True as all its answers; []
      if unknown.
    """
    if not hasattr(mask, "op"):  # an eager tensor
        return []
    try:
        operations, sources = _find_sources(mask)
        shapes = [_find_shape(source) for source in sources]
        batch = next((x[0] for x in shapes if x and x[0]), BATCH)
        length = next((x[1] for x in shapes if len(x) > 1 and x[1]), LENGTH)
        length = mask.shape.as_list()[-1] or length
        lengths = length - 1 - np.arange(batch) % max(length - 1, 1)  # below `length`
        is_token = np.arange(length) < lengths[:, None]
        answers = []
        for padding_id in PADDING_IDS:
            ids = np.where(is_token, 5 + np.arange(length) % 3, padding_id)
            with tf.Graph().as_default():
                constants = {x.name: _make_constant(x, ids, lengths) for x in sources}
                [values] = tf.import_graph_def(
                    operations, constants, return_elements=[mask.name], name=""
                )
                answers.append(
                    [
                        _evaluate(tf.reduce_all(question(values, is_token)))
                        for question in questions
                    ]
                )
    except (tf.errors.OpError, ValueError):  # it is not computed from such ids
        return []
    return answers


def _evaluate(constant) -> bool:
    """Return the value of a constant tensor, bool []."""
    # The static shape of ones([constant]) is the constant.
    size = tf.ones(tf.reshape(tf.cast(constant, tf.int32), [1])).shape.as_list()[0]
    if size is None:
        raise ValueError("expected a constant")
    return bool(size)


def _find_sources(mask) -> Tuple[tf.GraphDef, List[Any]]:
    """Find the tensors that a mask is computed from, and the operations in between.

    Sources are placeholders, elements of datasets, variables and the like, and shapes.
    If there are no such ids or lengths, constants of integers take their place.

    Returns:
      (the operations, the sources).

    Raises:
      ValueError: there are too many operations.
    """
    sources, copied, pending = {}, {}, [mask]
    while pending:
        x = pending.pop()
        if x.op.type in ("Shape", "Size") or _is_source(x.op):
            sources[x.name] = x
        elif x.op.name not in copied:
            copied[x.op.name] = x.op
            pending.extend(x.op.inputs)
        if len(copied) > MAX_OPERATIONS:
            raise ValueError(f"expected a mask, got {len(copied)} operations")
    if all(x.op.type in ("Shape", "Size") for x in sources.values()):
        batch, length = mask.shape.as_list()[0], mask.shape.as_list()[-1]
        for shape in ([batch, length], [batch]):
            constants = [
                x
                for operation in copied.values()
                for x in operation.outputs
                if operation.type == "Const"
                and x.dtype in (tf.int32, tf.int64)
                and x.shape.as_list() == shape
            ]
            if constants:
                sources.update((x.name, x) for x in constants)
                break
    graph_def = tf.GraphDef(
        versions=mask.graph.graph_def_versions,
        node=[
            _copy_node(operation.node_def)
            for name, operation in copied.items()
            if f"{name}:0" not in sources
        ],
    )
    return graph_def, list(sources.values())


def _copy_node(node_def):
    """Copy a NodeDef, without its place and what it waits for."""
    copy = tf.NodeDef(name=node_def.name, op=node_def.op)
    copy.input.extend(name for name in node_def.input if not name.startswith("^"))
    for name, value in node_def.attr.items():
        if name != "_class":  # colocation
            copy.attr[name].CopyFrom(value)
    return copy


def _is_source(operation) -> bool:
    """Return whether the outputs of an operation do not follow from its inputs."""
    tensors = [*operation.inputs, *operation.outputs]
    return (
        operation.type in BARRIERS
        or operation.op_def.is_stateful
        or not operation.inputs
        and operation.type != "Const"
        or not all(_is_numeric(x.dtype.base_dtype) for x in tensors)
        or any(
            value.HasField("func") or value.list.func
            for value in operation.node_def.attr.values()
        )
    )


def _is_numeric(dtype) -> bool:
    return dtype.is_bool or dtype.is_integer or dtype.is_floating


def _find_shape(source) -> List[Optional[int]]:
    """Return the static shape of a source, or the shape that it describes."""
    if source.op.type in ("Shape", "Size"):
        source = source.op.inputs[0]
    return source.shape.as_list()


def _make_constant(source, ids, lengths):
    """Make the constant that takes the place of a source.

    Args:
      source: a tensor that `_find_sources` returned.
      ids: int array [N, T].
      lengths: int array [N], how many of the ids are no padding.

    Raises:
      ValueError: the source is neither ids nor lengths nor a shape.
    """
    shape = _find_shape(source)
    sizes = [size or default for size, default in zip(shape, ids.shape)] + shape[2:]
    if source.op.type == "Shape":
        value = sizes
    elif source.op.type == "Size":
        value = np.prod(sizes)
    elif source.dtype.base_dtype in (tf.int32, tf.int64) and len(shape) <= 2:
        value = (ids.shape[1], lengths, ids)[len(shape)]
    else:
        raise ValueError(f"{source.name} is neither ids nor lengths nor a shape")
    return tf.constant(value, source.dtype.base_dtype)
