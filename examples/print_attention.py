"""Print where a trained model looks while it translates a sentence.

    python examples/print_attention.py logs/sample "Die Frau ist müde."

logs/sample is the log directory of a trained model: `make demo` makes one. The program
takes 10 seconds. Expect a row for each piece of the translation, with the attention
that it pays to each piece of the source, in percent. Each row sums to 100, and the
largest number is usually under the piece that is translated.

`python scripts/plot_attention.py` draws all layers and heads as a picture or a page.
"""

import argparse

from transformer import Translator
from transformer.viewer.inspection import inspect_line


def main(logdir: str, sentence: str) -> None:
    """Print the cross-attention of the last layer, averaged over its heads."""
    with Translator(logdir) as translator:
        inspection = inspect_line(translator, sentence)
    weights = inspection.attention["cross"][-1].mean(axis=0)  # [H, T, S] → [T, S]
    print(" " * 12, *[f"{piece[:5]:>5}" for piece in inspection.source.pieces])
    for piece, row in zip(inspection.target.pieces, weights):
        print(f"{piece[:12]:12}", *[f"{100 * weight:5.0f}" for weight in row])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("logdir")
    parser.add_argument("sentence")
    main(**vars(parser.parse_args()))
