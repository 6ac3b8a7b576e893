"""Safetensors: a checkpoint → a file that programs without TensorFlow read.

The page translates with it (`viewer/page/weights.js`). https://github.com/huggingface/
safetensors describes the format: the length of a header, the header in JSON, the data.

The tensors have the names of our variables. Matrices are [out, in], as in PyTorch, so
that the weights of an output are neighbours. In an int8 file, the weight i of output o
is `NAME[o, i] * NAME.scale[o]`. The vocabulary files are tensors of bytes, and the
settings that translation needs are in `__metadata__`.
"""

import json
import os
from typing import Any, Dict, List

import numpy as np

from transformer.exports.ctranslate2 import read_variables
from transformer.hparams import HParams
from transformer.runtime.errors import EngineError
from transformer.runtime.files import read_file
from transformer.text.vocabulary import (
    Vocabularies,
    Vocabulary,
    load_vocabularies,
    vocabulary_names,
)

INT8 = "int8"
TYPES = (INT8, "float16", "float32")
SCALE = ".scale"
# Names of types in the format.
DTYPES = {"float32": "F32", "float16": "F16", "int8": "I8", "uint8": "U8"}
# The rows of the dialect table that model.js computes, and the fields that it reads:
# it translates one sentence at a time, so that there is no padding.
DIALECTS = (
    "paper",
    "tutorial",
    "kyubyong_legacy",
    "kyubyong",
    "tensor2tensor",
    "tensor2tensor_v1",
)
DIALECT_FIELDS = (
    "projection_relu",
    "output_projection",
    "norm",
    "final_norm",
    "norm_epsilon",
    "positions_on_padding",
    "target_space",
    "first_position_padded",
    "begins_with_zeros",
    "tied_embeddings",
)
SETTINGS = (
    "d_model",
    "num_heads",
    "encoder_blocks",
    "decoder_blocks",
    "max_positions",
    "search",
    "num_hypotheses",
    "length_penalty",
    "length_penalty_form",
    "max_extra_length",
    "max_source_length",
)


def list_unsupported(hp: HParams) -> List[str]:
    """List the settings of a model and its search that model.js does not compute."""
    is_used = {
        f"the dialect {hp.dialect}": hp.dialect not in DIALECTS,
        "max_relative_position": hp.max_relative_position > 0,
        "proximity_bias": hp.proximity_bias,
        "d_k": hp.key_units != hp.d_model,
        "d_v": hp.value_units != hp.d_model,
        "pad_sources_to": hp.pad_sources_to > 0,
        f"the search {hp.search}": hp.search not in ("beam", "greedy"),
        "min_length": hp.min_length > 0,
        "no_repeat_ngram": hp.no_repeat_ngram > 0,
        "repetition_penalty": hp.repetition_penalty != 1,
        "keep_open": hp.keep_open,
    }
    return [name for name, is_so in is_used.items() if is_so]


def refuse_unsupported(hp: HParams, vocabularies: Vocabularies) -> None:
    """Raise EngineError for what the page cannot compute.

    Args:
      hp: the settings of the model and of the search.
      vocabularies: the vocabularies of the model.
    """
    unsupported = list_unsupported(hp)
    for vocabulary in vocabularies[: 1 if vocabularies.joint else 2]:
        unsupported += _list_unsupported_of_vocabulary(vocabulary)
    if unsupported:
        raise EngineError(
            "expected a model that JavaScript can compute, got "
            + ", ".join(dict.fromkeys(unsupported))
        )


def _list_unsupported_of_vocabulary(vocabulary) -> List[str]:
    """List what tokenizer.js does not do, of a vocabulary."""
    if type(vocabulary) is not Vocabulary:
        return ["a vocabulary that is not a SentencePiece model"]
    from sentencepiece import sentencepiece_model_pb2

    messages: Any = sentencepiece_model_pb2
    model = messages.ModelProto()
    model.ParseFromString(read_file(vocabulary.path))
    trainer = model.trainer_spec
    normalizer = model.normalizer_spec
    types = {piece.type for piece in model.pieces}
    kinds = type(model.pieces[0])
    name = trainer.ModelType.Name(trainer.model_type).lower()
    is_used = {
        f"a SentencePiece model of type {name}": name not in ("bpe", "unigram"),
        "user_defined_symbols": bool({kinds.USER_DEFINED, kinds.UNUSED} & types),
        "treat_whitespace_as_suffix": trainer.treat_whitespace_as_suffix,
        "remove_extra_whitespaces=False": not normalizer.remove_extra_whitespaces,
        "escape_whitespaces=False": not normalizer.escape_whitespaces,
    }
    return [name for name, is_so in is_used.items() if is_so]


def export_weights(hp: HParams, checkpoint: str, weights: str = INT8) -> bytes:
    """Return a checkpoint, its vocabulary and its settings as a safetensors file.

    Args:
      hp: the settings, including those of the search.
      checkpoint: its path, without file extensions.
      weights: the type of the matrices, one of TYPES; vectors stay float32.

    Raises:
      EngineError: the page cannot compute the model.
      CheckpointError: the variables do not fit the settings.
    """
    logdir = os.path.dirname(checkpoint)
    refuse_unsupported(hp, load_vocabularies(logdir))
    tensors: Dict[str, np.ndarray] = {}
    for name, array in read_variables(hp, checkpoint).items():
        if name.endswith("/kernel"):
            array = array.T  # [out, in]
        elif name == _table_name(hp) and hp.resolved_dialect.padding_row_is_zero:
            array = np.concatenate([np.zeros_like(array[:1]), array[1:]])
        tensors.update(convert_tensor(name, array, weights))
    names = vocabulary_names(logdir)
    for name in names:
        tensors[name] = np.fromfile(os.path.join(logdir, name), np.uint8)
    settings = describe_settings(hp)
    settings["vocabularies"] = {"source": names[0], "target": names[-1]}
    return to_safetensors(tensors, {"settings": json.dumps(settings)})


def _table_name(hp: HParams) -> str:
    """Return the name of the table that is the output layer, too."""
    from transformer.model import table_scope

    return table_scope(hp, "decoder") + "/lookup_table"


def describe_settings(hp: HParams) -> Dict[str, Any]:
    """Describe the model and its search: what model.js and search.js read."""
    from transformer.blocks.positions import choose_positions
    from transformer.model import table_scope

    dialect = hp.resolved_dialect
    return {
        **{name: getattr(hp, name) for name in SETTINGS},
        "positions": choose_positions(hp.positions, dialect),
        "tables": {
            stack: table_scope(hp, stack) + "/lookup_table"
            for stack in ("encoder", "decoder")
        },
        "dialect": {name: getattr(dialect, name) for name in DIALECT_FIELDS},
    }


def convert_tensor(name: str, array: np.ndarray, weights: str) -> Dict[str, np.ndarray]:
    """Convert a variable: a matrix to the type of the weights, a vector to float32.

    Args:
      name: its name.
      array: float [D] or [out, in].
      weights: one of TYPES.

    Returns:
      The tensors by name: for int8, `NAME` [out, in] and `NAME.scale` float32 [out].
    """
    array = np.asarray(array, np.float32)
    if array.ndim < 2 or "positional_encoding" in name:
        return {name: array}
    if weights != INT8:
        return {name: array.astype(weights)}
    scale = np.abs(array).max(axis=1) / np.float32(127)
    scale = np.where(scale == 0, np.float32(1), scale)
    return {name: np.rint(array / scale[:, None]).astype(np.int8), name + SCALE: scale}


def to_safetensors(tensors: Dict[str, np.ndarray], metadata: Dict[str, str]) -> bytes:
    """Return tensors as a safetensors file, the wide types first, so that all align.

    Args:
      tensors: name → float32, float16, int8 or uint8 array.
      metadata: name → text.
    """
    header: Dict[str, Any] = {"__metadata__": metadata}
    parts = []
    size = 0
    for name in sorted(tensors, key=lambda name: (-tensors[name].itemsize, name)):
        array = np.ascontiguousarray(tensors[name])
        data = array.astype(array.dtype.newbyteorder("<")).tobytes()
        header[name] = {
            "dtype": DTYPES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [size, size + len(data)],
        }
        parts.append(data)
        size += len(data)
    text = json.dumps(header, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])
