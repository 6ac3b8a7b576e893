"""Lines of text, and the SentencePiece pieces they are made of.

Everything that knows a vocabulary lives here: which id means padding, how a vocabulary
is trained, found and copied. `lines` reads the files that text comes from.
A *piece* is one entry of the vocabulary; an *id* is its number in it.
"""

from __future__ import annotations

import collections
import filecmp
import io
import itertools
import os
import re
import shutil
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import sentencepiece

from transformer.text.lines import decoded_lines, read_lines
from transformer.text.subwords import SubwordVocabulary

# The four ids that mean the same in every vocabulary that this project makes. Each
# vocabulary knows its own `bos` and `eos`: those of tensor2tensor have others.
PAD, UNK, BOS, EOS = 0, 1, 2, 3
SPECIAL_IDS = (PAD, UNK, BOS, EOS)

JOINT_MODEL = "spm.model"
SEPARATE_MODELS = ("spm.source.model", "spm.target.model")
# Vocabularies of imported models, instead of SentencePiece models.
JOINT_WORDS = "words.tsv"
SEPARATE_WORDS = ("words.source.tsv", "words.target.tsv")
JOINT_SUBWORDS = "vocab.subwords"
SEPARATE_SUBWORDS = ("vocab.source.subwords", "vocab.target.subwords")
# Every way in which a folder may name its vocabulary, or its source's and target's.
FILE_NAMES = (
    (JOINT_MODEL,),
    SEPARATE_MODELS,
    (JOINT_WORDS,),
    SEPARATE_WORDS,
    (JOINT_SUBWORDS,),
    SEPARATE_SUBWORDS,
)


class Vocabulary:
    """A SentencePiece model: text to ids and back.

    Args:
      path: the model file, as :func:`train_vocabulary` writes it.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: the file is no SentencePiece model, or numbers the special pieces
        otherwise than PAD, UNK, BOS, EOS = 0, 1, 2, 3.

    Example::

      vocabulary = Vocabulary("data/sample/spm.model")
      vocabulary.decode(vocabulary.encode("Ein Hund."))    # "Ein Hund."
    """

    bos, eos = BOS, EOS

    def __init__(self, path: str):
        self.path = os.fspath(path)
        if not os.path.isfile(self.path):
            raise FileNotFoundError(
                f"no vocabulary at {self.path}: write one with scripts/prepare.py"
            )
        try:
            self._model = sentencepiece.SentencePieceProcessor(model_file=self.path)
        except (RuntimeError, OSError) as error:
            raise ValueError(
                f"{self.path} is not a SentencePiece model ({error}): "
                f"write one with scripts/prepare.py"
            ) from error
        self.size = self._model.get_piece_size()
        self._check_special_ids()

    def _check_special_ids(self) -> None:
        model = self._model
        found = (model.pad_id(), model.unk_id(), model.bos_id(), model.eos_id())
        if found != SPECIAL_IDS:
            raise ValueError(
                f"{self.path}: found pad, unk, bos, eos = {found}, wanted "
                f"{SPECIAL_IDS}: train the model with scripts/prepare.py, or with "
                f"--pad_id=0 --unk_id=1 --bos_id=2 --eos_id=3"
            )

    def encode(self, line: str) -> list[int]:
        """Returns the ids of one line; neither BOS nor EOS is added."""
        return self._model.encode(line, out_type=int)

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the ids of many lines: :meth:`encode` of each, in parallel."""
        return self._model.encode(list(lines), out_type=int)

    def normalize(self, line: str) -> str:
        """Returns the line as its pieces spell it: NFKC, and "▁" before each word."""
        return "".join(self._model.encode(line, out_type=str))

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of `ids` up to the first EOS, without PAD and BOS.

        Args:
          ids: one sentence, a sequence or an integer array [T].
        """
        return self._model.decode(_before_end(ids))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns each id's piece, all of them, as written: to label a picture."""
        return [self._model.id_to_piece(one) for one in np.asarray(ids).tolist()]


class WordVocabulary:
    """A list of words, one a line, in the order of their ids; what follows a tab (the
    tutorial's counts) does not matter. The same interface as :class:`Vocabulary`.

    Args:
      path: the list; its first four words are <PAD> <UNK> <S> </S>, in any case.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it begins with other words, or a word occurs twice.
    """

    SPECIAL = ["<pad>", "<unk>", "<s>", "</s>"]
    bos, eos = BOS, EOS

    def __init__(self, path: str):
        self.path = os.fspath(path)
        self._words = [line.split("\t")[0].strip() for line in decoded_lines(self.path)]
        self._ids = {word: number for number, word in enumerate(self._words)}
        self.size = len(self._words)
        self.check(self._words, self.path)

    @classmethod
    def check(cls, words: Sequence[str], path: str) -> None:
        """Raises ValueError, naming the path, for words that are no vocabulary."""
        found = words[: len(cls.SPECIAL)]
        if [word.lower() for word in found] != cls.SPECIAL:
            raise ValueError(
                f"{path}: found {found} first, wanted <PAD> <UNK> <S> </S>, one a "
                f"line, then a word a line"
            )
        word, times = collections.Counter(words).most_common(1)[0]
        if times > 1:
            raise ValueError(f"{path}: found {word!r} {times} times, wanted it once")

    def encode(self, line: str) -> list[int]:
        """Returns the ids of the words between white space, UNK for unknown ones."""
        ids = (self._ids.get(word, UNK) for word in line.split())
        return [UNK if one in SPECIAL_IDS else one for one in ids]

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the ids of many lines: :meth:`encode` of each."""
        return [self.encode(line) for line in lines]

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the words of `ids` up to the first EOS, without PAD and BOS."""
        return " ".join(self.pieces(_before_end(ids)))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns each id's word, all of them, as written: to label a picture."""
        return [self._words[one] for one in np.asarray(ids, int).tolist()]


# What a file is, by the ending of its name; anything else is a SentencePiece model.
KINDS = {".tsv": WordVocabulary, ".subwords": SubwordVocabulary}


def vocabulary_kind(path: str) -> type:
    """The class of the vocabulary of a file, or of a folder's; it is not loaded."""
    if os.path.isdir(path):
        path = _model_paths(path)[0]
    return KINDS.get(os.path.splitext(path)[1], Vocabulary)


def load_vocabulary(path: str) -> Vocabulary:
    """The vocabulary of a file: words (.tsv), subwords (.subwords), SentencePiece."""
    return vocabulary_kind(path)(path)


def _before_end(ids: Sequence[int]) -> list[int]:
    """Returns the ids before the first EOS, less PAD and BOS, as Python numbers."""
    sentence = itertools.takewhile(lambda one: one != EOS, np.asarray(ids).tolist())
    return [one for one in sentence if one not in (PAD, BOS)]


def train_vocabulary(
    text_paths: Sequence[str], model_path: str, vocab_size: int, model_type: str
) -> None:
    """Trains one SentencePiece model on all lines of some text files, and writes it.

    The same text gives the same bytes: neither a path nor a date is written.

    Args:
      text_paths: files that :func:`read_lines` understands.
      model_path: where the model goes.
      vocab_size: the number of pieces, the four special ones included.
      model_type: "bpe" or "unigram".

    Raises:
      ValueError: the text is empty, or SentencePiece cannot make so many, or so few,
        pieces of it.
    """

    def lines():
        return itertools.chain.from_iterable(read_lines(path) for path in text_paths)

    # The trainer of SentencePiece 0.2.0 would end the process.
    visible = sentencepiece.SentencePieceNormalizer(rule_name="nmt_nfkc").normalize
    if not any(map(visible, lines())):
        raise ValueError("found no visible character in the text, wanted sentences")
    # Given a seed, the trainer does not ask std::random_device for one. It would crash
    # there: with TensorFlow 1.15 in the process, it finds the latter's copy of that.
    sentencepiece.set_random_generator_seed(1)
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=lines(),
            model_writer=model,
            vocab_size=vocab_size,
            model_type=model_type,
            character_coverage=1.0,
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
            minloglevel=2,  # errors only: they come back as exceptions
        )
    except RuntimeError as error:
        raise ValueError(_explain_size(vocab_size, str(error))) from error
    with open(model_path, "wb") as file:
        file.write(model.getvalue())


def _explain_size(vocab_size: int, message: str) -> str:
    """Turns what SentencePiece says about a vocabulary size into what to do."""
    largest = re.search(r"value <= (\d+)", message)
    if largest:
        return (
            f"found --vocab-size {vocab_size}, but this text gives at most "
            f"{largest.group(1)} pieces: lower --vocab-size to {largest.group(1)}"
        )
    smallest = re.search(r"required_chars\. \d+ vs (\d+)", message)
    if smallest:
        return (
            f"found --vocab-size {vocab_size}, but this text has {smallest.group(1)} "
            f"different characters and special pieces: raise --vocab-size above that"
        )
    return f"SentencePiece could not train a vocabulary: {message.strip()}"


class Vocabularies(NamedTuple):
    """The vocabularies of a folder. When `joint`, both sides are the same object."""

    source: Vocabulary
    target: Vocabulary
    joint: bool


def load_vocabularies(folder: str) -> Vocabularies:
    """Loads the vocabularies of a prepared corpus or of a log directory.

    Args:
      folder: holds either spm.model, or spm.source.model and spm.target.model; where
        a model was imported, words.tsv or vocab.subwords, or a source's and a target's.

    Raises:
      FileNotFoundError: it holds none of them.
      ValueError: it holds more than one kind.
    """
    paths = _model_paths(folder)
    models = [load_vocabulary(path) for path in paths]
    return Vocabularies(models[0], models[-1], joint=len(models) == 1)


def copy_vocabularies(from_folder: str, to_folder: str) -> None:
    """Copies the file(s), so that `to_folder` can be used on its own.

    Raises:
      FileNotFoundError: there is no vocabulary in `from_folder`.
      ValueError: there is another in `to_folder`.
    """
    paths = _model_paths(from_folder)
    names = {os.path.basename(path) for path in paths}
    others = {name for kind in FILE_NAMES for name in kind}.difference(names)
    for name in sorted(others.intersection(os.listdir(to_folder))):
        raise ValueError(
            f"found {name} in {to_folder}, wanted the vocabulary of {from_folder}, "
            f"{' and '.join(sorted(names))}: choose another --data, or another --logdir"
        )
    for path in paths:
        copy = os.path.join(to_folder, os.path.basename(path))
        if not os.path.exists(copy):
            shutil.copyfile(path, copy + ".tmp")
            os.replace(copy + ".tmp", copy)  # never half of one, even if killed
        elif not filecmp.cmp(path, copy, shallow=False):
            raise ValueError(
                f"found another vocabulary in {path} than in {copy}, wanted the same: "
                "choose another --data, or another --logdir"
            )


def _model_paths(folder: str) -> list[str]:
    """Returns the one vocabulary file of a folder, or its source's and target's."""
    found = [
        names
        for names in FILE_NAMES
        if all(os.path.isfile(os.path.join(folder, name)) for name in names)
    ]
    if len(found) > 1:
        raise ValueError(
            f"found {' as well as '.join(' and '.join(names) for names in found)} in "
            f"{folder}, wanted one kind: delete what was not used"
        )
    if not found:
        raise FileNotFoundError(
            f"found no vocabulary in {folder}, wanted {JOINT_MODEL} or "
            f"{' and '.join(SEPARATE_MODELS)}: run scripts/prepare.py --out {folder}"
        )
    return [os.path.join(folder, name) for name in found[0]]
