"""The device of this process, and the setting `devices` of earlier versions."""

import json
import os

import pytest
import tensorflow.compat.v1 as tf

from transformer import hparams
from transformer.runtime import devices
from transformer.runtime.sessions import count_concurrent_batches, make_session


@pytest.mark.parametrize(
    "flags, level, chosen, found",
    [
        ("fpu amx_bf16 avx512_fp16 amx_tile amx_int8", 28, None, "AVX512_CORE_FP16"),
        ("fpu amx_bf16 avx512_fp16 amx_tile amx_int8", 28, "AVX2", "AVX2"),
        ("fpu amx_bf16 avx512_fp16 amx_tile amx_int8", 31, None, None),
        ("fpu avx512_bf16", 28, None, None),
    ],
)
def test_hidden_tiles_are_not_used(tmp_path, monkeypatch, flags, level, chosen, found):
    """oneDNN reads its variable at the first product: this one needs no tiles."""
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", chosen or "none")  # put back afterwards
    if not chosen:
        del os.environ["ONEDNN_MAX_CPU_ISA"]
    monkeypatch.setattr(devices, "CPU_INFO", str(tmp_path / "cpuinfo"))
    (tmp_path / "cpuinfo").write_text(
        f"processor\t: 0\ncpuid level\t: {level}\nflags\t\t: {flags}\nbogomips\t: 1\n"
    )
    with make_session(tf.Graph()):
        assert os.environ.get("ONEDNN_MAX_CPU_ISA") == found


@pytest.mark.parametrize("cores, at_once", [(1, 1), (3, 3), (64, 4)])
def test_batches_are_translated_side_by_side_on_cores_alone(
    monkeypatch, cores, at_once
):
    monkeypatch.setattr("transformer.runtime.sessions.count_cores", lambda: cores)
    monkeypatch.setattr("transformer.runtime.sessions.has_gpu", lambda: False)
    assert count_concurrent_batches() == at_once
    assert count_concurrent_batches(deterministic=True) == 1
    monkeypatch.setattr("transformer.runtime.sessions.has_gpu", lambda: True)
    assert count_concurrent_batches() == 1


def test_settings_of_earlier_versions_may_name_devices(tmp_path):
    hparams.save(hparams.HParams(seed=4), str(tmp_path))
    path = tmp_path / hparams.FILE_NAME
    path.write_text(json.dumps(dict(json.loads(path.read_text()), devices="gpu:4")))
    assert hparams.load(str(tmp_path)) == hparams.HParams(seed=4)
    assert hparams.resolve({}, None, str(tmp_path)) == hparams.HParams(seed=4)
