"""prepare.py on large corpora: chunks, workers, weights, filters, samples.

Large means several chunks: here a chunk has a few pairs.
"""

import collections
import json
import os
import signal
import subprocess
import sys
import time

import corpora
import numpy as np
import pytest
from tasks import negating

from transformer.runtime import pool
from transformer.text import corpus, sentencepiece_model
from transformer.text.batches import Split
from transformer.text.lines import read_lines
from transformer.text.sentencepiece_model import sample_lines
from transformer.text.vocabulary import load_vocabularies

CHUNK_SIZE = 7  # pairs in a chunk
FLAGS = ["--vocab_size", "25"]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(corpus, "CHUNK_SIZE", CHUNK_SIZE)


@pytest.fixture
def text(tmp_path):
    """A folder with 60 pairs of train, nine chunks of them."""
    splits = corpora.reversed_symbols({"train": 60, "dev": 9, "test": 5}, shortest=3)
    return corpora.write_text(tmp_path / "text", splits)


def make_flags(text, *flags):
    """Return the flags for the text of a folder."""
    named = [
        word
        for split in ("train", "dev", "test")
        for word in (f"--{split}", f"{text}/{split}.de", f"{text}/{split}.en")
    ]
    return [*FLAGS, *named, *flags]


def run_prepare(out, *flags):
    """Run prepare.py; return the files that it writes."""
    corpora.run_command("prepare", "--out", out, *flags)
    return corpora.read_tree(out)


def read_entry(out, split="train"):
    """Read the entry of a split in corpus.json."""
    with open(os.path.join(str(out), "corpus.json"), encoding="utf-8") as file:
        return json.load(file)["splits"][split]


def decode_pairs(out, split="train"):
    """Decode the prepared pairs of a split."""
    decode, pairs = load_vocabularies(str(out)).source.decode, Split(str(out), split)
    return [
        (decode(pairs.source(i)), decode(pairs.target(i))) for i in range(len(pairs))
    ]


def read_pairs(*stems):
    """Read the pairs of lines of text files."""
    return [
        pair
        for stem in stems
        for pair in zip(
            *(read_lines(f"{stem}.{language}") for language in ("de", "en"))
        )
    ]


# --- Chunks and workers ---------------------------------------------------------------


@pytest.mark.parametrize("kind", [[], ["--bpe_dropout", "0.3", "--copies", "2"]])
def test_any_number_of_workers_writes_the_same_bytes(tmp_path, text, kind):
    alone = run_prepare(tmp_path / "1", *make_flags(text, *kind))
    flags = make_flags(text, *kind, "--workers", "2")
    assert run_prepare(tmp_path / "2", *flags) == alone


def test_dropout_is_drawn_anew_in_each_chunk(tmp_path, text):
    for language in ("de", "en"):
        lines = corpora.read_lines(f"{text}/train.{language}")[:CHUNK_SIZE]
        corpora.write_lines(f"{text}/train.{language}", lines * 9)
    flags = make_flags(text, "--bpe_dropout", "0.5", "--vocab_size", "22")
    run_prepare(tmp_path / "out", *flags)
    split = Split(str(tmp_path / "out"), "train")
    ids = [split.source(i).tolist() for i in range(len(split))]
    assert (
        len({str(ids[i : i + CHUNK_SIZE]) for i in range(0, len(ids), CHUNK_SIZE)}) == 9
    )


def test_results_are_in_the_order_of_the_tasks():
    read = []

    def tasks():
        for task in range(20):
            read.append(task)
            yield task

    for task, result in enumerate(pool.map_tasks(negating, tasks(), 2)):
        assert result == -task
        assert len(read) <= task + 4


def test_an_exception_in_a_worker_ends_the_work():
    with pytest.raises(ValueError, match="expected a number"):
        list(pool.map_tasks(negating, [1, 2, "refused", 3, 4, 5, 6], 2))


def test_a_worker_imports_no_tensorflow():
    assert list(pool.map_tasks(negating, ["tensorflow"], 1)) == [False]


def test_a_worker_that_is_killed_leaves_nothing(tmp_path, text, monkeypatch, capfd):
    monkeypatch.setattr(
        corpus, "_encode", lambda *_: pool.map_tasks(negating, ["killed"], 2)
    )
    argv = ["--out", tmp_path / "out", *make_flags(text, "--workers", "2")]
    message = corpora.refusal(capfd, "prepare", *argv)
    assert "run the same command again, with fewer workers" in message
    assert os.listdir(str(tmp_path)) == ["text"]


def list_children(parent):
    """List the running processes that a process has started."""
    path = f"/proc/{parent}/task/{parent}/children"
    with open(path, encoding="utf-8") as file:
        return [int(pid) for pid in file.read().split()]


# Prepares with small chunks, and many lines for a vocabulary.
PREPARES = """
import sys
sys.path.insert(0, ".")
from transformer.commands import program
from transformer.text import corpus, sentencepiece_model
sentencepiece_model.MANY_LINES = 10
if __name__ == "__main__":
    program.main(["prepare", *sys.argv[1:]])
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="no Linux")
@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_prepare_and_its_workers_and_the_next_run_tidies(
    tmp_path, text, signal_number
):
    """A worker trains a vocabulary, on long text, when the signal comes."""
    out = tmp_path / "out"
    flags = make_flags(text, "--workers", "2")
    long = []
    for language in ("de", "en"):
        lines = corpora.read_lines(f"{text}/train.{language}") * 20000
        long.append(corpora.write_lines(tmp_path / f"long.{language}", lines))
    argv = flags[:]
    start = argv.index("--train")
    argv[start + 1 : start + 3] = long
    with subprocess.Popen(
        [sys.executable, "-c", PREPARES, "--out", str(out), *argv],
        cwd=corpora.ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
    ) as process:
        corpora.wait_until(lambda: len(list_children(process.pid)) > 1)
        time.sleep(1)  # until they work
        started = list_children(process.pid)
        process.send_signal(signal_number)
        stderr = process.communicate(timeout=60)[1]
    killed = signal_number == signal.SIGKILL
    assert process.returncode == (-signal_number if killed else 128 + signal_number)
    assert stderr.count("\n") == (0 if killed else 1), stderr
    corpora.wait_until(lambda: not any(map(corpora.is_running, started)))
    left = [name for name in os.listdir(str(tmp_path)) if name.startswith(".")]
    assert len(left) == killed and not out.exists()
    expected = run_prepare(tmp_path / "expected", *make_flags(text))
    assert run_prepare(out, *flags) == expected
    assert not [name for name in os.listdir(str(tmp_path)) if name.startswith(".")]


# --- Weights --------------------------------------------------------------------------


@pytest.fixture
def two(tmp_path, text):
    """The stems of two more corpora."""
    stems = []
    for seed, (name, size) in enumerate((("a", 30), ("b", 11)), 5):
        splits = corpora.reversed_symbols({name: size}, longest=12, seed=seed)
        corpora.write_text(tmp_path / "two", splits)
        stems.append(str(tmp_path / "two" / name))
    return stems


def with_weights(text, two, *weights):
    """The flags for two corpora of train, with their weights."""
    flags = make_flags(text)
    place = flags.index("--train")
    named = [
        word
        for stem, weight in zip(two, weights)
        for word in ("--train", f"{stem}.de", f"{stem}.en", *weight)
    ]
    return flags[:place] + named + flags[place + 3 :]


@pytest.mark.parametrize("count", ["1", "2"])
def test_a_pair_is_written_as_often_as_its_weight_says(tmp_path, text, two, count):
    out = tmp_path / "out"
    flags = with_weights(text, two, ["0.4"], ["2.5"])
    files = run_prepare(out, *flags, "--workers", count)
    times = collections.Counter(decode_pairs(out))
    first, second = (
        [times[pair] for pair in read_pairs(stem)] for stem in two
    )  # no pair is in both
    assert sorted(first) == [0] * 18 + [1] * 12  # 0.4 of 30
    assert sorted(second) == [2] * 5 + [3] * 6  # 2.5 · 11 = 27.5
    assert sum(times.values()) == 40 == read_entry(out)["pairs"]
    assert read_entry(out)["corpora"] == [
        {"weight": 0.4, "pairs": 30, "written": 12},
        {"weight": 2.5, "pairs": 11, "written": 28},
    ]
    assert run_prepare(tmp_path / "again", *flags) == files


# --- Filters --------------------------------------------------------------------------


def test_filters_count_what_they_drop_and_apply_to_train_only(tmp_path, capsys):
    pairs = [
        ("der Hund", "the dog"),  # kept
        ("der Hund", "the dogs"),  # kept
        ("", "empty"),
        ("ja", "yes it is so and has been so for a long time"),  # over the ratio
        ("12 34", "12 34"),  # kept
        ("sehr lang " * 40, "very long " * 40),
    ]
    splits = {split: tuple(zip(*pairs)) for split in ("train", "dev", "test")}
    text = corpora.write_text(tmp_path / "text", splits)
    flags = make_flags(text)[2:] + ["--vocab_size", "40", "--max_length", "70"]
    run_prepare(tmp_path / "all", *flags)
    capsys.readouterr()
    run_prepare(tmp_path / "out", *flags, "--max_ratio", "4")
    assert decode_pairs(tmp_path / "out") == [pairs[i] for i in (0, 1, 4)]
    entry = read_entry(tmp_path / "out")
    dropped = {reason: entry[reason] for reason in corpus.REASONS}
    assert dropped == {"empty": 1, "too_long": 1, "ratio": 1} and entry["pairs"] == 3
    assert entry["max_ratio"] == 4
    line = capsys.readouterr().out.splitlines()[-3]
    assert line.startswith(
        "train: 3 pairs kept, 3 dropped (1 empty, 1 longer than 70 pieces, 1 over a "
        "ratio of 4), "
    )
    for split in ("dev", "test"):
        assert read_entry(tmp_path / "out", split) == read_entry(
            tmp_path / "all", split
        )
        assert "ratio" not in read_entry(tmp_path / "out", split)
    assert "ratio" not in read_entry(tmp_path / "all")


# --- The sample of a vocabulary -------------------------------------------------------


def test_a_sample_has_the_wanted_size_and_all_lines_are_equally_likely():
    assert (
        list(sample_lines("abc", 3, 3))
        == list(sample_lines("abc", 3, 9))
        == list("abc")
    )
    sample = list(sample_lines(range(2000), 2000, 500))
    assert len(sample) == 500 and sample == sorted(set(sample))
    assert sample == list(sample_lines(range(2000), 2000, 500))
    counts = np.histogram(sample, 10, (0, 2000))[0]
    assert abs(counts - 50).max() < 5 * 6.2  # 50 on average, with a deviation of 6


@pytest.mark.parametrize("kind", [[], ["--separate"]])
def test_a_vocabulary_is_trained_on_a_sample_of_a_large_corpus(
    tmp_path, text, capsys, kind, monkeypatch
):
    flags = make_flags(text, *kind, "--vocab_lines", "40")
    files = run_prepare(tmp_path / "here", *flags)
    of = "60 lines of each language" if kind else "120 lines"
    line = f"vocabulary: trained on 40 of {of}, drawn at random"
    assert line in capsys.readouterr().out
    monkeypatch.setattr(sentencepiece_model, "MANY_LINES", 39)
    assert run_prepare(tmp_path / "elsewhere", *flags) == files  # in another process
    capsys.readouterr()
    whole = make_flags(text, *kind, "--vocab_lines", "120")
    assert run_prepare(tmp_path / "whole", *whole) == run_prepare(
        tmp_path / "default", *make_flags(text, *kind)
    )
    assert "vocabulary:" not in capsys.readouterr().out
