"""The vocabularies of a folder: find, load and copy them.

A folder holds one kind of vocabulary. All kinds have the same methods:

* `Vocabulary`: a SentencePiece model, which `train_vocabulary` trains;
* `WordVocabulary`: a word list, for imported models;
* `SubwordVocabulary`: a vocabulary file of tensor2tensor, for imported models.

`DropoutVocabulary` splits words differently each time, for training (BPE-dropout).
"""

import filecmp
import itertools
import os
from typing import List, NamedTuple

from transformer.runtime.errors import (
    VocabularyError,
    VocabularyMismatch,
    VocabularyNotFound,
)
from transformer.runtime.files import read_file, refuse_large, replace_file
from transformer.text.imported_vocabulary import (
    SPECIAL_WORDS,
    SubwordVocabulary,
    WordVocabulary,
)
from transformer.text.pieces import BOS, EOS, PAD, SPECIAL_IDS, UNK, BaseVocabulary
from transformer.text.sentencepiece_model import (
    DropoutVocabulary,
    Vocabulary,
    train_vocabulary,
)

# The kinds of vocabulary, which have their own files, and the vocabularies of a folder.
__all__ = [
    "BaseVocabulary",
    "PAD",
    "UNK",
    "BOS",
    "EOS",
    "SPECIAL_IDS",
    "Vocabulary",
    "DropoutVocabulary",
    "train_vocabulary",
    "WordVocabulary",
    "SPECIAL_WORDS",
    "SubwordVocabulary",
    "Vocabularies",
    "load_vocabularies",
    "load_vocabulary",
    "vocabulary_class",
    "vocabulary_names",
    "has_same_vocabulary",
    "copy_vocabularies",
    "FILE_NAMES",
    "JOINT_MODEL",
    "SEPARATE_MODELS",
    "JOINT_WORDS",
    "SEPARATE_WORDS",
    "JOINT_SUBWORDS",
    "SEPARATE_SUBWORDS",
]

JOINT_MODEL = "spm.model"
SEPARATE_MODELS = ("spm.source.model", "spm.target.model")
# Imported models have other vocabularies instead of SentencePiece models.
JOINT_WORDS = "words.tsv"
SEPARATE_WORDS = ("words.source.tsv", "words.target.tsv")
JOINT_SUBWORDS = "vocab.subwords"
SEPARATE_SUBWORDS = ("vocab.source.subwords", "vocab.target.subwords")
# A folder holds one of these: a joint vocabulary, or one for the source and one for the
# target.
FILE_NAMES = (
    (JOINT_MODEL,),
    SEPARATE_MODELS,
    (JOINT_WORDS,),
    SEPARATE_WORDS,
    (JOINT_SUBWORDS,),
    SEPARATE_SUBWORDS,
)

# The extension point for vocabularies: file extension → class. Files with other
# extensions are SentencePiece models.
KINDS = {".tsv": WordVocabulary, ".subwords": SubwordVocabulary}


class Vocabularies(NamedTuple):
    """The vocabularies of a folder; a joint one is one object for both sides."""

    source: BaseVocabulary
    target: BaseVocabulary
    joint: bool


def load_vocabularies(folder: str) -> Vocabularies:
    """Load the vocabularies of a data folder or of a log directory.

    Raises:
      VocabularyNotFound: the folder holds no vocabulary.
      VocabularyError: it holds more than one kind.
    """
    sides = [load_vocabulary(path) for path in _find_files(folder)]
    return Vocabularies(sides[0], sides[-1], joint=len(sides) == 1)


def load_vocabulary(path: str) -> BaseVocabulary:
    """Load a vocabulary file: words (.tsv), subwords (.subwords) or SentencePiece.

    Raises:
      FileError: it is a pipe, a device or a folder, or far too large.
    """
    refuse_large(path)
    return vocabulary_class(path)(path)


def vocabulary_class(path: str) -> type:
    """Return the class of the vocabulary of a file, or of a folder, without loading it.

    Raises:
      VocabularyNotFound: the folder holds no vocabulary.
      VocabularyError: it holds more than one kind.
    """
    if os.path.isdir(path):
        path = _find_files(path)[0]
    return KINDS.get(os.path.splitext(path)[1], Vocabulary)


def vocabulary_names(folder: str) -> List[str]:
    """Return the names of the vocabulary files of a folder."""
    return [os.path.basename(path) for path in _find_files(folder)]


def _find_files(folder: str) -> List[str]:
    """Return the path of the joint vocabulary, or the paths for both sides."""
    if not os.path.isdir(folder):
        raise VocabularyNotFound(f"the folder {folder} is missing", folder)
    kinds = [
        names
        for names in FILE_NAMES
        if all(os.path.exists(os.path.join(folder, name)) for name in names)
    ]
    if not kinds:
        raise VocabularyNotFound(
            f"{folder}: the vocabulary is missing: expected {JOINT_MODEL}, or "
            f"{' and '.join(SEPARATE_MODELS)}",
            folder,
        )
    if len(kinds) > 1:
        raise VocabularyError(
            f"{folder}: expected one kind of vocabulary, got "
            f"{' as well as '.join(' and '.join(names) for names in kinds)}; delete "
            f"the files that were not used"
        )
    return [os.path.join(folder, name) for name in kinds[0]]


def has_same_vocabulary(folder: str, other: str) -> bool:
    """Return whether two folders have the same vocabulary files."""
    names = vocabulary_names(folder)
    return names == vocabulary_names(other) and all(
        filecmp.cmp(os.path.join(folder, name), os.path.join(other, name), False)
        for name in names
    )


def copy_vocabularies(from_folder: str, to_folder: str) -> None:
    """Copy the vocabulary files of a folder, so that `to_folder` is self-contained.

    Raises:
      VocabularyNotFound: `from_folder` has no vocabulary.
      VocabularyMismatch: `to_folder` has a different one.
    """
    names = vocabulary_names(from_folder)
    other_names = set(itertools.chain(*FILE_NAMES)).difference(names)
    for name in sorted(other_names.intersection(os.listdir(to_folder))):
        raise VocabularyMismatch(
            f"{to_folder}: expected the vocabulary of {from_folder}, "
            f"{' and '.join(names)}, got {name}",
            to_folder,
            from_folder,
        )
    for name in names:
        original = os.path.join(from_folder, name)
        copy = os.path.join(to_folder, name)
        if not os.path.exists(copy):
            with replace_file(copy, "wb") as file:
                file.write(read_file(original))
        elif not filecmp.cmp(original, copy, shallow=False):
            raise VocabularyMismatch(
                f"{copy}: expected the same vocabulary as {original}, got another",
                to_folder,
                from_folder,
            )
