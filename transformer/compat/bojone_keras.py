"""The earlier import path of `transformer.compat.bojone.layers`."""

from transformer.compat.bojone.layers import *  # noqa: F403
from transformer.compat.bojone.layers import __all__  # noqa: F401
