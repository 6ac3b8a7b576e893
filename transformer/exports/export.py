"""Export: write a trained model in the format of other software (CTranslate2)."""

import dataclasses
import itertools
import os
from typing import Any, Callable, Dict, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.blocks.positions import LEARNED, POSITIONS, chosen_positions
from transformer.compat.convert import variable_shapes
from transformer.dialects import resolve
from transformer.exports import card
from transformer.exports.ctranslate2 import (
    CTRANSLATE2,
    LONGEST,
    MODEL,
    QUANTIZATIONS,
    TENSORFLOW,
    FastTranslator,
    folder_of,
    import_ctranslate2,
    remove_outdated,
    unsupported_search,
)
from transformer.hparams import HParams, has_settings, load
from transformer.logdir import checkpoints
from transformer.model import table_scope
from transformer.runtime import files
from transformer.text.data_folder import text_paths
from transformer.text.lines import read_lines
from transformer.text.vocabulary import (
    JOINT_MODEL,
    SEPARATE_MODELS,
    UNK,
    copy_vocabularies,
    load_vocabularies,
)

# An export is compared with TensorFlow on this many lines of dev. Scores that differ by
# less than TIE count as equal: either of the two translations may be found first.
LINES_COMPARED = 200
TIE = 1e-3


def refuse_unsupported(hp: HParams) -> None:
    """Raise ValueError naming the settings that CTranslate2 cannot represent."""
    row = resolve(hp.dialect)
    found = {
        "projection_relu": row.projection_relu,
        "masks_from activations": row.masks_from != "ids",
        "learned positions": chosen_positions(hp.positions, row) == LEARNED,
        "norms neither before each sub-layer and at the end, nor after each": (
            row.norm,
            row.final_norm,
        )
        not in (("before", True), ("after", False)),
        "max_relative_position": hp.max_relative_position > 0,
        "proximity_bias": hp.proximity_bias,
    }
    requested = [name for name, is_so in found.items() if is_so]
    if requested:
        raise ValueError(
            f"dialect {hp.dialect}: expected a model that CTranslate2 can represent, "
            f"got {', '.join(requested)}"
        )


def read_variables(hp: HParams, checkpoint: str) -> Dict[str, np.ndarray]:
    """Return the variables of a checkpoint, without those of Adam: name → array.

    Raises:
      ValueError: the variables do not fit the settings.
    """
    arrays = checkpoints.read(checkpoint)
    found = {name: array.shape for name, array in arrays.items()}
    checkpoints.refuse_other_shapes(checkpoint, found, variable_shapes(hp))
    return {name: array for name, array in arrays.items() if "Adam" not in name}


def sinusoids(encoding: str, num_units: int) -> np.ndarray:
    """Return the position encodings: float32 [LONGEST, D].

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

    def __init__(self, hp: HParams, variables: Dict[str, np.ndarray]):
        self.hp = hp
        self.row = resolve(hp.dialect)
        self.variables = variables
        encoding = chosen_positions(hp.positions, self.row)
        self.positions = sinusoids(encoding, hp.d_model)

    def model(self, spec: Any) -> None:
        """Fill a whole TransformerSpec."""
        row = self.row
        names = ["encoder", "decoder"]
        tables = [
            self.variables[f"{table_scope(self.hp, name)}/lookup_table"]
            for name in names
        ]
        for name, stack, table in zip(names, (spec.encoder, spec.decoder), tables):
            embeddings = stack.embeddings
            (embeddings[0] if name == "encoder" else embeddings).weight = table
            stack.scale_embeddings = True
            stack.position_encodings.encodings = self.positions
            for i, layer in enumerate(stack.layer):
                self.layer(layer, f"{name}/block_{i}", name == "decoder")
            if row.final_norm:
                self.norm(stack.layer_norm, f"{name}/ln")
        if row.target_space:  # added at every position, like an encoding
            spec.encoder.position_encodings.encodings = (
                self.positions + self.variables["encoder/target_space"]
            )
        spec.decoder.start_from_zero_embedding = row.begins_with_zeros
        projection = spec.decoder.projection
        if row.tied_embeddings:
            projection.weight = tables[1].copy()
            if row.padding_row_is_zero:
                projection.weight[0] = 0
        else:
            self.linear(projection, ["decoder/output"])

    def layer(self, layer: Any, scope: str, has_memory: bool) -> None:
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

    def linear(self, linear: Any, scopes: Sequence[str]) -> None:
        """Fill a layer with dense layers of one input, concatenated: [out, in]."""
        kernels = [self.variables[f"{scope}/kernel"] for scope in scopes]
        linear.weight = np.ascontiguousarray(np.concatenate(kernels, axis=1).T)
        if f"{scopes[0]}/bias" in self.variables:
            biases = [self.variables[f"{scope}/bias"] for scope in scopes]
            linear.bias = np.concatenate(biases)

    def norm(self, norm: Any, scope: str) -> None:
        """Fill a layer normalization."""
        norm.gamma = self.variables[f"{scope}/gamma"]
        norm.beta = self.variables[f"{scope}/beta"]


def write(hp: HParams, checkpoint: str, out: str, quantization: str) -> str:
    """Write a folder for `ctranslate2.Translator`, including our vocabulary files.

    Args:
      hp: the settings.
      checkpoint: its path, without file extensions.
      out: the folder; a model already exported to it is replaced.
      quantization: "float32" or "int8".

    Returns:
      "": there is nothing to report.

    Raises:
      ValueError: CTranslate2 is not installed, or cannot represent the model.
    """
    refuse_unsupported(hp)
    import_ctranslate2()
    from ctranslate2 import converters, specs

    logdir = os.path.dirname(checkpoint)
    row = resolve(hp.dialect)
    vocabularies = load_vocabularies(logdir)

    class Converter(converters.Converter):
        def _load(self):
            spec = specs.TransformerSpec.from_config(
                (hp.encoder_blocks, hp.decoder_blocks),
                hp.num_heads,
                pre_norm=row.norm == "before",
            )
            Filler(hp, read_variables(hp, checkpoint)).model(spec)
            source = vocabularies.source.pieces(range(vocabularies.source.size))
            target = vocabularies.target.pieces(range(vocabularies.target.size))
            spec.register_source_vocabulary(source)
            spec.register_target_vocabulary(target)
            bos = target[vocabularies.target.bos]
            spec.config.unk_token = target[UNK]
            spec.config.eos_token = target[vocabularies.target.eos]
            spec.config.bos_token = bos
            spec.config.decoder_start_token = bos
            spec.config.add_source_eos = True
            spec.config.add_attribute("layer_norm_epsilon", row.norm_epsilon)
            return spec

    Converter().convert(out, quantization=quantization, force=True)
    copy_vocabularies(logdir, out)
    return ""


def described(hp: HParams, name: str, quantization: str) -> card.Exported:
    """Return what the model card says about an export.

    With greedy search, the call on the card gives our translations. The beam search of
    CTranslate2 drops hypotheses that end outside the K best continuations, so some
    lines may differ.

    Args:
      hp: the settings.
      name: the name of the folder.
      quantization: "float32" or "int8".
    """
    options = (
        f"beam_size={hp.hypotheses}, num_hypotheses={hp.hypotheses}, length_penalty=0, "
        f"min_decoding_length={hp.min_length}, "
        f"no_repeat_ngram_size={hp.no_repeat_ngram}, max_input_length=0, "
        f"max_decoding_length=max(map(len, pieces)) + {hp.max_extra_length}, "
        "return_scores=True"
    )
    model = JOINT_MODEL if hp.joint_vocab else SEPARATE_MODELS[0]
    rank = f"pair[0] / ((6 + len(pair[1])) / 6) ** {hp.length_penalty:g}"
    ours = "`transformer.exports.ctranslate2.FastTranslator` opens this folder. "
    usage = [
        ("" if unsupported_search(hp) else ours)
        + "With CTranslate2 alone, `pieces` holds a list of strings for each line: its "
        "pieces in the source vocabulary of this folder, without the end-of-sentence "
        "piece. If that is a SentencePiece model:",
        "",
        "```python",
        "import ctranslate2",
        "import sentencepiece",
        "",
        f"folder = {name!r}",
        f"model = sentencepiece.SentencePieceProcessor(model_file=folder + '/{model}')",
        "pieces = model.encode(lines, out_type=str)",
        f"found = ctranslate2.Translator(folder).translate_batch(pieces, {options})",
        "best = [max(zip(each.scores, each.hypotheses), key=lambda pair: "
        f"{rank})[1] for each in found]",
        "```",
        "",
        "The last line is the length penalty of the training program; CTranslate2's "
        "own `length_penalty` uses another formula, with which more lines differ.",
    ]
    limits = [f"It has {LONGEST:,} positions: longer sentences are refused."]
    if quantization != "float32":
        limits.append("Its weights are 8-bit integers: some translations differ.")
    return card.Exported(f"for CTranslate2, {quantization}", usage, limits)


# The export of a checkpoint, stored next to it


def find_or_make(
    ours: Any, checkpoint: str, quantization: str, warn: Callable[[str], None]
) -> str:
    """Return the folder of a checkpoint's export; make and compare a missing one.

    Args:
      ours: the Translator that loaded the checkpoint.
      checkpoint: its path, without file extensions.
      quantization: "float32" or "int8".
      warn: function of a text; called if CTranslate2 cannot represent the model, if the
        export cannot be compared, and if it translates lines differently.

    Returns:
      The folder; "" if CTranslate2 cannot represent the model.

    Raises:
      ValueError: CTranslate2 is not installed, or gives other scores; or the log
        directory cannot be written.
    """
    try:
        refuse_unsupported(ours.hp)
    except ValueError as error:
        warn(f"--engine {CTRANSLATE2}: {error}: TensorFlow is used instead")
        return ""
    logdir = os.path.dirname(checkpoint) or os.curdir
    folder = folder_of(checkpoint, quantization)
    if os.path.exists(os.path.join(folder, MODEL)):
        return folder
    if not os.access(logdir, os.W_OK | os.X_OK):
        raise ValueError(
            f"--engine {CTRANSLATE2}: expected to write the export {folder}, got no "
            "permission; run translate with this engine once where the log directory "
            f"can be written, or use --engine {TENSORFLOW}"
        )
    with files.new_folder(folder, "--logdir", MODEL) as made:
        write(ours.hp, checkpoint, made, quantization)
        _compare(ours, made, quantization, warn)
        # The saved search, not the one requested from this Translator.
        hp = load(logdir) if has_settings(logdir) else ours.hp
        hp = dataclasses.replace(hp, data=ours.hp.data)
        exported = described(hp, os.path.basename(folder), quantization)
        card.write(hp, checkpoint, made, exported)
    remove_outdated(logdir)
    return folder


def _compare(ours, folder, quantization, warn) -> None:
    """Compare an exported model with a Translator on lines of the dev set.

    The models are equal if they give our translations the same scores. Even then, the
    beam search of CTranslate2 finds other translations for some lines, because it drops
    hypotheses that end outside the K best.

    Raises:
      ValueError: the exported model has float32 weights, but gives our translations
        other scores.
    """
    try:
        path, _ = text_paths(ours.hp.data, "dev")
        lines = list(itertools.islice(read_lines(path), LINES_COMPARED))
    except (OSError, ValueError):
        warn(
            f"the export for {CTRANSLATE2} was not compared with TensorFlow: there is "
            f"no dev set in {ours.hp.data}"
        )
        return
    before = ours.unusual_lines.copy()
    with FastTranslator(folder, ours.hp) as theirs:
        pairs = [
            (line, our, their)
            for line, [our, *_], [their, *_] in zip(
                lines, ours.translate(lines), theirs.translate(lines)
            )
            if our.pieces
        ]
        scores = theirs.score_pieces(
            [line for line, _, _ in pairs], [our.pieces for _, our, _ in pairs]
        )
    ours.unusual_lines = before
    wrong = [
        f"{line!r:.80} → {our.text!r:.80}: {score:.3f}, not {our.score:.3f}"
        for (line, our, _), score in zip(pairs, scores)
        if abs(score - our.score) > TIE
    ]
    if wrong and quantization == QUANTIZATIONS[0]:
        raise ValueError(
            f"--engine {CTRANSLATE2}: expected the scores of TensorFlow, got different "
            f"ones for {len(wrong)} of {len(pairs)} lines of dev "
            f"({'; '.join(wrong[:3])}); use --engine {TENSORFLOW}"
        )
    others = sum(
        our.text != their.text and abs(our.score - their.score) > TIE
        for _, our, their in pairs
    )
    if others:
        warn(
            f"--engine {CTRANSLATE2}, {quantization}: {others} of {len(pairs)} lines "
            "of dev are translated differently than by TensorFlow"
        )
