"""Names that a person types: reject an unknown one, and suggest the nearest."""

import difflib
from typing import Collection

from transformer.runtime.errors import SettingsError

MAX_LISTED = 8  # names that a message lists


def describe_unknown(kind: str, name: str, choices: Collection[str]) -> str:
    """Describe an unknown name: suggest the nearest one, and list all if there are few.

    Args:
      kind: what the name is of: "setting".
      name: the unknown name.
      choices: the names that exist. An empty one stands for a default; it is not
        listed.
    """
    nearest = difflib.get_close_matches(name, choices, n=1)
    suggestion = f"; did you mean {nearest[0]}?" if nearest else ""
    listed = [choice for choice in choices if choice]
    listing = f" ({', '.join(listed)})" if len(listed) <= MAX_LISTED else ""
    return f"unknown {kind} {name}{suggestion}{listing}"


def refuse_unknown(kind: str, name: str, choices: Collection[str]) -> None:
    """Raise SettingsError, with the nearest name, if `name` is not in `choices`."""
    if name not in choices:
        raise SettingsError(describe_unknown(kind, name, choices))
