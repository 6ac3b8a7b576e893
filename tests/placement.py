"""Where a graph would run on a machine with a GPU, told on one without.

TensorFlow's registry of kernels says, for every operation and its types, whether there
is one for GPUs, and which of its arguments such a kernel wants in the memory of the
host. An edge between the two memories is a copy. The graph is the one that the
executor sees: loops and conditions are lowered to single operations, functions are
inlined. The sizes of tensors are those of a run on the CPU.
"""

import collections
from typing import Dict, List, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.framework import kernels, op_def_registry

ONEDNN = "_Mkl"
HOST, DEVICE = "host", "device"
EDGES = {"_Arg", "_Retval", "_Recv", "_Send", "_HostRecv", "_HostSend"}  # of a run
HANDLES = (tf.resource.as_datatype_enum, tf.variant.as_datatype_enum)
KERNELS: Dict[str, list] = {}


class Copy(NamedTuple):
    """A tensor that crosses from one memory to the other."""

    source: str  # the op that makes it
    target: str  # an op that wants it elsewhere
    towards: str  # HOST or DEVICE
    bytes: int  # the most of a run
    times: int  # how often the op that makes it ran

    @property
    def kinds(self):
        return self.source.split(" ")[0], self.target.split(" ")[0]


def has_kernels_for_gpus() -> bool:
    """TensorFlow 2's packages have them; that of 1.15 for CPUs has none."""
    return any(kernel.device_type == "GPU" for kernel in _kernels("MatMul"))


def _kernels(op: str) -> list:
    if op not in KERNELS:
        KERNELS[op] = list(kernels.get_registered_kernels_for_op(op).kernel)
    return KERNELS[op]


def kind_of(node) -> str:
    """The kind of an operation, for which oneDNN may have its own on a CPU."""
    return node.op[len(ONEDNN) :] if node.op.startswith(ONEDNN) else node.op


def _types(value) -> set:
    return set(value.list.type) if value.WhichOneof("value") == "list" else {value.type}


def gpu_kernel(node):
    """The kernel that a GPU would run for a NodeDef; None where there is none."""
    fitting = [
        kernel
        for device in ("GPU", "DEFAULT")
        for kernel in _kernels(kind_of(node))
        if kernel.device_type == device
        and not kernel.label
        and all(
            _types(node.attr[each.name]) <= set(each.allowed_values.list.type)
            for each in kernel.constraint
        )
    ]
    return max(fitting, key=lambda kernel: kernel.priority, default=None)


def _names(node, arguments) -> List[str]:
    """The name of the argument that each input (or output) belongs to."""
    names = []
    for each in arguments:
        if each.number_attr:
            count = node.attr[each.number_attr].i
        elif each.type_list_attr:
            count = len(node.attr[each.type_list_attr].list.type)
        else:
            count = 1
        names += [each.name] * count
    return names


def _asks_for_host(op) -> bool:
    """`tf.device` says that an op is for the host."""
    return "CPU" in (op.device or "").upper()


class Placed:
    """A node, and the memories of its inputs and outputs."""

    def __init__(self, node, on_host: bool):
        self.node, self.kernel = node, None if on_host else gpu_kernel(node)
        definition = op_def_registry.get(kind_of(node))
        self.inputs = self._memories(_names(node, definition.input_arg))
        self.outputs = self._memories(_names(node, definition.output_arg))

    def _memories(self, names):
        if self.kernel is None:
            return [HOST] * len(names)
        return [
            HOST if each in self.kernel.host_memory_arg else DEVICE for each in names
        ]

    def __str__(self):
        return f"{kind_of(self.node)} {self.node.name}"


class Placement:
    """The nodes of a run, and what would be copied between them.

    Args:
      session: a session of the graph.
      fetches, feed: of the run.
      pipeline: kinds of operations of the input pipeline, which the host runs.
    """

    def __init__(self, session, fetches, feed=None, pipeline=()):
        told = tf.RunMetadata()
        options = tf.RunOptions(
            output_partition_graphs=True, trace_level=tf.RunOptions.FULL_TRACE
        )
        session.run(fetches, feed, options, told)
        asked = {op.name for op in session.graph.get_operations() if _asks_for_host(op)}
        self.nodes = {
            node.name: Placed(
                node, node.name in asked or node.op in EDGES or node.op in pipeline
            )
            for graph in told.partition_graphs
            for node in graph.node
        }
        self._sizes, self.runs = _sizes(told), collections.Counter()
        for device in told.step_stats.dev_stats:
            self.runs.update(stats.node_name for stats in device.node_stats)

    def without_kernel(self) -> List[str]:
        """The nodes that a GPU could not run."""
        return sorted(
            str(placed)
            for placed in self.nodes.values()
            if not gpu_kernel(placed.node) and placed.node.op not in EDGES
        )

    def copies(self) -> List[Copy]:
        """The edges between the two memories."""
        found = []
        for target in self.nodes.values():
            data = [each for each in target.node.input if not each.startswith("^")]
            for wanted, name in zip(target.inputs, data):
                name, _, slot = name.partition(":")
                source, slot = self.nodes[name], int(slot or 0)
                if source.outputs[slot] != wanted and not _is_handle(source, slot):
                    size, times = self._sizes.get((name, slot), 0), self.runs[name]
                    found.append(Copy(str(source), str(target), wanted, size, times))
        return found


def _is_handle(source, slot) -> bool:
    """Return whether an output is the name of a variable, not its value."""
    node = source.node
    definition = op_def_registry.get(kind_of(node))
    name = _names(node, definition.output_arg)[slot]
    argument = next(each for each in definition.output_arg if each.name == name)
    return argument.type in HANDLES


def _sizes(told) -> Dict[tuple, int]:
    """(node, output) → the most bytes that it had in the run."""
    sizes = {}
    for device in told.step_stats.dev_stats:
        for stats in device.node_stats:
            for output in stats.output:
                tensor = output.tensor_description
                dtype = tf.as_dtype(tensor.dtype)
                if dtype in (tf.string, tf.resource, tf.variant):
                    continue
                size = int(np.prod([each.size for each in tensor.shape.dim]))
                size *= dtype.size
                place = stats.node_name, output.slot
                sizes[place] = max(size, sizes.get(place, 0))
    return sizes
