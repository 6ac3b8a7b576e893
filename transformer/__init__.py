"""The Transformer of "Attention Is All You Need" in TensorFlow 1.x style.

    from transformer import HParams, Transformer, Translator, modules

docs/files.md lists the files in the order in which text flows through them. A file
imports only files listed above it. `train.py`, `eval.py` and `scripts/` combine them.
"""

import importlib
from typing import Any

# More special exceptions are in the module.
_ERRORS = [
    "TransformerError",
    "SettingsError",
    "CorpusError",
    "VocabularyError",
    "CheckpointError",
    "LogDirectoryError",
    "FileError",
    "OutputFolderError",
    "EngineError",
]
__all__ = ["HParams", "Transformer", "Translator", "modules", *_ERRORS]
__version__ = "0.1.0"

_HOMES = {
    "HParams": "transformer.hparams",
    "Transformer": "transformer.model",
    "Translator": "transformer.translator",
    **dict.fromkeys(_ERRORS, "transformer.runtime.errors"),
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use: importing the package needs no TensorFlow."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name == "modules":
        return importlib.import_module("transformer.modules")
    raise AttributeError(f"module 'transformer' has no attribute {name!r}")
