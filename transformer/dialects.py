"""What published Transformers decide differently: one record, one row per source.

The blocks and the model never ask which row they are in; each reads the field it needs
at the place where the decision is taken. The rows differ only in the fields below, so a
further source is a further row.
"""
from typing import NamedTuple, Tuple


class Dialect(NamedTuple):
    """The decisions in which the sources differ."""

    described_in: str             # where the numbers of this row come from
    projection_bias: bool         # Q, K and V are x W + b instead of x W
    output_projection: bool       # the joined heads are multiplied by W^O
    before: Tuple[str, ...]       # steps before a sub-layer: "norm"
    after: Tuple[str, ...]        # steps after it: "dropout", "add", "norm"
    final_norm: bool              # a last normalization after each whole stack
    norm_epsilon: float           # added to the variance, inside the root
    blind_queries_are_zero: bool  # a query that may attend to nothing gets zeros
    mask_queries: bool            # the weights of padded queries are zeroed
    inner_dropout: bool           # dropout between the two layers of the feed-forward
    positions: str                # a key of modules.POSITIONS
    tied_embeddings: bool         # source, target and output share one table
    schedule: str                 # a key of training.SCHEDULES
    learning_rate: float          # the factor of the schedule
    adam: Tuple[float, float, float]  # beta1, beta2, epsilon


DIALECTS = {
    "paper": Dialect(
        described_in="Vaswani et al. 2017, Attention Is All You Need",
        projection_bias=False,
        output_projection=True,
        before=(),
        after=("dropout", "add", "norm"),
        final_norm=False,
        norm_epsilon=1e-6,
        blind_queries_are_zero=True,
        mask_queries=True,
        inner_dropout=True,
        positions="sinusoid",
        tied_embeddings=True,
        schedule="noam",
        learning_rate=1.0,
        adam=(0.9, 0.98, 1e-9),
    ),
}
