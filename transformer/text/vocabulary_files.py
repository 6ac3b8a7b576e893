"""Find, load and copy the vocabulary files of a folder."""

import filecmp
import os
import shutil
from typing import List, NamedTuple

from transformer.runtime.files import regular, replaced
from transformer.text.subwords import SubwordVocabulary
from transformer.text.vocabulary import Vocabulary, WordVocabulary

JOINT_MODEL = "spm.model"
SEPARATE_MODELS = ("spm.source.model", "spm.target.model")
# Imported models have other vocabularies instead of SentencePiece models.
JOINT_WORDS = "words.tsv"
SEPARATE_WORDS = ("words.source.tsv", "words.target.tsv")
JOINT_SUBWORDS = "vocab.subwords"
SEPARATE_SUBWORDS = ("vocab.source.subwords", "vocab.target.subwords")
# A folder holds one of these: a joint vocabulary, or one of the source and one of the
# target.
FILE_NAMES = (
    (JOINT_MODEL,),
    SEPARATE_MODELS,
    (JOINT_WORDS,),
    SEPARATE_WORDS,
    (JOINT_SUBWORDS,),
    SEPARATE_SUBWORDS,
)

# The extension point for vocabularies: ending of the file name → class. Files with
# other endings are SentencePiece models.
KINDS = {".tsv": WordVocabulary, ".subwords": SubwordVocabulary}


class Vocabularies(NamedTuple):
    """The vocabularies of a folder; if `joint`, both sides are the same object."""

    source: Vocabulary
    target: Vocabulary
    joint: bool


def load_vocabularies(folder: str) -> Vocabularies:
    """Load the vocabularies of a prepared corpus or of a log directory.

    Raises:
      FileNotFoundError: the folder holds none.
      ValueError: it holds more than one kind.
    """
    loaded = [load_vocabulary(path) for path in _find_files(folder)]
    return Vocabularies(loaded[0], loaded[-1], joint=len(loaded) == 1)


def load_vocabulary(path: str) -> Vocabulary:
    """Load a vocabulary file: words (.tsv), subwords (.subwords) or SentencePiece."""
    return vocabulary_kind(path)(path)


def vocabulary_kind(path: str) -> type:
    """Return the class of the vocabulary of a file, or of a folder, without loading it.

    Raises:
      FileNotFoundError: the folder holds no vocabulary.
      ValueError: it holds more than one kind.
    """
    if os.path.isdir(path):
        path = _find_files(path)[0]
    return KINDS.get(os.path.splitext(path)[1], Vocabulary)


def copy_vocabularies(from_folder: str, to_folder: str) -> None:
    """Copy the vocabulary files of a folder, so that `to_folder` is self-contained.

    Raises:
      FileNotFoundError: there is no vocabulary in `from_folder`.
      ValueError: there is a different one in `to_folder`.
    """
    paths = _find_files(from_folder)
    names = [os.path.basename(path) for path in paths]
    others = {name for kind in FILE_NAMES for name in kind}.difference(names)
    for name in sorted(others.intersection(os.listdir(to_folder))):
        raise ValueError(
            f"found {name} in {to_folder}, wanted the vocabulary of {from_folder}, "
            f"{' and '.join(names)}: choose another --data, or another --logdir"
        )
    for path, name in zip(paths, names):
        copy = os.path.join(to_folder, name)
        if not os.path.exists(copy):
            with open(path, "rb") as original, replaced(copy, "wb") as file:
                shutil.copyfileobj(original, file)
        elif not filecmp.cmp(path, copy, shallow=False):
            raise ValueError(
                f"found different vocabularies in {path} and {copy}, wanted the same: "
                f"choose another --data, or another --logdir"
            )


def vocabulary_names(folder: str) -> List[str]:
    """Return the names of the vocabulary files of a folder."""
    return [os.path.basename(path) for path in _find_files(folder)]


def _find_files(folder: str) -> List[str]:
    """Return the path of the joint vocabulary, or the paths of both sides."""
    found = [
        names
        for names in FILE_NAMES
        if all(os.path.isfile(os.path.join(folder, name)) for name in names)
    ]
    if len(found) > 1:
        raise ValueError(
            f"found {' as well as '.join(' and '.join(names) for names in found)} in "
            f"{folder}, wanted one kind: delete the files that were not used"
        )
    if not found:
        raise FileNotFoundError(
            f"found no vocabulary in {folder}, wanted {JOINT_MODEL} or "
            f"{' and '.join(SEPARATE_MODELS)}: run prepare.py --out {folder}"
        )
    return [regular(os.path.join(folder, name)) for name in found[0]]
