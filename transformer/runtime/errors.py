"""The exceptions of the package.

All of them are ValueErrors, too. Their messages state facts: what was expected and what
came. `commands/advice.py` adds what to type on the command line.

    TransformerError
    ├── SettingsError        a setting has a wrong value, or contradicts another one
    ├── CorpusError          text or a data folder cannot be used
    ├── VocabularyError      a vocabulary is missing, broken, or a different one
    ├── CheckpointError      a checkpoint is missing, broken, or of another model
    ├── LogDirectoryError    a log directory cannot be used as it is
    └── EngineError          an engine or an optional package cannot do what is asked
"""

REFUSED = 2  # the exit status of every refusal, including argparse's


class TransformerError(ValueError):
    """An argument, a file or a setting cannot be used."""


class SettingsError(TransformerError):
    """A setting has a wrong value, or contradicts another setting."""


class CorpusError(TransformerError):
    """Text, or a data folder, is missing, broken or unsuitable."""


class VocabularyError(TransformerError):
    """A vocabulary is missing or broken, or is not the one that is needed."""


class CheckpointError(TransformerError):
    """A checkpoint is missing or broken, or belongs to another model."""


class LogDirectoryError(TransformerError):
    """A log directory cannot be used as it is."""


class EngineError(TransformerError):
    """An engine, or an optional package, is missing or cannot do what is asked."""
