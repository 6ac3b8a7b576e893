"""BLEU and chrF of a translator: dev scores in training and eval.py come from here."""

import json
import os
from typing import List, NamedTuple, Tuple

from sacrebleu.metrics import BLEU, CHRF

from transformer.text.lines import check_language, read_lines


class Scores(NamedTuple):
    """Corpus scores on detokenized, cased text."""

    bleu: float
    chrf: float
    bleu_signature: str
    chrf_signature: str


def load_text(data: str, split: str) -> Tuple[List[str], List[str]]:
    """The plain source and reference lines of a split of a prepared folder.

    Raises:
      ValueError: corpus.json is broken, or its languages would lead elsewhere.
    """
    path = os.path.join(data, "corpus.json")
    with open(path, encoding="utf-8") as file:
        try:
            summary = json.load(file)
            languages = summary["source_lang"], summary["target_lang"]
        except (ValueError, TypeError, LookupError) as error:
            raise ValueError(
                f"{path}: found no languages ({error!r}), wanted what "
                "scripts/prepare.py writes: run it again"
            ) from error
    return tuple(
        list(
            read_lines(os.path.join(data, f"{split}.{check_language(language, path)}"))
        )
        for language in languages
    )


def score(hypotheses: List[str], references: List[str]) -> Scores:
    """sacreBLEU's BLEU (13a, cased) and chrF2 over every sentence.

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


def evaluate(translator, sources: List[str], references: List[str]):
    """Translates and scores: (Scores, the best translation of each line)."""
    hypotheses = [best.text for best, *_ in translator.translate(sources)]
    return score(hypotheses, references), hypotheses
