"""The design decisions on which published Transformers differ, one row per source.

The blocks and the model never check which row they use: where a decision is made, the
code reads the field of that decision. To add a source, add a row.

The rows for tensor2tensor follow models/transformer.py, utils/learning_rate.py and
utils/optimize.py of version 1.15.7. Its transformer_base is the third version: Adam's
beta2 is 0.997 instead of the paper's 0.98, and warm-up takes 8,000 steps instead of the
4,000 of the first version.
"""

from typing import NamedTuple, Tuple, Union


class Dialect(NamedTuple):
    """The decisions on which the sources differ; the defaults are the paper's."""

    described_in: str  # the source of this row
    # Attention.
    projection_relu: bool = False  # Q, K and V go through a ReLU
    projection_bias: bool = False  # Q, K and V are x W + b instead of x W
    output_projection: bool = True  # the concatenated heads are multiplied by W^O ...
    output_bias: bool = False  # ... and get a bias; only transformer.compat changes it
    output_relu: bool = False  # ... and go through a ReLU; likewise
    # Logits of padded keys, and those of later keys, are "replaced" by a number, or
    # "lowered".
    key_masking: str = "replaced"
    future_masking: str = "replaced"
    padded_row: str = "is zero"  # a row is padding if it "is zero" or "sums to zero"
    masks_from: str = "ids"  # padding is found from "ids" or "activations"
    decoder_masks_padding: bool = True  # in its self-attention
    fully_masked_is_zero: bool = True  # a query that may attend to nothing gets zeros
    mask_queries: bool = True  # the weights of padded queries are zeroed
    padding_stays_zero: bool = True  # a block that detects padding returns zeros for it
    attention_dropout: bool = False  # dropout is applied to the attention weights
    # Around a sub-layer f: norm(x + dropout(f(x))), or x + dropout(f(norm(x))).
    residual: bool = True  # x is added to the result; only compat changes it
    residual_dropout: bool = True  # dropout is applied to what is added to x
    norm: str = "after"  # "before" the sub-layer, "after" the addition, or "" for none
    final_norm: bool = False  # a last normalization after each whole stack
    norm_epsilon: float = 1e-6  # added to the variance, inside the root
    # Feed-forward.
    inner_dropout: bool = False  # dropout is applied between the two layers
    feedforward_skips_padding: bool = False  # padded positions of the encoder get zeros
    # Positions and embeddings.
    positions: str = "interleaved"  # a key of positions.POSITIONS
    scaled_positions: bool = False  # positional_encoding scales by sqrt(D) by default
    learned_positions: bool = False  # a table of positions instead of sinusoids
    positions_on_padding: bool = False  # positions are also added to padding
    first_position_padded: bool = False  # zero_pad zeroes position 0, not padding
    target_space: bool = False  # the source gets a vector for the target language
    begins_with_zeros: bool = False  # the target begins with zeros, not with BOS
    tied_embeddings: bool = True  # source, target and output share one table
    # Row 0 of the table is zero, in the output layer too; so the logit of padding is 0.
    padding_row_is_zero: bool = False
    # Training.
    smoothing: str = "all"  # a key of training.SMOOTHINGS
    schedule: str = "noam"  # a key of training.SCHEDULES
    learning_rate: float = 1.0  # the factor of the schedule
    adam: Tuple[float, float, float] = (0.9, 0.98, 1e-9)  # beta1, beta2, epsilon


PAPER = Dialect(described_in="Vaswani et al. 2017, Attention Is All You Need")

TENSOR2TENSOR = PAPER._replace(
    described_in="tensor2tensor 1.15.7, transformer_base",
    key_masking="lowered",
    future_masking="lowered",
    decoder_masks_padding=False,
    fully_masked_is_zero=False,
    mask_queries=False,
    padding_stays_zero=False,
    attention_dropout=True,
    norm="before",
    final_norm=True,
    inner_dropout=True,
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
    fully_masked_is_zero=False,
    padding_stays_zero=False,
    attention_dropout=True,
    residual_dropout=False,
    norm_epsilon=1e-8,
    positions="per_channel",  # of the function positional_encoding
    scaled_positions=True,
    learned_positions=True,  # in the model
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
        fully_masked_is_zero=False,
        mask_queries=False,
        padding_stays_zero=False,
        attention_dropout=True,
        residual_dropout=False,
        norm_epsilon=1e-8,
        padding_row_is_zero=True,
        schedule="noam_by_peak",
        learning_rate=3e-4,
        adam=(0.9, 0.999, 1e-8),
    ),
    "tensor2tensor": TENSOR2TENSOR,
    "tensor2tensor_v1": TENSOR2TENSOR._replace(
        described_in="tensor2tensor 1.15.7, transformer_base_v1",
        norm="after",
        final_norm=False,
        attention_dropout=False,
        inner_dropout=False,
        schedule="noam",
        learning_rate=1.0,  # 5000 * 0.002 * 0.1
        adam=(0.9, 0.98, 1e-9),
    ),
}


def resolve(dialect: Union[str, Dialect]) -> Dialect:
    """Return the row with a name; return a Dialect unchanged.

    Raises:
      ValueError: there is no such row.
    """
    if isinstance(dialect, Dialect):
        return dialect
    if dialect not in DIALECTS:
        raise ValueError(f"dialect: expected one of {list(DIALECTS)}, got {dialect!r}")
    return DIALECTS[dialect]
