"""Simulate comparisons of equally good systems, for docs/numbers.md.

    python tools/docs/significance.py
    python tools/docs/significance.py --comparisons 400 --sacrebleu

Two systems translate the same lines; where they differ, each draws its translation from
the same process, which damages the reference. So no difference is real, and a test at
the level of 5 % may call 5 % of the differences significant. The table has the share,
in percent, for each metric, and for a number of lines that differ. --sacrebleu adds the
paired bootstrap test of sacreBLEU, for BLEU: minutes.
"""

import argparse
import os
import random
import sys
from typing import Callable, List

import numpy as np
from sacrebleu.significance import PairedTest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.insert(0, ROOT)

from transformer.evaluation import (  # noqa: E402 (after the path)
    LEVEL,
    METRICS,
    extract_statistics,
    randomization_test,
)
from transformer.text.lines import read_lines  # noqa: E402

VARIANTS = 8  # translations of each line to draw from
DAMAGE = 0.25  # the share of words that an error meets


def damage_line(line: str, draw: random.Random) -> str:
    """Return a line with errors: words that are left out, replaced or exchanged."""
    words: List[str] = []
    for word in line.split():
        error = draw.choice(("omit", "replace", "exchange"))
        if draw.random() >= DAMAGE:
            words.append(word)
        elif error == "replace":
            words.append(draw.choice(("thing", "is", "very", "Paris", "of")))
        elif error == "exchange":
            words.insert(max(0, len(words) - 1), word)
    return " ".join(words)


class Simulation:
    """Equally good systems, compared by one metric.

    Args:
      key: a key of METRICS.
      references: the reference of each line.
      seed: of the translations, and of the systems.
    """

    def __init__(self, key: str, references: List[str], seed: int = 1):
        draw = random.Random(seed)
        self.references = references
        self.metric = METRICS[key].create("13a")
        self.texts = [
            [damage_line(line, draw) for line in references] for _ in range(VARIANTS)
        ]
        self.statistics = np.array(
            [extract_statistics(self.metric, text, references) for text in self.texts]
        )  # [VARIANTS, lines, K]
        self._generator = np.random.default_rng(seed)

    def draw_systems(self, num_differing: int) -> np.ndarray:
        """Draw the variants of two systems: int [2, lines], different in some lines.

        Args:
          num_differing: the number of lines in which their statistics differ, if so
            many lines have variants that do.
        """
        num_lines = len(self.references)
        variants = np.zeros([2, num_lines], int)
        for line in self._generator.permutation(num_lines):
            first, *rest = self._generator.permutation(VARIANTS)
            statistics = self.statistics[:, line]
            others = [i for i in rest if (statistics[i] != statistics[first]).any()]
            if others and num_differing:
                pair = [first, others[0]]
                variants[:, line] = self._generator.permutation(pair)  # equal chances
                num_differing -= 1
        return variants

    def compute_p(self, variants: np.ndarray, samples: int) -> float:
        """Compute the p-value of two systems by `randomization_test`."""
        lines = np.arange(len(self.references))
        first, second = [self.statistics[system, lines] for system in variants]
        return randomization_test(self.metric, first, second, samples, self._generator)

    def compute_sacrebleu_p(self, variants: np.ndarray, samples: int) -> float:
        """Compute the p-value of two systems by sacreBLEU's paired bootstrap."""
        systems = [
            (name, [self.texts[variant][i] for i, variant in enumerate(system)])
            for name, system in zip("ab", variants)
        ]
        test = PairedTest(
            systems, {"BLEU": self.metric}, [self.references], "bs", samples
        )
        return float(test()[1]["BLEU"][1].p_value)

    def measure_rate(
        self, compute_p: Callable, num_differing: int, comparisons: int, samples: int
    ) -> float:
        """Measure the share of comparisons with p below the level."""
        p_values = [
            compute_p(self.draw_systems(num_differing), samples)
            for _ in range(comparisons)
        ]
        return float(np.mean([p_value < LEVEL for p_value in p_values]))


def main() -> None:
    """Print a table: a row for each metric, a column for each number of lines."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--references", default="data/sample/test.en", metavar="FILE")
    parser.add_argument("--lines", type=int, default=200, metavar="N")
    parser.add_argument("--comparisons", type=int, default=2000, metavar="N")
    parser.add_argument("--samples", type=int, default=1000, metavar="N")
    parser.add_argument("--sacrebleu", action="store_true")
    args = parser.parse_args()
    references = list(read_lines(args.references))[: args.lines]
    numbers = [8, 20, len(references)]
    sizes = " | ".join(f"{number} of {len(references)} lines" for number in numbers)
    print(f"| | {sizes} |", "| --- |" + " --- |" * len(numbers), sep="\n", flush=True)
    for key, metric in METRICS.items():
        simulation = Simulation(key, references)
        tests = {metric.name: simulation.compute_p}
        if args.sacrebleu and key == "bleu":
            tests["BLEU, sacreBLEU's test"] = simulation.compute_sacrebleu_p
        for name, compute_p in tests.items():
            rates = [
                simulation.measure_rate(
                    compute_p, number, args.comparisons, args.samples
                )
                for number in numbers
            ]
            row = " | ".join(f"{100 * rate:.1f}" for rate in rates)
            print(f"| {name} | {row} |", flush=True)


if __name__ == "__main__":
    main()
