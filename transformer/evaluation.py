"""Scores: translations → BLEU and chrF, for dev during training and for eval.py."""

import hashlib
import os
from typing import List, NamedTuple, Optional, Sequence, Tuple

from sacrebleu.metrics import BLEU, CHRF

from transformer.text.lines import read_lines
from transformer.text.summary import text_paths


class Scores(NamedTuple):
    """Corpus scores on detokenized, cased text."""

    bleu: float
    chrf: float
    bleu_signature: str
    chrf_signature: str


class ParallelText(NamedTuple):
    """Source lines and their references."""

    name: str  # of the split, or of the file
    sources: List[str]
    references: List[str]


def load_text(data: str, split: str) -> Tuple[List[str], List[str]]:
    """Return the plain source and reference lines of a split of a prepared folder.

    Raises:
      FileNotFoundError: a file is missing.
      ValueError: corpus.json is broken, or leads elsewhere, or has no such split.
    """
    return tuple(list(read_lines(path)) for path in text_paths(data, split))


def read_parallel(
    data: str, split: str, paths: Optional[Sequence[str]] = None
) -> ParallelText:
    """Return the lines of two files, or of a split of the data folder.

    Args:
      data: the data folder.
      split: "dev" or "test"; ignored where there are `paths`.
      paths: the source file and the reference file, or None.

    Raises:
      ValueError: not as many lines of both, or none.
      OSError: a file cannot be read.
    """
    if paths:
        sources, references = (list(read_lines(path)) for path in paths)
        name = _name_of(paths[0], sources)
    else:
        sources, references = load_text(data, split)
        name = split
    if len(sources) != len(references) or not sources:
        raise ValueError(
            f"{name}: found {len(sources)} source and {len(references)} "
            "reference lines, wanted as many of both, and at least one"
        )
    return ParallelText(name, sources, references)


def _name_of(path, lines):
    """Return a name for the lines of a file: other lines have another name."""
    text = "\n".join(lines).encode("utf-8")
    return f"{os.path.basename(path)}-{hashlib.sha256(text).hexdigest()[:8]}"


def translations_path(checkpoint: str, name: str) -> str:
    """Return where eval.py writes the translations of a `ParallelText`."""
    return f"{checkpoint}.{name}.translations"


def score(hypotheses: List[str], references: List[str]) -> Scores:
    """Return sacreBLEU's BLEU (13a, cased) and chrF2 over all sentences.

    Raises:
      ValueError: not as many hypotheses as references.
    """
    if len(hypotheses) != len(references):
        raise ValueError(
            f"score: found {len(hypotheses)} hypotheses, wanted "
            f"{len(references)}, one for each reference"
        )
    bleu, chrf = BLEU(), CHRF()
    return Scores(
        bleu.corpus_score(hypotheses, [references]).score,
        chrf.corpus_score(hypotheses, [references]).score,
        str(bleu.get_signature()),
        str(chrf.get_signature()),
    )


def evaluate(
    translator, sources: List[str], references: List[str]
) -> Tuple[Scores, List[str]]:
    """Translate and score; return (Scores, the best translation of each line)."""
    hypotheses = [best.text for best, *_ in translator.translate(sources)]
    return score(hypotheses, references), hypotheses
