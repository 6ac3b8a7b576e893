"""The rows of the laboratory: each differs from the base in one thing.

`expected` is a guess, the difference in dev BLEU from the base. It was written before
the first run, and is not changed afterwards: the table shows it beside the measurement.
`paper` is the difference from the base model in Table 3, in BLEU on newstest2013, of
the row that is changed in the same proportion (half the heads, a third of the blocks).
"""

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from patches import Patch

TABLE_3 = "Table 3"
OPTIONS = "what the code offers"
MISTAKES = "mistakes of public code"


class Row(NamedTuple):
    """One thing that differs from the base, and what is expected of it."""

    name: str
    group: str
    expected: float
    settings: Dict[str, Any] = {}
    patch: Optional[Patch] = None
    prepare: Tuple[str, ...] = ()  # flags of the command prepare
    average: int = 0  # of so many last checkpoints; 0: the last one
    # Nothing is trained: the checkpoints of the base with the same seed translate.
    uses_base: bool = False
    paper: Optional[float] = None
    seen: str = ""  # where


def change_dialect(fields: str) -> Patch:
    """Make the patch that gives the base's dialect other fields."""
    old = '    "tensor2tensor": TENSOR2TENSOR,\n'
    new = f'    "tensor2tensor": TENSOR2TENSOR._replace({fields}),\n'
    return Patch("dialects.py", old, new)


def leave_out_positions(condition: str) -> Patch:
    """Make the patch that adds no positions under a condition on `stack`."""
    old = '        scope = f"{stack}/positional_encoding"\n'
    return Patch(
        "model.py", old, f"        if {condition}:\n            return x\n{old}"
    )


BASE = Row("base", "base", 0.0)

TABLE_3_ROWS = [
    Row("(A) 1 head", TABLE_3, -0.8, {"num_heads": 1}),
    Row("(A) 2 heads", TABLE_3, -0.3, {"num_heads": 2}, paper=-0.3),
    Row("(A) 8 heads", TABLE_3, 0.1, {"num_heads": 8}, paper=0.0),
    Row("(A) 16 heads", TABLE_3, -0.2, {"num_heads": 16}, paper=-0.4),
    Row("(B) d_k 16", TABLE_3, -0.5, {"d_k": 16}, paper=-0.7),
    Row("(B) d_k 32", TABLE_3, -0.2, {"d_k": 32}, paper=-0.4),
    Row("(C) 1 block", TABLE_3, -3.5, {"num_blocks": 1}, paper=-2.1),
    Row("(C) 2 blocks", TABLE_3, -1.0, {"num_blocks": 2}, paper=-0.5),
    Row("(C) 4 blocks", TABLE_3, 0.3, {"num_blocks": 4}, paper=-0.3),
    Row("(C) 6 blocks", TABLE_3, 0.0, {"num_blocks": 6}),
    Row("(C) d_model 128", TABLE_3, -7.0, {"d_model": 128}, paper=-1.3),
    Row("(C) d_model 512", TABLE_3, 2.0, {"d_model": 512}, paper=0.2),
    Row("(C) d_ff 256", TABLE_3, -0.5, {"d_ff": 256}, paper=-0.4),
    Row("(C) d_ff 1024", TABLE_3, 0.5, {"d_ff": 1024}, paper=0.4),
    Row("(D) dropout 0", TABLE_3, 1.0, {"dropout_rate": 0.0}, paper=-1.2),
    Row("(D) dropout 0.2", TABLE_3, -2.0, {"dropout_rate": 0.2}, paper=-0.3),
    Row("(D) no smoothing", TABLE_3, -0.3, {"label_smoothing": 0.0}, paper=-0.5),
    Row("(D) smoothing 0.2", TABLE_3, -0.2, {"label_smoothing": 0.2}, paper=-0.1),
    Row("(E) learned positions", TABLE_3, -1.5, {"positions": "learned"}, paper=-0.1),
]

OPTION_ROWS = [
    Row(
        "norm after each sub-layer",
        OPTIONS,
        -4.0,
        patch=change_dialect('norm="after", final_norm=False'),
        seen="the paper",
    ),
    # The dialects with the base's schedule: residual order, projections, positions.
    Row("dialect paper", OPTIONS, -4.0, {"dialect": "paper"}),
    Row("dialect tutorial", OPTIONS, -12.0, {"dialect": "tutorial"}),
    Row("dialect kyubyong_legacy", OPTIONS, -12.0, {"dialect": "kyubyong_legacy"}),
    Row("dialect kyubyong", OPTIONS, -5.0, {"dialect": "kyubyong"}),
    Row("dialect tensor2tensor_v1", OPTIONS, -4.0, {"dialect": "tensor2tensor_v1"}),
    Row("relative positions", OPTIONS, 1.0, {"max_relative_position": 8}),
    Row("proximity bias", OPTIONS, 0.3, {"proximity_bias": True}),
    Row("interleaved sinusoids", OPTIONS, 0.0, {"positions": "interleaved"}),
    Row("batches of 24 shapes", OPTIONS, -0.1, {"batch_shapes": 24}),
    Row("d_v 32", OPTIONS, -0.4, {"d_v": 32}),
    Row(
        "embeddings not tied",
        OPTIONS,
        -4.0,
        patch=change_dialect("tied_embeddings=False"),
    ),
    Row(
        "kernels begin at 0.02",
        OPTIONS,
        -2.0,
        patch=Patch(
            "blocks/layers.py",
            "initializer=tf.glorot_uniform_initializer()",
            "initializer=tf.truncated_normal_initializer(stddev=0.02)",
        ),
        seen="google-research/bert",
    ),
    Row("schedule noam", OPTIONS, -2.0, {"schedule": "noam", "learning_rate": 0.3}),
    Row("constant rate", OPTIONS, -2.0, {"schedule": "constant"}),
    Row("learning rate halved", OPTIONS, -2.0, {"learning_rate": 0.0005}),
    Row("learning rate doubled", OPTIONS, -0.5, {"learning_rate": 0.002}),
    Row(
        "Adam of TensorFlow",
        OPTIONS,
        0.0,
        patch=change_dialect("adam=(0.9, 0.999, 1e-8)"),
        seen="Kyubyong/transformer, 2019",
    ),
    Row(
        "batches doubled, steps halved",
        OPTIONS,
        -3.0,
        {"batch_tokens": 1024, "max_steps": 600, "warmup_steps": 90},
    ),
    Row(
        "batches halved, steps doubled",
        OPTIONS,
        1.5,
        {"batch_tokens": 256, "max_steps": 2400, "warmup_steps": 360},
    ),
    Row("clipping at norm 1", OPTIONS, 0.2, {"clip_norm": 1.0}),
    Row("R-Drop", OPTIONS, 1.0, {"r_drop": 5.0}),
    Row("bfloat16", OPTIONS, 0.0, {"precision": "bfloat16"}),
    Row("average of 3 checkpoints", OPTIONS, -0.5, average=3, uses_base=True),
    Row("beam 2", OPTIONS, 0.9, {"beam_size": 2}, uses_base=True),
    Row("beam 5", OPTIONS, 1.5, {"beam_size": 5}, uses_base=True),
    Row("beam 10", OPTIONS, 1.6, {"beam_size": 10}, uses_base=True),
    *(
        Row(
            f"beam 5, length penalty {penalty:g}",
            OPTIONS,
            expected,
            {"beam_size": 5, "length_penalty": penalty},
            uses_base=True,
        )
        for penalty, expected in ((0.0, 0.5), (0.6, 1.1), (2.0, 1.3))
    ),
    Row("unigram vocabulary", OPTIONS, -0.3, prepare=("--model_type", "unigram")),
    Row("4,000 pieces", OPTIONS, -0.5, prepare=("--vocab_size", "4000")),
    Row("16,000 pieces", OPTIONS, -0.5, prepare=("--vocab_size", "16000")),
    Row("a vocabulary each", OPTIONS, -1.5, prepare=("--separate",)),
]

MISTAKE_ROWS = [
    Row(
        "no causal mask",
        MISTAKES,
        -29.0,
        patch=Patch("model.py", "visible=causal_mask(positions),", "visible=None,"),
    ),
    Row(
        "causal mask lets the next piece through",
        MISTAKES,
        -29.0,
        patch=Patch(
            "blocks/masks.py",
            "distances(query_positions, key_positions) <= 0,",
            "distances(query_positions, key_positions) <= 1,",
        ),
    ),
    Row(
        "causal mask hides the piece itself",
        MISTAKES,
        -8.0,
        patch=Patch(
            "blocks/masks.py",
            "distances(query_positions, key_positions) <= 0,",
            "distances(query_positions, key_positions) < 0,",
        ),
    ),
    Row(
        "padding as keys of the encoder",
        MISTAKES,
        -0.3,
        patch=Patch(
            "model.py",
            "make_masks(dialect, mask, mask, bias=bias)",
            "make_masks(dialect, None, mask, bias=bias)",
        ),
    ),
    Row(
        "padding as keys of the decoder",
        MISTAKES,
        -0.5,
        patch=Patch(
            "model.py",
            "make_masks(dialect, memory.mask, mask)",
            "make_masks(dialect, None, mask)",
        ),
    ),
    Row(
        "a padding mask that masks nothing",
        MISTAKES,
        -0.6,
        patch=change_dialect('masks_from="activations"'),
        seen="princewen/tensorflow_practice: padding is what is zero, but positions "
        "were added to it",
    ),
    Row(
        "the target not shifted",
        MISTAKES,
        -29.5,
        patch=Patch(
            "text/batches.py",
            "target_in=np.concatenate([begin, pieces], axis=1),",
            "target_in=pad_with_end(targets, eos, target_width),",
        ),
    ),
    Row(
        "no EOS after the target",
        MISTAKES,
        -20.0,
        patch=Patch(
            "text/batches.py",
            "target_out=pad_with_end(targets, eos, target_width),",
            "target_out=pad_with_end(targets, PAD, target_width),",
        ),
    ),
    Row(
        "no positions in the encoder",
        MISTAKES,
        -2.0,
        patch=leave_out_positions('stack == "encoder"'),
    ),
    Row(
        "no positions in the decoder",
        MISTAKES,
        -1.5,
        patch=leave_out_positions('stack == "decoder"'),
    ),
    Row(
        "no positions at all",
        MISTAKES,
        -5.0,
        patch=leave_out_positions('stack in ("encoder", "decoder")'),
    ),
    Row(
        "positions added twice",
        MISTAKES,
        -0.3,
        patch=Patch(
            "model.py",
            "return x + positional_encoding(",
            "return x + 2 * positional_encoding(",
        ),
    ),
    Row(
        "no scale by √d_k",
        MISTAKES,
        -3.0,
        patch=Patch(
            "blocks/attention.py",
            "scale = queries.shape.as_list()[-1] ** -0.5 if scale is None else scale",
            "scale = 1.0",
        ),
    ),
    Row(
        "no scale by √d_model",
        MISTAKES,
        -3.0,
        patch=Patch(
            "modules.py",
            "expand_dims(scales * (num_units**0.5 if scale else 1.0), -1)",
            "expand_dims(scales, -1)",
        ),
    ),
    Row(
        "softmax over queries",
        MISTAKES,
        -27.0,
        patch=Patch(
            "blocks/attention.py",
            "weights = tf.nn.softmax(logits)",
            "weights = tf.nn.softmax(logits, axis=2)",
        ),
    ),
    Row(
        "softmax over heads",
        MISTAKES,
        -10.0,
        patch=Patch(
            "blocks/attention.py",
            "weights = tf.nn.softmax(logits)",
            "weights = tf.nn.softmax(logits, axis=1)",
        ),
        seen="PyTorch's softmax without dim, on logits [N, H, Tq, Tk]",
    ),
    Row(
        "heads by reshape alone",
        MISTAKES,
        -25.0,
        patch=Patch(
            "blocks/layers.py",
            "    x = reshape(x, [batch, length, num_heads, width // num_heads])\n"
            "    return tf.transpose(x, [0, 2, 1, 3])\n",
            "    return reshape(x, [batch, num_heads, length, width // num_heads])\n",
        ),
    ),
    Row(
        "dropout while translating",
        MISTAKES,
        -4.0,
        patch=Patch(
            "model.py",
            "Dropout(hp.dropout_rate, is_training, dropout_seed)",
            "Dropout(hp.dropout_rate, True, dropout_seed)",
        ),
        uses_base=True,
    ),
    Row(
        "dropout 0.5",
        MISTAKES,
        -18.0,
        {"dropout_rate": 0.5},
        seen="lilianweng/transformer-tensorflow: the rate is not passed on",
    ),
    Row(
        "loss over padding",
        MISTAKES,
        -0.2,
        patch=Patch(
            "training.py",
            "is_counted = tf.cast(is_token(pieces), tf.float32)",
            "is_counted = tf.ones_like(losses)",
        ),
    ),
    Row(
        # The base smooths as tensor2tensor does: padding gets a share like any piece.
        "smoothing without a share for padding",
        MISTAKES,
        0.0,
        patch=Patch(
            "training.py",
            '    return with_gradient("transformer/cross_entropy", losses, logits) - '
            "labels.entropy\n",
            '    result = with_gradient("transformer/cross_entropy", losses, logits)\n'
            "    of_padding = labels.off_target * tf.nn.log_softmax(logits)[:, 0]\n"
            "    return result - labels.entropy + of_padding\n",
        ),
        seen="the Annotated Transformer does so; the base gives to padding",
    ),
    Row(
        "mean over sentences of their means",
        MISTAKES,
        -0.1,
        patch=Patch(
            "training.py",
            "    return Loss(tf.reduce_sum(losses * is_counted), "
            "tf.reduce_sum(is_counted))\n",
            "    losses, counts = (\n"
            "        tf.reduce_sum(tf.reshape(x, tf.shape(target_out)), axis=1)\n"
            "        for x in (losses * is_counted, is_counted)\n"
            "    )  # [N]\n"
            "    means = losses / counts\n"
            "    return Loss(tf.reduce_sum(means), "
            "tf.reduce_sum(tf.ones_like(means)))\n",
        ),
        seen="THUMT takes the mean over GPUs of their means",
    ),
    Row("no warm-up", MISTAKES, -3.0, {"warmup_steps": 1}),
    Row(
        "W^O left out",
        MISTAKES,
        -0.7,
        patch=change_dialect("output_projection=False"),
        seen="Kyubyong/transformer, bojone/attention",
    ),
    Row(
        "ReLU after the projections",
        MISTAKES,
        -1.0,
        patch=change_dialect("projection_relu=True"),
        seen="Kyubyong/transformer, tf1.2_legacy; princewen/tensorflow_practice",
    ),
    Row(
        "norm before, none at the end",
        MISTAKES,
        -1.0,
        patch=change_dialect("final_norm=False"),
    ),
    Row(
        "norm before and after",
        MISTAKES,
        -4.0,
        patch=Patch(
            "modules.py",
            '    if dialect.norm == "after":\n'
            "        x = normalize(x, dialect.norm_epsilon)\n",
            "    if dialect.norm:\n"
            '        x = normalize(x, dialect.norm_epsilon, "ln_after")\n',
        ),
    ),
    Row(
        "no residual connections",
        MISTAKES,
        -29.0,
        patch=change_dialect("residual=False"),
    ),
    Row(
        "translations read with the other vocabulary",
        MISTAKES,
        -29.5,
        patch=Patch(
            "text/translations.py",
            "        vocabulary = self.vocabularies.target\n",
            "        vocabulary = self.vocabularies.source\n",
        ),
        prepare=("--separate",),
    ),
    Row(
        "BLEU in lower case",
        MISTAKES,
        0.5,
        patch=Patch(
            "evaluation.py",
            "effective_order=for_sentences)",
            "effective_order=for_sentences, lowercase=True)",
        ),
        uses_base=True,
    ),
    Row(
        "BLEU of tokenized text",
        MISTAKES,
        0.2,
        patch=Patch(
            "evaluation.py",
            "    chosen = {key: METRICS[key].create(tokenizer) for key in metrics}\n"
            "    scores = Scores()\n",
            "    chosen = {key: METRICS[key].create(tokenizer) for key in metrics}\n"
            "    hypotheses, references = (\n"
            '        [line.replace("-", " @-@ ") for line in lines]\n'
            "        for lines in (hypotheses, references)\n"
            "    )\n"
            "    scores = Scores()\n",
        ),
        uses_base=True,
        seen="Moses's tokenizer.perl -a, which splits at hyphens",
    ),
    Row(
        "mean of the sentences' BLEU",
        MISTAKES,
        2.0,
        patch=Patch(
            "evaluation.py",
            "            scores[key] = Score(_round_100(result.score), "
            "str(metric.get_signature()))\n",
            "            pairs = list(zip(hypotheses, references))\n"
            "            values = [metric.sentence_score(x, [y]).score "
            "for x, y in pairs]\n"
            "            scores[key] = Score(sum(values) / len(values))\n",
        ),
        uses_base=True,
    ),
]

ROWS: List[Row] = [BASE, *TABLE_3_ROWS, *OPTION_ROWS, *MISTAKE_ROWS]
