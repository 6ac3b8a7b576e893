"""Parameters of tests that mostly execute the same lines: a few are quick."""

import pytest


def slow_except(quick, values):
    """Mark the values of parameters, each a tuple if there are several, as slow.

    Args:
      quick: the values that are not marked.
      values: all values.
    """
    return [
        value
        if value in quick
        else pytest.param(
            *(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.slow
        )
        for value in values
    ]
