"""The length penalty, in arithmetic alone: it needs no TensorFlow.

The search computes it with tensors. The engine without TensorFlow, the page and the
tests compute it with numbers and arrays.
"""

from typing import Any, Callable, Dict

# The extension point for length penalties: name → what is raised to the power of alpha,
# a function of the length. "power" is the penalty of fairseq, Sockeye and Hugging Face.
LENGTH_PENALTIES: Dict[str, Callable[[Any], Any]] = {
    "wu": lambda length: (5.0 + length) / 6.0,  # Wu et al. 2016, eq. 14
    "power": lambda length: length,
}


def length_penalty(length: Any, alpha: float, form: str = "wu") -> Any:
    """Compute the length penalty: by default, ((5 + length) / 6) ^ alpha.

    The score of a hypothesis is its log-probability divided by this number. With an
    `alpha` of 0 there is no penalty, so short hypotheses are preferred: every further
    piece costs log-probability. A larger `alpha` prefers longer ones.

    Args:
      length: the number of pieces, including EOS: a number, an array, or a floating
        tensor, of any shape.
      alpha: the exponent.
      form: a row of LENGTH_PENALTIES: "wu", or "power" for length ^ alpha.

    Returns:
      The penalty, of the same kind and shape as `length`.
    """
    return LENGTH_PENALTIES[form](length) ** alpha
