"""Every call that writes a file fails, or is the last before SIGKILL: a sample of them.

`make faults` tries all of them.
"""

import importlib.util
import os
import sys

import pytest
import scenarios
import sweep
from scenarios import SCENARIOS

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or not sweep.compiler(),
    reason="no Linux, or no C compiler: calls cannot be made to fail",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A process that runs commands with faults."""
    with sweep.Server(str(tmp_path_factory.mktemp("faults"))) as server:
        yield server


def sweep_of(server, scenario, tmp_path, every):
    """A sweep that has tried each `every`-th fault of a scenario."""
    tried = sweep.Sweep(server, scenario, str(tmp_path))
    tried.run(every)
    return tried


@pytest.mark.slow
def test_a_sample_of_prepare_loses_nothing(server, tmp_path):
    name = "prepare, over an older corpus"
    tried = sweep_of(server, SCENARIOS[name], tmp_path, 29)
    assert tried.problems == []
    assert len(tried.calls) > 60 and min(tried.points.values()) > 1
    assert set(tried.points) == set(sweep.MODES)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_a_sample_of_every_command_loses_nothing(server, tmp_path, name):
    if SCENARIOS[name].needs and not importlib.util.find_spec(SCENARIOS[name].needs):
        pytest.skip(f"no {SCENARIOS[name].needs}")
    tried = sweep_of(server, SCENARIOS[name], tmp_path, 31)
    assert tried.problems == []
    assert set(tried.points) == set(sweep.MODES)


def test_a_command_that_writes_in_place_is_found_out(server, tmp_path):
    careless = scenarios.Scenario(
        "small", "careless text out", [], "out", scenarios.bytes_of
    )
    tried = sweep_of(server, careless, tmp_path, 1)
    found = "\n".join(tried.problems)
    for words in ("neither old nor new", "status 1", ".tmp left"):
        assert words in found
    kinds = {what for what, _ in tried.calls}
    assert kinds == {"mkdir", "open", "write", "close", "fsync", "rename", "unlink"}


def test_the_shim_sees_what_tensorflow_writes(server):
    sweep.begin(server, SCENARIOS["train"])
    calls = server.run_well("train", SCENARIOS["train"].argv).calls
    opened = {
        os.path.basename(path).split(".tempstate")[0]
        for what, path in calls
        if what == "open"
    }
    for name in ("model.ckpt-2.index", "model.ckpt-2.data-00000-of-00001"):
        assert name in opened
    assert [name for name in opened if name.startswith("events.out.tfevents.")]
