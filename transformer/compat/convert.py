"""Convert checkpoints of the original systems to the variables of this project.

    arrays = convert.read("original/model.ckpt-1000")
    hp = HParams(num_heads=8, **convert.infer_settings("tensor2tensor", arrays))
    imported = convert.convert(arrays, hp)
    checkpoints.save_arrays(imported.arrays, logdir, imported.step)

`names` has the tables of variable names. The shapes determine every size except the
number of heads. A variable that does not fit, or would be left over, is an error.
"""

import collections
import fnmatch
import re
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.compat.names import apply_rules, dialects_by_system, original_name
from transformer.dialects import Dialect, resolve
from transformer.hparams import HParams
from transformer.logdir import checkpoints
from transformer.model import variable_shapes
from transformer.runtime.errors import (
    CheckpointError,
    VariableNamesError,
    VocabulariesAmbiguous,
)
from transformer.runtime.progress import format_count

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
    """Read the variables of a TF1 checkpoint by name; join the shards of tables.

    Args:
      checkpoint: its path, without file extensions.
      rules: (regular expression, replacement) pairs, applied to each name in order.

    Raises:
      ValueError: there is no checkpoint, the checkpoint is damaged, the rules give two
        variables the same name, or a shard is missing.
    """
    try:
        originals = checkpoints.read_variables(checkpoint)
    except (tf.errors.OpError, OSError, ValueError, IndexError) as error:
        raise CheckpointError(
            f"{checkpoint}: no checkpoint, or a damaged one; expected the path of its "
            ".index file without that extension, and its .data files next to it"
        ) from error
    arrays: Dict[str, np.ndarray] = {}
    old_names: Dict[str, str] = {}  # new name → original name
    for old_name, array in originals.items():
        name = apply_rules(re.sub("^training/", "", old_name), rules)
        if name in arrays:
            raise VariableNamesError(
                f"{checkpoint}: expected a name of its own for each variable, got "
                f"{old_names[name]} and {old_name}, which would both be {name}"
            )
        arrays[name] = array
        old_names[name] = old_name
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
    for name, by_number in shards.items():
        missing = sorted(set(range(len(by_number))) - set(by_number))
        widths = {shard.shape[1:] for shard in by_number.values()}
        if missing or len(widths) > 1:
            raise CheckpointError(
                f"{name}{missing[0] if missing else '*'}: expected all "
                f"shards, of the same width, got {sorted(by_number)} of widths "
                f"{sorted(widths)}"
            )
        joined[name] = np.concatenate([by_number[i] for i in sorted(by_number)])
    return joined


def infer_settings(
    source: str,
    arrays: Dict[str, np.ndarray],
    vocab_sizes: Sequence[int] = (),
    num_heads: Optional[int] = None,
) -> Dict[str, Any]:
    """Infer settings from the variables of a checkpoint: dialect, sizes and positions.

    Args:
      source: a key of `names.dialects_by_system()`.
      arrays: the variables, from `read`.
      vocab_sizes: the sizes of the source and target vocabularies. They distinguish two
        tables with the same name.
      num_heads: the number of heads, with which d_k and d_v are inferred; None: they
        are those of the paper.

    Raises:
      ValueError: the variables do not belong to that source.
    """
    untied = sorted(filter(UNTIED.match, arrays))
    if untied:
        raise CheckpointError(
            f"{untied[0]}: expected symbol_modality_*/shared/weights_*, "
            "as shared_embedding_and_softmax_weights makes them, got "
            "embeddings that the output layer does not share"
        )
    dialects = dialects_by_system()[source]
    name = max(dialects, key=lambda dialect: _count_norms(dialect, arrays))
    dialect = resolve(name)
    variables = _OriginalVariables(name, arrays)
    settings: Dict[str, Any] = {"dialect": name, "joint_vocab": dialect.tied_embeddings}
    settings.update(_infer_sizes(dialect, variables))
    if num_heads:
        settings.update(_infer_head_widths(settings["d_model"], num_heads, variables))
    tables = variables.find("embedding/lookup_table")
    if len(tables) == 2:
        table_sizes = [_parse_vocab_size(table) for table in tables]
        settings.update(_separate_vocabularies(table_sizes, vocab_sizes))
    settings.update(_infer_positions(dialect, variables))
    return settings


def _infer_sizes(dialect: Dialect, variables: "_OriginalVariables") -> Dict[str, Any]:
    """Return the settings that are sizes of variables."""
    embeddings = ["embedding/lookup_table"] * 2
    if not dialect.tied_embeddings:
        embeddings = [f"{stack}/embedding/lookup_table" for stack in STACKS]
    return {
        "num_blocks": variables.count_blocks(),
        "d_model": variables.size_of("encoder/block_0/feedforward/outer/bias"),
        "d_ff": variables.size_of("encoder/block_0/feedforward/inner/bias"),
        "source_vocab_size": variables.size_of(embeddings[0]),
        "target_vocab_size": variables.size_of(embeddings[1]),
    }


def _infer_head_widths(
    d_model: int, num_heads: int, variables: "_OriginalVariables"
) -> Dict[str, Any]:
    """Return d_k and d_v where they are not d_model / num_heads."""
    settings = {}
    for name, projection in (("d_k", "k"), ("d_v", "v")):
        kernels = variables.find(f"encoder/block_0/self_attention/{projection}/kernel")
        width = variables.arrays[kernels[0]].shape[-1] if kernels else d_model
        if width != d_model and width % num_heads == 0:
            settings[name] = width // num_heads
    return settings


def _infer_positions(
    dialect: Dialect, variables: "_OriginalVariables"
) -> Dict[str, Any]:
    """Return the settings for absolute and relative positions."""
    settings: Dict[str, Any] = {}
    table = "encoder/positional_encoding/lookup_table"
    if dialect.learned_positions and variables.find(table):
        settings["max_positions"] = variables.size_of(table)
        if dialect.masks_from == "activations":  # the model attends to padding
            settings["pad_sources_to"] = settings["max_positions"]
    elif dialect.learned_positions:
        settings["positions"] = dialect.positions
    distances = "encoder/block_0/self_attention/relative/keys"
    if variables.find(distances):
        settings["max_relative_position"] = variables.size_of(distances) // 2
    return settings


def _separate_vocabularies(table_sizes, vocab_sizes):
    """Return the settings for two vocabularies, which their sizes identify."""
    if sorted(table_sizes) != sorted(vocab_sizes):
        raise VocabulariesAmbiguous(
            f"vocabulary: expected two of {table_sizes[0]} and {table_sizes[1]} "
            f"pieces, got {list(vocab_sizes) or 'none'}"
        )
    return {
        "source_vocab_size": vocab_sizes[0],
        "target_vocab_size": vocab_sizes[1],
        "joint_vocab": False,
    }


def _count_norms(dialect, arrays):
    """Count the normalizations in the first blocks that have a dialect's names."""
    names = (
        f"{stack}/block_0/{layer}/ln/gamma"
        for stack in STACKS
        for layer in ("self_attention", "feedforward")
    )
    return sum(original_name(name, dialect, "**") in arrays for name in names)


class _OriginalVariables:
    """The variables of an original system, to be found by our names."""

    def __init__(self, dialect: str, arrays: Dict[str, np.ndarray]):
        self.dialect = dialect
        self.arrays = arrays

    def find(self, name: str) -> List[str]:
        """Return the original names of a variable.

        There may be several if a size is part of the name.
        """
        return fnmatch.filter(self.arrays, original_name(name, self.dialect, "**"))

    def size_of(self, name: str) -> int:
        """Return the first dimension of a variable; of a table, the vocabulary size."""
        names = self.find(name)
        if not names:
            raise VariableNamesError(
                f"{original_name(name, self.dialect, '**')} is missing: each "
                f"checkpoint of {self.dialect} has it"
            )
        return _parse_vocab_size(names[0]) or len(self.arrays[names[0]])

    def count_blocks(self) -> int:
        """Return the number of blocks: one more than the highest in either stack."""
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
            raise CheckpointError(
                f"{self.dialect}: expected blocks numbered from 0 without "
                f"gaps, got number {count - 1}, but only {len(set(numbers))} "
                "blocks"
            )
        return count


def _parse_vocab_size(name: str) -> Optional[int]:
    """Return V from a name like symbol_modality_V_512; a missing shard keeps it."""
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
    remaining = dict(arrays)
    step = int(remaining.pop(STEP, 0))
    shapes = variable_shapes(hp)
    originals = {
        name: original_name(name, hp.dialect, shape) for name, shape in shapes.items()
    }
    has_moments = all(name in remaining for name in POWERS) and all(
        name + slot in remaining for name in originals.values() for slot in SLOTS
    )
    result = {}
    for slot in ("",) + (SLOTS if has_moments else ()):
        for name, shape in shapes.items():
            result[name + slot] = _take(
                remaining, name, originals[name] + slot, shape, target_space_id
            )
    refuse_leftover(remaining, set(originals.values()))
    if not has_moments:
        result.update(
            (name + slot, np.zeros(shape, np.float32))
            for name, shape in shapes.items()
            for slot in SLOTS
        )
    for name, beta in zip(POWERS, hp.resolved_dialect.adam):
        power = remaining[name] if has_moments else beta
        result[name] = np.asarray(power, np.float32)
    result[STEP] = np.asarray(step, np.int64)
    parameters = sum(result[name].size for name in shapes)
    return Imported(result, step, has_moments, parameters)


def _take(remaining, name, original, shape, target_space_id):
    """Remove a variable from `remaining`; return it in our shape."""
    if original not in remaining:
        raise VariableNamesError(
            f"{original} is missing: expected a variable of shape {shape} for {name}"
        )
    array = remaining.pop(original)
    original_shape = list(array.shape)
    if name == "encoder/target_space" and array.ndim == 2:
        if not 0 <= target_space_id < len(array):
            raise CheckpointError(
                f"{original}: expected row {target_space_id}, the target "
                f"space id, got {format_count(len(array), 'row')}"
            )
        array = array[target_space_id]
    elif len(shape) == 2 and array.ndim == 3 and array.shape[0] == 1:
        array = array[0]  # a convolution of width 1
    if list(array.shape) != shape:
        raise CheckpointError(
            f"{original}: expected shape {shape} for {name}, got {original_shape}"
        )
    return np.asarray(array, np.float32)


def refuse_leftover(remaining: Dict[str, np.ndarray], originals: Iterable[str]) -> None:
    """Raise ValueError if variables other than those of an optimizer are left over.

    Args:
      remaining: the variables that were not converted.
      originals: the names of those that were.
    """
    slots = {
        name
        for name in remaining
        for match in [SLOT.fullmatch(name)]
        if match and match.group(1) in originals
    }
    names = sorted(
        name
        for name in remaining
        if name not in slots and name not in POWERS and not STATISTICS.match(name)
    )
    if names:
        raise VariableNamesError(
            f"{names[0]}: unknown variable of shape "
            f"{list(remaining[names[0]].shape)}; {len(names)} would be left "
            f"over: {', '.join(names[:5])}" + (" ..." if len(names) > 5 else "")
        )
