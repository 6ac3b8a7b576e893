"""Recorded cases of the original systems, and checkpoints as they write them."""

import functools
import os

import corpora
import fixtures
import numpy as np
import tensorflow.compat.v1 as tf
from conftest import CONFIG, initialize

from transformer import hparams, model
from transformer.compat import convert, names

VOCAB = int(corpora.VOCAB_SIZE)
SIZES = {
    "num_blocks": 2,
    "d_model": 8,
    "d_ff": 12,
    "source_vocab_size": VOCAB,
    "target_vocab_size": VOCAB,
}
LEARNED_POSITIONS = {"joint_vocab": False, "max_positions": 7, "pad_sources_to": 7}
POSITION_SETTINGS = {
    "tutorial": LEARNED_POSITIONS,
    "kyubyong_legacy": LEARNED_POSITIONS,
}
DIALECTS = [
    "tutorial",
    "kyubyong_legacy",
    "kyubyong",
    "tensor2tensor",
    "tensor2tensor_v1",
]
SHARDS = 12  # so that weights_10 must not come before weights_2
SPACES = 4


def source_of(dialect):
    return "tensor2tensor" if dialect.startswith("tensor2tensor") else dialect


def settings(dialect, **changes):
    """The settings that an import should infer from the shapes."""
    positions = POSITION_SETTINGS.get(dialect, {"joint_vocab": True})
    return {**SIZES, "dialect": dialect, **positions, **changes}


@functools.lru_cache(maxsize=None)
def variable_shapes(dialect, **changes):
    hp = hparams.HParams(num_heads=2, **settings(dialect, **changes))
    return model.variable_shapes(hp)


def random_model(dialect, seed=0, **changes):
    """The variables of a small model of ours, by our names."""
    rng = np.random.RandomState(seed)
    shapes = variable_shapes(dialect, **changes)
    return {
        name: rng.uniform(-0.5, 0.5, shapes[name]).astype(np.float32)
        for name in sorted(shapes)
    }


def as_original(model, dialect, slot=""):
    """The variables with the names, shapes and shards of the original system."""
    arrays = {}
    for name, array in model.items():
        original = names.original_name(name, dialect, array.shape)
        if original.endswith("weights_"):
            for i, shard in enumerate(np.array_split(array, SHARDS)):
                arrays["{}{}{}".format(original, i, slot)] = shard
        elif name == "encoder/target_space":
            rows = [array + (i - 1) for i in range(SPACES)]  # row 1 is `array`
            arrays[original + slot] = np.stack(rows)
        else:
            arrays[original + slot] = (
                array[None] if "conv1d" in original and (array.ndim == 2) else array
            )
    return arrays


def with_moments(dialect, step=3):
    """A checkpoint of an original system in the middle of a training run."""
    arrays = {
        "global_step": np.array(step, np.int32),
        "beta1_power": np.float32(0.5),
        "beta2_power": np.float32(0.75),
    }
    for seed, slot in enumerate(["", *convert.SLOTS]):
        model = random_model(dialect, seed)
        if slot:
            model = {name: abs(array) for name, array in model.items()}
        arrays.update(as_original(model, dialect, slot))
    return arrays


def write(arrays, folder):
    """Write a checkpoint as a TF1 program does; return its path."""
    path = os.path.join(str(folder), "original")
    with tf.Graph().as_default(), tf.Session() as session:
        variables = [
            tf.get_variable(name, initializer=tf.zeros_like(array))
            for name, array in arrays.items()
        ]
        initialize(session, arrays, variables)
        return tf.train.Saver().save(session, path, write_meta_graph=False)


def run_import(dialect, checkpoint, logdir, *flags):
    corpora.run_command(
        "import",
        f"--from={source_of(dialect)}",
        f"--ckpt={checkpoint}",
        "--num_heads=2",
        f"--out={logdir}",
        *flags,
    )
    return str(logdir)


def import_arrays(arrays, dialect, space=1, vocab_sizes=()):
    """Import arrays that are in no file."""
    arrays = convert.join_shards(arrays)
    inferred = convert.infer_settings(source_of(dialect), arrays, vocab_sizes, 2)
    return convert.convert(arrays, hparams.HParams(num_heads=2, **inferred), space)


def subword_list(path, size, subtokens=()):
    """Write a vocabulary of tensor2tensor: special pieces, some subtokens and their
    characters, and invented ones up to a size."""
    subword_names = ["<pad>_", "<EOS>_", *"\\_u;0123456789w", *subtokens]
    subword_names += sorted(set("".join(subtokens)).difference(subword_names))
    subword_names += [f"w{i}_" for i in range(size - len(subword_names))]
    return corpora.write_lines(path, [f"'{subtoken}'" for subtoken in subword_names])


def word_list(path, size, words=(), extra_lines=()):
    """Write a word list of the tutorial: `word<TAB>count`, the most frequent first;
    some words, invented ones up to a size, and extra lines."""
    listed = ["<PAD>", "<UNK>", "<S>", "</S>", *words]
    listed += [f"w{i}" for i in range(len(listed), size)]
    counts = [1000] * 4 + [1000 - i for i in range(4, size)]
    lines = [f"{word}\t{count}" for word, count in zip(listed, counts)]
    return corpora.write_lines(path, [*lines, *extra_lines])


def dense_gradients(result, tensors):
    """tf.gradients, with those of embedding tables as dense tensors."""
    return [
        gradient if gradient is None else tf.convert_to_tensor(gradient)
        for gradient in tf.gradients(result, tensors)
    ]


def open_case(name):
    """Open a recorded case: (case, its inputs as tensors, its arguments)."""
    case = fixtures.load(name)
    inputs = {k: tf.constant(v) for k, v in fixtures.group(case, "in").items()}
    return case, inputs, case["meta"]["kwargs"]


def assert_as_recorded(case, outputs, inputs, in_order=True):
    """Compare variables, outputs and gradients with a recorded case.

    Args:
      case: from `open_case`; its gradients are those of sum(out * dout).
      outputs: {name: tensor}, all recorded outputs but attention weights.
      inputs: the tensors by name.
      in_order: whether to compare the order of the variables, too.
    """
    variables = {v.op.name: v for v in tf.global_variables()}
    recorded = fixtures.group(case, "var")
    shapes = {name: v.shape.as_list() for name, v in variables.items()}
    assert shapes == {name: list(value.shape) for name, value in recorded.items()}
    if in_order:
        assert list(variables) == list(recorded)
    fetches = {"out/" + name: tensor for name, tensor in outputs.items()}
    keys = {key for key in case if key.startswith(("out/", "grad/", "gradin/"))}
    if "in/dout" in case:
        product = tf.reduce_sum(outputs["out"] * case["in/dout"])
        for kind, tensors in (("grad/", variables), ("gradin/", inputs)):
            names = [name for name in tensors if kind + name in keys]
            gradients = dense_gradients(product, [tensors[name] for name in names])
            fetches.update(zip([kind + name for name in names], gradients))
    assert keys - set(fetches) <= {"out/attn"}
    with tf.Session(config=CONFIG) as session:
        initialize(session, recorded, variables.values())
        for key, value in session.run(fetches).items():
            fixtures.assert_close(value, case[key], key)
