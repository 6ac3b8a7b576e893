"""Formats of other software: a log directory → a folder that CTranslate2 opens."""

import dataclasses
from typing import Callable, List, NamedTuple, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.blocks.positions import LEARNED, POSITIONS, chosen_positions
from transformer.decoding import hypotheses_kept
from transformer.dialects import resolve
from transformer.embeddings import table_scope
from transformer.originals.convert import variable_shapes
from transformer.runtime import checkpoints, ram, tensors
from transformer.text.vocabulary import BOS, EOS, UNK
from transformer.text.vocabulary_files import copy_vocabularies, load_vocabularies
from transformer.translator import Translation, Translator

LONGEST = 1024  # positions of an exported model; here, sinusoids have no end


def refuse_unsupported(hp) -> None:
    """Raise ValueError, naming the settings, for what CTranslate2 cannot represent."""
    row = resolve(hp.dialect)
    normalized = ("norm" in row.before, row.after[-1] == "norm", row.final_norm)
    found = {
        "projection_relu": row.projection_relu,
        "masks_from activations": row.masks_from != "ids",
        "learned positions": chosen_positions(hp.positions, row) == LEARNED,
        "norms neither before each sub-layer and at the end, nor after each": normalized
        not in ((True, False, True), (False, True, False)),
        "max_relative_position": hp.max_relative_position > 0,
        "proximity_bias": hp.proximity_bias,
    }
    unsupported = [name for name, is_so in found.items() if is_so]
    if unsupported:
        raise ValueError(
            f"dialect {hp.dialect}: found {', '.join(unsupported)}, wanted a "
            "model that CTranslate2 can represent, as of --dialect paper"
        )


def read_variables(hp, logdir: str, checkpoint: str):
    """Return the variables of a checkpoint without those of Adam: name → array.

    Raises:
      ValueError: they are not those of the model that the settings imply.
    """
    arrays = checkpoints.find_and_load(logdir, tensors.read, checkpoint)
    found = {name: array.shape for name, array in arrays.items()}
    tensors.refuse_other_shapes(logdir, found, variable_shapes(hp))
    return {name: array for name, array in arrays.items() if "Adam" not in name}


def sinusoids(encoding: str, num_units: int):
    """Return the vectors of the positions: float32 [LONGEST, D].

    Args:
      encoding: a key of POSITIONS.
      num_units: int, D.
    """
    with tf.Graph().as_default(), tf.Session() as session:
        positions = tf.range(LONGEST, dtype=tf.float64)
        return session.run(
            tf.cast(POSITIONS[encoding](positions, num_units), tf.float32)
        )


class Filler:
    """Fills CTranslate2's specification of a model with our variables."""

    def __init__(self, hp, variables):
        self.hp, self.row, self.variables = hp, resolve(hp.dialect), variables
        encoding = chosen_positions(hp.positions, self.row)
        self.positions = sinusoids(encoding, hp.d_model)

    def model(self, spec):
        """Fill a whole TransformerSpec."""
        row, names = self.row, ["encoder", "decoder"]
        tables = [self.table(name) for name in names]
        for name, stack, table in zip(names, (spec.encoder, spec.decoder), tables):
            embeddings = stack.embeddings
            (embeddings[0] if name == "encoder" else embeddings).weight = table
            stack.scale_embeddings = True
            stack.position_encodings.encodings = self.positions
            for i, layer in enumerate(stack.layer):
                self.layer(layer, f"{name}/block_{i}", name == "decoder")
            if row.final_norm:
                self.norm(stack.layer_norm, f"{name}/ln")
        if row.target_space:  # on every source position, so it may come with positions
            spec.encoder.position_encodings.encodings = (
                self.positions + self.variables["encoder/target_space"]
            )
        spec.decoder.start_from_zero_embedding = row.begins_with_zeros
        self.output(spec.decoder.projection, tables[1])

    def table(self, stack: str):
        """Return the embeddings of a stack: [V, D]."""
        return self.variables[f"{table_scope(self.hp, stack)}/lookup_table"]

    def output(self, linear, table):
        """Fill the layer that returns logits."""
        if not self.row.tied_embeddings:
            self.linear(linear, ["decoder/output"])
            return
        linear.weight = table.copy()
        if self.row.padding_row_is_zero:
            linear.weight[0] = 0

    def layer(self, layer, scope: str, has_memory: bool):
        """Fill one block."""
        attentions = {"self_attention": (layer.self_attention, [["q", "k", "v"]])}
        if has_memory:
            attentions["cross_attention"] = layer.attention, [["q"], ["k", "v"]]
        for name, (attention, groups) in attentions.items():
            for linear, group in zip(attention.linear, groups):
                self.linear(linear, [f"{scope}/{name}/{each}" for each in group])
            if self.row.output_projection:
                self.linear(attention.linear[-1], [f"{scope}/{name}/o"])
            else:
                attention.linear[-1].weight = np.eye(self.hp.d_model, dtype=np.float32)
            self.norm(attention.layer_norm, f"{scope}/{name}/ln")
        self.linear(layer.ffn.linear_0, [f"{scope}/feedforward/inner"])
        self.linear(layer.ffn.linear_1, [f"{scope}/feedforward/outer"])
        self.norm(layer.ffn.layer_norm, f"{scope}/feedforward/ln")

    def linear(self, linear, scopes):
        """Fill a layer with dense layers of the same input, side by side: [out, in]."""
        kernels = [self.variables[f"{scope}/kernel"] for scope in scopes]
        linear.weight = np.ascontiguousarray(np.concatenate(kernels, axis=1).T)
        biases = [self.variables.get(f"{scope}/bias") for scope in scopes]
        if biases[0] is not None:
            linear.bias = np.concatenate(biases)

    def norm(self, norm, scope: str):
        """Fill a normalization."""
        norm.gamma = self.variables[f"{scope}/gamma"]
        norm.beta = self.variables[f"{scope}/beta"]


def write(hp, logdir: str, checkpoint: str, out: str, quantization: str) -> None:
    """Write a folder that `ctranslate2.Translator` opens, with our vocabulary in it.

    Args:
      hp: the settings.
      logdir: the log directory.
      checkpoint: which one, as `checkpoints.find` takes it.
      out: the folder; it may hold an exported model, which is replaced.
      quantization: "float32" or "int8".

    Raises:
      ValueError: CTranslate2 is not installed, or cannot represent the model.
    """
    refuse_unsupported(hp)
    ram.refuse_too_large(hp)
    try:
        from ctranslate2 import converters, specs
    except ImportError as error:
        raise ValueError(
            f"--format ctranslate2: found no ctranslate2 ({error}), "
            "wanted it installed: pip install ctranslate2"
        ) from error
    row, vocabularies = resolve(hp.dialect), load_vocabularies(logdir)

    class Converter(converters.Converter):
        def _load(self):
            spec = specs.TransformerSpec.from_config(
                hp.num_blocks, hp.num_heads, pre_norm="norm" in row.before
            )
            Filler(hp, read_variables(hp, logdir, checkpoint)).model(spec)
            source, target = (
                vocabulary.pieces(range(vocabulary.size))
                for vocabulary in vocabularies[:2]
            )
            spec.register_source_vocabulary(source)
            spec.register_target_vocabulary(target)
            spec.config.unk_token, spec.config.eos_token = target[UNK], target[EOS]
            spec.config.bos_token = spec.config.decoder_start_token = target[BOS]
            spec.config.add_source_eos = True
            spec.config.add_attribute("layer_norm_epsilon", row.norm_epsilon)
            return spec

    Converter().convert(out, quantization=quantization, force=True)
    copy_vocabularies(logdir, out)


def compare(
    hp, logdir: str, checkpoint: str, out: str, lines: List[str]
) -> List[Tuple[Translation, Translation]]:
    """Return our translations beside those of the exported model.

    Both search with length penalty 0: with any other the two compute different scores.

    Args:
      hp: the settings.
      logdir: the log directory.
      checkpoint: which one, as `checkpoints.find` takes it.
      out: the exported model.
      lines: source lines, none without a piece.

    Returns:
      [(our Translation, the other)], a pair for each line.
    """
    import ctranslate2

    hp = dataclasses.replace(hp, length_penalty=0.0)
    with Translator(hp, logdir) as translator:
        translator.restore_found(checkpoint)
        ours = [best for best, *_ in translator.translate(lines)]
    source, target, _ = load_vocabularies(out)
    pieces = [source.pieces(ids) for ids in source.encode_lines(lines)]
    results = ctranslate2.Translator(out, compute_type="default").translate_batch(
        pieces,
        beam_size=hypotheses_kept(hp.search, hp.beam_size),
        length_penalty=0,
        max_batch_size=hp.decode_batch_size,
        return_scores=True,
        max_input_length=0,
        min_decoding_length=0,
        max_decoding_length=max(map(len, pieces)) + hp.max_extra_length,
    )
    ids = {
        piece: number for number, piece in enumerate(target.pieces(range(target.size)))
    }
    theirs = [
        Translation(
            target.decode([ids[one] for one in result.hypotheses[0]]), result.scores[0]
        )
        for result in results
    ]
    return list(zip(ours, theirs))


class ExportFormat(NamedTuple):
    """How models are written for other software, and compared with it."""

    write: Callable
    compare: Callable


EXPORT_FORMATS = {"ctranslate2": ExportFormat(write, compare)}
