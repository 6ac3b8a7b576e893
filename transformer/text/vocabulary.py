"""Vocabularies: lines of text ↔ ids, by SentencePiece or a word list.

A *piece* is one entry of a vocabulary; an *id* is its number. `train_vocabulary` trains
a SentencePiece model; vocabulary_files.py loads and copies the files of a folder.
"""

import collections
import io
import itertools
import json
import os
import random
import re
from typing import Iterable, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import sentencepiece

from transformer.runtime.files import replaced
from transformer.runtime.pool import Pool, serve_process
from transformer.text.lines import decoded_lines, read_lines

# The ids that mean the same in every vocabulary of this project. Code that also serves
# vocabularies of tensor2tensor takes `bos` and `eos` from the vocabulary.
PAD, UNK, BOS, EOS = 0, 1, 2, 3
SPECIAL_IDS = (PAD, UNK, BOS, EOS)
MANY_LINES = 100000  # more of them are trained on in another process


class Vocabulary:
    """A SentencePiece model: lines ↔ ids.

        vocabulary = Vocabulary("data/sample/spm.model")
        vocabulary.decode(vocabulary.encode("Ein Hund."))    # "Ein Hund."

    Args:
      path: the model file, as `train_vocabulary` writes it.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: the file is no SentencePiece model, or its special pieces have other
        ids than PAD, UNK, BOS, EOS = 0, 1, 2, 3.
    """

    bos, eos = BOS, EOS
    threads = -1  # in how many `encode_lines` encodes; -1: one for each core

    def __init__(self, path: str):
        self.path = os.fspath(path)
        if not os.path.isfile(self.path):
            raise FileNotFoundError(
                f"{self.path}: found no such file, wanted a SentencePiece model: write "
                f"one with prepare.py"
            )
        try:
            self._model = sentencepiece.SentencePieceProcessor(model_file=self.path)
        except (RuntimeError, OSError) as error:
            raise ValueError(
                f"{self.path}: found a file that is not a SentencePiece model "
                f"({error}), wanted one: write it with prepare.py"
            ) from error
        self.size = self._model.get_piece_size()
        self._check_special_ids()

    def _check_special_ids(self) -> None:
        """Raise ValueError where PAD, UNK, BOS and EOS have other ids."""
        model = self._model
        found = (model.pad_id(), model.unk_id(), model.bos_id(), model.eos_id())
        if found != SPECIAL_IDS:
            raise ValueError(
                f"{self.path}: found pad, unk, bos, eos = {found}, wanted "
                f"{SPECIAL_IDS}: train the model with prepare.py, or with "
                f"--pad_id=0 --unk_id=1 --bos_id=2 --eos_id=3"
            )

    def encode(self, line: str) -> List[int]:
        """Return the ids of one line; neither BOS nor EOS is added."""
        return self._model.encode(line, out_type=int)

    def encode_lines(self, lines: Sequence[str]) -> List[List[int]]:
        """Return the ids of many lines: `encode` of each, in parallel."""
        return self._model.encode(list(lines), out_type=int, num_threads=self.threads)

    def normalize(self, line: str) -> str:
        """Return the joined pieces of a line: NFKC, with "▁" before each word."""
        return "".join(self._model.encode(line, out_type=str))

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of `ids` up to the first EOS, without PAD and BOS.

        Args:
          ids: one sentence, a sequence or an integer array [T].
        """
        return self._model.decode(_before_end(ids))

    def pieces(self, ids: Sequence[int]) -> List[str]:
        """Return the piece of each id, special ones included: to label a picture."""
        return [self._model.id_to_piece(one) for one in np.asarray(ids).tolist()]


class WordVocabulary:
    """A word list, with the interface of `Vocabulary`.

    The file has one word per line in the order of the ids. Anything after a tab, such
    as the counts in the files of the tutorial, is ignored.

    Args:
      path: the file; its first four words are <PAD> <UNK> <S> </S>, in any case.

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
        """Raise ValueError, naming the path, where `words` are no vocabulary."""
        found = words[: len(cls.SPECIAL)]
        if [word.lower() for word in found] != cls.SPECIAL:
            raise ValueError(
                f"{path}: found {found} first, wanted <PAD> <UNK> <S> </S>, then the "
                f"words, one per line: add those lines, or give another file"
            )
        word, times = collections.Counter(words).most_common(1)[0]
        if times > 1:
            raise ValueError(
                f"{path}: found {word!r} {times} times, wanted each word once: remove "
                f"the repeated lines"
            )

    def encode(self, line: str) -> List[int]:
        """Return the ids of the words between white space, UNK for unknown words."""
        ids = (self._ids.get(word, UNK) for word in line.split())
        return [UNK if one in SPECIAL_IDS else one for one in ids]

    def encode_lines(self, lines: Sequence[str]) -> List[List[int]]:
        """Return the ids of many lines: `encode` of each."""
        return [self.encode(line) for line in lines]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the words of `ids` up to the first EOS, without PAD and BOS."""
        return " ".join(self.pieces(_before_end(ids)))

    def pieces(self, ids: Sequence[int]) -> List[str]:
        """Return the word of each id, special ones included: to label a picture."""
        return [self._words[one] for one in np.asarray(ids, int).tolist()]


def _before_end(ids: Sequence[int]) -> List[int]:
    """Return the ids before the first EOS, without PAD and BOS, as Python numbers."""
    ids = itertools.takewhile(lambda one: one != EOS, np.asarray(ids).tolist())
    return [one for one in ids if one not in (PAD, BOS)]


def sampled(lines: Iterable[str], count: int, most: int) -> Iterator[str]:
    """Yield `most` lines of `count`, drawn at random, in their order; all if there are
    no more.

    Each line is as likely to be drawn as any other, and the same ones are drawn each
    time (Knuth, The Art of Computer Programming, volume 2, algorithm 3.4.2 S).
    """
    draw = random.Random(1)
    for number, line in enumerate(lines):
        if draw.random() * (count - number) < most:
            most -= 1
            yield line


def train_vocabulary(
    text_paths: Sequence[str],
    model_path: str,
    vocab_size: int,
    model_type: str,
    sample: Optional[Tuple[int, int]] = None,
) -> None:
    """Train one SentencePiece model on the lines of some text files, and write it.

    The same text gives the same bytes: the model contains neither a path nor a date.
    Many lines are trained on in a process of its own, for minutes: SentencePiece heeds
    no signal, and what waits for it does.

    Args:
      text_paths: files that `read_lines` can read.
      model_path: the file to write.
      vocab_size: the number of pieces, the four special ones included.
      model_type: "bpe" or "unigram".
      sample: how many lines the files have, and on how many at most it is trained;
        None: on all of them.

    Raises:
      ValueError: the text is empty, or does not allow `vocab_size` pieces.
    """

    task = list(text_paths), vocab_size, model_type, sample
    if sample and min(sample) > MANY_LINES:
        with Pool("transformer.text.vocabulary", "", 1) as pool:
            [(_, model)] = pool.answers([("model", json.dumps(task).encode())])
    else:
        model = _trained(*task)
    with replaced(model_path, "wb") as file:
        file.write(model)


def serve_requests(settings: str) -> None:
    """Be a worker: train the models that are asked for on standard input."""
    serve_process(lambda task: _trained(*json.loads(task.decode())))


def _trained(
    text_paths: Sequence[str],
    vocab_size: int,
    model_type: str,
    sample: Optional[Tuple[int, int]],
) -> bytes:
    """Return the bytes of the model that `train_vocabulary` writes."""

    def lines():
        every = itertools.chain.from_iterable(map(read_lines, text_paths))
        return sampled(every, *sample) if sample else every

    # On such text the trainer of SentencePiece 0.2.0 aborts the process.
    visible = sentencepiece.SentencePieceNormalizer(rule_name="nmt_nfkc").normalize
    if not any(map(visible, lines())):
        raise ValueError(
            "found no visible character in the text, wanted sentences: give other files"
        )
    # Without a seed the trainer would call std::random_device, and crash where
    # TensorFlow 1.15 is in the process, whose copy of that function it would find.
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
            minloglevel=2,  # log errors only, which are raised as well
        )
    except RuntimeError as error:
        raise ValueError(_explain_size(vocab_size, str(error))) from error
    return model.getvalue()


def _explain_size(vocab_size: int, message: str) -> str:
    """Return what to do about a vocabulary size that SentencePiece refuses."""
    largest = re.search(r"value <= (\d+)", message)
    if largest:
        return (
            f"found --vocab_size {vocab_size}, wanted at most {largest.group(1)} for "
            f"this text: lower --vocab_size to {largest.group(1)}"
        )
    smallest = re.search(r"required_chars\. \d+ vs (\d+)", message)
    if smallest:
        return (
            f"found --vocab_size {vocab_size}, wanted more than the "
            f"{smallest.group(1)} characters and special pieces of this text: raise "
            f"--vocab_size"
        )
    if vocab_size <= len(SPECIAL_IDS):
        return (
            f"found --vocab_size {vocab_size}, wanted more than the {len(SPECIAL_IDS)} "
            f"special pieces: raise --vocab_size"
        )
    return f"SentencePiece could not train a vocabulary: {message.strip()}"
