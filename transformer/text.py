"""Stop 1 of the walk: lines of text, and the SentencePiece pieces they are made of.

Everything that knows how text is stored lives here: which id means padding, how a
corpus file is read (:data:`READERS`), how a vocabulary is trained, found and copied.
A *piece* is one entry of the vocabulary; an *id* is its number in it.
"""

from __future__ import annotations

import collections
import filecmp
import fnmatch
import gzip
import html
import io
import itertools
import os
import re
import shutil
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import sentencepiece

# The four ids that mean the same in every vocabulary of this project.
PAD, UNK, BOS, EOS = 0, 1, 2, 3
SPECIAL_IDS = (PAD, UNK, BOS, EOS)

JOINT_MODEL = "spm.model"
SEPARATE_MODELS = ("spm.source.model", "spm.target.model")
# Word lists of imported models, instead of SentencePiece models.
WORD_LIST = ".tsv"
JOINT_WORDS = "words.tsv"
SEPARATE_WORDS = ("words.source.tsv", "words.target.tsv")


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

    def __init__(self, path: str):
        self.path = os.fspath(path)
        self._words = [
            line.split("\t")[0].strip() for line in _decoded_lines(self.path)
        ]
        self._ids = {word: number for number, word in enumerate(self._words)}
        self.size = len(self._words)
        found = self._words[: len(self.SPECIAL)]
        if [word.lower() for word in found] != self.SPECIAL:
            raise ValueError(
                f"{self.path}: found {found} first, wanted <PAD> <UNK> <S> </S>, one a "
                f"line, then a word a line"
            )
        if len(self._ids) < self.size:
            twice = next(
                word for place, word in enumerate(self._words)
                if self._ids[word] != place
            )
            raise ValueError(f"{self.path}: found {twice!r} twice, wanted it once")

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


def load_vocabulary(path: str) -> Vocabulary | WordVocabulary:
    """The vocabulary of a file: a word list if it ends in .tsv, else SentencePiece."""
    kind = WordVocabulary if os.fspath(path).endswith(WORD_LIST) else Vocabulary
    return kind(path)


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
      ValueError: SentencePiece cannot make so many, or so few, pieces of this text.
    """
    # Given a seed, the trainer does not ask std::random_device for one. It would crash
    # there: with TensorFlow 1.15 in the process, it finds the latter's copy of that.
    sentencepiece.set_random_generator_seed(1)
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=itertools.chain.from_iterable(
                read_lines(path) for path in text_paths
            ),
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
      folder: holds either spm.model, or spm.source.model and spm.target.model, or
        else, where a model was imported, words.tsv, or words.source.tsv and
        words.target.tsv.

    Raises:
      FileNotFoundError: it holds none of them.
      ValueError: it holds more than one kind.
    """
    paths = _model_paths(folder)
    models = [load_vocabulary(path) for path in paths]
    return Vocabularies(models[0], models[-1], joint=len(models) == 1)


def copy_vocabularies(from_folder: str, to_folder: str) -> None:
    """Copies the model file(s), so that `to_folder` can be used on its own."""
    for path in _model_paths(from_folder):
        copy = os.path.join(to_folder, os.path.basename(path))
        if not os.path.exists(copy):
            shutil.copyfile(path, copy)
        elif not filecmp.cmp(path, copy, shallow=False):
            raise ValueError(f"found another vocabulary in {path} than in {copy}; wanted"
                             " the same: choose another --data, or another --logdir")


def _model_paths(folder: str) -> list[str]:
    """Returns the one vocabulary file of a folder, or its source's and target's."""
    kinds = ((JOINT_MODEL,), SEPARATE_MODELS, (JOINT_WORDS,), SEPARATE_WORDS)
    found = [
        names
        for names in kinds
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


# Reading corpus files


def read_lines(path: str) -> Iterator[str]:
    r"""Yields the sentences of a corpus file, one after the other.

    The file is UTF-8, plain or `.gz`, with or without a byte order mark. A line ends at
    "\n" or "\r\n" and nowhere else: U+2028 and its like are part of the sentence, as
    they are for `wc -l` and for every other tool that counts lines.

    The file's name decides how its lines become sentences: see :data:`READERS`.

    Raises:
      ValueError: a line is not UTF-8, the gzip stream is broken, or the markup is.
    """
    path = os.fspath(path)
    name = re.sub(r"\.gz$", "", os.path.basename(path))
    reader = next(READERS[key] for key in READERS if fnmatch.fnmatch(name, key))
    return reader(_decoded_lines(path), path)


def _plain_lines(lines: Iterable[str], path: str) -> Iterator[str]:
    """One sentence a line."""
    return iter(lines)


def _untagged_lines(lines: Iterable[str], path: str) -> Iterator[str]:
    """IWSLT training text: lines that begin with `<` (url, title …) say about it."""
    return (line.strip() for line in lines if not line.startswith("<"))


def _segments(lines: Iterable[str], path: str) -> Iterator[str]:
    """IWSLT and WMT test sets: the text of `<seg id="1"> … </seg>`, one a line."""
    for number, line in enumerate(lines, 1):
        found = re.findall(r"<seg\b[^>]*>(.*?)</seg>", line)
        if len(found) != line.count("<seg"):
            raise ValueError(
                f"{path}:{number}: found a <seg> that does not end on its line, "
                f"wanted <seg id=…> text </seg>: join the lines of that sentence"
            )
        for segment in found:
            yield html.unescape(segment).strip()


# The extension point for corpus formats: file name pattern (less .gz) → reader of its
# lines. The first that matches is taken.
READERS = collections.OrderedDict(
    [("*.xml", _segments), ("*train.tags.*", _untagged_lines), ("*", _plain_lines)]
)


def _decoded_lines(path: str) -> Iterator[str]:
    """Yields the lines of a plain or gzipped file, decoded, without their ends."""
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rb") as file:
        for number, raw in enumerate(_whole(file, path), 1):
            raw = raw[:-1] if raw.endswith(b"\n") else raw
            raw = raw[:-1] if raw.endswith(b"\r") else raw
            try:
                yield raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{path}:{number}: found the byte "
                    f"0x{error.object[error.start]:02x}, which is not UTF-8 there: "
                    f"convert the file with iconv -t UTF-8"
                ) from error


def _whole(file: Iterable[bytes], path: str) -> Iterator[bytes]:
    """Yields the raw lines; a gzip stream that breaks off is named, not passed over."""
    try:
        yield from file
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{path} cannot be read to its end: {error}") from error
