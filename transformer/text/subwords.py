r"""Subword vocabularies of tensor2tensor: lines of text ↔ ids.

A vocabulary file holds one subtoken per line in single quotes, in the order of the ids;
the first two are '<pad>_' and '<EOS>_' (without "_" in older files). A line of text is
split into tokens, a token into subtokens:

    "Der Hund."  ->  "Der", "Hund", "."  ->  "Der_", "Hund_", "._"  ->  ids

Tokens are the longest runs of letters and digits, and the longest runs of anything
else; a single space between two runs of letters is implied. Within a token "\" is
escaped as "\\", "_" as "\u", and a character that is in no subtoken by its code point,
as "\228;". A token ends with "_". Its subtokens are the longest that match, from left
to right. Decoding reverses each step (tensor2tensor 1.15.7,
data_generators/text_encoder.py and tokenizer.py).
"""

import functools
import itertools
import os
import re
import unicodedata
from typing import List, Sequence, Tuple

import numpy as np

from transformer.text.lines import decoded_lines

RESERVED = ["<pad>", "<EOS>"]
ESCAPES = frozenset("\\_u;0123456789")  # the characters of escape sequences
ESCAPED = re.compile(r"\\(?:(u)|(\\)|([0-9]+);)")
UNDEFINED = "\u3013"  # decoded from a code point that cannot be part of a line


class SubwordVocabulary:
    """A subword vocabulary of tensor2tensor, with the interface of `Vocabulary`.

    It has neither UNK nor BOS: any text can be encoded, and the target of tensor2tensor
    begins with zeros. `bos` is the id of EOS, for dialects that begin with a token: no
    other EOS can occur at that position.

    Args:
      path: the file; the quotes around subtokens are optional.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it begins with other subtokens, or has no subtoken for a character.
    """

    bos = eos = 1

    def __init__(self, path: str):
        self.path = os.fspath(path)
        self._subtokens = [_unquoted(line.rstrip()) for line in decoded_lines(path)]
        self._ids = {subtoken: i for i, subtoken in enumerate(self._subtokens)}
        self._longest = max(map(len, self._subtokens), default=0)
        self.size = len(self._subtokens)
        self._check()
        self._encode_token = functools.lru_cache(maxsize=2**16)(self._encode_token)

    def _check(self) -> None:
        """Raise ValueError where some text could not be encoded."""
        found = self._subtokens[: len(RESERVED)]
        if [subtoken.rstrip("_") for subtoken in found] != RESERVED:
            raise ValueError(
                f"{self.path}: found {found} first, wanted {RESERVED}, then one "
                f"subtoken per line: give the vocabulary file that tensor2tensor wrote"
            )
        alphabet = ESCAPES.union(*self._subtokens[len(RESERVED) :])
        missing = sorted(alphabet.difference(self._ids))
        if missing:
            raise ValueError(
                f"{self.path}: found no subtoken {missing[0]!r}, wanted one for each "
                f"character of the subtokens and of {''.join(sorted(ESCAPES))}: give "
                f"the vocabulary file that tensor2tensor wrote"
            )

    def encode(self, line: str) -> List[int]:
        """Return the ids of one line; no EOS is added."""
        return [one for token in _tokens(line) for one in self._encode_token(token)]

    def encode_lines(self, lines: Sequence[str]) -> List[List[int]]:
        """Return the ids of many lines: `encode` of each."""
        return [self.encode(line) for line in lines]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of `ids` up to the first EOS, without PAD."""
        ids = itertools.takewhile(lambda one: one != self.eos, np.asarray(ids).tolist())
        text = "".join(self._subtokens[one] for one in ids if one)
        return _joined([_unescaped(token) for token in text.split("_") if token])

    def pieces(self, ids: Sequence[int]) -> List[str]:
        """Return the subtoken of each id, special ones included: to label a picture."""
        return [self._subtokens[one] for one in np.asarray(ids, int).tolist()]

    def _encode_token(self, token: str) -> Tuple[int, ...]:
        """Return the ids of the longest subtokens that match, from left to right."""
        token = token.replace("\\", "\\\\").replace("_", "\\u")
        escaped = "".join(
            each if each in self._ids else f"\\{ord(each)};" for each in token
        )
        escaped += "_"
        ids, start = [], 0
        while start < len(escaped):
            end = min(len(escaped), start + self._longest)
            while escaped[start:end] not in self._ids:
                end -= 1
            ids.append(self._ids[escaped[start:end]])
            start = end
        return tuple(ids)


def _unquoted(line: str) -> str:
    """Return a line without the quotes around it, if it has them."""
    return line[1:-1] if re.fullmatch(r"'.*'|\".*\"", line, re.DOTALL) else line


@functools.lru_cache(maxsize=None)
def _is_alphanumeric(character: str) -> bool:
    """Return whether a character is a letter or a number of any script."""
    return unicodedata.category(character)[0] in "LN"


def _tokens(line: str) -> List[str]:
    """Return the runs of a line, without the single spaces between two runs."""
    runs = ["".join(run) for _, run in itertools.groupby(line, _is_alphanumeric)]
    last = len(runs) - 1
    return [run for i, run in enumerate(runs) if run != " " or i in (0, last)]


def _joined(tokens: Sequence[str]) -> str:
    """Return the line of which these are the `_tokens`."""
    kinds = [_is_alphanumeric(token[0]) for token in tokens]
    spaces = [" " if pair == (True, True) else "" for pair in zip(kinds, kinds[1:])]
    return "".join(itertools.chain(*zip(tokens, [*spaces, ""])))


def _unescaped(token: str) -> str:
    r"""Undo the escapes of a token; "\" before any other character stays."""
    return ESCAPED.sub(_character, token)


def _character(match) -> str:
    """Return the character of one escape sequence, a match of ESCAPED."""
    if match.group(3) is None:
        return "_" if match.group(1) else "\\"
    number = int(match.group(3))
    is_text = number < 0x110000 and not 0xD800 <= number < 0xE000 and number != 10
    return chr(number) if is_text else UNDEFINED
