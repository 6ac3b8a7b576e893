"""The text files of the splits: where they are found, and where they are written."""

import filecmp
import hashlib
import itertools
import json
import os
from typing import Any, Dict, Iterable, List, Optional, Sequence

import sentencepiece

from transformer.runtime.files import regular, sha256_of
from transformer.runtime.formats import VERSION
from transformer.text.corpus import (
    SPLITS,
    Pair,
    Text,
    check_pairs,
    read_pairs,
    write_text,
)
from transformer.text.filters import duplicates
from transformer.text.parts import CHUNK
from transformer.text.vocabulary_files import vocabulary_names

HEAVIEST = 1000  # of weights: a larger one is a mistake


def pairs_of(split: str, named: Optional[List[Any]]) -> Optional[List[Pair]]:
    """Return the pairs of text files that a flag names, None where it is not given.

    Args:
      split: the split, and the name of the flag.
      named: the words behind the flag; of train, for each time that it is given.

    Raises:
      ValueError: too few words are named, or too many, or a weight that cannot be.
    """
    if not named:
        return None
    return (
        [_weighted(*words) for words in named] if split == "train" else [Pair(*named)]
    )


def _weighted(*words: str) -> Pair:
    """Return the pair of text files that stands behind one --train."""
    wanted = "wanted SOURCE TARGET, or SOURCE TARGET WEIGHT: --train a.de a.en 3"
    if len(words) not in (2, 3) or "" in words:
        raise ValueError(f"--train: found {' '.join(map(repr, words))}, {wanted}")
    try:
        weight = float(words[2]) if len(words) == 3 else 1.0
    except ValueError:
        raise ValueError(f"--train: found the weight {words[2]!r}, {wanted}") from None
    if not 0 < weight <= HEAVIEST:
        raise ValueError(
            f"--train: found the weight {words[2]}, wanted more than 0, and at most "
            f"{HEAVIEST}: how many times the pairs of these files are written"
        )
    return Pair(words[0], words[1], weight)


def find_splits(
    named: Dict[str, Optional[List[Pair]]], out: str, languages: Sequence[str]
) -> Dict[str, List[Pair]]:
    """Return the pairs of text files of each split; `test` may be absent.

    Args:
      named: split → the files that were named; those of others are looked for in `out`.
      out: the data folder.
      languages: the endings of source and target files.

    Raises:
      ValueError: a file is missing.
    """
    found = {}
    for split in SPLITS:
        pairs = named.get(split)
        if not pairs:
            pairs = [Pair(*(_find_in(out, split, language) for language in languages))]
        if split == "test" and pairs[0][:2] == (None, None):
            continue
        found[split] = pairs
        for pair in pairs:
            _check_found(split, pair, out, languages)
    return found


def _find_in(out: str, split: str, language: str) -> Optional[str]:
    """Return OUT/{split}.{language}, or its .gz, or None."""
    path = os.path.join(out, f"{split}.{language}")
    found = next((one for one in (path, path + ".gz") if os.path.lexists(one)), None)
    return found and regular(found)


def _check_found(split: str, pair: Pair, out: str, languages: Sequence[str]) -> None:
    """Raise ValueError for a file that was not found, or does not exist."""
    for path, language in zip(pair, languages):
        if path is None:
            raise ValueError(
                f"found neither {split}.{language} nor {split}.{language}.gz in "
                f"{out}, wanted one of them: name the files with --{split} SOURCE "
                f"TARGET, or their endings with --source_lang and --target_lang"
            )
        if not os.path.isfile(path):
            raise ValueError(
                f"found no file {path}, wanted text: give another --{split}"
            )


def counted(split: str, pairs: List[Pair]) -> Text:
    """Return the text of a split; raise ValueError where it cannot be read."""
    return Text(split, pairs, [check_pairs(split, pair) for pair in pairs])


def without_duplicates(text: Text) -> Text:
    """Return a text that leaves out what occurred before in any of its files."""
    pairs = itertools.chain.from_iterable(map(read_pairs, text.pairs))
    return text._replace(repeated=duplicates(pairs))


def key_of(
    flags: Dict[str, Any], texts: Iterable[Text], vocab_from: Optional[str]
) -> str:
    """Return letters and digits that are others for other text, flags or code.

    Args:
      flags: all on which the result depends.
      texts: of the splits.
      vocab_from: the folder of the vocabulary that is used; None: one is trained.
    """
    paths = [path for text in texts for pair in text.pairs for path in pair[:2]]
    if vocab_from:
        names = vocabulary_names(vocab_from)
        paths += [os.path.join(vocab_from, name) for name in names]
    sums = {path: sha256_of(path) for path in paths}
    code = VERSION, sentencepiece.__version__, CHUNK
    content = json.dumps([flags, sums, code], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:32]


def text_names(split: str, languages: Sequence[str]) -> List[str]:
    """Return the names of the text files of a split in a data folder."""
    return [f"{split}.{language}" for language in languages]


def write_texts(pair: Pair, names: Sequence[str], out: str, work: str) -> List[str]:
    """Write both sides of a split as plain text, unless OUT holds it already.

    Args:
      pair: the text files.
      names: what they are called in a data folder.
      out: the data folder.
      work: where they are written.

    Returns:
      The paths of those that OUT holds already.
    """
    kept = []
    for path, name in zip(pair, names):
        existing, written = os.path.join(out, name), os.path.join(work, name)
        if os.path.exists(existing) and os.path.samefile(path, existing):
            kept.append(existing)
            continue
        write_text(path, written)
        if os.path.exists(existing):
            _refuse_other_text(path, written, existing)
    return kept


def _refuse_other_text(path: str, written: str, existing: str) -> None:
    """Raise ValueError where text in OUT, which may be the only copy, would be lost."""
    if not filecmp.cmp(written, existing, shallow=False):
        raise ValueError(
            f"found other text in {existing} than in {path}, wanted none or the same: "
            f"remove it, or choose another --out"
        )
