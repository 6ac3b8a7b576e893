"""The length penalty, in arithmetic alone: it needs no TensorFlow.

The search computes it with tensors. The engine without TensorFlow, the page and the
tests compute it with numbers and arrays.
"""

from typing import Any

# The formulas: Wu et al. 2016, eq. 14, and a power of the length, as in fairseq,
# Sockeye and Hugging Face.
LENGTH_PENALTIES = ("wu", "power")


def length_penalty(length: Any, alpha: float, form: str = "wu") -> Any:
    """Compute the length penalty ((5 + length) / 6) ^ alpha (Wu et al. 2016, eq. 14).

    The score of a hypothesis is its log-probability divided by this number. With an
    `alpha` of 0 there is no penalty, so short hypotheses are preferred: every further
    piece costs log-probability. A larger `alpha` prefers longer ones.

    Args:
      length: the number of pieces, including EOS: a number, an array, or a floating
        tensor, of any shape.
      alpha: the exponent.
      form: "wu", or "power" for length ^ alpha instead.

    Returns:
      The penalty, of the same kind and shape as `length`.
    """
    if form == "power":
        return length**alpha
    return ((5.0 + length) / 6.0) ** alpha
