"""The modules of princewen/tensorflow_practice, Basic-Transformer-Demo.

Instead of `from modules import ...`:

    from transformer.compat.tutorial import *

They differ from `kyubyong_legacy` only in attention: a row is padding if its sum is
zero, the scope is `mulithead_attention` (sic), and `num_heads` must be given.
"""

from transformer import modules
from transformer.compat import kyubyong_legacy
from transformer.compat.kyubyong_legacy import *  # noqa: F403
from transformer.compat.variables import original_variables
from transformer.dialects import DIALECTS

__all__ = [*kyubyong_legacy.__all__, "scaled_dotproduct_attention"]

DIALECT = DIALECTS["tutorial"]


@original_variables("tutorial")  # type: ignore[no-redef]
def multihead_attention(
    queries,
    keys,
    num_units=None,
    num_heads=0,
    dropout_rate=0,
    is_training=True,
    causality=False,
    scope="mulithead_attention",
    reuse=None,
):
    """Attend with several heads, then add and normalize: see `modules`."""
    return modules.multihead_attention(
        queries,
        keys,
        num_units,
        num_heads,
        dropout_rate,
        is_training,
        causality,
        scope,
        reuse,
        dialect=DIALECT,
    )


def scaled_dotproduct_attention(
    queries,
    keys,
    num_units=None,
    num_heads=0,
    dropout_rate=0,
    is_training=True,
    causality=False,
    scope="mulithead_attention",
    reuse=None,
):
    """Attend with one head (`num_heads` is ignored), then add and normalize."""
    return multihead_attention(
        queries, keys, num_units, 1, dropout_rate, is_training, causality, scope, reuse
    )
