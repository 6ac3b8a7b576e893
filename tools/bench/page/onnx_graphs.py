"""The model as two ONNX graphs, for onnxruntime-web: the encoder, and a decoding step.

They are written from the equations, like `viewer/page/model.js`, and take their weights
from the same safetensors file, as external data: a graph holds no weights.
"""

import json
import math

from onnx import TensorProto, helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
WEIGHTS = "weights"  # the name of the external file


class Graph:
    """An ONNX graph that grows node by node; a tensor is its name."""

    def __init__(self, exported: bytes):
        size = int.from_bytes(exported[:8], "little")
        self._entries = json.loads(exported[8 : 8 + size])
        self._start = 8 + size
        metadata = self._entries.pop("__metadata__")
        self.settings = json.loads(metadata["settings"])
        self.dialect = self.settings["dialect"]
        self._nodes, self._initializers, self._inputs = [], {}, []

    def add(self, op: str, *inputs: str, **attributes) -> str:
        """Add a node; return its only output."""
        output = f"{op}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def input(self, name: str, shape: list, kind=FLOAT) -> str:
        """Add an input; a text in the shape is a dimension of any size."""
        self._inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def constant(self, kind: int, values) -> str:
        """Add a constant: numbers of a type."""
        values = list(values)
        name = f"constant_{kind}_{values}"
        self._initializers[name] = helper.make_tensor(name, kind, [len(values)], values)
        return name

    def has(self, name: str) -> bool:
        """Whether the file has a tensor of this name."""
        return name in self._entries

    def weight(self, name: str) -> str:
        """Use a tensor of the file."""
        entry = self._entries[name]
        begin, end = entry["data_offsets"]
        tensor = TensorProto(name=name, data_type=FLOAT, dims=entry["shape"])
        tensor.data_location = TensorProto.EXTERNAL
        where = {"location": WEIGHTS, "offset": self._start + begin}
        for key, value in {**where, "length": end - begin}.items():
            tensor.external_data.add(key=key, value=str(value))
        self._initializers[name] = tensor
        return name

    def serialize(self, outputs: dict) -> bytes:
        """Return the model. outputs: a name for each tensor."""
        nodes = list(self._nodes)
        nodes += [helper.make_node("Identity", [a], [b]) for b, a in outputs.items()]
        results = [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs]
        initializers = self._initializers.values()
        graph = helper.make_graph(nodes, "g", self._inputs, results, initializers)
        versions = [helper.make_opsetid("", 18)]
        model = helper.make_model(graph, opset_imports=versions, ir_version=8)
        return model.SerializeToString()

    # The layers, with the names of model.js

    def dense(self, x: str, scope: str) -> str:
        """Multiply by a matrix [out, in], and add the bias if there is one."""
        names = [f"{scope}/kernel", f"{scope}/bias"]
        return self.add("Gemm", x, *map(self.weight, filter(self.has, names)), transB=1)

    def project(self, x: str, scope: str, order: list) -> str:
        """Project, and split into heads: [T, D] → axes T, H, d in this order."""
        x = self.dense(x, scope)
        x = self.add("Relu", x) if self.dialect["projection_relu"] else x
        x = self.add("Reshape", x, self.constant(INT64, self.head_shape()))
        return self.add("Transpose", x, perm=order)

    def head_shape(self) -> list:
        """The shape of queries, keys and values: [T, H, d]."""
        heads = self.settings["num_heads"]
        return [-1, heads, self.settings["d_model"] // heads]

    def keys_and_values(self, x: str, scope: str) -> list:
        """Project to keys [H, d, T] and values [H, T, d]."""
        keys = self.project(x, f"{scope}/k", [1, 2, 0])
        return [keys, self.project(x, f"{scope}/v", [1, 0, 2])]

    def normalize(self, x: str, scope: str) -> str:
        """Normalize each row."""
        weights = map(self.weight, (f"{scope}/gamma", f"{scope}/beta"))
        epsilon = self.dialect["norm_epsilon"]
        return self.add("LayerNormalization", x, *weights, epsilon=epsilon)

    def sublayer(self, inputs: str, scope: str, compute) -> str:
        """Normalize before or after; add."""
        before = self.dialect["norm"] == "before"
        x = self.normalize(inputs, f"{scope}/ln") if before else inputs
        x = self.add("Add", inputs, compute(x))
        after = self.dialect["norm"] == "after"
        return self.normalize(x, f"{scope}/ln") if after else x

    def attend(self, x: str, scope: str, keys: str, values: str, bias: str) -> str:
        """Compute softmax(Q K^T / sqrt(d) + bias) V; an empty bias is none."""
        size = self.head_shape()[2]
        x = self.project(x, f"{scope}/q", [1, 0, 2])  # [H, T, d]
        x = self.add("Mul", x, self.constant(FLOAT, [1 / math.sqrt(size)]))
        x = self.add("MatMul", x, keys)  # [H, T, Tk]
        x = self.add("Softmax", self.add("Add", x, bias) if bias else x)
        x = self.add("Transpose", self.add("MatMul", x, values), perm=[1, 0, 2])
        width = self.settings["d_model"]
        x = self.add("Reshape", x, self.constant(INT64, [-1, width]))
        return self.dense(x, f"{scope}/o") if self.dialect["output_projection"] else x

    def feedforward(self, x: str, scope: str) -> str:
        """Compute max(0, x W1 + b1) W2 + b2."""
        x = self.add("Relu", self.dense(x, f"{scope}/inner"))
        return self.dense(x, f"{scope}/outer")

    def embed(self, ids: str, stack: str) -> str:
        """Look up, scale, and add what depends on the position, another input."""
        width = self.settings["d_model"]
        table = self.weight(self.settings["tables"][stack])
        scale = self.constant(FLOAT, [math.sqrt(width)])
        x = self.add("Mul", self.add("Gather", table, ids), scale)
        x = self.add("Mul", x, self.input("is_piece", [1]))
        return self.add("Add", x, self.input("positions", ["P", width]))

    def normalize_stack(self, x: str, stack: str) -> str:
        """Normalize the outputs of a stack, if the dialect does."""
        return self.normalize(x, f"{stack}/ln") if self.dialect["final_norm"] else x


def make_encoder(exported: bytes) -> bytes:
    """Make the encoder: ids [S] → the keys and values for each decoder block."""
    graph = Graph(exported)
    x = graph.embed(graph.input("ids", ["S"], INT64), "encoder")
    for i in range(graph.settings["encoder_blocks"]):
        scope = f"encoder/block_{i}/self_attention"

        def attend(x, scope=scope):
            return graph.attend(x, scope, *graph.keys_and_values(x, scope), bias="")

        x = graph.sublayer(x, scope, attend)
        scope = f"encoder/block_{i}/feedforward"
        x = graph.sublayer(x, scope, lambda x, s=scope: graph.feedforward(x, s))
    x = graph.normalize_stack(x, "encoder")
    outputs = {}
    for i in range(graph.settings["decoder_blocks"]):
        scope = f"decoder/block_{i}/cross_attention"
        keys, values = graph.keys_and_values(x, scope)
        outputs.update({f"memory_keys_{i}": keys, f"memory_values_{i}": values})
    return graph.serialize(outputs)


def make_step(exported: bytes) -> bytes:
    """Make a decoding step: ids [K], and the keys and values so far → logits [K, V].

    The logarithms of the sums of their exponentials, [K], are outputs, too.
    """
    graph = Graph(exported)
    _, heads, size = graph.head_shape()
    x = graph.embed(graph.input("ids", ["K"], INT64), "decoder")
    bias = graph.input("bias", ["K", "T"])  # 0, or very low for other hypotheses
    outputs = {}
    for i in range(graph.settings["decoder_blocks"]):
        past_keys = graph.input(f"keys_{i}", [heads, size, "Tk"])
        past_values = graph.input(f"values_{i}", [heads, "Tk", size])
        memory_keys = graph.input(f"memory_keys_{i}", [heads, size, "S"])
        memory_values = graph.input(f"memory_values_{i}", [heads, "S", size])
        scope = f"decoder/block_{i}/self_attention"

        def attend(x, scope=scope, i=i, past=(past_keys, past_values)):
            keys, values = graph.keys_and_values(x, scope)
            keys = graph.add("Concat", past[0], keys, axis=2)
            values = graph.add("Concat", past[1], values, axis=1)
            outputs.update({f"next_keys_{i}": keys, f"next_values_{i}": values})
            return graph.attend(x, scope, keys, values, bias)

        def attend_to_source(x, scope=scope, memory=(memory_keys, memory_values)):
            return graph.attend(x, scope.replace("self", "cross"), *memory, bias="")

        x = graph.sublayer(x, scope, attend)
        x = graph.sublayer(x, scope.replace("self", "cross"), attend_to_source)
        scope = f"decoder/block_{i}/feedforward"
        x = graph.sublayer(x, scope, lambda x, s=scope: graph.feedforward(x, s))
    x = graph.normalize_stack(x, "decoder")
    if graph.dialect["tied_embeddings"]:
        table = graph.weight(graph.settings["tables"]["decoder"])
        logits = graph.add("Gemm", x, table, transB=1)
    else:
        logits = graph.dense(x, "decoder/output")
    axes = graph.constant(INT64, [1])
    normalizers = graph.add("ReduceLogSumExp", logits, axes, keepdims=0)
    return graph.serialize({"logits": logits, "normalizers": normalizers, **outputs})
