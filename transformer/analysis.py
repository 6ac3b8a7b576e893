"""Find the errors of translations: tables by length, rare words and confidence.

The choice of tables follows compare-mt (Neubig et al. 2019). Groups of lines are scored
by `evaluation`; words are sacreBLEU's tokens.
"""

import collections
import math
from typing import (
    TYPE_CHECKING,
    Callable,
    Dict,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

from sacrebleu.metrics import CHRF
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from transformer.evaluation import score

if TYPE_CHECKING:
    from transformer.translator import Translator

LENGTHS = (
    1,
    6,
    11,
    16,
    21,
    31,
    51,
)  # words of a source: the first length of each group
FREQUENCIES = (0, 1, 5, 10, 100, 1000, 10000)  # occurrences in the training data
CONFIDENCES = (0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95)  # mean probability of a piece
REPEATED = 3  # words in a repeated sequence
SHOWN = 10  # how many lines, or words, a list shows


class Texts(NamedTuple):
    """The lines of a corpus, and the frequencies of its words."""

    sources: List[str]
    references: List[str]
    frequency: Optional[Dict[str, int]]  # of target words in training; None: unknown


class System(NamedTuple):
    """The translations of a system."""

    name: str
    translations: List[str]
    confidence: Optional[List[float]]  # of each line, 0 to 1; None: unknown
    label: str = ""  # A, B, ... if there are several systems


class Table(NamedTuple):
    """Numbers about groups of lines or words."""

    title: str
    note: str
    head: List[str]
    rows: List[List[str]]


class Line(NamedTuple):
    """A line, its reference and its translations."""

    number: int  # from 1
    source: str
    reference: str
    translations: List[Tuple[str, str, str]]  # name, remark, text


class Listing(NamedTuple):
    """Some lines side by side."""

    title: str
    note: str
    lines: List[Line]


class Report(NamedTuple):
    """The whole analysis."""

    title: str
    tables: List[Table]
    listings: List[Listing]


def analyse(title: str, texts: Texts, systems: Sequence[System]) -> Report:
    """Analyse the errors of one system, or compare several.

    Args:
      title: the title of the report.
      texts: the lines, and the frequencies of words.
      systems: one or more; the others are compared with the first.
    """
    if len(systems) > 1:
        systems = [
            each._replace(label=chr(ord("A") + number))
            for number, each in enumerate(systems)
        ]
    words = [[tokens(line) for line in each.translations] for each in systems]
    references = [tokens(line) for line in texts.references]
    tables = [_overall(texts, systems, words, references)]
    lengths = [len(line.split()) for line in texts.sources]
    tables.append(
        _by_group("By length of the source", "words", lengths, LENGTHS, texts, systems)
    )
    if texts.frequency is not None:
        rarest = [
            min((texts.frequency.get(word, 0) for word in line), default=0)
            for line in references
        ]
        tables.append(
            _by_group(
                "By the rarest word of the reference",
                "times in training",
                rarest,
                FREQUENCIES,
                texts,
                systems,
            )
        )
        tables.append(_words_by_frequency(texts.frequency, systems, words, references))
    tables += [
        _by_group(
            f"By how sure {each.label or each.name} was",
            "mean probability of a piece",
            each.confidence,
            CONFIDENCES,
            texts,
            [each._replace(label="")],
        )
        for each in systems
        if each.confidence is not None
    ]
    tables.append(_missing(systems, words, references))
    return Report(title, tables, _listings(texts, systems, words, references))


def confidences(
    translator: "Translator", sources: List[str], translations: List[str]
) -> List[float]:
    """Return the confidence of a model in each line: the mean probability of a piece.

    It is the geometric mean over the pieces and EOS; NaN for a line without a piece.

    Args:
      translator: a Translator.
      sources, translations: the same number of lines.
    """
    found = [math.nan] * len(sources)
    for indices, source_ids, target_ids in translator.in_batches(sources, translations):
        of_target = translator.inspect(
            source_ids, target_ids, lambda inspection: inspection.of_target
        )
        for i, target, log_probs in zip(indices, target_ids, of_target):
            found[i] = math.exp(log_probs.sum() / (len(target) + 1))
    return found


def tokens(line: str) -> List[str]:
    """Return the words of a line, as BLEU counts them."""
    return Tokenizer13a()(line).split()


def _overall(texts, systems, words, references):
    """Return the table of whole systems."""
    rows = []
    total = sum(map(len, references))
    for each, of_system in zip(systems, words):
        found = score(each.translations, texts.references)
        pairs = list(zip(of_system, references))
        copied = [
            bool(_copied(source, mine, theirs))
            for source, (mine, theirs) in zip(texts.sources, pairs)
        ]
        rows.append(
            [
                f"{each.label} {each.name}".strip(),
                f"{found.bleu:.2f}",
                f"{found.chrf:.2f}",
                f"{sum(map(len, of_system)) / max(1, total):.3f}",
                _share(not line.strip() for line in each.translations),
                _share(bool(_repeated(*pair)) for pair in pairs),
                _share(copied),
                _share(map(_is_untranslated, texts.sources, each.translations)),
            ]
        )
    note = (
        f"{len(texts.sources):,} lines. Length is that of all translations / of all "
        "references, in words. Shares are of lines: without a word; with "
        f"{REPEATED} words that occur twice, but not in the reference; with a word of "
        "the source that is not in the reference; equal to the source."
    )
    head = ["system", "BLEU", "chrF2", "length", "empty", "repeats", "copies"]
    return Table("Overall", note, [*head, "untranslated"], rows)


def _share(flags):
    flags = list(flags)
    return f"{100 * sum(flags) / max(1, len(flags)):.1f} %"


def _repeated(mine, theirs) -> List[str]:
    """Return n-grams that occur twice in a translation, but not in its reference."""

    def twice(line):
        grams = zip(*(line[i:] for i in range(REPEATED)))
        return {gram for gram, n in collections.Counter(grams).items() if n > 1}

    return sorted(" ".join(gram) for gram in twice(mine) - twice(theirs))


def _copied(source, mine, theirs) -> List[str]:
    """Return words with letters that are in the source, but not in the reference."""
    return sorted(
        word
        for word in set(mine) & set(tokens(source)) - set(theirs)
        if any(map(str.isalpha, word))
    )


def _is_untranslated(source, translation):
    return bool(source.strip()) and source.split() == translation.split()


def _columns(names, systems):
    """Return the names of the columns, repeated for each system with its label."""
    return [f"{name} {each.label}".strip() for each in systems for name in names]


def _by_group(title, unit, values, edges, texts, systems):
    """Return BLEU, chrF2 and length of the lines in groups of a value."""
    rows = []
    for name, is_in in groups(edges):
        chosen = [i for i, value in enumerate(values) if is_in(value)]
        if not chosen:
            continue
        references = [texts.references[i] for i in chosen]
        row = [name, f"{len(chosen):,}"]
        for each in systems:
            mine = [each.translations[i] for i in chosen]
            found = score(mine, references)
            total = sum(len(tokens(line)) for line in references)
            length = sum(len(tokens(line)) for line in mine) / max(1, total)
            row += [f"{found.bleu:.2f}", f"{found.chrf:.2f}", f"{length:.3f}"]
        rows.append(row)
    head = [unit, "lines", *_columns(["BLEU", "chrF2", "length"], systems)]
    return Table(title, "", head, rows)


def groups(edges: Sequence[float]) -> List[Tuple[str, Callable]]:
    """Return (name, function that tells whether a value belongs) of each group.

    Args:
      edges: the smallest value of each group.
    """
    found = []
    for low, high in zip(edges, [*edges[1:], math.inf]):
        name = f"{low:,}"
        if high == math.inf:
            name += " or more"
        elif isinstance(high, float):
            name += f" to {high:,}"
        elif high > low + 1:
            name += f" to {high - 1:,}"
        found.append((name, lambda value, a=low, b=high: a <= value < b))
    return found


def _words_by_frequency(frequency, systems, words, references):
    """Return how many words are translated, by their frequency in training."""
    rows = []
    for name, is_in in groups(FREQUENCIES):
        count = sum(
            is_in(frequency.get(word, 0)) for line in references for word in line
        )
        row = [name, f"{count:,}"]
        for of_system in words:
            right = 0
            mine = 0
            theirs = 0
            for line, reference in zip(of_system, references):
                made, expected = (
                    collections.Counter(w for w in each if is_in(frequency.get(w, 0)))
                    for each in (line, reference)
                )
                right += sum((made & expected).values())
                mine += sum(made.values())
                theirs += sum(expected.values())
            row += [_percent(right, theirs), _percent(right, mine)]
            row.append(_percent(2 * right, mine + theirs))
        if count:
            rows.append(row)
    columns = _columns(["recall", "precision", "F1"], systems)
    head = ["times in training", "words", *columns]
    note = "How many words of the reference are in the translation of the same line."
    return Table("Words, by how rare they are", note, head, rows)


def _percent(part, whole):
    return f"{100 * part / whole:.1f}" if whole else "–"


def _missing(systems, words, references):
    """Return the words that are missing most often, and those that are added."""
    columns = []
    head = []
    for each, of_system in zip(systems, words):
        lacking = collections.Counter()
        added = collections.Counter()
        for mine, theirs in zip(map(collections.Counter, of_system), references):
            theirs = collections.Counter(theirs)
            lacking += theirs - mine
            added += mine - theirs
        for name, found in (("lacks", lacking), ("has too often", added)):
            best = sorted(found.items(), key=lambda item: (-item[1], item[0]))[:SHOWN]
            columns.append([f"{word} ({times})" for word, times in best])
            head.append(f"{each.label} {name}".strip())
    most = max(map(len, columns))
    rows = [
        [column[i] if i < len(column) else "" for column in columns]
        for i in range(most)
    ]
    return Table("Words", "The most frequent of both.", head, rows)


def _listings(texts, systems, words, references):
    """Return the worst lines, the most different ones, and those with repetitions."""
    chrf = CHRF()
    of_line = [
        [
            chrf.sentence_score(mine, [reference]).score
            for mine, reference in zip(each.translations, texts.references)
        ]
        for each in systems
    ]

    def line(i, remarks):
        rows = zip(systems, remarks)
        shown = [
            (each.label or "translation", remark, each.translations[i])
            for each, remark in rows
        ]
        return Line(i + 1, texts.sources[i], texts.references[i], shown)

    def scored(i):
        return line(i, [f"chrF2 {scores[i]:.1f}" for scores in of_line])

    numbers = range(len(texts.sources))
    worst = sorted(numbers, key=lambda i: of_line[0][i])[:SHOWN]
    about = "The lowest chrF2 of single lines."
    if len(systems) > 1:
        about = f"The lowest chrF2 of single lines, of {systems[0].label}."
    listings = [Listing("The worst lines", about, [scored(i) for i in worst])]
    for index, other in enumerate(systems[1:], 1):
        change = [of_line[index][i] - of_line[0][i] for i in numbers]
        most = sorted(numbers, key=lambda i: -abs(change[i]))
        about = f"In chrF2, between {systems[0].label} and {other.label}."
        chosen = [scored(i) for i in most[:SHOWN] if change[i]]
        listings.append(Listing("The most different lines", about, chosen))
    for title, found_in in (
        ("Repeated words", lambda i, mine: _repeated(mine, references[i])),
        ("Copied words", lambda i, m: _copied(texts.sources[i], m, references[i])),
    ):
        found = [
            [", ".join(found_in(i, mine)) for i, mine in enumerate(of_system)]
            for of_system in words
        ]
        chosen = [i for i in numbers if any(each[i] for each in found)][:SHOWN]
        lines = [line(i, [each[i] for each in found]) for i in chosen]
        listings.append(
            Listing(title, f"The first {SHOWN} lines that have some.", lines)
        )
    return [each for each in listings if each.lines]
