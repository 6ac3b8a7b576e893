"""The exceptions of the package.

Each of them is a ValueError, too. The message states the facts: what was expected and
what came. Where a situation needs its own answer, it has its own class, and the facts
are attributes. `transformer/commands/advice.py` turns them into what to type.

    TransformerError
    ├── SettingsError             a setting has a wrong value, or contradicts another
    │   ├── ArchitectureMismatch      it contradicts a saved architecture
    │   ├── PlanDiffers               shards were planned with other settings
    │   └── ProgramNotFound           the program that workers should run is missing
    ├── CorpusError               text or a data folder cannot be used
    │   ├── TextNotFound              the text of a split is missing
    │   ├── SidesInOneFile            a file has several languages or references
    │   ├── SidesEqual                the source is the same text as the target
    │   ├── SidesReversed             the source is in the language of the target
    │   ├── FileNotText               a file is no text in UTF-8, but a known format
    │   ├── DataFolderNotPrepared     there is no data folder, or it is not complete
    │   ├── DataFolderChanged         its files are not those that were prepared
    │   ├── ShardsFailed              shards of a file could not be translated
    │   └── ShardsMissing             shards of a file are not translated yet
    ├── VocabularyError           a vocabulary cannot be used
    │   ├── VocabularyNotFound        there is none
    │   ├── VocabularyFileError       a file is not a vocabulary that can be used
    │   ├── VocabularyMismatch        it is not the one that is needed
    │   │   └── CorpusVocabularyMismatch  a corpus was prepared with another one
    │   ├── VocabulariesAmbiguous     which table is that of the source is unknown
    │   └── VocabularySizeError       the text does not allow a size
    ├── CheckpointError           a checkpoint is broken, or of another model
    │   ├── CheckpointNotFound        there is none
    │   ├── VariableNamesError        its variables have other names
    │   └── WeightsNotFinite          it has NaN or infinity
    ├── FileError                 a pipe or a folder is where a file should be
    │   └── JsonFileError             a file is not the JSON that it should be
    ├── OutputFolderError         a folder cannot be written, or has other content
    ├── LogDirectoryError         a log directory cannot be used as it is
    │   ├── LogDirectoryNotFound      a folder is not a log directory
    │   ├── LogDirectoryInUse         another training run uses it
    │   └── CorpusChanged             its training run has seen another corpus
    └── EngineError               an engine or a package cannot do what is asked
        ├── PackageNotInstalled       an optional package is missing
        ├── RayClusterNotFound        no Ray cluster is running
        ├── ExportNotFound            a model was not exported for the engine
        ├── ExportDamaged             a file of an export is not the one written
        ├── ExportNotWritable         an export cannot be written
        └── ExportDiffers             an export does not compute what the model does

    try:
        translator = Translator("logs/mine")
    except CheckpointNotFound as error:
        train(error.logdir)

The first argument of each class is the message, so that an exception can be sent to
another process.
"""

from typing import Optional, Sequence

REFUSED = 2  # the exit status of every refusal, including argparse's


class TransformerError(ValueError):
    """An argument, a file or a setting cannot be used."""


class SettingsError(TransformerError):
    """A setting has a wrong value, or contradicts another setting."""


class ArchitectureMismatch(SettingsError):
    """A setting of the model contradicts the one of a saved model.

    Attributes:
      argument: the argument that named the folder of the saved model.
    """

    def __init__(self, message: str, argument: str = "logdir"):
        super().__init__(message)
        self.argument = argument


class PlanDiffers(SettingsError):
    """The shards of a folder were planned for another file, model or search."""


class ProgramNotFound(SettingsError):
    """The program that the workers should run is missing."""


class CorpusError(TransformerError):
    """Text, or a data folder, is missing, broken or unsuitable."""


class TextNotFound(CorpusError, FileNotFoundError):
    """The text of a split is missing.

    Attributes:
      split: "train", "dev" or "test".
    """

    def __init__(self, message: str, split: str = ""):
        super().__init__(message)
        self.split = split


class SidesInOneFile(CorpusError):
    """A file holds several languages, or several references.

    Attributes:
      path: the file.
      labels: the names of its texts.
    """

    def __init__(self, message: str, path: str = "", labels: Sequence[str] = ()):
        super().__init__(message)
        self.path = path
        self.labels = labels


class SidesEqual(CorpusError):
    """Each line would be paired with itself.

    Attributes:
      path: the file, if it was given for both sides.
      separator: what seems to separate its two columns, or "".
    """

    def __init__(self, message: str, path: str = "", separator: str = ""):
        super().__init__(message)
        self.path = path
        self.separator = separator


class SidesReversed(CorpusError):
    """The source text is in the language of the target, and the other way round."""


class FileNotText(CorpusError):
    """A file is an archive, compressed in a way that is not read, or in UTF-16.

    Attributes:
      path: the file.
      kind: what it is: a format, such as "gzip", "zip" or "Parquet"; an encoding, such
        as "UTF-16" or "UTF-32LE"; or "text", where its name says that it is gzipped.
    """

    def __init__(self, message: str, path: str = "", kind: str = ""):
        super().__init__(message)
        self.path = path
        self.kind = kind


class DataFolderNotPrepared(CorpusError, FileNotFoundError):
    """A folder is not a data folder, or preparing it did not finish."""

    def __init__(self, message: str, folder: str = ""):
        super().__init__(message)
        self.folder = folder


class DataFolderChanged(CorpusError):
    """A file of a data folder is missing, broken, or not the one that was prepared."""

    def __init__(self, message: str, folder: str = ""):
        super().__init__(message)
        self.folder = folder


class ShardsFailed(CorpusError):
    """Shards of a file could not be translated; all others are finished."""


class ShardsMissing(CorpusError):
    """Shards of a file are not translated yet."""


class VocabularyError(TransformerError):
    """A vocabulary is missing or broken, or is not the one that is needed."""


class VocabularyNotFound(VocabularyError, FileNotFoundError):
    """A file, or a folder, with a vocabulary is missing.

    Attributes:
      folder: where it was looked for; "" if a file was named.
    """

    def __init__(self, message: str, folder: str = ""):
        super().__init__(message)
        self.folder = folder


class VocabularyFileError(VocabularyError):
    """A file is not a SentencePiece model, or has other special ids."""


class VocabularyMismatch(VocabularyError):
    """Two folders that belong together have different vocabularies.

    Attributes:
      folder: the folder whose vocabulary is wrong.
      expected: the folder that has the right one.
    """

    def __init__(self, message: str, folder: str = "", expected: str = ""):
        super().__init__(message)
        self.folder = folder
        self.expected = expected


class VocabulariesAmbiguous(VocabularyError):
    """A checkpoint has a table for each language, and their order is unknown."""


class CorpusVocabularyMismatch(VocabularyMismatch):
    """A data folder was prepared with another vocabulary than a model's."""


class VocabularySizeError(VocabularyError):
    """A text has too few, or too many, different pieces for a vocabulary size.

    Attributes:
      largest: the largest size that the text allows; None: the size is too small.
    """

    def __init__(self, message: str, largest: Optional[int] = None):
        super().__init__(message)
        self.largest = largest


class CheckpointError(TransformerError):
    """A checkpoint is missing or broken, or belongs to another model."""


class CheckpointNotFound(CheckpointError, FileNotFoundError):
    """A log directory has no such checkpoint."""

    def __init__(self, message: str, logdir: str = ""):
        super().__init__(message)
        self.logdir = logdir


class VariableNamesError(CheckpointError):
    """The variables of an original checkpoint do not have the names of its system."""


class WeightsNotFinite(CheckpointError, FloatingPointError):
    """The weights of a checkpoint give NaN or infinity."""


class FileError(TransformerError):
    """A pipe, a device or a folder is where a file should be; or it is far too large.

    Attributes:
      path: where it is.
    """

    def __init__(self, message: str, path: str = ""):
        super().__init__(message)
        self.path = path


class JsonFileError(FileError):
    """A file is not JSON, or not the object that it should be: it is damaged."""


class OutputFolderError(TransformerError):
    """A folder cannot be written, or already contains something else."""


class LogDirectoryError(TransformerError):
    """A log directory cannot be used as it is."""

    def __init__(self, message: str, logdir: str = ""):
        super().__init__(message)
        self.logdir = logdir


class LogDirectoryNotFound(LogDirectoryError):
    """A folder is missing, or is not a log directory."""


class LogDirectoryInUse(LogDirectoryError):
    """Another training run uses a log directory."""


class CorpusChanged(LogDirectoryError):
    """The steps so far of a training run have seen another corpus."""


class EngineError(TransformerError):
    """An engine, or an optional package, is missing or cannot do what is asked."""


class PackageNotInstalled(EngineError):
    """An optional package is missing, or cannot be imported.

    Attributes:
      extra: the extra of transformer-tf that installs it.
    """

    def __init__(self, message: str, extra: str = ""):
        super().__init__(message)
        self.extra = extra


class RayClusterNotFound(EngineError):
    """No Ray cluster is running, or it does not accept this process."""


class ExportNotFound(EngineError, FileNotFoundError):
    """A checkpoint was not exported for the engine."""


class ExportDamaged(EngineError):
    """A file of an export is missing, or is not the one that was written.

    Attributes:
      folder: the export.
    """

    def __init__(self, message: str, folder: str = ""):
        super().__init__(message)
        self.folder = folder


class ExportNotWritable(EngineError):
    """There is no permission to write the export that an engine needs."""


class ExportDiffers(EngineError):
    """An export gives other scores to translations than the model itself."""


def missing_package(
    package: str, extra: str, error: Optional[ImportError] = None
) -> PackageNotInstalled:
    """Return the exception for an optional package that cannot be imported.

        except ImportError as error:
            raise missing_package("uvicorn", "serve", error) from error

    Args:
      package: its name, "uvicorn", or several: "uvicorn and starlette".
      extra: the extra of transformer-tf that installs it.
      error: what the import raised. If the package itself is there, but something that
        it needs is not, the message says what.
    """
    verb = "are" if " and " in package else "is"
    reason = f" ({error})" if error else ""
    return PackageNotInstalled(
        f"{package} {verb} not installed{reason}: "
        f"pip install 'transformer-tf[{extra}]', with Python 3.10 or newer",
        extra,
    )
