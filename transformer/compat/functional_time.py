"""The modules of "Self-attention with Functional Time Representation Learning".

Instead of `from modules import *`:

    from transformer.compat.functional_time import *

They equal the modules of SASRec, with two differences: a row is padding if its sum is
zero, and the feed-forward layer adds its input only if both widths are equal. The time
encodings are not included.
"""

import functools

from transformer.compat import sasrec
from transformer.compat.sasrec import *  # noqa: F403

__all__ = sasrec.__all__

# The arguments and results are those of SASRec.
multihead_attention = functools.partial(
    sasrec.multihead_attention,
    dialect=sasrec.ATTENTION._replace(padded_row="sums to zero"),
)
feedforward = functools.partial(
    sasrec.feedforward, adds=lambda num_units, width: num_units[0] == num_units[1]
)
