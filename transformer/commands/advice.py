"""Advice for the command line: an exception of the package → what to type.

The package raises exceptions with facts (`runtime/errors.py`). A command that fails
shows the message, and after it the advice of the first row that matches.
"""

from typing import Callable, Dict, Type

# The extension point for advice: exception class → a function of the exception that
# returns what to do about it, or "". The first row whose class matches is used.
ADVICE: Dict[Type[Exception], Callable[[Exception], str]] = {}


def advice_for(error: Exception) -> str:
    """Return what to do about an exception, as "; do …", or "" if no row matches."""
    for kind, advise in ADVICE.items():
        if isinstance(error, kind):
            text = advise(error)
            return text and f"; {text}"
    return ""
