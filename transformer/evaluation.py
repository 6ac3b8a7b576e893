"""Scores: translations → BLEU and chrF, for dev during training and for eval.py.

Where asked for, each with its interval: sacreBLEU draws lines of the corpus again and
again, and looks how far the score varies.
"""

import hashlib
import os
from typing import List, NamedTuple, Optional, Sequence, Tuple

from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

from transformer.text.lines import read_lines
from transformer.text.summary import text_paths

SAMPLES = 1000  # drawn for an interval: what sacreBLEU draws
LEAST_SAMPLES = 40  # of fewer, an interval of 95 % is that of all
SEED = "SACREBLEU_SEED"  # the variable from which sacreBLEU takes the seed
A_LINE = 100  # bytes that sacreBLEU needs for a line of a sample: counts of n-grams


class Scores(NamedTuple):
    """Corpus scores on detokenized, cased text."""

    bleu: float
    chrf: float
    bleu_signature: str
    chrf_signature: str
    bleu_interval: Tuple[float, ...] = ()  # of 95 %: from, to; where asked for
    chrf_interval: Tuple[float, ...] = ()


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


def translations_path(checkpoint: str, name: str, others: Sequence[str] = ()) -> str:
    """Return where eval.py writes the translations of a `ParallelText`.

    Args:
      checkpoint: the checkpoint that translates.
      name: of the text.
      others: the checkpoints that translate together with it.
    """
    if others:
        paths = "\n".join(os.path.abspath(each) for each in others)
        name += ".with-" + hashlib.sha256(paths.encode("utf-8")).hexdigest()[:8]
    return f"{checkpoint}.{name}.translations"


def score(hypotheses: List[str], references: List[str], samples: int = 0) -> Scores:
    """Return sacreBLEU's BLEU (13a, cased) and chrF2 over all sentences.

    Args:
      hypotheses: the translations.
      references: as many.
      samples: how many are drawn for the intervals (bootstrap); 0: no intervals.

    Raises:
      ValueError: not as many hypotheses as references.
    """
    if len(hypotheses) != len(references):
        raise ValueError(
            f"score: found {len(hypotheses)} hypotheses, wanted "
            f"{len(references)}, one for each reference"
        )
    metrics = {"BLEU": BLEU(), "chrF2": CHRF()}
    if not samples:
        found = [
            (
                each.corpus_score(hypotheses, [references]).score,
                each.get_signature(),
                (),
            )
            for each in metrics.values()
        ]
    else:
        test = PairedTest([("", hypotheses)], metrics, [references], "bs", samples)
        signatures, results = test()
        found = [
            (each.score, signatures[name], interval_of(each.mean, each.ci))
            for name, [each] in ((name, results[name]) for name in metrics)
        ]
    (bleu, *of_bleu), (chrf, *of_chrf) = found
    return Scores(bleu, chrf, str(of_bleu[0]), str(of_chrf[0]), of_bleu[1], of_chrf[1])


def interval_of(mean: float, half: float) -> Tuple[float, float]:
    """Return (from, to) of an interval of sacreBLEU: mean ± half."""
    return (float(mean - half), float(mean + half))


def check_samples(samples: int, lines: int) -> None:
    """Raise ValueError where so many samples cannot be drawn, or give no interval.

    Args:
      samples: how many are drawn; 0: none.
      lines: how many lines each of them has.
    """
    from transformer.runtime import (
        ram,  # needs TensorFlow, which not all commands start
    )

    if samples and not LEAST_SAMPLES <= samples:
        raise ValueError(
            f"samples: found {samples}, wanted {LEAST_SAMPLES} or more, or 0: none"
        )
    needed, free = samples * lines * A_LINE, ram.free_memory()
    if needed > free > 0:
        raise ValueError(
            f"found {samples:,} samples of {lines:,} lines, which need "
            f"{ram.readable(needed)} of memory, wanted at most the "
            f"{ram.readable(free)} that are free; choose fewer --samples, or 0"
        )
    seed = os.environ.get(SEED, "none").lower()
    if samples and seed != "none" and not (seed.isdigit() and int(seed)):
        raise ValueError(
            f"{SEED}: found {seed}, wanted a whole number from 1, or none: other "
            "samples each time"
        )


def evaluate(
    translator, sources: List[str], references: List[str], samples: int = 0
) -> Tuple[Scores, List[str]]:
    """Translate and score; return (Scores, the best translation of each line)."""
    hypotheses = [best.text for best, *_ in translator.translate(sources)]
    return score(hypotheses, references, samples), hypotheses
