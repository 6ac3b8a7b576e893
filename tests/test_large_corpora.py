"""prepare.py on large corpora: parts, workers, resuming, weights, filters, samples.

Large means several parts: here a part has a few pairs.
"""

import collections
import glob
import io
import json
import os
import signal
import subprocess
import sys
import time
import unicodedata

import corpora
import numpy as np
import prepare
import pytest

from transformer.data import BatchPlan, Corpus
from transformer.runtime import folders, pool
from transformer.text import corpus, filters, joining, parts, vocabulary
from transformer.text.lines import read_lines
from transformer.text.vocabulary import sampled, train_vocabulary
from transformer.text.vocabulary_files import JOINT_MODEL, load_vocabularies

CHUNK = 7  # pairs in a part
FLAGS = ["--vocab_size", "25"]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    for module in (corpus, prepare):
        monkeypatch.setattr(module, "CHUNK", CHUNK)


@pytest.fixture
def text(tmp_path):
    """A folder with 60 pairs of train, nine parts of them."""
    splits = corpora.reversed_symbols({"train": 60, "dev": 9, "test": 5}, shortest=3)
    return corpora.write_text(tmp_path / "text", splits)


def words(text, *more):
    """The flags for the text of a folder."""
    named = [
        word
        for split in ("train", "dev", "test")
        for word in (f"--{split}", f"{text}/{split}.de", f"{text}/{split}.en")
    ]
    return [*FLAGS, *named, *more]


def prepared(out, *flags):
    """The files that prepare.py writes."""
    prepare.main(["--out", str(out), *flags])
    return corpora.tree(out)


def report(out, split="train"):
    with open(os.path.join(str(out), "corpus.json"), encoding="utf-8") as file:
        return json.load(file)["splits"][split]


def lines_of(out, split="train"):
    """The prepared pairs of a split, decoded."""
    decode, found = load_vocabularies(str(out)).source.decode, Corpus(str(out), split)
    return [
        (decode(found.source(i)), decode(found.target(i))) for i in range(len(found))
    ]


def pairs_of(*stems):
    """The pairs of lines of text files."""
    return [
        pair
        for stem in stems
        for pair in zip(
            *(read_lines(f"{stem}.{language}") for language in ("de", "en"))
        )
    ]


# --- Parts and workers ----------------------------------------------------------------


@pytest.mark.parametrize("kind", [[], ["--bpe_dropout", "0.3", "--copies", "2"]])
def test_any_number_of_workers_writes_the_same_bytes(tmp_path, text, kind):
    alone = prepared(tmp_path / "1", *words(text, *kind))
    for count in (2, 3):
        flags = words(text, *kind, "--workers", str(count))
        assert prepared(tmp_path / str(count), *flags) == alone


def test_the_size_of_a_part_changes_nothing(tmp_path, text, monkeypatch):
    several = prepared(tmp_path / "several", *words(text))
    monkeypatch.setattr(corpus, "CHUNK", 1000)
    assert prepared(tmp_path / "one", *words(text)) == several
    assert lines_of(tmp_path / "one") == pairs_of(f"{text}/train")


def test_dropout_is_drawn_anew_in_each_part(tmp_path, text):
    for language in ("de", "en"):
        with open(f"{text}/train.{language}", "rb") as file:
            lines = file.readlines()[:CHUNK]
        with open(f"{text}/train.{language}", "wb") as file:
            file.writelines(lines * 9)
    prepared(
        tmp_path / "out", *words(text, "--bpe_dropout", "0.5", "--vocab_size", "22")
    )
    found = Corpus(str(tmp_path / "out"), "train")
    ids = [found.source(i).tolist() for i in range(len(found))]
    assert len({str(ids[i : i + CHUNK]) for i in range(0, len(ids), CHUNK)}) == 9


def test_a_worker_that_is_killed_is_named_in_one_line_and_work_goes_on(
    tmp_path, text, monkeypatch, capfd
):
    wanted = prepared(tmp_path / "wanted", *words(text))
    send = pool._write

    def kill_first(stream, message):
        send(stream, message)
        if message.startswith(b"train-0-0-4\n"):
            for process in pools[0]._processes:
                process.kill()

    pools, begin = [], pool.Pool.__enter__
    monkeypatch.setattr(pool, "_write", kill_first)
    monkeypatch.setattr(
        pool.Pool, "__enter__", lambda self: pools.append(self) or begin(self)
    )
    capfd.readouterr()
    with pytest.raises(SystemExit) as stopped:
        prepared(tmp_path / "out", *words(text, "--workers", "2"))
    said = capfd.readouterr().err
    assert stopped.value.code == 2 and said.count("\n") == 1
    assert "found a worker process ended by SIGKILL, wanted its answer" in said
    monkeypatch.undo()
    assert all(process.returncode is not None for process in pools[0]._processes)
    monkeypatch.setattr(corpus, "CHUNK", CHUNK)
    monkeypatch.setattr(prepare, "CHUNK", CHUNK)
    assert prepared(tmp_path / "out", *words(text)) == wanted
    assert "of 9 parts that are finished" in capfd.readouterr().out


def test_what_a_worker_refuses_is_said_in_one_line(tmp_path, text, monkeypatch, capfd):
    monkeypatch.setattr(parts, "_request", lambda block: b"\xff")
    said = corpora.refusal(
        capfd,
        prepare.main,
        *("--out", tmp_path / "out", *words(text, "--workers", "2")),
    )
    assert "can't decode byte 0xff" in said
    assert not (tmp_path / "out").exists() and os.listdir(str(tmp_path)) == ["text"]


def test_a_worker_serves_until_nobody_asks_or_reads():
    def answer(request):
        if request == b"bad":
            raise ValueError("found bad")
        return request[::-1]

    requests, answers = io.BytesIO(), io.BytesIO()
    for message in (b"abc", b"bad", b""):
        pool._write(requests, message)
    requests.write(b"cut off")
    requests.seek(0)
    pool.serve(answer, requests, answers)
    answers.seek(0)
    found = [pool._read(answers) for _ in range(4)]
    assert found == [b"+cba", b"-found bad", b"+", None]

    class Closed(io.BytesIO):
        def flush(self):
            raise BrokenPipeError

    requests.seek(0)
    pool.serve(answer, requests, Closed())
    assert requests.tell() < len(requests.getvalue()) - len(b"cut off")


def test_a_worker_that_does_not_begin_is_said(tmp_path):
    with pool.Pool("no.such.module", "", 2) as none:
        requests = ((number, bytes(1 << 20)) for number in range(3))
        with pytest.raises(ChildProcessError, match="ended with status 1, wanted"):
            list(none.answers(requests))


TRAINS = """
import sys
sys.path[:0] = ["scripts", "."]
from transformer.runtime.ending import in_one_line
from transformer.text.vocabulary import train_vocabulary
with in_one_line("x.py", "go on"):
    train_vocabulary([sys.argv[1]], "none", 25, "bpe", (10**6, 10**6))
"""


def eventually(function):
    """What a function returns once that is true, or anything but None and False."""
    for _ in range(600):
        found = function()
        if found not in (None, False):
            return found
        time.sleep(0.05)
    raise AssertionError("30 seconds have passed")


def open_to_write(pipe):
    """Opens a pipe that somebody reads; None where nobody does."""
    try:
        return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return None


def running():
    """The processes that have not ended: number → that of its parent."""
    found = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path, encoding="utf-8") as file:
                state, parent = file.read().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state not in "ZX":
            found[int(path.split("/")[2])] = int(parent)
    return found


def children_of(parent):
    return [number for number, other in running().items() if other == parent]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="no Linux")
def test_a_signal_ends_what_waits_for_sentencepiece_and_its_worker(tmp_path):
    """The text is a pipe that nobody writes to, so that training does not begin."""
    pipe = str(tmp_path / "train.de")
    os.mkfifo(pipe)
    with subprocess.Popen(
        [sys.executable, "-c", TRAINS, pipe],
        cwd=corpora.ROOT,
        stderr=subprocess.PIPE,
        universal_newlines=True,
    ) as process:
        writer = eventually(lambda: open_to_write(pipe))
        [worker] = children_of(process.pid)
        process.terminate()
        said = process.communicate(timeout=30)[1]
    assert process.returncode == 128 + signal.SIGTERM
    assert said == "x.py: stopped by SIGTERM; go on\n"
    eventually(lambda: worker not in running())
    os.close(writer)


# --- Resuming -------------------------------------------------------------------------

# Ends itself by a signal once so many parts are written.
ENDED = """
import os, sys
sys.path[:0] = ["scripts", "."]
import prepare
from transformer.text import corpus
corpus.CHUNK = prepare.CHUNK = {chunk}
write_parts = corpus.write_parts

def ended(blocks, recipe, workers):
    for number, name in enumerate(write_parts(blocks, recipe, workers), 1):
        yield name
        if number == {parts}:
            os.kill(os.getpid(), {signal})

corpus.write_parts = ended
prepare.main(sys.argv[1:])
"""


def ended(number, count, *flags):
    """Run prepare.py, which a signal ends after so many parts; return what it said."""
    code = ENDED.format(chunk=CHUNK, parts=count, signal=int(number))
    done = subprocess.run(
        [sys.executable, "-c", code, *flags],
        cwd=corpora.ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        timeout=60,
    )
    expected = -number if number == signal.SIGKILL else 128 + number
    assert done.returncode == expected, done.stderr
    return done.stderr


def left(folder):
    """The unfinished folders in a folder."""
    return [
        name for name in os.listdir(str(folder)) if name.startswith(folders.NAME_START)
    ]


def encoded(monkeypatch):
    """The names of the blocks that are encoded from now on, in a list."""
    names, encode = [], parts.Encoder.encode

    def noted(self, block):
        names.append(block.name)
        return encode(self, block)

    monkeypatch.setattr(parts.Encoder, "encode", noted)
    return names


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_same_command_goes_on_from_finished_parts(
    tmp_path, text, monkeypatch, capsys, number
):
    flags = words(text, "--bpe_dropout", "0.1", "--drop_duplicates")
    wanted = prepared(tmp_path / "wanted", *flags)
    out = tmp_path / "out"
    said = ended(number, 4, "--out", str(out), *flags, "--workers", "2")
    if number != signal.SIGKILL:
        assert said.count("\n") == 1
        assert said.endswith("; run the same command again to continue\n")
    assert not out.exists() and len(left(tmp_path)) == 1
    again = encoded(monkeypatch)
    capsys.readouterr()
    assert prepared(out, *flags) == wanted
    assert "train: found 4 of 9 parts that are finished" in capsys.readouterr().out
    assert len([name for name in again if name.startswith("train")]) == 5
    assert left(tmp_path) == [] and sorted(os.listdir(str(out))) == sorted(wanted)


def test_a_vocabulary_of_many_lines_is_refused_as_any_other(
    tmp_path, text, monkeypatch, capfd
):
    monkeypatch.setattr(vocabulary, "MANY_LINES", 50)
    argv = ["--out", str(tmp_path / "out"), *words(text, "--vocab_size", "8000")]
    assert "lower --vocab_size to " in corpora.refusal(capfd, prepare.main, *argv)
    assert left(tmp_path) == []


def test_a_vocabulary_is_not_trained_again(tmp_path, text, monkeypatch):
    out = tmp_path / "out"
    ended(signal.SIGKILL, 1, "--out", str(out), *words(text))
    monkeypatch.setattr(corpus, "train_vocabulary", None)
    prepared(out, *words(text))


@pytest.mark.parametrize("other", ["flags", "text", "vocabulary"])
def test_another_command_begins_anew_and_tidies(tmp_path, text, monkeypatch, other):
    out, flags = tmp_path / "out", words(text)
    if other == "vocabulary":
        prepared(tmp_path / "given", *flags)
        flags = [*flags[len(FLAGS) :], "--vocab_from", str(tmp_path / "given")]
    ended(signal.SIGKILL, 4, "--out", str(out), *flags)
    assert len(left(tmp_path)) == 1
    if other == "flags":
        flags += ["--max_length", "17"]
    elif other == "text":
        write_same_length(f"{text}/dev.en")
    else:
        prepared(tmp_path / "given", *words(text, "--model_type", "unigram"))
    again = encoded(monkeypatch)
    prepared(out, *flags)
    assert len([name for name in again if name.startswith("train")]) == 9
    assert left(tmp_path) == []


def write_same_length(path):
    """Change a digit of a text file."""
    with open(path, "r+b") as file:
        first = file.read(1)
        file.seek(0)
        file.write(b"5" if first != b"5" else b"6")


def test_a_part_that_is_damaged_is_made_again(tmp_path, text, monkeypatch):
    wanted = prepared(tmp_path / "wanted", *words(text))
    out = tmp_path / "out"
    ended(signal.SIGKILL, 4, "--out", str(out), *words(text))
    folder = os.path.join(str(tmp_path), left(tmp_path)[0], "parts")
    for name, size in (("train-0-0-1", 40), ("train-0-0-2", 0)):
        os.truncate(os.path.join(folder, name), size)
    with open(os.path.join(folder, "train-0-0-3"), "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\xff")
    again = encoded(monkeypatch)
    assert prepared(out, *words(text)) == wanted
    assert {"train-0-0-1", "train-0-0-2", "train-0-0-3"} < set(again)
    assert "train-0-0-0" not in again


def test_a_part_that_is_lost_under_way_is_said(tmp_path, text, monkeypatch, capsys):
    monkeypatch.setattr(joining, "read_part", lambda folder, name: None)
    out = str(tmp_path / "out")
    said = corpora.refusal(capsys, prepare.main, "--out", out, *words(text))
    assert "train-0-0-0: found another file than was written" in said
    assert left(tmp_path) == []


def test_what_is_left_is_not_followed_out_of_its_folder(tmp_path, text, capsys):
    out = tmp_path / "out"
    ended(signal.SIGKILL, 4, "--out", str(out), *words(text))
    [name] = left(tmp_path)
    part = tmp_path / name / "parts" / "train-0-0-1"
    part.unlink()
    os.symlink(str(tmp_path / "text" / "train.de"), str(part))
    said = corpora.refusal(capsys, prepare.main, "--out", out, *words(text))
    assert "found a link to" in said
    prepared(out, *words(text))


def test_two_processes_do_not_share_what_is_left(tmp_path):
    place = str(tmp_path)
    with folders.unfinished(place, "abc") as first:
        assert os.path.basename(first) == folders.NAME_START + "abc"
        with folders.unfinished(place, "abc") as second:
            assert second != first and os.path.isdir(first)
    assert left(tmp_path) == []
    os.symlink(str(tmp_path), first)
    with folders.unfinished(place, "abc") as third:
        assert third != first
    os.unlink(first)
    assert left(tmp_path) == []


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt, ValueError])
@pytest.mark.parametrize("is_kept", [True, False])
def test_what_is_kept_stays_unless_it_is_refused(tmp_path, error, is_kept):
    with pytest.raises(error), folders.unfinished(str(tmp_path), "abc") as work:
        corpora.write_lines(os.path.join(work, "file"), ["text"])
        if is_kept:
            folders.keep(work)
        raise error
    stays = is_kept and error is not ValueError
    assert left(tmp_path) == [folders.NAME_START + "abc"] * stays
    with folders.unfinished(str(tmp_path), "abc") as work:
        assert os.listdir(work) == ["file"] * stays


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
    flags = words(text)
    place = flags.index("--train")
    named = [
        word
        for stem, weight in zip(two, weights)
        for word in ("--train", f"{stem}.de", f"{stem}.en", *weight)
    ]
    return flags[:place] + named + flags[place + 3 :]


def test_several_corpora_without_weights_are_one(tmp_path, text, two):
    for language in ("de", "en"):
        corpora.write_lines(
            tmp_path / f"both.{language}",
            [line for stem in two for line in read_lines(f"{stem}.{language}")],
        )
    joined = [str(tmp_path / f"both.{language}") for language in ("de", "en")]
    one = words(text)
    one[one.index("--train") + 1 : one.index("--dev")] = joined
    prepared(tmp_path / "one", *one)
    prepared(tmp_path / "two-corpora", *with_weights(text, two, [], []))
    for split in ("train", "dev"):
        assert lines_of(tmp_path / "two-corpora", split) == lines_of(
            tmp_path / "one", split
        )
    assert "corpora" not in report(tmp_path / "one")


@pytest.mark.parametrize("count", ["1", "2"])
def test_a_pair_is_written_as_often_as_its_weight_says(tmp_path, text, two, count):
    out = tmp_path / "out"
    flags = with_weights(text, two, ["0.4"], ["2.5"])
    files = prepared(out, *flags, "--workers", count)
    times = collections.Counter(lines_of(out))
    first, second = (
        [times[pair] for pair in pairs_of(stem)] for stem in two
    )  # no pair is in both
    assert sorted(first) == [0] * 18 + [1] * 12  # 0.4 of 30
    assert sorted(second) == [2] * 5 + [3] * 6  # 2.5 · 11 = 27.5: 28, the even number
    assert sum(times.values()) == 40 == report(out)["pairs"]
    assert report(out)["corpora"] == [
        {"weight": 0.4, "pairs": 30, "written": 12},
        {"weight": 2.5, "pairs": 11, "written": 28},
    ]
    assert prepared(tmp_path / "again", *flags) == files


def test_weights_act_on_what_the_filters_keep_and_in_every_epoch(tmp_path, text, two):
    out = tmp_path / "out"
    flags = with_weights(text, two, ["1"], ["3"])
    prepared(out, *flags, "--max_length", "9", "--vocab_size", "24")
    found = Corpus(str(out), "train")
    kept = collections.Counter(lines_of(out))
    assert 0 < report(out)["too_long"] < 41
    for stem, weight in zip(two, (1, 3)):
        assert {kept[pair] for pair in pairs_of(stem)} <= {0, weight}
    plan = BatchPlan(found.source_lengths, found.target_lengths, 100, seed=1)
    for epoch in (0, 1):
        drawn = [plan.batch(epoch * len(plan) + k) for k in range(len(plan))]
        assert sorted(np.concatenate(drawn)) == list(range(len(found)))


@pytest.mark.parametrize("weight", [0.0, 0.3, 1, 1.9, 7.25])
def test_the_whole_of_a_weight_is_for_all_and_the_rest_for_some(weight):
    times = joining.times_written(weight, 1000, 0)
    assert set(times) <= {int(weight), int(weight) + 1}
    assert times.sum() == 1000 * weight
    others = joining.times_written(weight, 1000, 1)
    assert (times == others).all() == (weight == int(weight))


def test_sentences_are_repeated_in_place():
    ids, lengths = np.array([7, 8, 9, 4, 5, 6]), np.array([1, 2, 3])
    found = joining.several_times(ids, lengths, np.array([2, 0, 2]))
    assert found.tolist() == [7, 7, 4, 5, 6, 4, 5, 6]
    assert joining.several_times(ids, lengths, np.zeros(3, int)).tolist() == []


@pytest.mark.parametrize(
    "named, said",
    [
        (["a.de"], "found 'a.de'"),
        (["a.de", "a.en", "1", "2"], "found 'a.de' 'a.en' '1' '2'"),
        (["a.de", ""], "found 'a.de' ''"),
        (["a.de", "a.en", "b.de"], "found the weight 'b.de'"),
        (["a.de", "a.en", "0"], "found the weight 0"),
        (["a.de", "a.en", "nan"], "found the weight nan"),
        (["a.de", "a.en", "1e9"], "found the weight 1e9"),
    ],
)
def test_what_is_no_corpus_with_a_weight_is_refused(tmp_path, capsys, named, said):
    argv = ["--out", tmp_path / "out", "--train", *named]
    assert said in corpora.refusal(capsys, prepare.main, *argv)


# --- Filters --------------------------------------------------------------------------


def test_each_filter_counts_what_it_drops_and_only_in_train(tmp_path, capsys):
    pairs = [
        ("der Hund", "the dog"),  # kept
        ("der Hund", "the dog"),  # a duplicate
        ("der Hund", "the dogs"),  # kept
        ("", "empty"),
        ("", "empty"),  # a duplicate, which is empty too
        ("ja", "yes it is so and has been so for a long time"),  # over the ratio
        ("der собака", "the dog"),  # 3 letters of 9 are Latin
        ("12 34", "12 34"),  # no letter: kept
        ("Größe über", "size β over"),  # 8 letters of 9 are Latin: kept
        ("sehr lang " * 40, "very long " * 40),
    ]
    splits = {split: tuple(zip(*pairs)) for split in ("train", "dev", "test")}
    text = corpora.write_text(tmp_path / "text", splits)
    flags = words(text)[2:] + ["--vocab_size", "60", "--max_length", "70"]
    filtered = ["--max_ratio", "4", "--character_score", "0.8", "--drop_duplicates"]
    prepared(tmp_path / "all", *flags)
    capsys.readouterr()
    prepared(tmp_path / "out", *flags, *filtered)
    assert lines_of(tmp_path / "out") == [pairs[i] for i in (0, 2, 7, 8)]
    found = report(tmp_path / "out")
    dropped = {reason: found[reason] for reason in filters.REASONS}
    wanted = {"empty": 1, "too_long": 1, "ratio": 1, "characters": 1, "duplicates": 2}
    assert dropped == wanted and found["pairs"] == 4
    assert (found["max_ratio"], found["character_score"]) == (4, 0.8)
    said = capsys.readouterr().out.splitlines()[-3]
    assert said.startswith(
        "train: 4 pairs kept, 6 dropped (1 empty, 1 longer than 70 pieces, 1 over a "
        "ratio of 4, 1 below a character score of 0.8, 2 duplicates), "
    )
    for split in ("dev", "test"):
        assert report(tmp_path / "out", split) == report(tmp_path / "all", split)
        assert "ratio" not in report(tmp_path / "out", split)
    assert "duplicates" not in report(tmp_path / "all")


def test_duplicates_are_found_in_all_corpora_and_each_copy(tmp_path, text, two):
    for language in ("de", "en"):
        lines = [
            *read_lines(f"{two[0]}.{language}"),
            *read_lines(f"{two[1]}.{language}"),
        ]
        corpora.write_lines(f"{two[1]}.{language}", lines[::-1])
    flags = with_weights(text, two, ["1"], ["2"])
    flags += ["--drop_duplicates", "--bpe_dropout", "0.1", "--copies", "2"]
    prepared(tmp_path / "out", *flags)
    assert report(tmp_path / "out")["duplicates"] == 2 * 30
    times = collections.Counter(lines_of(tmp_path / "out"))
    assert sorted(times.values()) == [2] * 30 + [4] * 11


def test_duplicates_are_pairs_not_lines():
    pairs = [("a", "b"), ("a", "c"), ("a", "b"), ("ab", ""), ("", "ab"), ("a", "b")]
    found = filters.duplicates(pairs)
    assert found.tolist() == [False, False, True, False, False, True]
    assert filters.duplicates([]).tolist() == []
    draw = np.random.RandomState(0)
    pairs = [(str(a), str(b)) for a, b in draw.randint(0, 30, [5000, 2])]
    seen = set()
    wanted = [pair in seen or seen.add(pair) is not None for pair in pairs]
    assert filters.duplicates(iter(pairs)).tolist() == wanted


@pytest.mark.parametrize(
    "line, latin",
    [
        ("Der Hund aus Москва.", 10 / 16),
        ("Straße, œuvre, Ünal", 1),
        ("", 1),
        ("12:30 – !?", 1),
        ("日本語", 0),
    ],
)
def test_a_character_score_is_the_share_of_letters_in_a_script(line, latin):
    assert filters.character_score(line, "LATIN") == latin
    letters = [letter for letter in line if letter.isalpha()]
    other = [each for each in letters if "CYRILLIC" in unicodedata.name(each)]
    wanted = len(other) / len(letters) if letters else 1
    assert filters.character_score(line, "CYRILLIC") == wanted


def test_the_script_is_that_of_each_side(tmp_path, capsys):
    pairs = [("Солнце", "sun"), ("sun", "Солнце"), ("Луна", "moon")] * 9
    splits = {split: tuple(zip(*pairs)) for split in ("train", "dev", "test")}
    text = corpora.write_text(tmp_path / "text", splits)
    flags = words(text)[2:] + ["--vocab_size", "30", "--character_score", "1"]
    prepared(tmp_path / "out", *flags, "--scripts", "Cyrillic", "latin")
    assert report(tmp_path / "out")["characters"] == 9
    assert set(lines_of(tmp_path / "out")) == {pairs[0], pairs[2]}


@pytest.mark.parametrize(
    "flags, said",
    [
        (["--max_ratio", "0.5"], "found --max_ratio 0.5, wanted 1 or more"),
        (["--max_ratio", "nan"], "found --max_ratio nan"),
        (["--character_score", "1.5"], "found --character_score 1.5, wanted 0 to 1"),
        (["--scripts", "latin", "latin"], "--scripts without --character_score"),
        (["--character_score", "1", "--scripts", "latin", "de"], "found 'de', wanted"),
        (["--workers", "0"], "found --workers 0, wanted 1 or more"),
        (["--vocab_lines", "0"], "found --vocab_lines 0, wanted 1 or more"),
        (["--vocab_from", "x", "--vocab_lines", "9"], "and --vocab_lines, wanted one"),
    ],
)
def test_flags_that_cannot_be(tmp_path, capsys, flags, said):
    argv = ["--out", tmp_path / "out", *flags]
    assert said in corpora.refusal(capsys, prepare.main, *argv)
    assert os.listdir(str(tmp_path)) == []


# --- The sample of a vocabulary -------------------------------------------------------


def test_a_sample_has_so_many_lines_each_as_likely_as_any():
    assert list(sampled("abc", 3, 3)) == list(sampled("abc", 3, 9)) == list("abc")
    lines = [str(number) for number in range(2000)]
    found = list(sampled(lines, 2000, 500))
    assert len(found) == 500 == len(set(found))
    assert found == sorted(found, key=int) and found == list(sampled(lines, 2000, 500))
    counts = np.histogram([int(line) for line in found], 10, (0, 2000))[0]
    assert counts.sum() == 500  # of 50 on average, with a deviation of 6
    assert abs(counts - 50).max() < 5 * 6.2


@pytest.mark.parametrize("kind", [[], ["--separate"]])
def test_a_vocabulary_is_trained_on_a_sample_of_a_large_corpus(
    tmp_path, text, capsys, kind, monkeypatch
):
    out = tmp_path / "out"
    prepared(out, *words(text, *kind, "--vocab_lines", "40"))
    of = "60 lines of each language" if kind else "120 lines"
    assert f"vocabulary: trained on 40 of {of}, drawn at random" in (
        capsys.readouterr().out
    )
    languages = [["de"], ["en"]] if kind else [["de", "en"]]
    names = ["spm.source.model", "spm.target.model"] if kind else [JOINT_MODEL]
    for name, sides in zip(names, languages):
        lines = [line for side in sides for line in read_lines(f"{text}/train.{side}")]
        drawn = list(sampled(lines, len(lines), 40))
        path = corpora.write_lines(tmp_path / "sample", drawn)
        train_vocabulary([path], str(tmp_path / "model"), 25, "bpe")
        assert (out / name).read_bytes() == (tmp_path / "model").read_bytes()
    monkeypatch.setattr(vocabulary, "MANY_LINES", 39)  # in another process
    again = tmp_path / "again"
    prepared(again, *words(text, *kind, "--vocab_lines", "40"))
    assert corpora.tree(again) == corpora.tree(out)
    capsys.readouterr()
    prepared(tmp_path / "whole", *words(text, *kind, "--vocab_lines", "120"))
    assert "vocabulary:" not in capsys.readouterr().out
