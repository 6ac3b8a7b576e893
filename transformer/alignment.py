"""Word alignment from cross-attention: which source word a target word translates.

Each target word is paired with the source word to which a head pays most attention,
either when the target word is chosen, or one step later, when it is read (Chen et al.
2020, "Accurate Word Alignment Induction from Neural Machine Translation"). The best
head is chosen on alignments made by people, the gold alignments, and stored in
`alignment.json` in the log directory. `Translator.align` computes the attention.

Pairs are written in Pharaoh format: in 0-0 2-1, each pair is the index of a source word
and of a target word, counted from 0. In gold alignments, 1?2 is a possible pair: it is
allowed, but not required.
"""

import json
import os
import re
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np

from transformer.hparams import HParams
from transformer.logdir.manifests import is_present
from transformer.logdir.names import ALIGNMENT
from transformer.runtime import files
from transformer.runtime.errors import CorpusError
from transformer.runtime.progress import format_count
from transformer.text.lines import read_lines
from transformer.text.vocabulary import Vocabularies
from transformer.text.words import split_into_words, word_attention

Pair = Tuple[int, int]  # a source word and a target word, from 0
Pairs = Set[Pair]


class Head(NamedTuple):
    """The head whose attention is read, and the step at which it is read."""

    layer: int  # of the decoder, from 0
    head: Optional[int]  # from 0; None: the mean of the heads of the layer
    when_read: bool  # one step later, when the target word is read

    def __str__(self) -> str:
        who = "mean of the heads" if self.head is None else f"head {self.head + 1}"
        when = "read" if self.when_read else "chosen"
        return f"layer {self.layer + 1}, {who}, when a word is {when}"


class Gold(NamedTuple):
    """The right pairs of a line, made by people."""

    sure: Pairs
    possible: Pairs  # including the sure ones


class Sentence(NamedTuple):
    """A line of text on one side, and its pieces."""

    text: str
    ids: Sequence[int]  # without BOS and EOS
    is_cut: bool = False  # whether it may be longer than `ids`


def default_head(num_blocks: int) -> Head:
    """Return the Head used if none was chosen: the mean of the last layer but one.

    (Garg et al. 2019, "Jointly Learning to Align and Translate with Transformer
    Models".)
    """
    return Head(max(0, num_blocks - 2), None, False)


def list_heads(hp: HParams) -> List[Head]:
    """List every Head of a model, including the mean of each layer."""
    return [
        Head(layer, head, when_read)
        for layer in range(hp.decoder_blocks)
        for head in (None, *range(hp.num_heads))
        for when_read in (False, True)
    ]


# From attention to pairs


def align_line(
    weights: Sequence[np.ndarray],
    source: Sentence,
    target: Sentence,
    vocabularies: Vocabularies,
    heads: Sequence[Head],
) -> List[Optional[Pairs]]:
    """Align the words of a line and of its translation, as each head sees them.

    Args:
      weights: the cross-attention of each layer of the decoder, float [H, T, S].
      source, target: the two sides.
      vocabularies: their vocabularies.
      heads: whose attention to read.

    Returns:
      The Pairs of each head. Each is None if the words of the vocabulary are not those
      between spaces.
    """
    source_spans = split_into_words(vocabularies.source, source.ids).spans
    target_spans = split_into_words(vocabularies.target, target.ids).spans
    if not _has_words(source, source_spans) or not _has_words(target, target_spans):
        return [None] * len(heads)
    return [
        _pair_words(weights[head.layer], head, source_spans, target_spans)
        for head in heads
    ]


def _has_words(sentence: Sentence, spans: Sequence[Tuple[int, int]]) -> bool:
    """Tell whether the spans are the words between the spaces of a sentence."""
    return sentence.is_cut or len(sentence.text.split()) == len(spans)


def _pair_words(weights, head, source_spans, target_spans) -> Pairs:
    """Pair each target word with the source word that has most of its attention.

    Args:
      weights: the attention of a layer, float [H, T, S].
      head: which part of it to read.
      source_spans, target_spans: the pieces of each word.
    """
    weights = weights.mean(0) if head.head is None else weights[head.head]  # [T, S]
    if head.when_read:
        weights = weights[1:]  # the row of a piece is the step that chooses the next
    best = word_attention(weights, target_spans, source_spans).argmax(-1)
    return {(int(i), j) for j, i in enumerate(best)}


# The quality of pairs


def error_rate(alignments: Sequence[Optional[Pairs]], gold: Sequence[Gold]) -> float:
    """Compute the alignment error rate (Och and Ney 2003); ignore lines with None."""
    matches = total = 0
    for pairs, (sure, possible) in zip(alignments, gold):
        if pairs is not None:
            matches += len(pairs & sure) + len(pairs & possible)
            total += len(pairs) + len(sure)
    return 1 - matches / total if total else 0.0


def refuse_unaligned(alignments: Sequence[Optional[Pairs]]) -> None:
    """Raise CorpusError if no line could be aligned, so that a rate says nothing."""
    if not any(alignments):
        raise CorpusError(
            "expected lines in which the words of the vocabulary are those between "
            f"spaces, got none among {len(alignments)}; no head can be chosen by this "
            "text"
        )


def measure_heads(
    heads: Sequence[Head],
    alignments: Sequence[Sequence[Optional[Pairs]]],
    gold: Sequence[Gold],
) -> Dict[Head, float]:
    """Compute the error rate of each Head.

    Args:
      heads: the heads.
      alignments: for each line, the Pairs from each head: see `Translator.align`.
      gold: the right pairs of each line.

    Raises:
      CorpusError: no line can be aligned.
    """
    refuse_unaligned([of_heads[0] for of_heads in alignments])
    return {
        head: error_rate([of_heads[i] for of_heads in alignments], gold)
        for i, head in enumerate(heads)
    }


# Files


def read_gold(path: str, num_lines: int) -> List[Gold]:
    """Read the pairs in a file that has one line for each pair of sentences.

    Args:
      path: the file.
      num_lines: the expected number of lines.

    Raises:
      CorpusError: the number of lines differs, or a line has anything but pairs.
    """
    gold = []
    for line_number, line in enumerate(read_lines(path), 1):
        sure = set()
        possible = set()
        for word in line.split():
            match = re.fullmatch(r"(\d{1,6})([-?])(\d{1,6})", word)
            if match is None:
                raise CorpusError(
                    f"{path}:{line_number}: expected pairs such as 0-0, or 1?2 "
                    f"for possible ones, got {word!r}"
                )
            pair = int(match.group(1)), int(match.group(3))
            possible.add(pair)
            if match.group(2) == "-":
                sure.add(pair)
        gold.append(Gold(sure, possible))
    if len(gold) != num_lines:
        raise CorpusError(
            f"{path}: expected {format_count(num_lines, 'line')}, got {len(gold):,}"
        )
    return gold


def sort_pairs(pairs: Optional[Iterable[Pair]]) -> Optional[Tuple[Pair, ...]]:
    """Sort pairs by the target words; return None for None."""
    if pairs is None:
        return None
    return tuple(sorted(pairs, key=lambda pair: (pair[1], pair[0])))


def format_pairs(pairs: Optional[Iterable[Pair]]) -> str:
    """Write pairs in Pharaoh format, in the order of the target words."""
    return " ".join(f"{i}-{j}" for i, j in sort_pairs(pairs) or ())


def read_chosen_head(logdir: str, checkpoint: str, hp: HParams) -> Optional[Head]:
    """Read which Head was chosen for a checkpoint; return None if none was.

    A damaged file, or a file for another checkpoint, is ignored.
    """
    try:
        choice = _read_choices(logdir)[os.path.basename(checkpoint)]
        head = Head(choice["layer"], choice["head"], choice["when_read"])
        return head if head in list_heads(hp) else None
    except (KeyError, TypeError):
        return None


def _read_choices(logdir: str) -> Dict[str, Any]:
    """Read the choices: checkpoint → fields; {} for no file or a damaged one."""
    try:
        content = files.read_file(os.path.join(logdir, ALIGNMENT))
        return dict(json.loads(content.decode("utf-8")))
    except (OSError, ValueError, TypeError, RecursionError):
        return {}


def store_chosen_head(
    logdir: str, checkpoint: str, head: Head, error_rates: Dict[str, float]
) -> None:
    """Store the Head that was chosen for a checkpoint, with its error rates.

    The choices for other checkpoints are kept as long as these exist.
    """
    choices = {
        name: choice
        for name, choice in _read_choices(logdir).items()
        if is_present(os.path.join(logdir, name))
    }
    choices[os.path.basename(checkpoint)] = {**head._asdict(), **error_rates}
    with files.replace_file(os.path.join(logdir, ALIGNMENT)) as file:
        json.dump(choices, file, indent=2)
        file.write("\n")
