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

import weakref
from typing import Any, Dict, List, MutableMapping, Optional, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

BATCH, LENGTH = 4, 6  # N and T, where the graph does not fix them
LOWEST_BIAS = -1e3  # a bias below it forbids
MAX_OPERATIONS = 200  # between the ids and a mask
MAX_ELEMENTS = 2**22  # of a mask; more would take seconds
# Operations whose outputs do not follow from their inputs.
BARRIERS = ("Enter", "Exit", "Merge", "NextIteration", "PlaceholderWithDefault")
# The meanings of the masks of each graph, by their names.
MEANINGS: MutableMapping[tf.Graph, Dict[Any, Optional[str]]] = (
    weakref.WeakKeyDictionary()
)


def find_meaning(mask, is_bias: bool = False) -> Optional[str]:
    """Find out what a mask, or a bias, allows.

    Args:
      mask: a tensor, bool or numbers: [N, T], or [N, H, Tq, T].
      is_bias: whether it is added to logits: low numbers forbid.

    Returns:
      "tokens" or "padding", if it allows these keys and no others; "queries", if it
      allows all keys to queries that are tokens, or that are padding, and none to
      others; "zeros and ones", if these are the values of a bias; None: unknown.
    """
    if not hasattr(mask, "op"):  # an eager tensor
        return None
    meanings = MEANINGS.setdefault(mask.graph, {})
    if (mask.name, is_bias) not in meanings:
        meanings[mask.name, is_bias] = _find_meaning(mask, is_bias)
    return meanings[mask.name, is_bias]


def _find_meaning(mask, is_bias: bool) -> Optional[str]:
    """Compute a mask from ids and lengths, and look at its values."""
    try:
        operations, sources = _find_sources(mask)
        is_token = _choose_tokens(mask, sources)
        with tf.Graph().as_default():
            constants = {x.name: _make_constant(x, is_token) for x in sources}
            [values] = tf.import_graph_def(
                operations, constants, return_elements=[mask.name], name=""
            )
            values = tf.cast(values, tf.float32)
            allowed = values > (LOWEST_BIAS if is_bias else 0)
            if is_bias and _is_zeros_and_ones(values):
                return "zeros and ones"
            if _allows(allowed, is_token):
                return "tokens"
            if _allows(allowed, ~is_token):
                return "padding"
            if _allows_queries(allowed, is_token):
                return "queries"
    except (tf.errors.OpError, ValueError):  # it is not computed from such ids
        pass
    return None


def _choose_tokens(mask, sources) -> np.ndarray:
    """Choose sentences: bool [N, T], True for tokens, which stand before the padding.

    Raises:
      ValueError: the mask is too small for different sentences, or too large.
    """
    shapes = [_find_shape(source) for source in sources]
    batch = next((x[0] for x in shapes if x and x[0]), BATCH)
    length = next((x[1] for x in shapes if len(x) > 1 and x[1]), LENGTH)
    sizes = mask.shape.as_list()
    length = (sizes or [1])[-1] or length
    elements = np.prod([size or length for size in sizes[1:]]) * batch
    if length < 3 or elements > MAX_ELEMENTS:
        raise ValueError(f"expected a length of 3 or more, got {length}")
    # The first sentence is whole, unless it is the only one.
    lengths = length - (np.arange(batch) if batch > 1 else 1) % length
    return np.arange(length) < np.reshape(lengths, [-1, 1])


def _is_zeros_and_ones(values) -> bool:
    """Return whether a tensor has both zeros and ones, and no other values."""
    is_zero, is_one = tf.equal(values, 0), tf.equal(values, 1)
    has_both = tf.reduce_any(is_zero) & tf.reduce_any(is_one)
    return _evaluate(has_both & tf.reduce_all(is_zero | is_one))


def _allows(allowed, keys) -> bool:
    """Return whether queries that are tokens, or all queries, see some keys only.

    Args:
      allowed: bool [N, T] or [N, H, Tq, T].
      keys: bool array [N, T].
    """
    if allowed.shape.ndims == 2:
        return _evaluate(tf.reduce_all(tf.equal(allowed, keys)))
    if allowed.shape.ndims != 4:
        return False
    allowed = tf.reduce_any(allowed, 1)  # [N, Tq, T], any head
    seen_by_any = tf.reduce_any(allowed, 1)
    if _evaluate(tf.reduce_all(tf.equal(seen_by_any, keys))):
        return True
    if allowed.shape.as_list()[1] != keys.shape[1]:
        return False
    is_first = np.arange(keys.shape[1]) == 0  # the first query is a token
    seen_by_token = tf.reduce_any(allowed & is_first[:, None], 1)
    return _evaluate(tf.reduce_all(tf.equal(seen_by_token, keys)))


def _allows_queries(allowed, is_token) -> bool:
    """Return whether a mask [N, H, T, T] depends on whether its queries are tokens."""
    if allowed.shape.ndims != 4 or allowed.shape.as_list()[2] != is_token.shape[1]:
        return False
    queries = is_token[:, None, :, None]
    is_either = tf.reduce_all(tf.equal(allowed, queries)) | tf.reduce_all(
        tf.equal(allowed, ~queries)
    )
    return _evaluate(is_either)


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
        constants = [
            x
            for operation in copied.values()
            for x in operation.outputs
            if operation.type == "Const" and x.dtype.is_integer
        ]
        ids = [x for x in constants if _looks_like_ids(x, mask)]
        lengths = [x for x in constants if _looks_like_lengths(x, mask)]
        sources.update((x.name, x) for x in ids or lengths)
    graph_def = tf.GraphDef(
        versions=mask.graph.graph_def_versions,
        node=[
            _copy_node(operation.node_def)
            for name, operation in copied.items()
            if f"{name}:0" not in sources
        ],
    )
    return graph_def, list(sources.values())


def _looks_like_ids(constant, mask) -> bool:
    """Return whether a constant may be ids [N, T] that end in padding, zeros."""
    sizes = mask.shape.as_list() or [None]
    if constant.shape.as_list() != [sizes[0], sizes[-1]]:
        return False
    ids = tf.get_static_value(constant)
    is_token = ids != 0
    ends_in_padding = (is_token[:, 1:] <= is_token[:, :-1]).all()
    return bool((ids >= 0).all() and ends_in_padding and not is_token.all())


def _looks_like_lengths(constant, mask) -> bool:
    """Return whether a constant may be the lengths [N] of sentences."""
    sizes = mask.shape.as_list() or [None]
    if constant.shape.as_list() != sizes[:1] or not sizes[-1]:
        return False
    lengths = tf.get_static_value(constant)
    return bool((lengths > 0).all() and (lengths <= sizes[-1]).all())


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


def _make_constant(source, is_token):
    """Make the constant that takes the place of a source.

    Args:
      source: a tensor that `_find_sources` returned.
      is_token: bool array [N, T].

    Raises:
      ValueError: the source is neither ids nor lengths nor a shape.
    """
    batch, length = is_token.shape
    shape = _find_shape(source)
    sizes = [size or default for size, default in zip(shape, (batch, length))]
    sizes += shape[2:]
    if source.op.type == "Shape":
        value = sizes
    elif source.op.type == "Size":
        value = np.prod(sizes)
    elif not source.dtype.base_dtype.is_integer or len(shape) > 2:
        raise ValueError(f"{source.name} is neither ids nor lengths nor a shape")
    elif len(shape) == 2:
        value = is_token * (5 + np.arange(length) % 3)  # ids
    else:
        value = is_token.sum(axis=1) if shape else length
    return tf.constant(value, source.dtype.base_dtype)
