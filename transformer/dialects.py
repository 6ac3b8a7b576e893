"""The design decisions in which published Transformers differ, a row per source.

The blocks and the model never ask which row they are in; each reads the field it needs
at the place where the decision is taken. The rows differ only in the fields below, so a
further source is a further row.

tensor2tensor's are models/transformer.py, utils/learning_rate.py and utils/optimize.py
of 1.15.7: transformer_base is its third version, whose second moment fades by 0.997
instead of the paper's 0.98; it warms up for 8,000 steps, the first version for 4,000.
"""

import sys
from typing import NamedTuple, Tuple, Union


class Dialect(NamedTuple):
    """The decisions in which the sources differ."""

    described_in: str  # where the numbers of this row come from
    # Attention.
    projection_relu: bool  # Q, K and V go through a ReLU
    projection_bias: bool  # Q, K and V are x W + b instead of x W
    output_projection: bool  # the joined heads are multiplied by W^O ...
    output_bias: bool  # ... and get a bias
    output_relu: bool  # ... and go through a ReLU
    key_masking: str  # a forbidden logit is "replaced" or "lowered" ...
    future_masking: str  # ... by padding, by causality
    padded_row: str  # a row is padding if it "is zero" or "sums to zero"
    masks_from: str  # padding is found from "ids" or "activations"
    decoder_masks_padding: bool  # in the self-attention of the decoder
    blind_queries_are_zero: bool  # a query that may attend to nothing gets zeros
    mask_queries: bool  # the weights of padded queries are zeroed
    # Around a sub-layer.
    before: Tuple[str, ...]  # steps before it: "norm"
    after: Tuple[str, ...]  # steps after it: "dropout", "add", "norm"
    final_norm: bool  # a last normalization after each whole stack
    norm_epsilon: float  # added to the variance, inside the root
    # Feed-forward.
    inner_dropout: bool  # dropout between the two layers
    feedforward_skips_padding: bool  # padded positions of the encoder get zeros
    # Positions and embeddings.
    positions: str  # a key of positions.POSITIONS
    learned_positions: bool  # a table of positions, instead of sinusoids
    positions_on_padding: bool  # positions are added to padding too
    first_position_padded: bool  # zero_pad zeroes position 0, not padding
    target_space: bool  # a vector for the target language joins the source
    begins_with_zeros: bool  # the target begins with zeros, not with BOS
    tied_embeddings: bool  # source, target and output share one table
    padding_row_is_zero: bool  # in the table of the output too: its logit is 0
    # Training.
    smoothing: str  # a key of training.SMOOTHINGS
    schedule: str  # a key of schedules.SCHEDULES
    learning_rate: float  # the factor of the schedule
    adam: Tuple[float, float, float]  # beta1, beta2, epsilon


PAPER = Dialect(
    described_in="Vaswani et al. 2017, Attention Is All You Need",
    projection_relu=False,
    projection_bias=False,
    output_projection=True,
    output_bias=False,
    output_relu=False,
    key_masking="replaced",
    future_masking="replaced",
    padded_row="is zero",
    masks_from="ids",
    decoder_masks_padding=True,
    blind_queries_are_zero=True,
    mask_queries=True,
    before=(),
    after=("dropout", "add", "norm"),
    final_norm=False,
    norm_epsilon=1e-6,
    inner_dropout=True,
    feedforward_skips_padding=False,
    positions="interleaved",
    learned_positions=False,
    positions_on_padding=False,
    first_position_padded=False,
    target_space=False,
    begins_with_zeros=False,
    tied_embeddings=True,
    padding_row_is_zero=False,
    smoothing="all",
    schedule="noam",
    learning_rate=1.0,
    adam=(0.9, 0.98, 1e-9),
)

TENSOR2TENSOR = PAPER._replace(
    described_in="tensor2tensor 1.15.7, transformer_base",
    key_masking="lowered",
    future_masking="lowered",
    decoder_masks_padding=False,
    blind_queries_are_zero=False,
    mask_queries=False,
    before=("norm",),
    after=("dropout", "add"),
    final_norm=True,
    feedforward_skips_padding=True,
    positions="halves",
    positions_on_padding=True,
    target_space=True,
    begins_with_zeros=True,
    smoothing="others",
    schedule="rsqrt",
    learning_rate=2.0,
    adam=(0.9, 0.997, 1e-9),
)

TUTORIAL = PAPER._replace(
    described_in="the step-by-step tutorial and its TensorFlow 1.2 demo",
    projection_relu=True,
    projection_bias=True,
    output_projection=False,
    padded_row="sums to zero",
    masks_from="activations",
    blind_queries_are_zero=False,
    after=("add", "norm"),
    norm_epsilon=1e-8,
    inner_dropout=False,
    positions="per_channel",
    learned_positions=True,
    positions_on_padding=True,
    first_position_padded=True,
    tied_embeddings=False,
    schedule="constant",
    learning_rate=1e-4,
    adam=(0.9, 0.98, 1e-8),
)

DIALECTS = {
    "paper": PAPER,
    "tutorial": TUTORIAL,
    "kyubyong_legacy": TUTORIAL._replace(
        described_in="Kyubyong/transformer, tf1.2_legacy",
        padded_row="is zero",
        positions_on_padding=False,
    ),
    "kyubyong": PAPER._replace(
        described_in="Kyubyong/transformer, 2019",
        projection_bias=True,
        output_projection=False,
        key_masking="lowered",
        blind_queries_are_zero=False,
        mask_queries=False,
        after=("add", "norm"),
        norm_epsilon=1e-8,
        inner_dropout=False,
        padding_row_is_zero=True,
        schedule="noam_by_peak",
        learning_rate=3e-4,
        adam=(0.9, 0.999, 1e-8),
    ),
    "tensor2tensor": TENSOR2TENSOR,
    "tensor2tensor_v1": TENSOR2TENSOR._replace(
        described_in="tensor2tensor 1.15.7, transformer_base_v1",
        before=(),
        after=("dropout", "add", "norm"),
        final_norm=False,
        inner_dropout=False,
        schedule="noam",
        learning_rate=1.0,  # 5000 * 0.002 * 0.1
        adam=(0.9, 0.98, 1e-9),
    ),
}


def resolve(dialect: Union[str, Dialect]) -> Dialect:
    """Return the row of a name, or the Dialect that is given.

    Raises:
      ValueError: there is no such row.
    """
    if isinstance(dialect, Dialect):
        return dialect
    if dialect not in DIALECTS:
        raise ValueError(f"dialect: found {dialect!r}, wanted one of {list(DIALECTS)}")
    return DIALECTS[dialect]


def table() -> str:
    """Return the rows side by side as a Markdown table: a line for each decision."""

    def shown(value):
        if isinstance(value, bool):
            return "yes" if value else "no"
        return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)

    lines = [["", *DIALECTS], ["---"] * (len(DIALECTS) + 1)]
    for field in Dialect._fields:
        cells = [shown(getattr(row, field)) or "–" for row in DIALECTS.values()]
        lines.append([f"`{field}`", *cells])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> None:
    sys.stdout.write(table())


if __name__ == "__main__":
    main()
