"""Checkpoints of the original systems, turned into checkpoints of this one.

    arrays = convert.read("original/model.ckpt-1000")
    hp = HParams(num_heads=8, **convert.settings_of("tensor2tensor", arrays))
    imported = convert.convert(arrays, hp)
    convert.write(imported, logdir)

The names are those of the tables in `sources`; every size but the number of heads is in
the shapes. What does not fit is refused, and what would be left over.
"""

import collections
import fnmatch
import re
from typing import Any, Dict, NamedTuple, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.dialects import resolve
from transformer.model import Transformer
from transformer.originals.names import original_name, systems
from transformer.runtime import checkpoints

SLOTS = ("/Adam", "/Adam_1")  # the moments, of each variable
POWERS = ("beta1_power", "beta2_power")  # of the factors of the moments
STEP = "global_step"
# What some optimizer keeps of a variable, or of a shard of one: it is left behind.
SLOT = re.compile(r"(.+?)((?<=/weights_)\d+)?/(Adam|AdamW|Adafactor|Momentum)(_\d+)?")
# Averages and counters that tensor2tensor keeps for its log and its optimizers.
STATISTICS = re.compile(r"(losses_avg|train_stats)/|iter$")
# Where a model of tensor2tensor does not share its embeddings with its output layer.
UNTIED = re.compile(r".*/symbol_modality_.*/(input_emb|target_emb|softmax)/weights_")


class Imported(NamedTuple):
    """The variables of a checkpoint of this project."""

    arrays: Dict[str, np.ndarray]  # by our names, those of the optimizer too
    step: int
    has_moments: bool  # False: Adam starts afresh


def read(prefix):
    """The variables of a TF1 checkpoint by their names, shards of a table joined.

    Raises:
      ValueError: there is no checkpoint, it is damaged, or a shard is missing.
    """
    try:
        reader = tf.train.load_checkpoint(prefix)
        arrays = {
            re.sub("^training/", "", name): reader.get_tensor(name)
            for name in reader.get_variable_to_shape_map()
        }
    except (tf.errors.OpError, ValueError, IndexError) as error:
        raise ValueError(
            f"{prefix}: found no checkpoint, or a damaged one, wanted the "
            "path of its .index file without that ending, and its .data "
            "files beside it"
        ) from error
    return join_shards(arrays)


def join_shards(arrays):
    """`weights_0`, `weights_1` ... in the order of their numbers, as `weights_`."""
    joined, shards = {}, collections.defaultdict(dict)
    for name, array in arrays.items():
        match = re.fullmatch(r"(.*/weights_)(\d+)(|/Adam|/Adam_1)", name)
        if match:
            shards[match.group(1) + match.group(3)][int(match.group(2))] = array
        else:
            joined[name] = array
    for name, parts in shards.items():
        missing = sorted(set(range(len(parts))) - set(parts))
        widths = {part.shape[1:] for part in parts.values()}
        if missing or len(widths) > 1:
            raise ValueError(
                f"{name}{missing[0] if missing else '*'}: found shards "
                f"{sorted(parts)} of widths {sorted(widths)}, wanted all "
                "of them, of one width"
            )
        joined[name] = np.concatenate([parts[i] for i in sorted(parts)])
    return joined


def settings_of(
    source: str, arrays: Dict[str, np.ndarray], vocab_sizes: Sequence[int] = ()
) -> Dict[str, Any]:
    """The settings that a checkpoint tells: its dialect, and sizes from its shapes.

    Args:
      source: a key of `names.systems()`.
      arrays: what `read` returns.
      vocab_sizes: pieces of the source's and of the target's vocabulary: where each has
        a table of its own, but the same name, they say which is which.

    Raises:
      ValueError: they are not the variables of that source.
    """
    untied = sorted(filter(UNTIED.match, arrays))
    if untied:
        raise ValueError(
            f"{untied[0]}: found embeddings that the output layer does "
            "not share, wanted symbol_modality_*/shared/weights_*, as "
            "shared_embedding_and_softmax_weights makes them"
        )
    dialect = max(systems()[source], key=lambda name: _norms_found(name, arrays))
    row, find = resolve(dialect), _Finder(dialect, arrays)
    blocks = find.number_of_blocks()
    shared = [_size_in_name(name, 0) for name in find.all("embedding/lookup_table")]
    tables = (
        ["embedding/lookup_table"] * 2
        if row.tied_embeddings
        else ["encoder/embedding/lookup_table", "decoder/embedding/lookup_table"]
    )
    inner = [
        f"{stack}/block_{i}/feedforward/"
        for i in range(blocks)
        for stack in ("encoder", "decoder")
    ]
    d_model = find.size(
        *[(name + "outer/bias", 0) for name in inner], *[(name, 1) for name in tables]
    )
    settings = {
        "dialect": dialect,
        "num_blocks": blocks,
        "d_model": d_model,
        "d_ff": find.size(
            *[(name + "inner/bias", 0) for name in inner],
            (inner[0] + "inner/kernel", -1),
        ),
        "source_vocab_size": find.size((tables[0], 0)),
        "target_vocab_size": find.size(
            (tables[1], 0), ("decoder/output/bias", 0), ("decoder/output/kernel", 1)
        ),
        "joint_vocab": row.tied_embeddings,
    }
    if len(shared) == 2:
        settings.update(_told_apart(shared, vocab_sizes))
    positions = ("encoder/positional_encoding/lookup_table", 0)
    if row.learned_positions and find.all(positions[0]):
        settings["max_positions"] = find.size(positions)
        if row.masks_from == "activations":  # padding is attended to: all of it counts
            settings["pad_sources_to"] = settings["max_positions"]
    elif row.learned_positions:
        settings["positions"] = row.positions
    distances = ("encoder/block_0/self_attention/relative/keys", 0)
    if find.all(distances[0]):
        settings["max_relative_position"] = find.size(distances) // 2
    return settings


def _told_apart(found, vocab_sizes):
    """The settings of two vocabularies of which only the sizes are known."""
    if sorted(found) != sorted(vocab_sizes):
        raise ValueError(
            f"vocabulary: found {list(vocab_sizes) or 'none'}, wanted two "
            f"of {found[0]} and {found[1]} pieces: --src_vocab and "
            "--tgt_vocab say which of the two tables is the source's"
        )
    return {
        "source_vocab_size": vocab_sizes[0],
        "target_vocab_size": vocab_sizes[1],
        "joint_vocab": False,
    }


def _norms_found(dialect, arrays):
    """How many normalizations of the first blocks have the names of a dialect."""
    names = (
        f"{stack}/block_0/{layer}/ln/gamma"
        for stack in ("encoder", "decoder")
        for layer in ("self_attention", "feedforward")
    )
    return sum(original_name(name, dialect, "**") in arrays for name in names)


class _Finder:
    """Finds variables of an original system by our names, and sizes in their shapes."""

    def __init__(self, dialect, arrays):
        self.dialect, self.arrays = dialect, arrays

    def all(self, name):
        """Their names; more than one where the sizes are a part of it."""
        return fnmatch.filter(self.arrays, original_name(name, self.dialect, "**"))

    def size(self, *places):
        """What most of the places (name, axis) say, the first of them where even."""
        votes = collections.Counter()
        for name, axis in places:
            for found in self.all(name):
                shape = self.arrays[found].shape
                if len(shape) > axis:
                    votes[_size_in_name(found, axis) or shape[axis]] += 1
        if not votes:
            wanted = original_name(places[0][0], self.dialect, "**")
            raise ValueError(
                f"{wanted}: found no such variable, wanted a checkpoint "
                f"of {self.dialect}"
            )
        return int(votes.most_common(1)[0][0])

    def number_of_blocks(self):
        """One more than the highest number of a block of either stack."""
        stems = [
            original_name(f"{stack}/block_0/", self.dialect, "**")[: -len("0/")]
            for stack in ("encoder", "decoder")
        ]
        pattern = re.compile("(?:" + "|".join(stems) + r")(\d+)/")
        numbers = [
            int(match.group(1)) for match in map(pattern.match, self.arrays) if match
        ]
        return max(numbers, default=0) + 1


def _size_in_name(name, axis):
    """The size along an axis where the name tells it: symbol_modality_8000_512."""
    match = re.search(r"/symbol_modality_(\d+)_(\d+)/", name)
    return match and int(match.group(axis + 1))


def convert(arrays, hp, target_space_id: int = 0) -> Imported:
    """The variables of this project's model from those of an original one.

    Args:
      arrays: what `read` returns.
      hp: the settings of the model, those of `settings_of` among them.
      target_space_id: where the dialect has a vector for the target's language, which.

    Raises:
      ValueError: a variable is missing, has another shape, or is left over.
    """
    left = dict(arrays)
    step = int(left.pop(STEP, 0))
    shapes = variables_of(hp)
    originals = {
        name: original_name(name, hp.dialect, shape) for name, shape in shapes.items()
    }
    has_moments = all(name in left for name in POWERS) and all(
        name + slot in left for name in originals.values() for slot in SLOTS
    )
    result = {}
    for slot in ("",) + (SLOTS if has_moments else ()):
        for name, shape in shapes.items():
            result[name + slot] = _take(
                left, name, originals[name] + slot, shape, target_space_id
            )
    _refuse_leftover(left, set(originals.values()))
    if not has_moments:
        result.update(
            (name + slot, np.zeros(shape, np.float32))
            for name, shape in shapes.items()
            for slot in SLOTS
        )
    adam = resolve(hp.dialect).adam
    for name, fresh in zip(POWERS, adam):
        result[name] = np.asarray(left[name] if has_moments else fresh, np.float32)
    result[STEP] = np.asarray(step, np.int64)
    return Imported(result, step, has_moments)


def variables_of(hp):
    """{name: shape} of the model's variables."""
    with tf.Graph().as_default():
        model, ids = Transformer(hp), tf.placeholder(tf.int32, [None, None])
        model.decode(ids, model.encode(ids))
        return {
            variable.op.name: variable.shape.as_list()
            for variable in tf.trainable_variables()
        }


def _take(left, name, original, shape, target_space_id):
    """Removes a variable from `left`; returns it in our shape."""
    if original not in left:
        raise ValueError(
            f"{original}: found no such variable, wanted one of shape "
            f"{shape} for {name}"
        )
    array = left.pop(original)
    found = list(array.shape)
    if name == "encoder/target_space" and array.ndim == 2:
        if not 0 <= target_space_id < len(array):
            raise ValueError(
                f"{original}: found {len(array)} rows, wanted row "
                f"{target_space_id}, the target space id"
            )
        array = array[target_space_id]
    elif len(shape) == 2 and array.ndim == 3 and array.shape[0] == 1:
        array = array[0]  # a convolution of width 1
    if list(array.shape) != shape:
        raise ValueError(f"{original}: found shape {found}, wanted {shape} for {name}")
    return np.asarray(array, np.float32)


def _refuse_leftover(left, originals):
    """Raises ValueError where more is left than an optimizer's own variables."""
    slots = {
        name
        for name in left
        for match in [SLOT.fullmatch(name)]
        if match and match.group(1) in originals
    }
    names = sorted(
        name
        for name in left
        if name not in slots and name not in POWERS and not STATISTICS.match(name)
    )
    if names:
        raise ValueError(
            f"{names[0]}: found shape {list(left[names[0]].shape)}, wanted no such "
            f"variable: {len(names)} would be left over: {', '.join(names[:5])}"
            + (" ..." if len(names) > 5 else "")
        )


def write(imported, logdir):
    """Writes `imported` as a checkpoint that train.py goes on from.

    Returns:
      Its path without the endings of its files.
    """
    with tf.Graph().as_default(), tf.Session() as session:
        variables = {
            name: tf.get_variable(
                name, array.shape, tf.as_dtype(array.dtype), tf.zeros_initializer()
            )
            for name, array in sorted(imported.arrays.items())
        }
        session.run(
            [variable.initializer for variable in variables.values()],
            {
                variables[name].initial_value: array
                for name, array in imported.arrays.items()
            },
        )
        checkpoints.save(session, checkpoints.make_saver(), logdir, imported.step, 1)
    return checkpoints.prefix(logdir, imported.step)
