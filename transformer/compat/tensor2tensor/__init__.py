"""The layers of tensor2tensor 1.15.7: common_attention and common_layers.

Instead of `from tensor2tensor.layers import common_attention, common_layers`:

    from transformer.compat import tensor2tensor as common_attention
    from transformer.compat import tensor2tensor as common_layers

It also replaces `transformer_layers` (`transformer_prepare_encoder`) and `beam_search`
(the function of that name).

Unsupported arguments raise ValueError: other kinds of attention (two-dimensional,
dilated, area, graph) and of normalization, queries and keys from filters wider than 1,
and three-dimensional variables.
"""

from transformer.compat.tensor2tensor import attention, biases, layers, search
from transformer.compat.tensor2tensor.attention import *  # noqa: F403
from transformer.compat.tensor2tensor.biases import *  # noqa: F403
from transformer.compat.tensor2tensor.layers import *  # noqa: F403
from transformer.compat.tensor2tensor.search import *  # noqa: F403

__all__ = [*attention.__all__, *biases.__all__, *layers.__all__, *search.__all__]
