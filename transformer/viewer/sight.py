"""The former place of `inspection`, with its former names."""

from transformer.viewer.inspection import KINDS as KINDS
from transformer.viewer.inspection import LineInspection as Sight  # noqa: F401
from transformer.viewer.inspection import inspect_line as see  # noqa: F401
from transformer.viewer.inspection import to_json as packed  # noqa: F401
