"""ram.py: the parts of the forecast, and the end of memory in one line."""

import collections
import dataclasses
import functools

import corpora
import pytest
import tensorflow.compat.v1 as tf

from transformer import footprint, hparams, trainer
from transformer.footprint import (
    PARAMETER_COPIES,
    describe_footprint,
    estimate_footprint,
    estimate_memory,
)
from transformer.runtime import ram

pytestmark = pytest.mark.usefixtures("one_thread_only")

SIZES = dict(source_vocab_size=90, target_vocab_size=90, num_heads=4, num_blocks=2)


# --- The forecast ---------------------------------------------------------------------


def test_the_parts_of_the_forecast():
    hp = hparams.HParams(**SIZES, batch_tokens=100)
    needed = estimate_footprint(hp, 1000, 50, 10)
    assert estimate_footprint(hp, 2000, 50, 10) - needed == PARAMETER_COPIES * 4000
    summed = estimate_footprint(dataclasses.replace(hp, accumulate=2), 1000, 50, 10)
    assert summed - needed == 4000  # the sums of the gradients
    activations = [
        estimate_footprint(dataclasses.replace(hp, batch_tokens=tokens), 1000, 50, 10)
        - needed
        for tokens in (200, 300, 1000)
    ]
    assert needed - estimate_footprint(hp, 1000, 50, 10, 2) == activations[0] / 2
    ordered = dataclasses.replace(hp, deterministic=True)  # adds up the gradients
    of_shards = [
        estimate_footprint(settings, 1000, 50, 10, 2) for settings in (ordered, hp)
    ]
    assert of_shards[0] - of_shards[1] == 4000
    assert activations[1] == 2 * activations[0]
    assert activations[2] == 4 * activations[0]  # no batch is larger than the corpus


def test_the_forecast_of_a_process_agrees_with_what_was_measured(monkeypatch):
    """The preset multi30k in bfloat16, 120 steps, with AVX-512: MiB."""
    hp = hparams.resolve(
        {"source_vocab_size": 8000, "target_vocab_size": 8000}, "multi30k"
    )
    tensors = estimate_footprint(hp, 5993728, 29000, 53)
    monkeypatch.setattr(footprint, "has_gpu", lambda: False)
    monkeypatch.setattr(footprint, "has_avx512", lambda: True)
    for shapes, num_shapes, onednn, mebibytes in [
        (0, 150, True, 3080),
        (34, 34, True, 1764),  # both sides as wide as the longer one
        (0, 150, False, 1795),
    ]:
        monkeypatch.setattr(footprint, "uses_onednn", functools.partial(bool, onednn))
        settings = dataclasses.replace(hp, batch_shapes=shapes)
        needed = estimate_memory(tensors, settings, num_shapes, threads=2)
        assert abs(needed / 2**20 / mebibytes - 1) < 0.25
    monkeypatch.setattr(footprint, "has_gpu", lambda: True)
    assert estimate_memory(tensors, hp, 25, 1) == tensors


# --- What there is --------------------------------------------------------------------


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """machine(available, limit): what the files of the system say, in bytes."""

    def machine(available, limit="max"):
        texts = {
            "meminfo": f"MemTotal: 9 kB\nMemAvailable:  {available // 1024} kB\n",
            "max": f"{limit}\n",
        }
        for name, text in texts.items():
            (tmp_path / name).write_text(text)
        monkeypatch.setattr(ram, "MEMINFO", str(tmp_path / "meminfo"))
        monkeypatch.setattr(ram, "LIMITS", [str(tmp_path / "max")])

    return machine


@pytest.mark.parametrize(
    "system, free",
    [((7168,), 7168), ((7168, 5000), 5000)],
    ids=["Linux", "a container"],
)
def test_what_is_free(machine, system, free):
    machine(*system)
    assert ram.free_memory() == free


Device = collections.namedtuple("Device", "device_type memory_limit_bytes")


def test_the_report_warns_where_more_is_needed_than_there_is(machine):
    class Session:
        devices = [Device("CPU", 1)]

        def list_devices(self):
            return self.devices

    def report(needed):
        return describe_footprint(needed, ram.available_memory(Session()))

    machine(8000 * 1024)
    enough = report(8000 * 1024)
    assert enough == "memory for training: about 8 MB of 8 MB available"
    assert "lower batch_tokens" in report(8000 * 1024 + 1)
    Session.devices = [Device("GPU", 9000), Device("GPU", 8000)]
    assert "may not be enough" not in report(8000)
    assert "this may not be enough" in report(8001)


# --- The end of it --------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [MemoryError("numpy"), tf.errors.ResourceExhaustedError(None, None, "OOM")],
    ids=["numpy", "tensorflow"],
)
def test_an_allocation_that_fails_is_one_line(error):
    with pytest.raises(MemoryError) as raised:
        with ram.explain_memory_errors("in step 3", "lower batch_tokens"):
            raise error
    assert str(raised.value) == "out of memory in step 3: lower batch_tokens"


@pytest.mark.slow
def test_out_of_memory_while_training_names_the_flag(
    digits, tmp_path, capsys, monkeypatch
):
    def fail(*args):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM")

    monkeypatch.setattr(trainer, "run_finite_update", fail)
    with pytest.raises(SystemExit) as stopped:
        corpora.run_train(digits, tmp_path / "logs", "--max_steps", "4")
    assert stopped.value.code == 2
    assert (
        capsys.readouterr()
        .err.splitlines()[-1]
        .startswith(
            "train.py: out of memory in step 1: lower batch_tokens (now 200); raise "
            "accumulate (now 1)"
        )
    )
