"""Writes a trained model as other software reads it: CTranslate2, so far.

    python scripts/export.py --format ctranslate2 --logdir logs/sample --out exported \\
        --quantization int8 --check 200
"""

import argparse
import dataclasses
import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf

import hparams
from transformer.blocks.positions import LEARNED, POSITIONS, chosen_positions
from transformer.decoding import hypotheses_kept
from transformer.dialects import resolve
from transformer.evaluation import load_text
from transformer.runtime import checkpoints
from transformer.text.vocabulary import (
    BOS,
    EOS,
    UNK,
    copy_vocabularies,
    load_vocabularies,
)
from transformer.translator import Translation, Translator

LONGEST = 1024  # positions that an exported model knows; sinusoids have no end


def refuse_unsupported(hp):
    """Raise ValueError, naming the settings, for what CTranslate2 cannot hold."""
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
    blanks = [name for name, is_so in found.items() if is_so]
    if blanks:
        raise ValueError(
            f"dialect {hp.dialect}: found {', '.join(blanks)}, wanted a "
            "model that CTranslate2 can hold, as of --dialect paper"
        )


def read_variables(logdir, checkpoint):
    """The variables of a checkpoint by name, float32 arrays, without those of Adam."""
    reader = tf.train.load_checkpoint(checkpoints.find(logdir, checkpoint))
    return {
        name: reader.get_tensor(name)
        for name in reader.get_variable_to_shape_map()
        if "Adam" not in name
    }


def sinusoids(row, num_units):
    """The position encodings of a dialect: float32 [LONGEST, D]."""
    with tf.Graph().as_default(), tf.Session() as session:
        positions = tf.range(LONGEST, dtype=tf.float64)
        return session.run(
            tf.cast(POSITIONS[row.positions](positions, num_units), tf.float32)
        )


class Filler:
    """Fills the blanks of CTranslate2's specification with our variables."""

    def __init__(self, hp, variables):
        self.hp, self.row, self.variables = hp, resolve(hp.dialect), variables
        self.positions = sinusoids(self.row, hp.d_model)

    def model(self, spec):
        """Fills a whole TransformerSpec."""
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

    def table(self, stack):
        """The embeddings of a stack: [V, D]."""
        shared = self.row.tied_embeddings and self.hp.joint_vocab
        return self.variables[
            "embedding/lookup_table" if shared else f"{stack}/embedding/lookup_table"
        ]

    def output(self, linear, table):
        """The layer that makes logits."""
        if not self.row.tied_embeddings:
            self.linear(linear, ["decoder/output"])
            return
        linear.weight = table.copy()
        if self.row.padding_row_is_zero:
            linear.weight[0] = 0

    def layer(self, layer, scope, has_memory):
        """One block."""
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
        """Dense layers of the same input, side by side: [out, in]."""
        kernels = [self.variables[f"{scope}/kernel"] for scope in scopes]
        linear.weight = np.ascontiguousarray(np.concatenate(kernels, axis=1).T)
        biases = [self.variables.get(f"{scope}/bias") for scope in scopes]
        if biases[0] is not None:
            linear.bias = np.concatenate(biases)

    def norm(self, norm, scope):
        norm.gamma = self.variables[f"{scope}/gamma"]
        norm.beta = self.variables[f"{scope}/beta"]


def to_ctranslate2(hp, logdir, checkpoint, out, quantization):
    """Writes a folder that `ctranslate2.Translator` opens, with our vocabulary in it.

    Raises:
      ValueError: the model has something that CTranslate2 has no room for.
    """
    refuse_unsupported(hp)
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
            Filler(hp, read_variables(logdir, checkpoint)).model(spec)
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


FORMATS = {"ctranslate2": to_ctranslate2}


def compare(hp, logdir, checkpoint, out, lines):
    """Our translations beside those of the exported model.

    Both search with length penalty 0, for they do not mean the same by any other.

    Args:
      lines: source lines, none without a piece.

    Returns:
      [(our Translation, the other)], a pair for each line.
    """
    import ctranslate2

    hp = dataclasses.replace(hp, length_penalty=0.0)
    with Translator(hp, logdir) as translator:
        translator.restore(checkpoints.find(logdir, checkpoint))
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


def run(args):
    hp = hparams.load(args.logdir)
    if (
        os.path.exists(args.out)
        and os.listdir(args.out)
        and not os.path.exists(os.path.join(args.out, "model.bin"))
    ):
        raise ValueError(
            f"--out: found other files in {args.out}, wanted a new "
            "folder, or one written by this program"
        )
    FORMATS[args.format](hp, args.logdir, args.checkpoint, args.out, args.quantization)
    print(f"{args.format}, {args.quantization}: {args.out}")
    if args.check:
        lines = [
            line for line in load_text(args.data or hp.data, "test")[0] if line.strip()
        ][: args.check]
        for search in ("greedy", "beam"):
            pairs = compare(
                dataclasses.replace(hp, search=search),
                args.logdir,
                args.checkpoint,
                args.out,
                lines,
            )
            gaps = [
                abs(ours.score - theirs.score)
                for ours, theirs in pairs
                if ours.text == theirs.text
            ]
            print(
                f"{search}: {len(gaps)} of {len(pairs)} translations equal ours "
                "(length penalty 0); worst difference of their scores "
                f"{max(gaps, default=0):.2g}"
            )


def main(argv=None):
    tf.disable_eager_execution()
    tf.logging.set_verbosity(tf.logging.ERROR)
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], allow_abbrev=False
    )
    parser.add_argument("--format", required=True, choices=list(FORMATS))
    parser.add_argument(
        "--logdir", required=True, metavar="DIR", help="what train.py wrote"
    )
    parser.add_argument(
        "--out", required=True, metavar="DIR", help="the folder that is written"
    )
    parser.add_argument(
        "--checkpoint",
        default="best",
        metavar="WHICH",
        help="best (by dev BLEU), newest, or a step [best]",
    )
    parser.add_argument(
        "--quantization",
        default="float32",
        metavar="TYPE",
        choices=["float32", "int8"],
        help="float32 or int8 [float32]",
    )
    parser.add_argument(
        "--check",
        type=int,
        default=0,
        metavar="N",
        help="translate N lines of the test split with both, greedily "
        "and by beam search [0]",
    )
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="the data folder, where it is no longer where it was",
    )
    args = hparams.parse_flags(parser, sys.argv[1:] if argv is None else argv)
    try:
        run(args)
    except (ValueError, OSError) as error:
        sys.exit(f"export.py: {error}")


if __name__ == "__main__":
    main()
