"""Vocabularies of imported models: word lists, and the subwords of tensor2tensor."""

import collections
import functools
import itertools
import os
import re
import unicodedata
from typing import List, Match, Sequence, Tuple

from transformer.runtime.errors import VocabularyError
from transformer.text.lines import decode_lines
from transformer.text.pieces import SPECIAL_IDS, UNK, BaseVocabulary

SPECIAL_WORDS = ["<pad>", "<unk>", "<s>", "</s>"]

# Of tensor2tensor
RESERVED = ["<pad>", "<EOS>"]
ESCAPES = frozenset("\\_u;0123456789")  # the characters of escape sequences
ESCAPED = re.compile(r"\\(?:(u)|(\\)|([0-9]+);)")
UNDEFINED = "\u3013"  # the character for a code point that cannot be in a line


class WordVocabulary(BaseVocabulary):
    """A word list, with the methods of `Vocabulary`.

    The file has one word per line in the order of the ids. Anything after a tab, such
    as the counts in the files of the tutorial, is ignored.

    Args:
      path: the file; its first four words are <PAD> <UNK> <S> </S>, in any case.

    Raises:
      FileNotFoundError: there is no such file.
      VocabularyError: the file begins with other words, or a word occurs twice.
    """

    def __init__(self, path: str):
        path = os.fspath(path)
        words = [line.split("\t")[0].strip() for line in decode_lines(path)]
        self.check(words, path)
        super().__init__(path, words)

    @staticmethod
    def check(words: Sequence[str], path: str) -> None:
        """Raise VocabularyError, naming the path, if `words` are not a vocabulary."""
        first_words = list(words[: len(SPECIAL_WORDS)])
        if [word.lower() for word in first_words] != SPECIAL_WORDS:
            raise VocabularyError(
                f"{path}: expected <PAD> <UNK> <S> </S>, then the words, one per line, "
                f"got {first_words} first; add those lines, or give another file"
            )
        word, count = collections.Counter(words).most_common(1)[0]
        if count > 1:
            raise VocabularyError(
                f"{path}: expected each word once, got {word!r} {count} times; remove "
                f"the repeated lines"
            )

    def encode(self, line: str) -> List[int]:
        """Return the ids of the words between white space, UNK for unknown words."""
        ids = (self._ids.get(word, UNK) for word in line.split())
        return [UNK if i in SPECIAL_IDS else i for i in ids]

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(self.pieces(self.strip_special(ids)))


class SubwordVocabulary(BaseVocabulary):
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
      VocabularyError: the file begins with other subtokens, or has no subtoken for a
        character.
    """

    bos = 1
    eos = 1

    def __init__(self, path: str):
        path = os.fspath(path)
        super().__init__(
            path, [_strip_quotes(line.rstrip()) for line in decode_lines(path)]
        )
        self._longest = max(map(len, self._pieces), default=0)
        self._check()
        self._encode_cached = functools.lru_cache(maxsize=2**16)(self._encode_token)

    def _check(self) -> None:
        """Raise VocabularyError if some text could not be encoded."""
        first_lines = self._pieces[: len(RESERVED)]
        if [subtoken.rstrip("_") for subtoken in first_lines] != RESERVED:
            raise VocabularyError(
                f"{self.path}: expected {RESERVED} first, then one subtoken per line, "
                f"got {first_lines}; give the vocabulary file that tensor2tensor wrote"
            )
        alphabet = ESCAPES.union(*self._pieces[len(RESERVED) :])
        missing = sorted(alphabet.difference(self._ids))
        if missing:
            raise VocabularyError(
                f"{self.path}: expected a subtoken for each character of the subtokens "
                f"and of {''.join(sorted(ESCAPES))}, {missing[0]!r} is missing; give "
                f"the vocabulary file that tensor2tensor wrote"
            )

    def encode(self, line: str) -> List[int]:
        return [i for token in _split_tokens(line) for i in self._encode_cached(token)]

    def decode(self, ids: Sequence[int]) -> str:
        text = "".join(self.pieces(self.strip_special(ids)))
        tokens = [token for token in text.split("_") if token]
        return _join_tokens([ESCAPED.sub(_unescape, token) for token in tokens])

    def _encode_token(self, token: str) -> Tuple[int, ...]:
        """Return the ids of the longest subtokens that match, from left to right."""
        token = token.replace("\\", "\\\\").replace("_", "\\u")
        escaped = "".join(
            character if character in self._ids else f"\\{ord(character)};"
            for character in token
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


def _strip_quotes(line: str) -> str:
    """Remove the quotes around a line, if there are any."""
    return line[1:-1] if re.fullmatch(r"'.*'|\".*\"", line, re.DOTALL) else line


@functools.lru_cache(maxsize=None)
def _is_alphanumeric(character: str) -> bool:
    """Return whether a character is a letter or a number in any script."""
    return unicodedata.category(character)[0] in "LN"


def _split_tokens(line: str) -> List[str]:
    """Split a line into runs, without the single spaces between two runs."""
    runs = ["".join(run) for _, run in itertools.groupby(line, _is_alphanumeric)]
    last = len(runs) - 1
    return [run for i, run in enumerate(runs) if run != " " or i in (0, last)]


def _join_tokens(tokens: Sequence[str]) -> str:
    """Join tokens to a line: the inverse of `_split_tokens`."""
    kinds = [_is_alphanumeric(token[0]) for token in tokens]
    spaces = [" " if pair == (True, True) else "" for pair in zip(kinds, kinds[1:])]
    return "".join(itertools.chain(*zip(tokens, [*spaces, ""])))


def _unescape(match: Match) -> str:
    """Return the character of one escape sequence, a match of ESCAPED."""
    if match.group(3) is None:
        return "_" if match.group(1) else "\\"
    code = int(match.group(3))
    is_text = code < 0x110000 and not 0xD800 <= code < 0xE000 and code != 10
    return chr(code) if is_text else UNDEFINED
