"""Word alignment from cross-attention: which source word a target word translates.

Each target word is paired with the source word to which a head pays most attention,
either when the target word is chosen, or one step later, when it is read (Chen et al.
2020, "Accurate Word Alignment Induction from Neural Machine Translation"). The best
head is chosen on known alignments, and stored in `alignment.json` in the log directory.

Pairs are written in Pharaoh format: in 0-0 2-1, each pair is the index of a source word
and of a target word, counted from 0. In known alignments, 1?2 is a possible pair: it is
allowed, but not required.
"""

import json
import os
import re
from typing import (
    Any,
    Dict,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from transformer.logdir.manifests import is_there
from transformer.runtime import files
from transformer.text.lines import read_lines
from transformer.text.words import split_into_words, word_attention

FILE_NAME = "alignment.json"
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


class Known(NamedTuple):
    """The known pairs of a line."""

    sure: Pairs
    possible: Pairs  # including the sure ones


def default_head(num_blocks: int) -> Head:
    """Return the Head used if none was chosen: the mean of the last layer but one.

    (Garg et al. 2019, "Jointly Learning to Align and Translate with Transformer
    Models".)
    """
    return Head(max(0, num_blocks - 2), None, False)


def heads_of(hp) -> List[Head]:
    """Return every Head of a model, including the mean of each layer."""
    return [
        Head(layer, head, when_read)
        for layer in range(hp.decoder_blocks)
        for head in (None, *range(hp.num_heads))
        for when_read in (False, True)
    ]


def align(
    translator, sources: List[str], targets: List[str], heads: Sequence[Head]
) -> Iterator[Tuple[int, List[Optional[Pairs]]]]:
    """Yield the pairs of each line: (line number, the Pairs from each Head).

    A line without pieces on one side has no pairs. Instead of Pairs there is None if
    the words of the vocabulary are not those between spaces.

    Args:
      translator: a Translator.
      sources, targets: the same number of lines.
      heads: whose attention to read.
    """
    vocabularies = translator.vocabularies
    blocks = translator.hp.decoder_blocks
    most = translator.hp.max_source_length
    without = set(range(len(sources)))
    names = [f"decoder/block_{i}/cross_attention" for i in range(blocks)]
    for indices, *rows in translator.in_batches(sources, targets):
        weights = translator.inspect(*rows, lambda x: [x.weights[one] for one in names])
        for number, (i, source, target) in enumerate(zip(indices, *rows)):
            if not target:
                continue
            without.remove(i)
            spans = (
                split_into_words(vocabularies.source, source).spans,
                split_into_words(vocabularies.target, target).spans,
            )
            words = len(sources[i].split()), len(targets[i].split())
            was_cut = len(source) == most
            if (words[0] != len(spans[0]) and not was_cut) or words[1] != len(spans[1]):
                yield int(i), [None] * len(heads)
            else:
                of_line = [layer[number] for layer in weights]
                yield (
                    int(i),
                    [_pairs(of_line[each.layer], each, spans) for each in heads],
                )
    for i in without:
        yield i, [set() for _ in heads]


def _pairs(weights, head, spans):
    """Return the Pairs from the attention of a layer, weights [H, T, S]."""
    sources, targets = spans
    weights = weights.mean(0) if head.head is None else weights[head.head]  # [T, S]
    if head.when_read:
        weights = weights[1:]  # the row of a piece is the step that chooses the next
    best = word_attention(weights, targets, sources).argmax(-1)  # [target words]
    return {(int(i), j) for j, i in enumerate(best)}


# The quality of pairs


def error_rate(found: Sequence[Optional[Pairs]], known: Sequence[Known]) -> float:
    """Return the alignment error rate (Och and Ney 2003); ignore lines with None."""
    right = many = 0
    for pairs, (sure, possible) in zip(found, known):
        if pairs is not None:
            right += len(pairs & sure) + len(pairs & possible)
            many += len(pairs) + len(sure)
    return 1 - right / many if many else 0.0


def refuse_unaligned(found: Sequence[Optional[Pairs]]) -> None:
    """Raise ValueError if no line could be aligned, so that no rate says anything."""
    if not any(found):
        raise ValueError(
            "expected lines in which the words of the vocabulary are those between "
            f"spaces, got none among {len(found)}; no head can be chosen by this text"
        )


def measure(
    translator, sources: List[str], targets: List[str], known: Sequence[Known]
) -> Dict[Head, float]:
    """Return the error rate of every Head on lines with known translations.

    Raises:
      ValueError: no line can be aligned.
    """
    heads = heads_of(translator.hp)
    found = dict(align(translator, sources, targets, heads))
    in_order = [found[i] for i in range(len(sources))]
    refuse_unaligned([pairs[0] for pairs in in_order])
    return {
        head: error_rate([pairs[number] for pairs in in_order], known)
        for number, head in enumerate(heads)
    }


# Files


def read_known(path: str, lines: int) -> List[Known]:
    """Return the pairs in a file that has one line for each pair of sentences.

    Args:
      path: the file.
      lines: the expected number of lines.

    Raises:
      ValueError: the number of lines differs, or a line has anything but pairs.
    """
    known = []
    for number, line in enumerate(read_lines(path), 1):
        sure = set()
        possible = set()
        for word in line.split():
            match = re.fullmatch(r"(\d{1,6})([-?])(\d{1,6})", word)
            if match is None:
                raise ValueError(
                    f"{path}:{number}: expected pairs of words such as 0-0, or 1?2 "
                    f"for possible ones, got {word!r}"
                )
            pair = int(match.group(1)), int(match.group(3))
            possible.add(pair)
            if match.group(2) == "-":
                sure.add(pair)
        known.append(Known(sure, possible))
    if len(known) != lines:
        raise ValueError(f"{path}: expected {lines} lines, got {len(known)}")
    return known


def ordered(pairs: Optional[Iterable[Pair]]) -> Optional[Tuple[Pair, ...]]:
    """Return pairs in the order of the target words; None for None."""
    if pairs is None:
        return None
    return tuple(sorted(pairs, key=lambda pair: (pair[1], pair[0])))


def written(pairs: Optional[Iterable[Pair]]) -> str:
    """Return pairs in Pharaoh format, in the order of the target words."""
    return " ".join(f"{i}-{j}" for i, j in ordered(pairs) or ())


def read_choice(logdir: str, checkpoint: str, hp) -> Optional[Head]:
    """Return the Head that was chosen for a checkpoint; None if none was.

    A damaged file, or a file for another checkpoint, is ignored.
    """
    try:
        chosen = _choices(logdir)[os.path.basename(checkpoint)]
        head = Head(chosen["layer"], chosen["head"], chosen["when_read"])
        return head if head in heads_of(hp) else None
    except (KeyError, TypeError):
        return None


def _choices(logdir: str) -> Dict[str, Any]:
    """Return what is stored: checkpoint → choice; {} for no file or a damaged one."""
    try:
        with open(os.path.join(logdir, FILE_NAME), "rb") as file:
            return dict(json.loads(file.read(1 << 16).decode("utf-8")))
    except (OSError, ValueError, TypeError, RecursionError):
        return {}


def write_choice(
    logdir: str, checkpoint: str, head: Head, found: Dict[str, Any]
) -> None:
    """Store the Head that was chosen for a checkpoint, with its error rates.

    The choices for other checkpoints are kept as long as these exist.
    """
    kept = {
        name: choice
        for name, choice in _choices(logdir).items()
        if is_there(os.path.join(logdir, name))
    }
    kept[os.path.basename(checkpoint)] = {**head._asdict(), **found}
    with files.replaced(os.path.join(logdir, FILE_NAME)) as file:
        json.dump(kept, file, indent=2)
        file.write("\n")
