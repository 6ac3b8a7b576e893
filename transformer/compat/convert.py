"""Convert checkpoints of the original systems to the variables of this project.

    arrays = convert.read("original/model.ckpt-1000")
    hp = HParams(num_heads=8, **convert.settings_of("tensor2tensor", arrays))
    imported = convert.convert(arrays, hp)
    checkpoints.write(imported.arrays, logdir, imported.step)

`names` has the tables of variable names. The shapes determine every size except the
number of heads. A variable that does not fit, or would be left over, is an error.
"""

import collections
import fnmatch
import re
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.compat.names import original_name, renamed, systems
from transformer.dialects import Dialect, resolve
from transformer.hparams import HParams
from transformer.logdir import checkpoints
from transformer.model import Transformer

SLOTS = ("/Adam", "/Adam_1")  # the moments of each variable
POWERS = ("beta1_power", "beta2_power")  # the powers of beta1 and beta2
STEP = "global_step"
STACKS = ("encoder", "decoder")
# The optimizer slots of a variable or a shard; they are not imported.
SLOT = re.compile(r"(.+?)((?<=/weights_)\d+)?/(Adam|AdamW|Adafactor|Momentum)(_\d+)?")
# Averages and counters that tensor2tensor keeps for its log and its optimizers.
STATISTICS = re.compile(r"(losses_avg|train_stats)/|iter$")
# Variables of a tensor2tensor model whose output layer has its own weights.
UNTIED = re.compile(r".*/symbol_modality_.*/(input_emb|target_emb|softmax)/weights_")


class Imported(NamedTuple):
    """Imported variables under our names."""

    arrays: Dict[str, np.ndarray]  # including those of the optimizer
    step: int
    has_moments: bool  # False: Adam starts afresh
    parameters: int  # the number of trained parameters


def read(checkpoint: str, rules: Sequence = ()) -> Dict[str, np.ndarray]:
    """Return the variables of a TF1 checkpoint by name; join the shards of tables.

    Args:
      checkpoint: its path, without file extensions.
      rules: (regular expression, replacement) pairs, applied to each name in order.

    Raises:
      ValueError: there is no checkpoint, the checkpoint is damaged, the rules give two
        variables the same name, or a shard is missing.
    """
    try:
        found = checkpoints.read(checkpoint)
    except (tf.errors.OpError, ValueError, IndexError) as error:
        raise ValueError(
            f"{checkpoint}: expected the path of its .index file without "
            "that extension, and its .data files next to it, got no "
            "checkpoint, or a damaged one"
        ) from error
    arrays: Dict[str, np.ndarray] = {}
    before: Dict[str, str] = {}  # new name → original name
    for name, array in found.items():
        new = renamed(re.sub("^training/", "", name), rules)
        if new in arrays:
            raise ValueError(
                f"{checkpoint}: expected a name of its own for each variable, got "
                f"{before[new]} and {name}, which would both be {new}; rename one with "
                "--names"
            )
        arrays[new] = array
        before[new] = name
    return join_shards(arrays)


def join_shards(arrays: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
    """Join the shards `weights_0`, `weights_1`, ... into one array, `weights_`."""
    joined = {}
    shards: Dict[str, Dict[int, np.ndarray]] = collections.defaultdict(dict)
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
                f"{name}{missing[0] if missing else '*'}: expected all "
                f"shards, of the same width, got {sorted(parts)} of widths "
                f"{sorted(widths)}"
            )
        joined[name] = np.concatenate([parts[i] for i in sorted(parts)])
    return joined


def settings_of(
    source: str, arrays: Dict[str, np.ndarray], vocab_sizes: Sequence[int] = ()
) -> Dict[str, Any]:
    """Return the settings that a checkpoint implies: dialect, sizes and positions.

    Args:
      source: a key of `names.systems()`.
      arrays: the variables, from `read`.
      vocab_sizes: the sizes of the source and target vocabularies. They distinguish two
        tables with the same name.

    Raises:
      ValueError: the variables do not belong to that source.
    """
    untied = sorted(filter(UNTIED.match, arrays))
    if untied:
        raise ValueError(
            f"{untied[0]}: expected symbol_modality_*/shared/weights_*, "
            "as shared_embedding_and_softmax_weights makes them, got "
            "embeddings that the output layer does not share"
        )
    dialect = max(systems()[source], key=lambda name: _norms_found(name, arrays))
    row = resolve(dialect)
    find = _Finder(dialect, arrays)
    settings: Dict[str, Any] = {"dialect": dialect, "joint_vocab": row.tied_embeddings}
    settings.update(_sizes(row, find))
    shared = [_vocab_size_in(name) for name in find.all("embedding/lookup_table")]
    if len(shared) == 2:
        settings.update(_separate_vocabularies(shared, vocab_sizes))
    settings.update(_position_settings(row, find))
    return settings


def _sizes(row: Dialect, find: "_Finder") -> Dict[str, Any]:
    """Return the settings that are sizes of variables."""
    embeddings = ["embedding/lookup_table"] * 2
    if not row.tied_embeddings:
        embeddings = [f"{stack}/embedding/lookup_table" for stack in STACKS]
    return {
        "num_blocks": find.number_of_blocks(),
        "d_model": find.size("encoder/block_0/feedforward/outer/bias"),
        "d_ff": find.size("encoder/block_0/feedforward/inner/bias"),
        "source_vocab_size": find.size(embeddings[0]),
        "target_vocab_size": find.size(embeddings[1]),
    }


def _position_settings(row: Dialect, find: "_Finder") -> Dict[str, Any]:
    """Return the settings for absolute and relative positions."""
    settings: Dict[str, Any] = {}
    table = "encoder/positional_encoding/lookup_table"
    if row.learned_positions and find.all(table):
        settings["max_positions"] = find.size(table)
        if row.masks_from == "activations":  # the model attends to padding
            settings["pad_sources_to"] = settings["max_positions"]
    elif row.learned_positions:
        settings["positions"] = row.positions
    distances = "encoder/block_0/self_attention/relative/keys"
    if find.all(distances):
        settings["max_relative_position"] = find.size(distances) // 2
    return settings


def _separate_vocabularies(found, vocab_sizes):
    """Return the settings for two vocabularies, identified by their sizes."""
    if sorted(found) != sorted(vocab_sizes):
        raise ValueError(
            f"vocabulary: expected two of {found[0]} and {found[1]} "
            f"pieces, got {list(vocab_sizes) or 'none'}; --src_vocab and "
            "--tgt_vocab say which of the two tables is the source's"
        )
    return {
        "source_vocab_size": vocab_sizes[0],
        "target_vocab_size": vocab_sizes[1],
        "joint_vocab": False,
    }


def _norms_found(dialect, arrays):
    """Return how many normalizations in the first blocks have a dialect's names."""
    names = (
        f"{stack}/block_0/{layer}/ln/gamma"
        for stack in STACKS
        for layer in ("self_attention", "feedforward")
    )
    return sum(original_name(name, dialect, "**") in arrays for name in names)


class _Finder:
    """Finds variables of an original system by our names, and their sizes."""

    def __init__(self, dialect: str, arrays: Dict[str, np.ndarray]):
        self.dialect = dialect
        self.arrays = arrays

    def all(self, name: str) -> List[str]:
        """Return the original names: several if a size is part of the name."""
        return fnmatch.filter(self.arrays, original_name(name, self.dialect, "**"))

    def size(self, name: str) -> int:
        """Return the first dimension of a variable; of a table, the vocabulary size."""
        found = self.all(name)
        if not found:
            raise ValueError(
                f"{original_name(name, self.dialect, '**')}: expected this variable in "
                f"a checkpoint of {self.dialect}, got none; if the variables of the "
                "program have other names, rename them with --names"
            )
        return _vocab_size_in(found[0]) or len(self.arrays[found[0]])

    def number_of_blocks(self) -> int:
        """Return one more than the highest block number in either stack."""
        stems = [
            original_name(f"{stack}/block_0/", self.dialect, "**")[: -len("0/")]
            for stack in STACKS
        ]
        pattern = re.compile("(?:" + "|".join(stems) + r")(\d+)/")
        numbers = [
            int(match.group(1)) for match in map(pattern.match, self.arrays) if match
        ]
        count = max(numbers, default=0) + 1
        if count > max(1, len(set(numbers))):
            raise ValueError(
                f"{self.dialect}: expected blocks numbered from 0 without "
                f"gaps, got number {count - 1}, but only {len(set(numbers))} "
                "blocks"
            )
        return count


def _vocab_size_in(name: str) -> Optional[int]:
    """Return V from a name like symbol_modality_V_512, which a missing shard keeps."""
    match = re.search(r"/symbol_modality_(\d+)_", name)
    return int(match.group(1)) if match else None


def convert(
    arrays: Dict[str, np.ndarray], hp: HParams, target_space_id: int = 0
) -> Imported:
    """Convert the variables of an original model to those of this project.

    Args:
      arrays: the variables, from `read`.
      hp: the settings of the model, including those from `settings_of`.
      target_space_id: the row with the vector for the target language, in dialects with
        such a vector.

    Raises:
      ValueError: a variable is missing, has a wrong shape, or is left over.
    """
    left = dict(arrays)
    step = int(left.pop(STEP, 0))
    shapes = variable_shapes(hp)
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
    refuse_leftover(left, set(originals.values()))
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
    parameters = sum(result[name].size for name in shapes)
    return Imported(result, step, has_moments, parameters)


def variable_shapes(hp: HParams) -> Dict[str, List[int]]:
    """Return the variables of the model: name → shape."""
    with tf.Graph().as_default():
        model = Transformer(hp)
        ids = tf.placeholder(tf.int32, [None, None])
        model.decode(ids, model.encode(ids))
        return {
            variable.op.name: variable.shape.as_list()
            for variable in tf.trainable_variables()
        }


def _take(left, name, original, shape, target_space_id):
    """Remove a variable from `left`; return it in our shape."""
    if original not in left:
        raise ValueError(
            f"{original}: expected a variable of shape {shape} for {name}, got none"
        )
    array = left.pop(original)
    found = list(array.shape)
    if name == "encoder/target_space" and array.ndim == 2:
        if not 0 <= target_space_id < len(array):
            raise ValueError(
                f"{original}: expected row {target_space_id}, the target "
                f"space id, got {len(array)} rows"
            )
        array = array[target_space_id]
    elif len(shape) == 2 and array.ndim == 3 and array.shape[0] == 1:
        array = array[0]  # a convolution of width 1
    if list(array.shape) != shape:
        raise ValueError(f"{original}: expected shape {shape} for {name}, got {found}")
    return np.asarray(array, np.float32)


def refuse_leftover(left: Dict[str, np.ndarray], originals: Iterable[str]) -> None:
    """Raise ValueError if variables other than those of an optimizer are left over.

    Args:
      left: the variables that were not converted.
      originals: the names of the variables that were.
    """
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
            f"{names[0]}: expected no such variable, got one of shape "
            f"{list(left[names[0]].shape)}; {len(names)} would be left "
            f"over: {', '.join(names[:5])}" + (" ..." if len(names) > 5 else "")
        )
