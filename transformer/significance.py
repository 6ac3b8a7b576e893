"""Is a difference in BLEU real? The paired bootstrap test, by sacreBLEU's own code.

Lines of the corpus are drawn again and again, the same for both systems. The p-value
says how often a difference as large as the one that was found would come of the choice
of the lines alone (Koehn 2004).
"""

from typing import Dict, List, NamedTuple, Optional, Tuple

from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

from transformer.evaluation import SAMPLES, interval_of

LEVEL = 0.05


class Compared(NamedTuple):
    """A system's score by one metric, beside that of the first system."""

    name: str  # of the system
    score: float
    interval: Tuple[float, float]  # of 95 %
    difference: float  # from the first system
    p_value: Optional[float]  # None of the first system, and of equal translations


class Comparison(NamedTuple):
    """Some systems by one metric, the first of them the one compared with."""

    metric: str  # "BLEU" or "chrF2"
    signature: str
    systems: List[Compared]


def compare(
    systems: Dict[str, List[str]], references: List[str], samples: int = SAMPLES
) -> List[Comparison]:
    """Compare the translations of systems with those of the first one.

    Args:
      systems: name → its translations, as many as references; two or more.
      references: the references.
      samples: how many are drawn.

    Returns:
      A Comparison by BLEU, and one by chrF2.

    Raises:
      ValueError: not as many translations as references.
    """
    for name, hypotheses in systems.items():
        if len(hypotheses) != len(references):
            raise ValueError(
                f"{name}: found {len(hypotheses)} translations, wanted "
                f"{len(references)}, one for each reference"
            )
    metrics = {"BLEU": BLEU(), "chrF2": CHRF()}
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
    """Return Compared; equal translations have no p-value: sacreBLEU's is tiny."""
    return Compared(
        name,
        float(result.score),
        interval_of(result.mean, result.ci),
        float(result.score - first.score),
        None if are_equal else float(result.p_value),
    )


def sentence(compared: Compared, first: str, metric: str) -> str:
    """Return a sentence about a system beside the first one."""
    if compared.p_value is None:
        return f"{compared.name} and {first} have the same translations"
    negation = "" if compared.p_value < LEVEL else "not "
    return (
        f"{compared.name} has {compared.difference:+.2f} {metric}: the difference is "
        f"{negation}significant at {100 * LEVEL:.0f} % (p = {compared.p_value:.4f})"
    )


def table(comparison: Comparison) -> List[str]:
    """Return lines of text: a head, a row for each system, the signature."""
    width = max(len(each.name) for each in comparison.systems)
    rows = [f"{comparison.metric:<{width}}   score   95 % interval        p"]
    for name, score, (low, high), _, p_value in comparison.systems:
        p_text = "" if p_value is None else f"{p_value:.4f}"
        interval = f"{low:.2f} to {high:.2f}"
        row = f"{name:<{width}}  {score:6.2f}   {interval:<15}   {p_text}"
        rows.append(row.rstrip())
    return [*rows, comparison.signature]
