"""Choose the sentence that a page opens with, and inspect its translation."""

from typing import Any, Dict, Sequence, Tuple

from sacrebleu.metrics import CHRF

from transformer.viewer.inspection import inspect_line, to_json


def inspect_example(
    translator, lines: Sequence[str], references: Sequence[Tuple[str, str]]
) -> Dict[str, Any]:
    """Inspect one of several sentences, for a page that shows it without a request.

    It is the one that is translated best, by chrF; of several equally good ones, the
    one whose second best translation has the nearest score, so that the search had a
    choice. Without references, it is the first line.

    Args:
      translator: a RecentTranslator.
      lines: the sentences.
      references: (line, reference) for some of them.

    Returns:
      {"text": the sentence, "inspection": from `inspection.to_json`}.
    """
    example = lines[0]
    if references:
        metric = CHRF()
        sources = [source for source, _ in references]
        ratings = [
            (
                metric.sentence_score(n_best[0].text, [reference]).score,
                max((other.score - n_best[0].score for other in n_best[1:]), default=0),
            )
            for n_best, (_, reference) in zip(translator.translate(sources), references)
        ]
        example = sources[ratings.index(max(ratings))]
    example = " ".join(example.split())
    return {"text": example, "inspection": to_json(inspect_line(translator, example))}
