"""Write a prepared corpus: text files → vocabularies, ids on disk, text."""

import itertools
import os
from typing import (
    Any,
    Callable,
    Collection,
    Dict,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Tuple,
)

import numpy as np

from transformer.runtime.files import named
from transformer.text.filters import REASONS, report_of, told
from transformer.text.joining import SIDES, join, survey
from transformer.text.lines import read_lines
from transformer.text.parts import CHUNK, Block, Recipe, read_part, write_parts
from transformer.text.vocabulary import train_vocabulary
from transformer.text.vocabulary_files import (
    JOINT_MODEL,
    SEPARATE_MODELS,
    Vocabularies,
    load_vocabularies,
)

SPLITS = ("train", "dev", "test")
ID_FILES = [
    f"{split}.{side}.{part}.npy"
    for split in SPLITS
    for side in SIDES
    for part in ("ids", "offsets")
]


class Pair(NamedTuple):
    """The paths of two text files, and how many times their pairs are written."""

    source: str
    target: str
    weight: float = 1.0


class Text(NamedTuple):
    """The text of a split."""

    split: str
    pairs: List[Pair]  # several only in train
    counts: List[int]  # how many pairs of lines each of them has
    copies: int = 1  # how many times it is encoded
    repeated: Optional[np.ndarray] = None  # bool [pairs of lines]: what is left out


def check_pairs(split: str, pair: Pair) -> int:
    """Return how many sentences each of two files has.

    Raises:
      ValueError: one cannot be read, or they differ in length.
    """
    source, target = (sum(1 for _ in read_lines(path)) for path in pair[:2])
    if source != target:
        raise ValueError(
            f"{split}: found {source:,} sentences in {pair.source} and {target:,} in "
            f"{pair.target}, wanted the same number: line n must translate line n"
        )
    return source


def read_pairs(pair: Pair) -> Iterator[Tuple[str, str]]:
    """Yield the lines of two files, side by side."""
    return zip(read_lines(pair.source), read_lines(pair.target))


def train_vocabularies(
    train: Text,
    folder: str,
    vocab_size: int,
    model_type: str,
    separate: bool,
    most_lines: int,
) -> Vocabularies:
    """Train the vocabularies of a corpus on its train split, and load them.

    A model that the folder has already is not trained again.

    Args:
      train: the text of the train split.
      folder: where the model files are written.
      vocab_size: the number of pieces.
      model_type: "bpe" or "unigram".
      separate: train one vocabulary per language instead of a joint one.
      most_lines: of more lines, each vocabulary is trained on so many, drawn at random.
    """
    paths = [pair[:2] for pair in train.pairs]
    texts = list(zip(*paths)) if separate else [list(itertools.chain(*paths))]
    lines = sum(train.counts) * (1 if separate else 2)
    names = SEPARATE_MODELS if separate else (JOINT_MODEL,)
    for name, text in zip(names, texts):
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            sample = lines, most_lines
            train_vocabulary(text, path, vocab_size, model_type, sample)
    return load_vocabularies(folder)


def encode_split(
    text: Text,
    stem: str,
    recipe: Recipe,
    workers: int,
    report: Callable[[int, int], None],
) -> Dict[str, Any]:
    """Write the ids of a split, and return its entry in corpus.json.

    The parts that the folder of the recipe has already are not made again.

    Args:
      text: the text of the split.
      stem: the beginning of the file names: {stem}.source.ids.npy …
      recipe: how text becomes ids.
      workers: how many processes encode.
      report: function of how many parts are done, and of how many there are.

    Raises:
      ValueError: no pair is left.
    """
    names = _part_names(text)
    every = list(itertools.chain(*names))
    missing = [name for name in every if not read_part(recipe.folder, name)]
    report(len(every) - len(missing), len(every))
    blocks = _blocks(text, set(missing))
    written = write_parts(blocks, recipe, min(workers, len(missing)))
    for done, _ in enumerate(written, len(every) - len(missing) + 1):
        report(done, len(every))
    weights = [pair.weight for pair in text.pairs]
    kept = survey(recipe.folder, names, weights)
    if text.repeated is not None:
        kept.dropped["duplicates"] = text.copies * int(text.repeated.sum())
    report_of_split = {"pairs": int(kept.times.sum())}
    report_of_split.update(report_of(kept.dropped, recipe.rules))
    if not report_of_split["pairs"]:
        files = " and ".join(path for pair in text.pairs for path in pair[:2])
        raise ValueError(
            f"found no pair to keep in {files} ({told(report_of_split)}), wanted at "
            f"least one: check the text, or raise --max_length"
        )
    report_of_split.update(join(recipe.folder, names, kept, stem))
    if weights != [1.0]:
        report_of_split["corpora"] = kept.corpora
    return report_of_split


def told_lines(text: Text, report: Dict[str, Any]) -> List[str]:
    """Return the report of a split as a line, and one for each corpus with a weight."""
    dropped = sum(report.get(reason, 0) for reason in REASONS)
    source, target = report["source_tokens"], report["target_tokens"]
    lines = [
        f"{text.split}: {report['pairs']:,} pairs kept, {dropped:,} dropped "
        f"({told(report)}), "
        f"{source:,} source and {target:,} target tokens, "
        f"unk {100 * report['source_unknown'] / source:.3f} % / "
        f"{100 * report['target_unknown'] / target:.3f} %"
    ]
    return lines + [
        f"{text.split}: of {pair.source} and {pair.target}, weight "
        f"{corpus['weight']:g}: {corpus['pairs']:,} pairs kept, {corpus['written']:,} "
        f"written"
        for corpus, pair in zip(report.get("corpora", []), text.pairs)
    ]


def _part_names(text: Text) -> List[List[str]]:
    """Return the names of the parts of each pair of files."""
    return [
        [
            f"{text.split}-{place}-{copy}-{number}"
            for copy in range(text.copies)
            for number in range(-(-count // CHUNK))
        ]
        for place, count in enumerate(text.counts)
    ]


def _blocks(text: Text, wanted: Collection[str]) -> Iterator[Block]:
    """Yield the blocks of the parts `wanted`, without the lines that are left out."""
    repeated = text.repeated
    if repeated is None:
        repeated = np.zeros(sum(text.counts), bool)
    begins = np.cumsum(text.counts) - text.counts
    for pair, begin, of_pair in zip(text.pairs, begins, _part_names(text)):
        for names in np.reshape(of_pair, [text.copies, -1]).tolist():
            lines = read_pairs(pair) if wanted.intersection(names) else iter([])
            for first, name in zip(itertools.count(begin, CHUNK), names):
                left_out = repeated[first : first + CHUNK].tolist()
                both = list(zip(left_out, itertools.islice(lines, CHUNK)))
                if name in wanted:
                    kept = [pair for is_out, pair in both if not is_out]
                    yield Block(name, *(_column(kept, side) for side in (0, 1)))


def _column(rows, place):
    """Return one field of each row."""
    return [row[place] for row in rows]


def write_text(text_path: str, path: str) -> int:
    """Write the sentences of a corpus file as plain text; return how many there are."""
    count = 0
    with named(path), open(path, "ab") as file:
        for line in read_lines(text_path):
            file.write(line.encode("utf-8") + b"\n")
            count += 1
    return count
