"""ram.py: the forecast is near the truth, and the end of memory is one line."""

import collections
import dataclasses
import os
import re
import subprocess
import sys

import corpora
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import hparams
from transformer.originals.convert import variable_shapes
from transformer.runtime import checkpoints, ram

pytestmark = pytest.mark.usefixtures("one_thread_only")

SIZES = dict(source_vocab_size=90, target_vocab_size=90, num_heads=4, num_blocks=2)


# --- The forecast ---------------------------------------------------------------------


def test_the_parts_of_the_forecast():
    hp = hparams.HParams(**SIZES, batch_tokens=100)
    found = ram.forecast(hp, 1000, 50, 10)
    assert (found.parameters, found.optimizer) == (8000, 8000)
    table = 90 * hp.d_model  # used in 3 places: 2 gradients more than that of the sum
    assert found.gradients == 4 * (1000 + 2 * table)
    assert found.total == 16000 + found.gradients + found.activations
    summed = ram.forecast(
        hparams.HParams(**SIZES, batch_tokens=100, accumulate=2), 1000, 50, 10
    )
    assert summed.total - found.total == 4000  # the sums of the gradients
    cut = ram.forecast(dataclasses.replace(hp, shards=4), 1000, 50, 10)
    assert cut.activations * 4 == found.activations
    assert cut.optimizer == summed.optimizer
    two = ram.forecast(dataclasses.replace(hp, shards=4, devices="cpu:2"), 1000, 50, 10)
    for part in ("activations", "gradients"):
        assert getattr(two, part) == 2 * getattr(cut, part)
    few = ram.forecast(hp, 1000, 5, 10)  # no batch is larger than the corpus
    assert few.activations * 2 == found.activations


MEASURED = """
import sys
import train
train.main(sys.argv[1:])
with open("/proc/self/status") as file:  # ru_maxrss would tell of the parent, too
    print(dict(line.split(":", 1) for line in file)["VmHWM"].split()[0])
"""


def peak_of(data, logdir, *flags):
    """(the most memory that a training takes, what it forecast), in MB."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            MEASURED,
            "--data",
            data,
            "--logdir",
            str(logdir),
            *corpora.TINY,
            "--max_steps",
            "3",
            *flags,
        ],
        cwd=corpora.ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        env=dict(os.environ),
    )
    assert done.returncode == 0, done.stderr
    size, unit = re.search(
        r"memory for .* about ([\d.]+) (MB|GB)", done.stderr
    ).groups()
    return int(done.stdout) * 1024 / 1e6, float(size) * {"MB": 1, "GB": 1000}[unit]


LARGER = {
    "batches": [
        "--num_blocks",
        "4",
        "--d_model",
        "64",
        "--d_ff",
        "256",
        "--batch_tokens",
        "20000",
    ],
    "model": [
        "--num_blocks",
        "5",
        "--d_model",
        "512",
        "--d_ff",
        "2048",
        "--batch_tokens",
        "20",
    ],
    "vocabulary": ["--d_model", "64", "--d_ff", "256", "--batch_tokens", "20000"],
}


@pytest.mark.slow
def test_the_memory_of_real_training_runs(digits, tmp_path):
    """By how much they take more than a small one, which takes what TensorFlow does."""
    if not os.path.exists("/proc/self/status"):
        pytest.skip("no Linux")
    signs = [chr(ord("一") + i) for i in range(3000)]
    corpora.write_text(
        tmp_path / "signs", corpora.reversed_symbols({"train": 2000, "dev": 20}, signs)
    )
    corpora.prepare.main(["--out", str(tmp_path / "signs"), "--vocab-size", "3500"])
    least, forecast_least = peak_of(
        digits, tmp_path / "least", *LARGER["batches"], "--batch_tokens", "20"
    )
    for name, flags in LARGER.items():
        data = str(tmp_path / "signs") if name == "vocabulary" else digits
        peak, forecast = peak_of(data, tmp_path / name, *flags)
        assert 1 / 1.5 < (forecast - forecast_least) / (peak - least) < 1.5, (
            name,
            peak,
            least,
            forecast,
            forecast_least,
        )


# --- What there is --------------------------------------------------------------------


def test_what_linux_has_left():
    """By the definition of the file: below what there is, above what is unused."""
    if not os.path.exists("/proc/meminfo"):
        pytest.skip("no Linux")
    with open("/proc/meminfo") as file:
        sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in file}
    with tf.Session() as session:
        size, where = ram.available(session)
    assert where == "free" or where == "on the GPU"
    assert 0 < size < sizes["MemTotal"] or where == "on the GPU"


@pytest.mark.parametrize(
    "meminfo, wanted",
    [
        ("MemTotal: 9 kB\nMemFree: 1 kB\nMemAvailable:  7 kB\nBuffers: 1 kB\n", 7168),
        ("MemTotal: 9 kB\nMemFree: 1 kB\n", 0),  # Linux before 3.14
        ("", 0),  # no Linux
    ],
)
def test_what_is_not_known_to_be_free_is_no_limit(monkeypatch, meminfo, wanted):
    def read(path):
        return meminfo if path == "/proc/meminfo" else ""

    monkeypatch.setattr(ram, "_read", read)
    with tf.Session() as session:
        monkeypatch.setattr(session, "list_devices", lambda: [])
        assert ram.available(session) == (wanted, "free")


def test_of_several_gpus_the_smallest_counts(monkeypatch):
    Device = collections.namedtuple("Device", "device_type memory_limit_bytes")
    devices = [Device("CPU", 1), Device("GPU", 9000), Device("GPU", 8000)]
    with tf.Session() as session:
        monkeypatch.setattr(session, "list_devices", lambda: devices)
        assert ram.available(session) == (8000, "on the GPU")


def test_what_a_limit_of_the_process_leaves():
    limits = "Max data size  unlimited  unlimited  bytes\n"
    text = "Max address space         {}      unlimited       bytes     \n"
    assert ram._left_to_the_process(limits + text.format("unlimited"), "9 1") is None
    page = os.sysconf("SC_PAGE_SIZE")
    for limit, left in ((12 * page, 3 * page), (8 * page, 0)):
        assert (
            ram._left_to_the_process(limits + text.format(limit), "9 1 1 1 0 1 0")
            == left
        )


@pytest.mark.parametrize(
    "files, wanted",
    [
        ({"memory.max": "1000\n", "memory.current": "400\n"}, [600]),
        ({"memory.max": "1000\n", "memory.current": "1400\n"}, [0]),
        ({"memory.max": "max\n", "memory.current": "400\n"}, []),
        (
            {
                "memory/memory.limit_in_bytes": "90",
                "memory/memory.usage_in_bytes": "30",
            },
            [60],
        ),
        ({}, []),
    ],
    ids=["version_2", "exceeded", "no_limit", "version_1", "none"],
)
def test_what_a_control_group_leaves(tmp_path, files, wanted):
    (tmp_path / "memory").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert list(ram._left_to_the_group(str(tmp_path))) == wanted


def test_a_warning_where_more_is_needed_than_there_is(monkeypatch):
    needed = ram.forecast(hparams.HParams(**SIZES), 10**6, 10**6, 30)
    for size, warned in ((needed.total, False), (needed.total - 1, True), (0, False)):
        monkeypatch.setattr(ram, "available", lambda _, size=size: (size, "free"))
        lines = ram.report(needed, None, 4096).splitlines()
        assert lines[0].startswith("memory for the largest batches: about ")
        assert (
            ("--batch_tokens (found 4096)" in lines[-1]) == warned == (len(lines) == 2)
        )


def test_the_warning_names_what_to_lower(monkeypatch):
    monkeypatch.setattr(ram, "available", lambda _: (1000, "free"))
    for parameters, words in ((1000, "--batch_tokens"), (10**9, "--d_model, --d_ff")):
        needed = ram.forecast(hparams.HParams(**SIZES), parameters, 10**6, 30)
        assert f"lower {words}" in ram.report(needed, None, 4096)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        dict(joint_vocab=False, max_relative_position=3),
        dict(dialect="tensor2tensor"),
        dict(dialect="tutorial"),
        dict(positions="learned", max_positions=70),
    ],
    ids=lambda settings: ",".join(settings),
)
def test_the_number_of_parameters_is_nearly_known_before_there_are_any(settings):
    hp = hparams.HParams(**dict(SIZES, d_model=64, d_ff=96, **settings))
    made = sum(int(np.prod(shape)) for shape in variable_shapes(hp).values())
    assert 0.8 * made <= ram.parameters_of(hp) <= made


def test_a_model_of_which_only_one_copy_fits_is_not_trained(monkeypatch):
    hp = hparams.HParams(**SIZES)
    size = 4 * ram.parameters_of(hp) + hp.num_blocks * ram.A_PAIR
    monkeypatch.setattr(ram, "free_memory", lambda: size)
    ram.refuse_too_large(hp)
    with pytest.raises(ValueError, match="d_model 512.* wanted at most"):
        ram.refuse_too_large(hp, copies=5)
    monkeypatch.setattr(ram, "free_memory", lambda: 0)  # unknown
    ram.refuse_too_large(hp, copies=5)


# --- The end of it --------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [MemoryError("numpy"), tf.errors.ResourceExhaustedError(None, None, "OOM")],
    ids=["numpy", "tensorflow"],
)
def test_an_allocation_that_fails_is_one_line(error):
    with pytest.raises(MemoryError) as raised:
        with ram.shortage_explained("in step 3", "lower --batch_tokens"):
            raise error
    assert str(raised.value) == "out of memory in step 3: lower --batch_tokens"


LIMITED = """
import resource, sys
import tensorflow.compat.v1 as tf
import train
from transformer import trainer
tf.Session().close()
with open("/proc/self/statm") as file:
    now = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + (3 << 30), resource.RLIM_INFINITY))
train.main(sys.argv[1:])
"""


@pytest.mark.slow
def test_out_of_memory_names_the_flag_and_leaves_the_checkpoints(digits, tmp_path):
    """Inner layers of 10 * 100,000 numbers fit, of 20,000 * 100,000 they do not.

    Without oneDNN, some of whose operations crash where there is no memory.
    """
    logdir = tmp_path / "logs"
    flags = ["--d_ff", "100000", "--save_every", "1", "--eval_every", "1"]
    corpora.run_train(digits, logdir, *flags, "--max_steps=1", "--batch_tokens=10")
    before = corpora.tree(logdir)
    finished = subprocess.run(
        [
            sys.executable,
            "-c",
            LIMITED,
            "--data",
            digits,
            "--logdir",
            str(logdir),
            *corpora.TINY,
            *flags,
            "--max_steps",
            "3",
            "--batch_tokens",
            "20000",
        ],
        cwd=corpora.ROOT,
        env=dict(os.environ, TF_ENABLE_ONEDNN_OPTS="0"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
    )
    assert finished.returncode == 2, finished.stderr
    assert "warning: training needs more memory than there is" in finished.stderr
    assert "Traceback" not in finished.stderr
    last = finished.stderr.splitlines()[-1]
    assert last.startswith(
        "train.py: out of memory in step 2: lower --batch_tokens "
        "(found 20000); raise --accumulate (found 1)"
    )
    assert checkpoints.steps(str(logdir)) == [1]
    after = corpora.tree(logdir)
    assert [
        name for name in before if before[name] != after[name] and ".ckpt-" in name
    ] == []
