"""The modules of "Self-attention with Functional Time Representation Learning".

Instead of `from modules import *`:

    from transformer.compat.functional_time import *

They are those of SASRec, with two differences: a row is padding if its sum is zero, and
the feed-forward adds its input only if both widths are equal. The encodings of time are
not included.
"""

import functools

from transformer import modules
from transformer.compat import sasrec
from transformer.compat.sasrec import *  # noqa: F403
from transformer.compat.variables import variables_named_as

__all__ = sasrec.__all__

# Arguments and result are those of SASRec.
multihead_attention = functools.partial(
    sasrec.multihead_attention,
    dialect=sasrec.ATTENTION._replace(padded_row="sums to zero"),
)


@variables_named_as("functional_time")  # type: ignore[no-redef]
def feedforward(
    inputs,
    num_units=(2048, 512),
    scope="multihead_attention",
    dropout_rate=0.2,
    is_training=True,
    reuse=None,
):
    """Apply two dense layers, dropout after each: see `modules.feedforward`.

    The input is added if both widths in `num_units` are equal.
    """
    adds = num_units[0] == num_units[1]
    return modules.feedforward(
        inputs,
        num_units,
        scope,
        reuse,
        dropout_rate=dropout_rate,
        is_training=is_training,
        dialect=sasrec.FEEDFORWARD if adds else sasrec.LAYERS_ALONE,
    )
