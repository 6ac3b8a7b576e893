r"""tensor2tensor's subword vocabularies: lines of text  <->  ids.

A file holds one subtoken a line in single quotes, in the order of the ids; the first
two are '<pad>_' and '<EOS>_', in older files without "_". A line of text becomes
tokens, a token becomes subtokens:

    "Der Hund."  ->  "Der", "Hund", "."  ->  "Der_", "Hund_", "._"  ->  ids

Tokens are the longest runs of letters and digits, and of anything else; a single space
between two of the former goes without saying. In a token "\" is written "\\", "_" is
written "\u", a character that is in no subtoken "\228;", its number; and it ends
with "_". The subtokens are then the longest that fit, from the left. All of it can be
undone (tensor2tensor 1.15.7, data_generators/text_encoder.py and tokenizer.py).
"""

from __future__ import annotations

import functools
import itertools
import os
import re
import unicodedata
from collections.abc import Sequence

import numpy as np

from transformer.text.lines import decoded_lines

RESERVED = ["<pad>", "<EOS>"]
ESCAPES = frozenset("\\_u;0123456789")  # what the writing of a token may need
ESCAPED = re.compile(r"\\(?:(u)|(\\)|([0-9]+);)")
UNDEFINED = "\u3013"  # what a number is read as that is no character of a line


class SubwordVocabulary:
    """A subword vocabulary of tensor2tensor, with the interface of `text.Vocabulary`.

    It has no unknown and no begin: any text can be written, and tensor2tensor's target
    begins with zeros. A dialect that does want a begin gets the end, of which there can
    be no other at that place.

    Args:
      path: the file; subtokens may also stand without quotes.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it begins with other subtokens, or lacks a character.
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
        found = self._subtokens[: len(RESERVED)]
        if [subtoken.rstrip("_") for subtoken in found] != RESERVED:
            raise ValueError(
                f"{self.path}: found {found} first, wanted {RESERVED}, then a subtoken "
                f"a line: give the vocabulary file that tensor2tensor wrote"
            )
        alphabet = ESCAPES.union(*self._subtokens[len(RESERVED) :])
        missing = sorted(alphabet.difference(self._ids))
        if missing:
            raise ValueError(
                f"{self.path}: found no subtoken {missing[0]!r}, wanted each character "
                f"of the others and of {''.join(sorted(ESCAPES))}, so that any text "
                f"can be written: give the vocabulary file that tensor2tensor wrote"
            )

    def encode(self, line: str) -> list[int]:
        """Returns the ids of one line; no EOS is added."""
        return [one for token in _tokens(line) for one in self._encode_token(token)]

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the ids of many lines: :meth:`encode` of each."""
        return [self.encode(line) for line in lines]

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of `ids` up to the first EOS, without PAD."""
        ids = itertools.takewhile(lambda one: one != self.eos, np.asarray(ids).tolist())
        written = "".join(self._subtokens[one] for one in ids if one)
        return _joined([_unescaped(token) for token in written.split("_") if token])

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns each id's subtoken, all of them, as written: to label a picture."""
        return [self._subtokens[one] for one in np.asarray(ids, int).tolist()]

    def _encode_token(self, token: str) -> tuple[int, ...]:
        """Returns the ids of the longest subtokens that fit, from the left."""
        token = token.replace("\\", "\\\\").replace("_", "\\u")
        written = "".join(
            each if each in self._ids else f"\\{ord(each)};" for each in token
        )
        written += "_"
        ids, start = [], 0
        while start < len(written):
            end = min(len(written), start + self._longest)
            while written[start:end] not in self._ids:
                end -= 1
            ids.append(self._ids[written[start:end]])
            start = end
        return tuple(ids)


def _unquoted(line: str) -> str:
    return line[1:-1] if re.fullmatch(r"'.*'|\".*\"", line, re.DOTALL) else line


@functools.lru_cache(maxsize=None)
def _is_alphanumeric(character: str) -> bool:
    """Whether a character is a letter or a number of any script."""
    return unicodedata.category(character)[0] in "LN"


def _tokens(line: str) -> list[str]:
    """Returns the runs of a line, without the single spaces between two runs."""
    runs = ["".join(run) for _, run in itertools.groupby(line, _is_alphanumeric)]
    last = len(runs) - 1
    return [run for i, run in enumerate(runs) if run != " " or i in (0, last)]


def _joined(tokens: Sequence[str]) -> str:
    """Returns the line that :func:`_tokens` takes apart so."""
    kinds = [_is_alphanumeric(token[0]) for token in tokens]
    spaces = [" " if pair == (True, True) else "" for pair in zip(kinds, kinds[1:])]
    return "".join(itertools.chain(*zip(tokens, [*spaces, ""])))


def _unescaped(token: str) -> str:
    r"""Undoes the writing of a token; "\" before anything else stays."""
    return ESCAPED.sub(_character, token)


def _character(match: re.Match) -> str:
    if match.group(3) is None:
        return "_" if match.group(1) else "\\"
    number = int(match.group(3))
    is_text = number < 0x110000 and not 0xD800 <= number < 0xE000 and number != 10
    return chr(number) if is_text else UNDEFINED
