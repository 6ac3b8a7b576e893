"""SentencePiece models: train them, and encode lines with them."""

import io
import itertools
import os
import random
import re
import unicodedata
from typing import Any, Callable, Dict, Iterable, Iterator, List, Sequence

import sentencepiece

from transformer.runtime import pool
from transformer.runtime.errors import (
    CorpusError,
    VocabularyError,
    VocabularyFileError,
    VocabularyNotFound,
    VocabularySizeError,
)
from transformer.runtime.files import read_file, replace_file
from transformer.text.lines import read_lines
from transformer.text.pieces import BOS, EOS, PAD, SPECIAL_IDS, UNK, BaseVocabulary

MANY_LINES = 100000  # with more lines, training runs in another process
MAX_LINE_BYTES = 4192  # the default of SentencePiece's max_sentence_length
MAX_CHARACTERS = MAX_LINE_BYTES // 4  # as none has more than four bytes
UNKNOWN_CHARACTER = "\u2585"  # ▅, reserved by the trainer
SPACE_MARK = "\u2581"  # ▁
# The beginnings of the Unicode categories of visible characters: letters, numbers,
# punctuation, symbols, and characters for private use or of a newer Unicode.
VISIBLE_CATEGORIES = ("L", "N", "P", "S", "Co", "Cn")
# Visible by category, but no text: four fillers of Hangul, empty Braille, and the
# replacement of a broken character, which the rule nmt_nfkc turns into a space.
BLANKS = SPACE_MARK + UNKNOWN_CHARACTER + "\u115f\u1160\u3164\uffa0\u2800\ufffd"
WORD = re.compile("▁?[^▁]+|▁")  # no piece extends across "▁", which is a space
# BPE-dropout leaves longer words as they are: its time grows with the square of their
# length, and so would they, beyond the largest number of pieces.
MAX_DROPOUT_LENGTH = 256


class Vocabulary(BaseVocabulary):
    """A SentencePiece model: lines ↔ ids.

        vocabulary = Vocabulary("data/sample/spm.model")
        vocabulary.decode(vocabulary.encode("Ein Hund."))    # "Ein Hund."

    Args:
      path: the model file, as `train_vocabulary` writes it.

    Raises:
      VocabularyNotFound: there is no such file.
      VocabularyFileError: the file is not a SentencePiece model, or its special ids are
        not PAD, UNK, BOS, EOS = 0, 1, 2, 3.
    """

    def __init__(self, path: str):
        path = os.fspath(path)
        if not os.path.exists(path):
            raise VocabularyNotFound(f"the SentencePiece model {path} is missing")
        content = read_file(path)
        try:
            model = sentencepiece.SentencePieceProcessor()
            model.LoadFromSerializedProto(content)
        except (RuntimeError, OSError) as error:
            raise VocabularyFileError(
                f"{path}: expected a SentencePiece model, got another kind of file "
                f"({error})"
            ) from error
        ids = (model.pad_id(), model.unk_id(), model.bos_id(), model.eos_id())
        if ids != SPECIAL_IDS:
            raise VocabularyFileError(
                f"{path}: expected pad, unk, bos, eos = {SPECIAL_IDS}, got {ids}; "
                "train the model with pad_id=0, unk_id=1, bos_id=2, eos_id=3"
            )
        size = model.get_piece_size()
        super().__init__(path, [model.id_to_piece(i) for i in range(size)])
        self._model = model

    def encode(self, line: str) -> List[int]:
        return self._model.encode(line, out_type=int)

    def encode_lines(self, lines: Sequence[str]) -> List[List[int]]:
        return self._model.encode(list(lines), out_type=int, num_threads=self.threads)

    def normalize(self, line: str) -> str:
        """Normalize a line by the rule of the model; put "▁" before each word."""
        return self._model.normalize(line)

    def decode(self, ids: Sequence[int]) -> str:
        return self._model.decode(self.strip_special(ids))


class DropoutVocabulary(Vocabulary):
    """A vocabulary that encodes with BPE-dropout, and decodes as usual.

    Byte-pair encoding starts from the characters of a word. It then repeatedly merges
    the two neighbours whose merge was learned first, until no two can be merged:

        g r ü n e  ->  gr ü n e  ->  gr ü ne  ->  gr üne  ->  grüne

    BPE-dropout skips each merge with some probability (Provilkov et al. 2020,
    "BPE-Dropout: Simple and Effective Subword Regularization", section 3), so a word is
    encoded as "gr üne" in one copy of the text and as "grüne" in the next. The model
    learns how its pieces are composed, which regularizes training on a small corpus.
    Words of more than MAX_DROPOUT_LENGTH characters are encoded without dropout.

    Args:
      path: a SentencePiece model of type "bpe"; its pieces are in the order in which
        their merges were learned.
      dropout: the probability of skipping a merge. With 0, the ids are those of
        `Vocabulary`; with 1, they are those of single characters.
      random_source: the random number generator. (SentencePiece's own generator has
        ignored its seed since version 0.2.2, so its results cannot be reproduced.)

    Raises:
      VocabularyError: as in Vocabulary; or the model is of another type.
    """

    _bytes: Sequence[int] = ()  # the ids of the 256 bytes, if the model has them

    def __init__(self, path: str, dropout: float, random_source: random.Random):
        super().__init__(path)
        first = len(SPECIAL_IDS)
        if self._model.is_byte(first):  # with byte fallback
            self._bytes = range(first, first + 256)
            first += 256
        if self._model.get_score(first) != 0 or self._model.get_score(first + 1) != -1:
            raise VocabularyError(
                "bpe_dropout: expected a vocabulary of the model type bpe, got another "
                f"type in {path}: it has no merges to skip"
            )
        self.dropout = dropout
        self._random = random_source
        for piece in self._pieces[:first]:  # never the result of a merge
            del self._ids[piece]

    def encode(self, line: str) -> List[int]:
        ids: List[int] = []
        for word in WORD.findall(self.normalize(line)):
            if len(word) > MAX_DROPOUT_LENGTH and self.normalize(word) == word:
                ids += super().encode(word)
                continue
            for piece in self._merge(word):
                if piece in self._ids:
                    ids.append(self._ids[piece])
                elif self._bytes:
                    ids += [self._bytes[byte] for byte in piece.encode("utf-8")]
                elif ids[-1:] != [UNK]:  # one UNK for several in a row
                    ids.append(UNK)
        return ids

    def encode_lines(self, lines: Sequence[str]) -> List[List[int]]:
        return [self.encode(line) for line in lines]

    def _merge(self, word: str) -> List[str]:
        """Split a word into pieces, skipping merges at random.

        A skipped merge stays skipped, unless a merge next to it creates another pair.
        SentencePiece does the same; the paper draws again.
        """
        pieces = list(word)
        no_merge = self.size
        # The rank of the merge of each piece with the next piece, in order of learning.
        ranks = [self._ids.get(a + b, no_merge) for a, b in zip(pieces, pieces[1:])]
        while ranks and min(ranks) < no_merge:
            i = ranks.index(min(ranks))
            if self._random.random() < self.dropout:
                ranks[i] = no_merge
                continue
            pieces[i] += pieces.pop(i + 1)
            ranks.pop(i)
            for left in range(max(i - 1, 0), min(i + 1, len(ranks))):
                ranks[left] = self._ids.get(pieces[left] + pieces[left + 1], no_merge)
        return pieces


# --- Training -------------------------------------------------------------------------


def train_vocabulary(
    text_paths: Sequence[str],
    model_path: str,
    vocab_size: int,
    num_lines: int = 0,
    max_lines: int = 0,
    **options: Any,
) -> None:
    """Train one SentencePiece model on the lines of some text files, and write it.

    The same text gives the same bytes, because the model contains neither a path nor a
    date. With many lines, training takes minutes and runs in another process:
    SentencePiece does not handle signals, but the process that waits for it does.

    Args:
      text_paths: the files, which `read_lines` must be able to read.
      model_path: the file to write.
      vocab_size: the number of pieces, including the four special ones.
      num_lines: the number of lines in the files; needed for `max_lines`.
      max_lines: the largest number of lines to train on, drawn at random; 0: all lines.
      options: options of SentencePieceTrainer, such as `model_type="bpe"`.

    Raises:
      CorpusError: the text is empty.
      VocabularySizeError: the text does not allow `vocab_size` pieces.
    """
    paths = list(text_paths)
    task = (paths, vocab_size, num_lines, max_lines, options)
    if min(num_lines, max_lines) > MANY_LINES:
        [model] = pool.map_tasks(_make_trainer, [task], 1)
    else:
        model = _train(*task)
    with replace_file(model_path, "wb") as file:
        file.write(model)


def _make_trainer() -> Callable:
    """Return the function that trains vocabularies in another process."""
    return lambda task: _train(*task)


def sample_lines(lines: Iterable[str], num_lines: int, size: int) -> Iterator[str]:
    """Yield a random sample of `size` out of `num_lines` lines, in order.

    All lines are equally likely, and each run draws the same lines (Knuth, The Art of
    Computer Programming, volume 2, algorithm 3.4.2 S). SentencePiece 0.2.3 draws a
    different sample in each process.
    """
    random_source = random.Random(1)
    for i, line in enumerate(lines):
        if random_source.random() * (num_lines - i) < size:
            size -= 1
            yield line


def split_for_trainer(line: str) -> List[str]:
    """Split a line where SentencePiece's trainer would leave the whole line out.

    The trainer skips lines of more than MAX_LINE_BYTES bytes, and lines that contain
    UNKNOWN_CHARACTER, its mark for rare characters. It logs that as information only.
    Long lines are cut at spaces, if they have any.
    """
    if len(line) <= MAX_CHARACTERS and UNKNOWN_CHARACTER not in line:
        return [line]
    pieces = []
    for part in line.split(UNKNOWN_CHARACTER):
        start = 0
        if len(part.encode("utf-8")) > MAX_LINE_BYTES:
            while len(part) - start > MAX_CHARACTERS:
                end = start + MAX_CHARACTERS
                end = part.rfind(" ", start, end) + 1 or end
                pieces.append(part[start:end])
                start = end
        pieces.append(part[start:])
    return pieces


def has_visible_text(line: str) -> bool:
    """Return whether a line has a character to see, which a vocabulary can contain.

    Spaces, control and format characters are invisible, as are the blank characters of
    BLANKS, and marks without a letter. SPACE_MARK stands for a space.
    """
    return any(
        unicodedata.category(character).startswith(VISIBLE_CATEGORIES)
        and character not in BLANKS
        for character in line
    )


def _train(
    text_paths: Sequence[str],
    vocab_size: int,
    num_lines: int,
    max_lines: int,
    options: Dict[str, Any],
) -> bytes:
    """Train a SentencePiece model, and return its bytes."""

    def lines():
        all_lines = itertools.chain.from_iterable(map(read_lines, text_paths))
        if max_lines:
            all_lines = sample_lines(all_lines, num_lines, max_lines)
        return itertools.chain.from_iterable(map(split_for_trainer, all_lines))

    if not any(map(has_visible_text, lines())):
        raise CorpusError(
            "the text to train a vocabulary on has no visible characters: "
            + ", ".join(text_paths)
        )
    # Without a seed, the trainer calls std::random_device. If TensorFlow 1.15 is
    # loaded, this is TensorFlow's copy of the function, which crashes the process.
    sentencepiece.set_random_generator_seed(1)
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=lines(),
            model_writer=model,
            vocab_size=vocab_size,
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
            minloglevel=2,  # log errors only, which are raised as well
            **{"character_coverage": 1.0, **options},
        )
    except RuntimeError as error:
        raise _make_size_error(vocab_size, str(error)) from error
    return model.getvalue()


def _make_size_error(vocab_size: int, message: str) -> VocabularyError:
    """Return the exception for a vocabulary size that SentencePiece rejects.

    Args:
      vocab_size: the number of pieces that was asked for.
      message: SentencePiece's.
    """
    too_large = re.search(r"value <= (\d+)", message)
    if too_large:
        largest = int(too_large.group(1))
        return VocabularySizeError(
            f"vocab_size: expected at most {largest} for this text, got {vocab_size}",
            largest,
        )
    too_small = re.search(r"required_chars\. \d+ vs (\d+)", message)
    num_required = int(too_small.group(1)) if too_small else len(SPECIAL_IDS)
    if too_small or vocab_size <= num_required:
        return VocabularySizeError(
            f"vocab_size: expected more than the {num_required} characters and special "
            f"pieces of this text, got {vocab_size}"
        )
    return VocabularyError(
        f"SentencePiece could not train a vocabulary: {message.strip()}"
    )
