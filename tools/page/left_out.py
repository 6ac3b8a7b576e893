"""Measure how often the page is right when it says that words were left out.

    python tools/page/left_out.py --logdir logs/multi30k \
        --train data/multi30k/train.de data/multi30k/train.en \
        --texts data/multi30k/dev.de data/multi30k/dev.en --show 50

The page names a run of source words whose loss changes the log-probability of the
translation little (`findLeftOut` of viewer/page/left_out.js). Whether a word was left
out is judged without the model: IBM model 1, trained on the training text, says which
target words are counterparts of a source word. A word was left out if the reference has
a counterpart of it and the translation has none. Words without a counterpart in the
reference are not judged. A run counts as right if one of its judged words was left out.
"""

import argparse
import json
import os
import random
import re

import numpy as np

LIMIT, LETTERS = -0.3, 4  # those of the page
ITERATIONS = 5
LIKELY = 0.1  # p(target word | source word) of a counterpart in the reference
# The product of both probabilities of a counterpart in the translation. One alone says
# little: rare words collect what stands beside them.
MUTUAL = 0.003
STEM = 4  # letters that two forms of a word share
FREQUENT = 0.1  # the share of the vocabulary whose pieces are frequent words
NUM_FREQUENT = 60  # source words that are not judged: articles, prepositions, …


def tokenize(line):
    """Split a line into words, in lower case."""
    return re.findall(r"\w+", line.lower())


def read_lines(path):
    """Read the lines of a text."""
    with open(path, encoding="utf-8") as file:
        return file.read().split("\n")[:-1]


class WordTable:
    """IBM model 1 (Brown et al. 1993): p(target word | source word)."""

    def __init__(self, sources, targets):
        self._source_ids = {}
        self._target_ids = {}
        source_ids, target_ids, places = [], [], []
        place = 0
        for source, target in zip(sources, targets):
            f = [self._source_ids.setdefault(w, len(self._source_ids)) for w in source]
            e = [self._target_ids.setdefault(w, len(self._target_ids)) for w in target]
            for word in e:
                source_ids += f
                target_ids += [word] * len(f)
                places += [place] * len(f)
                place += 1
        width = len(self._target_ids)
        keys = np.array(source_ids) * width + np.array(target_ids)
        self._keys, pairs = np.unique(keys, return_inverse=True)
        places = np.array(places)
        owners = self._keys // width
        self._width = width
        self._values = np.ones(len(self._keys))
        for _ in range(ITERATIONS):
            weights = self._values[pairs]
            weights /= np.bincount(places, weights)[places]
            counts = np.bincount(pairs, weights)
            self._values = counts / np.bincount(owners, counts)[owners]

    def probability(self, source_word, target_word):
        """Return p(target word | source word); 0 for unknown ones."""
        f, e = self._source_ids.get(source_word), self._target_ids.get(target_word)
        if f is None or e is None:
            return 0.0
        key = f * self._width + e
        place = np.searchsorted(self._keys, key)
        is_there = place < len(self._keys) and self._keys[place] == key
        return float(self._values[place]) if is_there else 0.0


class Judge:
    """Tells which words were left out, from an alignment of the training text."""

    def __init__(self, sources, targets):
        sources, targets = list(map(tokenize, sources)), list(map(tokenize, targets))
        self._forward = WordTable(sources, targets)
        self._backward = WordTable(targets, sources)
        counts = {}
        for word in (word for line in sources for word in line):
            counts[word] = counts.get(word, 0) + 1
        self._frequent = set(sorted(counts, key=counts.get)[-NUM_FREQUENT:])

    def is_left_out(self, word, reference, translation):
        """Return whether a source word was left out; None: it is not judged."""
        [word, *rest] = tokenize(word) or [""]
        if rest or word in self._frequent:
            return None
        counterparts = [
            other
            for other in tokenize(reference)
            if self._forward.probability(word, other) >= LIKELY
            and self._backward.probability(other, word) >= LIKELY
        ]
        if not counterparts:
            return None
        return not any(
            self._forward.probability(word, other)
            * self._backward.probability(other, word)
            >= MUTUAL
            or any(other[:STEM] == best[:STEM] for best in counterparts)
            for other in tokenize(translation)
        )


def measure_lines(logdir, lines):
    """Return (words, translation, effects, whether a word is rare) of each line."""
    from transformer import hparams
    from transformer.text.words import split_into_words
    from transformer.translator import Translator
    from transformer.viewer.inspection import leave_out_words

    measured = []
    with Translator.for_settings(hparams.load(logdir), logdir) as translator:
        translator.find_and_restore("best")
        vocabularies = translator.vocabularies
        sources = translator.encode(lines)
        targets = {}
        for indices, hypotheses in translator.search(sources):
            for i, ids in zip(indices, hypotheses.ids[:, 0]):
                targets[int(i)] = vocabularies.target.strip_special(ids)
        for i, source in enumerate(sources):
            tokens = split_into_words(vocabularies.source, source)
            effects = leave_out_words(translator, source, targets[i], tokens.spans)
            text = translator.translation(targets[i], 0.0).text
            limit = FREQUENT * vocabularies.source.size
            is_rare = [
                not is_frequent(tokens.pieces[begin:end], source[begin:end], limit)
                for begin, end in tokens.spans
            ]
            measured.append((tokens.words, text, effects.sum(-1).tolist(), is_rare))
    return measured


def is_frequent(pieces, ids, limit):
    """Return whether a word is one of the first pieces of the vocabulary."""
    places = [i for i, piece in enumerate(pieces) if re.search(r"[^\W_]", piece)]
    return len(places) == 1 and ids[places[0]] < limit


def find_runs(words, effects, is_rare, limit, letters):
    """Return the runs of words that the page names: lists of indices.

    The twin of `findLeftOut` in viewer/page/left_out.js.
    """
    runs, run = [], []
    for i, effect in enumerate([*effects, -np.inf]):
        if effect > limit:
            run.append(i)
        else:
            sizes = [len(re.sub(r"\W", "", words[j])) for j in run if is_rare[j]]
            if max(sizes, default=0) > letters:
                runs.append(run)
            run = []
    return runs


def main():
    """Print the precision of several limits, and some of the runs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--logdir", required=True)
    parser.add_argument("--train", nargs=2, required=True)
    parser.add_argument("--texts", nargs=2, required=True)
    parser.add_argument("--show", type=int, default=0)
    parser.add_argument("--cache", help="a file for what the model computed")
    args = parser.parse_args()
    lines, references = map(read_lines, args.texts)
    if args.cache and os.path.exists(args.cache):
        with open(args.cache, encoding="utf-8") as file:
            measured = json.load(file)
    else:
        measured = measure_lines(args.logdir, lines)
        if args.cache:
            with open(args.cache, "w", encoding="utf-8") as file:
                json.dump(measured, file)
    judge = Judge(*map(read_lines, args.train))
    verdicts = [
        [judge.is_left_out(word, reference, text) for word in words]
        for (words, text, *_), reference in zip(measured, references)
    ]
    judged = [x for row in verdicts for x in row if x is not None]
    print(f"{len(judged):,} words judged, {sum(judged):,} of them left out")
    print("limit  letters  runs  judged  right  precision  lines")
    for letters in (0, 4):
        for limit in (-1.0, -0.5, -0.3, -0.2, 0.0):
            report(measured, verdicts, limit, letters)
    examples = [
        f"{' '.join(words[i] for i in run)} | {' '.join(words)} | {text}"
        for words, text, effects, is_rare in measured
        for run in find_runs(words, effects, is_rare, LIMIT, LETTERS)
    ]
    random.Random(1).shuffle(examples)
    for example in examples[: args.show]:
        print(example)


def report(measured, verdicts, limit, letters):
    """Print one line of the table."""
    total = judged = right = 0
    lines = set()
    for number, ((words, _, *rest), row) in enumerate(zip(measured, verdicts)):
        for run in find_runs(words, *rest, limit, letters):
            total += 1
            of_run = [row[i] for i in run if row[i] is not None]
            judged += bool(of_run)
            right += any(of_run)
            lines.add(number)
    precision = right / judged if judged else float("nan")
    print(
        f"{limit:5.1f}  {letters:7}  {total:4}  {judged:6}  {right:5}  "
        f"{precision:9.2f}  {len(lines):5}"
    )


if __name__ == "__main__":
    main()
