"""The work for all systems: sizes, batches and lines; and its cost in FLOP."""

import glob
import os
import shutil
import time
from typing import Any, Callable, Dict, Iterator, List, Sequence, Tuple

import numpy as np

from transformer.text.batches import Batch, BatchPlan, Split
from transformer.text.data_folder import SUMMARY, load_text, read_summary, write_summary
from transformer.text.vocabulary import PAD

VOCAB_SIZE = 8000
SEED = 1

# Settings of hparams.py; the paper's sizes are for GPUs.
SIZES = {
    "bench-small": {
        "num_blocks": 3,
        "d_model": 256,
        "d_ff": 1024,
        "num_heads": 4,
        "batch_tokens": 2048,
    },
    "bench-base": {
        "num_blocks": 6,
        "d_model": 512,
        "d_ff": 2048,
        "num_heads": 8,
        "batch_tokens": 2048,
    },
    "base": {
        "num_blocks": 6,
        "d_model": 512,
        "d_ff": 2048,
        "num_heads": 8,
        "batch_tokens": 25000,
    },
    "big": {
        "num_blocks": 6,
        "d_model": 1024,
        "d_ff": 4096,
        "num_heads": 16,
        "batch_tokens": 25000,
    },
}
DROPOUT = LABEL_SMOOTHING = 0.1
LEARNING_RATE, BETAS, EPSILON = 0.0005, (0.9, 0.98), 1e-9


def batches(spec: dict) -> Iterator[Batch]:
    """Yield the batches of an endless training run, the same for every system."""
    train = Split(spec["data"], "train")
    plan = BatchPlan(
        train.source_lengths, train.target_lengths, spec["sizes"]["batch_tokens"], SEED
    )
    number = 0
    while True:
        yield train.batch(plan.batch(number), number)
        number += 1


def measure_training(
    update: Callable[[Batch], Any], finish: Callable[[], Any] = lambda: None
) -> Callable[[dict, Iterator[Batch]], dict]:
    """Return a function that measures the updates of a system that takes arrays.

    Args:
      update: function of a Batch of arrays; makes an update.
      finish: function that returns when all updates are done.

    Returns:
      A function of (request, batches): {"steps": n} → {"tokens": …, "seconds": …}.
    """

    def measure(request, source):
        tokens, start = 0, time.perf_counter()
        for _ in range(request["steps"]):
            batch = next(source)
            update(batch)
            tokens += int(np.sum(batch.target_out != PAD))
        finish()
        return {"tokens": tokens, "seconds": time.perf_counter() - start}

    return measure


def measure_decoding(
    translate: Callable[[List[str], int], list], lines: List[str]
) -> Callable[[dict], dict]:
    """Return a function that measures a translation system.

    Args:
      translate: function of (lines, batch size) that returns a translation of each line
        or, for a system that cannot load our model, the number of its pieces.
      lines: all lines.

    Returns:
      A function of a request, {"batch": n, "every": n}, which translates every n-th
      line. It returns the seconds and, with a batch size of 1, the seconds for each
      line; with {"texts": true}, also the results of `translate`.
    """

    def measure(request):
        selected, results, seconds = lines[:: request["every"]], [], []
        groups = [[line] for line in selected] if request["batch"] == 1 else [selected]
        for group in groups:
            start = time.perf_counter()
            results += translate(group, request["batch"])
            seconds.append(time.perf_counter() - start)
        answer = {"seconds": sum(seconds), "line_seconds": seconds}
        return dict(answer, texts=results) if request.get("texts") else answer

    return measure


def in_batches(sources: Sequence[Sequence[int]], size: int) -> List[np.ndarray]:
    """Return batches of the indices of sentences, the longest sentences first."""
    order = np.argsort([-len(source) for source in sources], kind="stable")
    return [order[start : start + size] for start in range(0, len(order), size)]


def test_lines(data: str) -> Tuple[List[str], List[str]]:
    """Return (source lines, reference lines) of the test split."""
    return load_text(data, "test")


def training_gflop(data: str, sizes: Dict[str, int], vocab_size: int) -> float:
    """Return the training cost, in GFLOP, of a target token that is not padding.

    It counts the matrix products of the model without those for padding: the forward
    pass, and twice as much for the backward pass.
    """
    D, F, num_blocks = (sizes[name] for name in ("d_model", "d_ff", "num_blocks"))
    train = Split(data, "train")
    S, T = (
        side.astype(np.float64) for side in (train.source_lengths, train.target_lengths)
    )
    source = S * (4 * D * D + 2 * D * F + 2 * S * D)  # projections, inner, attention
    source += S * 2 * D * D  # keys and values for the decoder
    target = T * (6 * D * D + 2 * D * F + 2 * T * D + 2 * S * D)
    products = num_blocks * (source + target) + T * D * vocab_size
    return float(3 * 2 * products.sum() / T.sum() / 1e9)


def matrix_shapes(sizes: Dict[str, int], vocab_size: int) -> List[Tuple[int, int, int]]:
    """Return (rows, in, out) of the products [rows, in] x [in, out] in a model."""
    D, F, rows = (sizes[name] for name in ("d_model", "d_ff", "batch_tokens"))
    return [(rows, D, D), (rows, D, F), (rows, F, D), (rows, D, vocab_size)]


def write_corpus(data: str, folder: str, pairs: int) -> None:
    """Write a corpus with `pairs` training pairs by repeating those of `data`.

    All files except those of the train split are copied from `data`.
    """
    os.makedirs(folder)
    for side in ("source", "target"):
        ids, offsets = (
            np.load(os.path.join(data, f"train.{side}.{kind}.npy"), allow_pickle=False)
            for kind in ("ids", "offsets")
        )
        lengths = np.resize(np.diff(offsets), pairs)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(offsets.dtype)
        np.save(
            os.path.join(folder, f"train.{side}.ids.npy"), np.resize(ids, offsets[-1])
        )
        np.save(os.path.join(folder, f"train.{side}.offsets.npy"), offsets)
    for path in glob.glob(os.path.join(data, "*")):
        name = os.path.basename(path)
        if name != SUMMARY and not name.startswith("train."):
            shutil.copyfile(path, os.path.join(folder, name))
    write_summary(folder, read_summary(data))  # without the checksums of `data`
