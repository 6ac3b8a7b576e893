"""Draw where a trained model looks while it translates: its cross-attention.

    python examples/draw_attention.py --logdir logs/sample --out attention.svg \\
        "Die Frau, die wir besuchen, ist müde."

A row for each piece of the translation, a column for each piece of the source; the mean
of the heads of the last decoder block. It needs matplotlib: pip install -e '.[plot]'.
"""

import hparams
from transformer.runtime import cli
from transformer.runtime.figures import saved_figure


def parser():
    """Return the parser of the command line."""
    made = cli.make_parser("draw_attention.py", __doc__)
    made.add_argument("sentence", metavar="SENTENCE", help="what is translated")
    cli.add_checkpoint(made)
    made.add_argument(
        "--out", required=True, metavar="FILE", help="the picture, .svg or .png"
    )
    return made


def cross_attention(hp, checkpoint, source, target_in):
    """Return the weights of the last decoder block, the mean of its heads: [T, S].

    Args:
      hp: the settings of the model.
      checkpoint: its path.
      source: int32 [1, S].
      target_in: int32 [1, T].
    """
    import tensorflow.compat.v1 as tf

    from transformer.model import Transformer
    from transformer.runtime import checkpoints, tensors

    weights = {}
    with tf.Graph().as_default(), tf.Session() as session:
        model = Transformer(hp)
        memory = model.encode(tf.constant(source))
        model.decode(tf.constant(target_in), memory, weights=weights)
        tensors.restore(session, checkpoints.make_saver(), checkpoint)
        last = f"decoder/block_{hp.num_blocks - 1}/cross_attention"
        return session.run(weights[last])[0].mean(axis=0)  # of [H, T, S]


def draw(weights, source, target, out: str) -> None:
    """Draw a heat map.

    Args:
      weights: float [T, S].
      source: S labels.
      target: T labels.
      out: the file; its ending says which format.
    """
    width, height = 1 + 0.5 * len(source), 1 + 0.35 * len(target)
    with saved_figure(out, width, height) as axes:
        axes.imshow(weights, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        axes.set_xticks(range(len(source)), source, rotation=40, ha="right")
        axes.set_yticks(range(len(target)), target)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)


def run(args) -> None:
    """Translate the sentence, print the translation, draw its attention."""
    hp = hparams.load(args.logdir)
    cli.start_tensorflow(args.verbose)
    from transformer.data import make_batch
    from transformer.translator import Translator

    with Translator(hp, args.logdir) as translator:
        checkpoint = translator.restore_found(args.checkpoint)
        [[best]] = translator.translate([args.sentence])
    source, target = translator.vocabularies.source, translator.vocabularies.target
    batch = make_batch(
        [source.encode(args.sentence)],
        [target.encode(best.text)],
        0,
        target.bos,
        target.eos,
    )
    weights = cross_attention(hp, checkpoint, batch.source, batch.target_in)
    labels = [
        [piece.replace("▁", " ").strip() or piece for piece in vocabulary.pieces(ids)]
        for vocabulary, ids in (
            (source, batch.source[0]),
            (target, batch.target_out[0]),
        )
    ]
    draw(weights, *labels, args.out)
    print(f"{best.text}\n{args.out}")


def main(argv=None):
    cli.main(parser(), run, argv)


if __name__ == "__main__":
    main()
