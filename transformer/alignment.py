"""Cross-attention → pairs of words: which source word a target word translates.

Each target word is paired with the source word that a head looks at most, either while
the word is chosen, or one step later, while it is read (Chen et al. 2020, "Accurate
Word Alignment Induction from Neural Machine Translation"). Which head does it best is
found out by pairs that are known, and kept in `alignment.json` of the log directory.

Pairs are written as Pharaoh did: 0-0 2-1, source word and target word, from 0. Of pairs
that are known, 1?2 is one that may be, and need not.
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

from transformer.runtime import files
from transformer.text.lines import read_lines
from transformer.text.words import between_words, tokens

FILE_NAME = "alignment.json"
Pair = Tuple[int, int]  # a source word and a target word, from 0
Pairs = Set[Pair]


class Head(NamedTuple):
    """Whose attention is read, and when."""

    layer: int  # of the decoder, from 0
    head: Optional[int]  # from 0; None: the mean of the heads of the layer
    when_read: bool  # one step later, while the target word is read

    def __str__(self) -> str:
        who = "mean of the heads" if self.head is None else f"head {self.head + 1}"
        when = "read" if self.when_read else "chosen"
        return f"layer {self.layer + 1}, {who}, while a word is {when}"


class Known(NamedTuple):
    """The pairs of a line that are known."""

    sure: Pairs
    possible: Pairs  # the sure ones too


def default_head(num_blocks: int) -> Head:
    """Return what is read where none was chosen: the mean of the last layer but one.

    (Garg et al. 2019, "Jointly Learning to Align and Translate with Transformer
    Models".)
    """
    return Head(max(0, num_blocks - 2), None, False)


def heads_of(hp) -> List[Head]:
    """Return every Head of a model, and the mean of each layer."""
    return [
        Head(layer, head, when_read)
        for layer in range(hp.decoder_blocks)
        for head in (None, *range(hp.num_heads))
        for when_read in (False, True)
    ]


def align(
    translator, sources: List[str], targets: List[str], heads: Sequence[Head]
) -> Iterator[Tuple[int, List[Optional[Pairs]]]]:
    """Yield the pairs of each line: (its number, Pairs by each Head).

    A line without pieces on a side has no pairs. None where the vocabulary finds other
    words than there are between spaces.

    Args:
      translator: a Translator.
      sources, targets: as many lines.
      heads: which attention to read.
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
                tokens(vocabularies.source, source).spans,
                tokens(vocabularies.target, target).spans,
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
    """Return Pairs by the attention of a layer: weights [H, T, S]."""
    sources, targets = spans
    weights = weights.mean(0) if head.head is None else weights[head.head]  # [T, S]
    if head.when_read:
        weights = weights[1:]  # the row of a piece is where the next one is chosen
    best = between_words(weights, targets, sources).argmax(-1)  # [target words]
    return {(int(i), j) for j, i in enumerate(best)}


# How good pairs are


def error_rate(found: Sequence[Optional[Pairs]], known: Sequence[Known]) -> float:
    """Return the alignment error rate (Och and Ney 2003), without lines of None."""
    right = many = 0
    for pairs, (sure, possible) in zip(found, known):
        if pairs is not None:
            right += len(pairs & sure) + len(pairs & possible)
            many += len(pairs) + len(sure)
    return 1 - right / many if many else 0.0


def measure(
    translator, sources: List[str], targets: List[str], known: Sequence[Known]
) -> Dict[Head, float]:
    """Return the error rate of every Head on the known translations of lines."""
    heads = heads_of(translator.hp)
    found = dict(align(translator, sources, targets, heads))
    in_order = [found[i] for i in range(len(sources))]
    return {
        head: error_rate([pairs[number] for pairs in in_order], known)
        for number, head in enumerate(heads)
    }


# Files


def read_known(path: str, lines: int) -> List[Known]:
    """Return the pairs of a file, a line for each pair of sentences.

    Args:
      path: the file.
      lines: how many lines are wanted.

    Raises:
      ValueError: it has others, or other lines.
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
    """Return pairs in the order of the target words; None where there are none."""
    if pairs is None:
        return None
    return tuple(sorted(pairs, key=lambda pair: (pair[1], pair[0])))


def written(pairs: Optional[Iterable[Pair]]) -> str:
    """Return pairs as Pharaoh wrote them, in the order of the target."""
    return " ".join(f"{i}-{j}" for i, j in ordered(pairs) or ())


def read_choice(logdir: str, checkpoint: str, hp) -> Optional[Head]:
    """Return the Head that was chosen for a checkpoint, None where none was.

    A damaged file, or one of another checkpoint, is ignored.
    """
    try:
        with open(os.path.join(logdir, FILE_NAME), "rb") as file:
            kept = json.loads(file.read(1 << 16).decode("utf-8"))
        chosen = kept[os.path.basename(checkpoint)]
        head = Head(chosen["layer"], chosen["head"], chosen["when_read"])
        return head if head in heads_of(hp) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_choice(
    logdir: str, checkpoint: str, head: Head, found: Dict[str, Any]
) -> None:
    """Keep the Head that was chosen for a checkpoint, with what was found of it."""
    with files.replaced(os.path.join(logdir, FILE_NAME)) as file:
        chosen = {os.path.basename(checkpoint): {**head._asdict(), **found}}
        json.dump(chosen, file, indent=2)
        file.write("\n")
