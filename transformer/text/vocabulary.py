r"""Vocabularies: lines of text ↔ ids.

A *piece* is an entry of a vocabulary; an *id* is its number. Three kinds of vocabulary
have the same methods, and a folder holds one of these kinds:

* `Vocabulary`: a SentencePiece model, which `train_vocabulary` trains;
* `WordVocabulary`: a word list, for imported models;
* `SubwordVocabulary`: a vocabulary file of tensor2tensor, for imported models.

`DropoutVocabulary` splits words differently each time, for training (BPE-dropout).
`TextSide` is the handling of text that all translation engines share.
"""

import collections
import filecmp
import functools
import io
import itertools
import os
import random
import re
import shutil
import unicodedata
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Match,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

import numpy as np
import sentencepiece

from transformer.commands.terminal import command, command_line
from transformer.runtime import pool
from transformer.runtime.files import replaced
from transformer.text.lines import decoded_lines, read_lines

# The special ids of every vocabulary of this project. Code that also supports
# vocabularies of tensor2tensor must take `bos` and `eos` from the vocabulary.
PAD = 0
UNK = 1
BOS = 2
EOS = 3
SPECIAL_IDS = (PAD, UNK, BOS, EOS)
SPECIAL_WORDS = ["<pad>", "<unk>", "<s>", "</s>"]

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

MANY_LINES = 100000  # with more lines, training runs in another process
WORD = re.compile("▁?[^▁]+|▁")  # no piece extends across "▁", which is a space

# Of tensor2tensor
RESERVED = ["<pad>", "<EOS>"]
ESCAPES = frozenset("\\_u;0123456789")  # the characters of escape sequences
ESCAPED = re.compile(r"\\(?:(u)|(\\)|([0-9]+);)")
UNDEFINED = "\u3013"  # the character for a code point that cannot be in a line


class Pieces:
    """The base class of vocabularies.

    Args:
      path: the file.
      pieces: the pieces in the order of their ids.
    """

    bos = BOS
    eos = EOS
    threads = -1  # for `encode_lines`, if it uses threads; -1: one per core

    def __init__(self, path: str, pieces: List[str]):
        self.path = path
        self._pieces = pieces
        self._ids = {piece: number for number, piece in enumerate(pieces)}
        self.size = len(pieces)

    @property
    def forbidden(self) -> Tuple[int, ...]:
        """The ids that no translation may contain: PAD and BOS, unless one is EOS."""
        return tuple(sorted({PAD, self.bos} - {self.eos}))

    def encode(self, line: str) -> List[int]:
        """Return the ids of one line, without BOS and EOS."""
        raise NotImplementedError

    def encode_lines(self, lines: Sequence[str]) -> List[List[int]]:
        """Return the ids of many lines, each as in `encode`."""
        return [self.encode(line) for line in lines]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of `ids` up to the first EOS, without PAD and BOS.

        Args:
          ids: one sentence, a sequence or an integer array [T].
        """
        raise NotImplementedError

    def before_end(self, ids: Sequence[int]) -> List[int]:
        """Return the ids before the first EOS, without PAD and BOS."""
        numbers = np.asarray(ids).tolist()
        before = itertools.takewhile(lambda one: one != self.eos, numbers)
        return [one for one in before if one not in (PAD, self.bos)]

    def pieces(self, ids: Sequence[int]) -> List[str]:
        """Return the piece of each id, including special ids."""
        return [self._pieces[one] for one in np.asarray(ids, int).tolist()]


class Vocabulary(Pieces):
    """A SentencePiece model: lines ↔ ids.

        vocabulary = Vocabulary("data/sample/spm.model")
        vocabulary.decode(vocabulary.encode("Ein Hund."))    # "Ein Hund."

    Args:
      path: the model file, as `train_vocabulary` writes it.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: the file is not a SentencePiece model, or its special ids are not
        PAD, UNK, BOS, EOS = 0, 1, 2, 3.
    """

    def __init__(self, path: str):
        path = os.fspath(path)
        if not os.path.isfile(path):
            raise FileNotFoundError(
                f"{path}: expected a SentencePiece model, got no file; create it with "
                f"{command('prepare')}"
            )
        try:
            model = sentencepiece.SentencePieceProcessor(model_file=path)
        except (RuntimeError, OSError) as error:
            raise ValueError(
                f"{path}: expected a SentencePiece model, got another kind of file "
                f"({error}); create it with {command('prepare')}"
            ) from error
        found = (model.pad_id(), model.unk_id(), model.bos_id(), model.eos_id())
        if found != SPECIAL_IDS:
            raise ValueError(
                f"{path}: expected pad, unk, bos, eos = {SPECIAL_IDS}, got {found}; "
                f"train the model with {command('prepare')}, or with --pad_id=0 "
                "--unk_id=1 --bos_id=2 --eos_id=3"
            )
        size = model.get_piece_size()
        super().__init__(path, [model.id_to_piece(number) for number in range(size)])
        self._model = model

    def encode(self, line: str) -> List[int]:
        return self._model.encode(line, out_type=int)

    def encode_lines(self, lines: Sequence[str]) -> List[List[int]]:
        return self._model.encode(list(lines), out_type=int, num_threads=self.threads)

    def normalize(self, line: str) -> str:
        """Normalize a line by the rule of the model; put "▁" before each word."""
        return self._model.normalize(line)

    def decode(self, ids: Sequence[int]) -> str:
        return self._model.decode(self.before_end(ids))


class DropoutVocabulary(Vocabulary):
    """A vocabulary that encodes with BPE-dropout, and decodes as usual.

    Byte-pair encoding starts from the characters of a word. It then repeatedly merges
    the two neighbours whose merge was learned first, until no two can be merged:

        g r ü n e  ->  gr ü n e  ->  gr ü ne  ->  gr üne  ->  grüne

    BPE-dropout skips each merge with some probability (Provilkov et al. 2020,
    "BPE-Dropout: Simple and Effective Subword Regularization", section 3), so a word is
    encoded as "gr üne" in one copy of the text and as "grüne" in the next. The model
    learns how its pieces are composed, which regularizes training on a small
    corpus.

    Args:
      path: a SentencePiece model of type "bpe"; its pieces are in the order in which
        their merges were learned.
      dropout: the probability of skipping a merge. With 0, the ids are those of
        `Vocabulary`; with 1, they are those of single characters.
      draw: the random number generator. (SentencePiece's own generator has ignored its
        seed since version 0.2.2, so its results cannot be reproduced.)

    Raises:
      FileNotFoundError, ValueError: as in Vocabulary; or the model is of another type.
    """

    _bytes: Sequence[int] = ()  # the ids of the 256 bytes, if the model has them

    def __init__(self, path: str, dropout: float, draw: random.Random):
        super().__init__(path)
        first = len(SPECIAL_IDS)
        if self._model.is_byte(first):  # of --byte_fallback
            self._bytes = range(first, first + 256)
            first += 256
        if self._model.get_score(first) != 0 or self._model.get_score(first + 1) != -1:
            raise ValueError(
                "--bpe_dropout: expected a vocabulary of --model_type bpe, got another "
                f"type in {path}: it has no merges to skip"
            )
        self.dropout = dropout
        self._draw = draw
        for piece in self._pieces[:first]:  # never the result of a merge
            del self._ids[piece]

    def encode(self, line: str) -> List[int]:
        ids: List[int] = []
        for word in WORD.findall(self.normalize(line)):
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
        never = self.size
        # The rank of the merge of each piece with the next piece, in order of learning.
        ranks = [self._ids.get(a + b, never) for a, b in zip(pieces, pieces[1:])]
        while ranks and min(ranks) < never:
            here = ranks.index(min(ranks))
            if self._draw.random() < self.dropout:
                ranks[here] = never
                continue
            pieces[here] += pieces.pop(here + 1)
            ranks.pop(here)
            for left in range(max(here - 1, 0), min(here + 1, len(ranks))):
                ranks[left] = self._ids.get(pieces[left] + pieces[left + 1], never)
        return pieces


class WordVocabulary(Pieces):
    """A word list, with the methods of `Vocabulary`.

    The file has one word per line in the order of the ids. Anything after a tab, such
    as the counts in the files of the tutorial, is ignored.

    Args:
      path: the file; its first four words are <PAD> <UNK> <S> </S>, in any case.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: the file begins with other words, or a word occurs twice.
    """

    def __init__(self, path: str):
        path = os.fspath(path)
        words = [line.split("\t")[0].strip() for line in decoded_lines(path)]
        self.check(words, path)
        super().__init__(path, words)

    @staticmethod
    def check(words: Sequence[str], path: str) -> None:
        """Raise ValueError, naming the path, if `words` are not a vocabulary."""
        found = list(words[: len(SPECIAL_WORDS)])
        if [word.lower() for word in found] != SPECIAL_WORDS:
            raise ValueError(
                f"{path}: expected <PAD> <UNK> <S> </S>, then the words, one per line, "
                f"got {found} first; add those lines, or give another file"
            )
        word, times = collections.Counter(words).most_common(1)[0]
        if times > 1:
            raise ValueError(
                f"{path}: expected each word once, got {word!r} {times} times; remove "
                f"the repeated lines"
            )

    def encode(self, line: str) -> List[int]:
        """Return the ids of the words between white space, UNK for unknown words."""
        ids = (self._ids.get(word, UNK) for word in line.split())
        return [UNK if one in SPECIAL_IDS else one for one in ids]

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(self.pieces(self.before_end(ids)))


class SubwordVocabulary(Pieces):
    r"""A subword vocabulary of tensor2tensor, with the methods of `Vocabulary`.

    The file holds one subtoken per line in single quotes, in the order of the ids; the
    first two are '<pad>_' and '<EOS>_' (without "_" in older files). A line of text is
    split into tokens, and each token into subtokens:

        "Der Hund."  ->  "Der", "Hund", "."  ->  "Der_", "Hund_", "._"  ->  ids

    Tokens are the longest runs of letters and digits, and the longest runs of anything
    else; a single space between two runs of letters is implied. Within a token, "\" is
    escaped as "\\", "_" as "\u", and a character that is in no subtoken as its code
    point, such as "\228;". A token ends with "_". Its subtokens are the longest that
    match, from left to right. Decoding reverses each step (tensor2tensor 1.15.7,
    data_generators/text_encoder.py and tokenizer.py).

    There is neither UNK nor BOS: any text can be encoded, and the target in
    tensor2tensor begins with zeros. For dialects that begin with a token, `bos` is the
    id of EOS, because no other EOS can occur at that position.

    Args:
      path: the file; the quotes around subtokens are optional.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: the file begins with other subtokens, or has no subtoken for a
        character.
    """

    bos = 1
    eos = 1

    def __init__(self, path: str):
        path = os.fspath(path)
        super().__init__(
            path, [_unquoted(line.rstrip()) for line in decoded_lines(path)]
        )
        self._longest = max(map(len, self._pieces), default=0)
        self._check()
        self._cached = functools.lru_cache(maxsize=2**16)(self._encode_token)

    def _check(self) -> None:
        """Raise ValueError if some text could not be encoded."""
        found = self._pieces[: len(RESERVED)]
        if [subtoken.rstrip("_") for subtoken in found] != RESERVED:
            raise ValueError(
                f"{self.path}: expected {RESERVED} first, then one subtoken per line, "
                f"got {found}; give the vocabulary file that tensor2tensor wrote"
            )
        alphabet = ESCAPES.union(*self._pieces[len(RESERVED) :])
        missing = sorted(alphabet.difference(self._ids))
        if missing:
            raise ValueError(
                f"{self.path}: expected a subtoken for each character of the subtokens "
                f"and of {''.join(sorted(ESCAPES))}, got none for {missing[0]!r}; give "
                f"the vocabulary file that tensor2tensor wrote"
            )

    def encode(self, line: str) -> List[int]:
        return [one for token in _tokens(line) for one in self._cached(token)]

    def decode(self, ids: Sequence[int]) -> str:
        text = "".join(self.pieces(self.before_end(ids)))
        tokens = [token for token in text.split("_") if token]
        return _joined([ESCAPED.sub(_character, token) for token in tokens])

    def _encode_token(self, token: str) -> Tuple[int, ...]:
        """Return the ids of the longest subtokens that match, from left to right."""
        token = token.replace("\\", "\\\\").replace("_", "\\u")
        escaped = "".join(
            each if each in self._ids else f"\\{ord(each)};" for each in token
        )
        escaped += "_"
        ids = []
        start = 0
        while start < len(escaped):
            end = min(len(escaped), start + self._longest)
            while escaped[start:end] not in self._ids:
                end -= 1
            ids.append(self._ids[escaped[start:end]])
            start = end
        return tuple(ids)


def _unquoted(line: str) -> str:
    """Return a line without the quotes around it, if there are any."""
    return line[1:-1] if re.fullmatch(r"'.*'|\".*\"", line, re.DOTALL) else line


@functools.lru_cache(maxsize=None)
def _is_alphanumeric(character: str) -> bool:
    """Return whether a character is a letter or a number in any script."""
    return unicodedata.category(character)[0] in "LN"


def _tokens(line: str) -> List[str]:
    """Return the runs of a line, without the single spaces between two runs."""
    runs = ["".join(run) for _, run in itertools.groupby(line, _is_alphanumeric)]
    last = len(runs) - 1
    return [run for i, run in enumerate(runs) if run != " " or i in (0, last)]


def _joined(tokens: Sequence[str]) -> str:
    """Return the line with these tokens: the inverse of `_tokens`."""
    kinds = [_is_alphanumeric(token[0]) for token in tokens]
    spaces = [" " if pair == (True, True) else "" for pair in zip(kinds, kinds[1:])]
    return "".join(itertools.chain(*zip(tokens, [*spaces, ""])))


def _character(match: Match) -> str:
    """Return the character of one escape sequence, a match of ESCAPED."""
    if match.group(3) is None:
        return "_" if match.group(1) else "\\"
    number = int(match.group(3))
    is_text = number < 0x110000 and not 0xD800 <= number < 0xE000 and number != 10
    return chr(number) if is_text else UNDEFINED


# --- The vocabularies of a folder -----------------------------------------------------

# The extension point for vocabularies: file extension → class. Files with other
# extensions are SentencePiece models.
KINDS = {".tsv": WordVocabulary, ".subwords": SubwordVocabulary}


class Vocabularies(NamedTuple):
    """The vocabularies of a folder; a joint one is one object for both sides."""

    source: Pieces
    target: Pieces
    joint: bool


def load_vocabularies(folder: str) -> Vocabularies:
    """Load the vocabularies of a prepared corpus or of a log directory.

    Raises:
      FileNotFoundError: the folder holds no vocabulary.
      ValueError: it holds more than one kind.
    """
    loaded = [load_vocabulary(path) for path in _find_files(folder)]
    return Vocabularies(loaded[0], loaded[-1], joint=len(loaded) == 1)


def load_vocabulary(path: str) -> Pieces:
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


def vocabulary_names(folder: str) -> List[str]:
    """Return the names of the vocabulary files of a folder."""
    return [os.path.basename(path) for path in _find_files(folder)]


def _find_files(folder: str) -> List[str]:
    """Return the path of the joint vocabulary, or the paths for both sides."""
    found = [
        names
        for names in FILE_NAMES
        if all(os.path.isfile(os.path.join(folder, name)) for name in names)
    ]
    if len(found) > 1:
        raise ValueError(
            f"{folder}: expected one kind of vocabulary, got "
            f"{' as well as '.join(' and '.join(names) for names in found)}; delete "
            f"the files that were not used"
        )
    if not os.path.isdir(folder):
        raise FileNotFoundError(
            f"{folder}: expected a folder with a vocabulary, got no folder; check the "
            "path"
        )
    if not found:
        raise FileNotFoundError(
            f"{folder}: expected the vocabulary {JOINT_MODEL} or "
            f"{' and '.join(SEPARATE_MODELS)}, got none; for a data folder, run "
            f"{command_line('prepare', '--out', folder)}; for a log directory, copy "
            "the vocabulary of its data folder"
        )
    return [os.path.join(folder, name) for name in found[0]]


def refuse_other_vocabulary(folder: str, expected: str, remedy: str) -> None:
    """Raise ValueError if two folders do not have the same vocabulary files.

    Args:
      folder: the folder to check.
      expected: the folder whose vocabulary `folder` should have.
      remedy: what to do, for the message.
    """
    names = vocabulary_names(expected)
    if names != vocabulary_names(folder) or not all(
        filecmp.cmp(os.path.join(expected, name), os.path.join(folder, name), False)
        for name in names
    ):
        raise ValueError(
            f"{folder}: expected the vocabulary of {expected}, got another; {remedy}"
        )


def copy_vocabularies(from_folder: str, to_folder: str) -> None:
    """Copy the vocabulary files of a folder, so that `to_folder` is self-contained.

    Raises:
      FileNotFoundError: `from_folder` has no vocabulary.
      ValueError: `to_folder` has a different one.
    """
    names = vocabulary_names(from_folder)
    others = set(itertools.chain(*FILE_NAMES)).difference(names)
    for name in sorted(others.intersection(os.listdir(to_folder))):
        raise ValueError(
            f"{to_folder}: expected the vocabulary of {from_folder}, "
            f"{' and '.join(names)}, got {name}; choose another --data, or another "
            f"--logdir"
        )
    for name in names:
        original = os.path.join(from_folder, name)
        copy = os.path.join(to_folder, name)
        if not os.path.exists(copy):
            with open(original, "rb") as source, replaced(copy, "wb") as file:
                shutil.copyfileobj(source, file)
        elif not filecmp.cmp(original, copy, shallow=False):
            raise ValueError(
                f"{copy}: expected the same vocabulary as {original}, got another; "
                f"choose another --data, or another --logdir"
            )


# --- Lines ↔ ids ↔ translations -------------------------------------------------------


class Translation(NamedTuple):
    """One translation of one line."""

    text: str
    score: float  # log-probability / length penalty, in nats
    pieces: Tuple[str, ...] = ()  # as the vocabulary spells them
    # Pairs of words that correspond, (source, target), counted from 0. None if they
    # were not requested, or if the vocabulary's words are not those between spaces.
    alignment: Optional[Tuple[Tuple[int, int], ...]] = None


def as_lines(lines: Iterable[str]) -> List[str]:
    """Return lines as a list; a surrogate, which no encoding knows, becomes "?".

    Raises:
      ValueError: `lines` is a string, or has anything but strings.
    """
    found = [] if isinstance(lines, str) else list(lines)
    if isinstance(lines, str) or not all(isinstance(one, str) for one in found):
        raise ValueError(
            f"lines: expected a list of strings, got {lines!r:.60}; for a single "
            "line, write [line]"
        )
    return [one.encode("utf-8", "replace").decode("utf-8") for one in found]


class TextSide:
    """The base class of translators: lines → ids, ids → a Translation.

    Args:
      vocabularies: of source and target.
      most: the most pieces of a line to translate; the rest is truncated.
    """

    def __init__(self, vocabularies: Vocabularies, most: int):
        self.vocabularies = vocabularies
        self._most = most
        # Kind of oddity → the number of source lines with it.
        self.oddities: collections.Counter = collections.Counter()

    def encode(self, lines: Iterable[str]) -> List[List[int]]:
        """Return the ids of source lines, up to the limit; count unusual lines.

        Raises:
          ValueError: as in `as_lines`.
        """
        most = self._most
        sources = self.vocabularies.source.encode_lines(as_lines(lines))
        self.oddities.update(
            {
                "empty": sum(not ids for ids in sources),
                "with unknown pieces": sum(UNK in ids for ids in sources),
                f"cut at {most:,} pieces": sum(len(ids) > most for ids in sources),
            }
        )
        return [ids[:most] for ids in sources]

    def translation(self, ids: Sequence[int], score: float) -> Translation:
        """Return a Translation; line breaks in its pieces become spaces."""
        vocabulary = self.vocabularies.target
        text = " ".join(vocabulary.decode(ids).splitlines())
        pieces = vocabulary.pieces(vocabulary.before_end(ids))
        return Translation(text, float(score), tuple(pieces))


# --- Training a SentencePiece model ---------------------------------------------------


def train_vocabulary(
    text_paths: Sequence[str],
    model_path: str,
    vocab_size: int,
    line_count: int = 0,
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
      line_count: the number of lines in the files; needed for `max_lines`.
      max_lines: the largest number of lines to train on, drawn at random; 0: all lines.
      options: options of SentencePieceTrainer, such as `model_type="bpe"`.

    Raises:
      ValueError: the text is empty, or does not allow `vocab_size` pieces.
    """
    paths = list(text_paths)
    task = (paths, vocab_size, line_count, max_lines, options)
    if min(line_count, max_lines) > MANY_LINES:
        [model] = pool.results(_trainer, [task], 1)
    else:
        model = _trained(*task)
    with replaced(model_path, "wb") as file:
        file.write(model)


def _trainer() -> Callable:
    """Return the function that trains vocabularies in a worker."""
    return lambda task: _trained(*task)


def sampled(lines: Iterable[str], count: int, size: int) -> Iterator[str]:
    """Yield a random sample of `size` out of `count` lines, in order.

    All lines are equally likely, and each run draws the same lines (Knuth, The Art of
    Computer Programming, volume 2, algorithm 3.4.2 S). SentencePiece 0.2.3 draws a
    different sample in each process.
    """
    draw = random.Random(1)
    for number, line in enumerate(lines):
        if draw.random() * (count - number) < size:
            size -= 1
            yield line


def _trained(
    text_paths: Sequence[str],
    vocab_size: int,
    line_count: int,
    max_lines: int,
    options: Dict[str, Any],
) -> bytes:
    """Train a SentencePiece model, and return its bytes."""

    def lines():
        every = itertools.chain.from_iterable(map(read_lines, text_paths))
        return sampled(every, line_count, max_lines) if max_lines else every

    # The trainer of SentencePiece 0.2.0 aborts the process on invisible text.
    visible = sentencepiece.SentencePieceNormalizer(rule_name="nmt_nfkc").normalize
    if not any(map(visible, lines())):
        raise ValueError(
            "expected sentences to train a vocabulary on, got text without visible "
            "characters; give other files"
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
        raise ValueError(_explain_size(vocab_size, str(error))) from error
    return model.getvalue()


def _explain_size(vocab_size: int, message: str) -> str:
    """Return advice about a vocabulary size that SentencePiece rejects."""
    largest = re.search(r"value <= (\d+)", message)
    if largest:
        return (
            f"--vocab_size: expected at most {largest.group(1)} for this text, got "
            f"{vocab_size}; lower --vocab_size to {largest.group(1)}"
        )
    smallest = re.search(r"required_chars\. \d+ vs (\d+)", message)
    least = int(smallest.group(1)) if smallest else len(SPECIAL_IDS)
    if smallest or vocab_size <= least:
        return (
            f"--vocab_size: expected more than the {least} characters and special "
            f"pieces of this text, got {vocab_size}; raise --vocab_size"
        )
    return f"SentencePiece could not train a vocabulary: {message.strip()}"
