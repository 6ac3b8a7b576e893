"""Several devices: the same results as one, and refusals where there are fewer."""

import dataclasses
import functools
import os
import subprocess
import sys

import corpora
import numpy as np
import pytest
import small
import tensorflow.compat.v1 as tf
import verify_run

import hparams
import train
from transformer import loss_scale
from transformer.evaluation import load_text
from transformer.runtime import checkpoints, devices
from transformer.runtime.devices import device_names, training_devices
from transformer.runtime.reporting import read_dev_scores
from transformer.runtime.sessions import make_session
from transformer.training_graph import Data, TrainingGraph, settled
from transformer.translator import Translator


@pytest.fixture(scope="module")
def hp(digits):
    return hparams.HParams(
        data=digits,
        source_vocab_size=int(corpora.VOCAB_SIZE),
        target_vocab_size=int(corpora.VOCAB_SIZE),
        num_blocks=1,
        d_model=16,
        d_ff=32,
        num_heads=2,
        batch_tokens=60,
        dropout_rate=0.2,
        warmup_steps=10,
    )


@pytest.fixture
def gpus(monkeypatch):
    """gpus(n): TensorFlow sees so many."""
    return lambda n: monkeypatch.setattr(devices, "_gpus", lambda: ["a GPU"] * n)


# --- The CPU --------------------------------------------------------------------------


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
    monkeypatch.setattr(devices, "CPU_FACTS", str(tmp_path / "cpuinfo"))
    (tmp_path / "cpuinfo").write_text(
        f"processor\t: 0\ncpuid level\t: {level}\nflags\t\t: {flags}\nbogomips\t: 1\n"
    )
    with make_session(hparams.HParams(), tf.Graph()):
        assert os.environ.get("ONEDNN_MAX_CPU_ISA") == found


@pytest.mark.slow
@pytest.mark.skipif(tf.__version__ < "2", reason="TensorFlow 1.15 cannot")
def test_a_large_product_of_bfloat16():
    """In a process of its own: an instruction that is not there would end it."""
    product = (
        "import tensorflow.compat.v1 as tf, hparams\n"
        "from transformer.runtime.sessions import make_session\n"
        "tf.disable_eager_execution()\n"
        "ones = tf.ones([2048, 512], tf.bfloat16)\n"
        "product = tf.matmul(ones, ones, transpose_b=True)\n"
        "with make_session(hparams.HParams()) as session:\n"
        "    assert (session.run(product) == 512).all()\n"
    )
    environment = dict(os.environ)
    environment.pop("ONEDNN_MAX_CPU_ISA", None)  # of conftest
    command = [sys.executable, "-c", product]
    subprocess.run(command, cwd=corpora.ROOT, env=environment, check=True)


# --- Which devices --------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, there, names",
    [
        ("", 0, [""]),
        ("", 1, [""]),
        ("", 2, ["/gpu:0", "/gpu:1"]),
        ("gpu:1", 4, [""]),
        ("gpu:3", 4, ["/gpu:0", "/gpu:1", "/gpu:2"]),
        ("cpu:1", 0, [""]),
        ("cpu:1", 1, ["/cpu:0"]),
        ("cpu:2", 0, ["/cpu:0", "/cpu:1"]),
        ("cpu:2", 4, ["/cpu:0", "/cpu:1"]),
    ],
)
def test_names(gpus, text, there, names):
    gpus(there)
    assert device_names(text) == names


@pytest.mark.parametrize("text", ["cpu", "gpu:0", "cpu:02", "tpu:1", "cpu:2,3", "2"])
def test_what_names_no_devices_is_refused(text):
    with pytest.raises(ValueError, match="devices: found .*, wanted gpu:N, cpu:N"):
        device_names(text)


def test_more_gpus_than_there_are_are_refused(gpus):
    gpus(2)
    with pytest.raises(ValueError, match="found gpu:3, wanted at most gpu:2: .*2 GPUs"):
        device_names("gpu:3")


def test_no_more_devices_train_than_there_are_shards(hp, gpus):
    gpus(4)
    assert len(training_devices(hp)) == 4
    assert settled(hp).shards == 8
    two = dataclasses.replace(hp, shards=2)
    assert training_devices(two) == ["/gpu:0", "/gpu:1"]  # nobody asked for four
    with pytest.raises(ValueError, match="found gpu:4, wanted at most shards = 2"):
        training_devices(dataclasses.replace(two, devices="gpu:4"))


@pytest.mark.parametrize(
    "flags, said",
    [
        (["--devices", "gpu:9"], "devices: found gpu:9, wanted at most gpu:"),
        (["--devices", "cpu:x"], "devices: found 'cpu:x', wanted gpu:N"),
        (["--devices=cpu:4", "--shards=3"], "cpu:4, wanted at most shards = 3"),
    ],
)
def test_refusals_are_one_line_before_any_work(digits, tmp_path, capsys, flags, said):
    where = "--data", digits, "--logdir", str(tmp_path / "logs")
    assert said in corpora.refusal(capsys, train.main, *where, *flags)
    assert not (tmp_path / "logs").exists()


def test_only_training_takes_the_devices_that_were_saved(tmp_path):
    hparams.save(hparams.HParams(devices="gpu:4"), str(tmp_path))
    assert hparams.load(str(tmp_path)).devices == ""
    assert hparams.load(str(tmp_path), {"devices": "cpu:2"}).devices == "cpu:2"
    assert hparams.resolve({}, None, str(tmp_path)).devices == "gpu:4"


def test_a_run_that_began_before_there_were_shards_has_one(tmp_path):
    (tmp_path / "hparams.json").write_text('{"seed": 4}')
    assert hparams.resolve({}, None, str(tmp_path)).shards == 1


# --- Training -------------------------------------------------------------------------


class Updates:
    """Some updates from the first values of the variables on."""

    def __init__(self, hp, steps=2):
        with tf.Graph().as_default() as self.graph:
            graph = TrainingGraph(hp, Data(hp), 0)
            with make_session(hp) as session:
                graph.open(session, None)
                self.first = session.run(tf.trainable_variables())
                self.metrics = []
                for _ in range(steps):
                    for _ in range(graph.update.runs - 1):
                        session.run(graph.update.collect)
                    ops = [graph.update.metrics, graph.update.apply]
                    self.metrics.append(session.run(ops)[0])
                names = {v.op.name: v for v in tf.global_variables()}
                self.variables = session.run(names)
            self.runs, self.losses = graph.update.runs, graph.update.metrics


@functools.lru_cache(maxsize=None)
def made(hp, **changes):
    return Updates(dataclasses.replace(hp, **changes))


def assert_same_bits(found, wanted):
    for array, other in zip(found.first, wanted.first):
        np.testing.assert_array_equal(array, other)
    assert found.metrics == wanted.metrics
    assert sorted(found.variables) == sorted(wanted.variables)
    for name, array in wanted.variables.items():
        assert found.variables[name].tobytes() == array.tobytes(), name


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread_only")
def test_a_batch_in_shards_is_the_batch(hp):
    """Without dropout, the only number that depends on where a shard begins."""
    plain = dataclasses.replace(hp, dropout_rate=0.0)
    whole, cut = made(plain), made(plain, shards=3, devices="cpu:2")
    assert (whole.runs, cut.runs) == (1, 2)
    for one, other in zip(whole.metrics, cut.metrics):
        assert one.tokens == other.tokens
        np.testing.assert_allclose(one.loss, other.loss, rtol=1e-6)
        np.testing.assert_allclose(one.gradient_norm, other.gradient_norm, rtol=1e-5)


@pytest.mark.usefixtures("one_thread_only")
def test_the_same_bits_on_any_number_of_devices(hp):
    """The last round on three of them is one shard, and two devices idle."""
    settings = dict(shards=4, deterministic=True, accumulate=2, clip_norm=0.5)
    one, three = (made(hp, devices=f"cpu:{n}", **settings) for n in (1, 3))
    assert (one.runs, three.runs) == (8, 4)
    assert_same_bits(three, one)


@pytest.mark.usefixtures("one_thread_only")
def test_each_device_computes_its_own(hp):
    """Products and their gradients are everywhere alike; variables on the first."""
    found = made(dataclasses.replace(hp, dropout_rate=0.0), shards=3, devices="cpu:2")
    products = {}
    for op in found.graph.get_operations():
        if op.type.endswith("MatMul"):
            products[op.device] = products.get(op.device, 0) + 1
        if op.type in ("VarHandleOp", "VariableV2") and "accum" not in op.name:
            assert op.device in ("/device:CPU:0", ""), op.name
    # A product has two more in its gradient; the loss on dev is computed on the first.
    assert products["/device:CPU:0"] == products["/device:CPU:1"] * 4 / 3


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread_only")
def test_without_deterministic_sums_are_nearly_the_same(hp):
    """Each device adds up its shards; rounding is all that differs."""
    one, *others = (made(hp, shards=4, devices=f"cpu:{n}") for n in (1, 2, 4))
    assert [each.runs for each in others] == [2, 1]
    for other in others:
        first, second = zip(one.metrics, other.metrics)
        np.testing.assert_allclose(*(metrics.loss for metrics in first), rtol=1e-6)
        np.testing.assert_allclose(*(metrics.loss for metrics in second), rtol=1e-4)
        assert [m.tokens for m in other.metrics] == [m.tokens for m in one.metrics]


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread_only")
@pytest.mark.parametrize("dialect", ["paper", "tensor2tensor", "tutorial"])
def test_a_shard_without_a_pair_adds_nothing(hp, dialect):
    """It has no rows, and a mean over them would be no number.

    A batch has one pair, or two of one length: padding counts in the tutorial.
    """
    hp = dataclasses.replace(hp, dialect=dialect, batch_tokens=10, dropout_rate=0.0)
    whole, cut = made(hp), made(hp, shards=3, devices="cpu:2")
    for one, other in zip(whole.metrics, cut.metrics):
        np.testing.assert_allclose(one[:4], other[:4], rtol=1e-5)
    for name, array in whole.variables.items():
        np.testing.assert_allclose(cut.variables[name], array, rtol=1e-3, atol=1e-5)


# --- Translating ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def logdir(digits, tmp_path_factory):
    """The log directory of a model with random variables."""
    folder = str(tmp_path_factory.mktemp("small") / "logs")
    small.write_logdir(digits, folder)
    return folder


@pytest.fixture
def translated(logdir, digits):
    """translated(search, devices) → (the Translator, its translations)."""

    def translated(search, names):
        given = dict(devices=names, search=search, decode_batch_size=3)
        with Translator(hparams.load(logdir, given), logdir) as translator:
            translator.restore()
            return translator, translator.translate(load_text(digits, "test")[0])

    return translated


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread_only")
@pytest.mark.parametrize("search", ["greedy", "beam"])
def test_translations_do_not_depend_on_the_devices(translated, monkeypatch, search):
    kind = tf.Session.func  # the fixture has bound its config
    used, run = [], kind.run

    def noted(session, *args, **options):
        used.append(session)
        return run(session, *args, **options)

    monkeypatch.setattr(kind, "run", noted)
    _, wanted = translated(search, "cpu:1")
    assert len(set(used)) == 1 and len({each.score for [each] in wanted}) > 10
    translator, found = translated(search, "cpu:3")
    assert found == wanted
    assert set(translator._sessions) < set(used)


@pytest.mark.usefixtures("one_thread_only")
def test_a_sample_is_drawn_on_one_device(translated):
    """What is drawn next depends on what was drawn before, on the same device."""
    (one, wanted), (other, found) = (translated("sample", f"cpu:{n}") for n in (1, 2))
    assert len(one._sessions) == len(other._sessions) == 1
    assert found == wanted


@pytest.mark.usefixtures("one_thread_only")
@pytest.mark.parametrize("batch", [1, 4])
def test_a_copy_computes_on_its_device(logdir, batch):
    """The bodies of loops too; a batch of one is not run in a fixed order there."""
    told, options = tf.RunMetadata(), tf.RunOptions(output_partition_graphs=True)
    given = dict(devices="cpu:2", decode_batch_size=batch)
    with Translator(hparams.load(logdir, given), logdir) as translator:
        translator.restore()
        session, feed = translator._sessions[1], {"source:0": [[5, 3]]}
        session.run(translator._ops.found.ids.name, feed, options, told)
    nodes = [node for part in told.partition_graphs for node in part.node]
    assert sum("MatMul" in node.op for node in nodes) > 3
    for node in nodes:
        assert node.device.endswith("CPU:1") or "MatMul" not in node.op, node.name
        assert not (node.op == "VarHandleOp" and node.device.endswith("CPU:0"))


# --- The commands ---------------------------------------------------------------------

EXACT = ["--deterministic", "--shards=8", "--dropout_rate=0.2", "--search=beam"]


def left_by(logdir, step):
    """What a run wrote of a step: bytes of its variables, its dev scores."""
    found = corpora.read_variables(checkpoints.path_of(str(logdir), step))
    scores = [row for row in read_dev_scores(str(logdir)) if row["step"] == step]
    return {name: array.tobytes() for name, array in found.items()}, scores


@pytest.fixture(scope="module")
def on_one_device(digits, tmp_path_factory):
    """The log directory of a run of eight steps; do not write."""
    logdir = tmp_path_factory.mktemp("one")
    corpora.run_train(digits, logdir, *EXACT, "--max_steps=8", "--devices=cpu:1")
    return logdir


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3, 4, 8])
def test_a_training_run_is_the_same_on_so_many(
    digits, tmp_path, on_one_device, count, capsys
):
    flags = [*EXACT, "--max_steps=8", f"--devices=cpu:{count}"]
    corpora.run_train(digits, tmp_path, *flags)
    rounds = -(-8 // count)
    assert (
        f"each batch is cut into 8 shards, computed in {rounds} rounds on {count} "
        "devices" in capsys.readouterr().err
    )
    for step in (4, 8):
        assert left_by(tmp_path, step) == left_by(on_one_device, step)
    losses, wanted = (corpora.events_of(path) for path in (tmp_path, on_one_device))
    for name in ("loss", "gradient_norm", "dev/loss", "dev/bleu"):
        assert losses[name] == wanted[name]


@pytest.mark.skipif(tf.__version__ < "2", reason="TensorFlow 1.15 refuses")
@pytest.mark.slow
@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_16_bits_are_the_same_on_two(digits, tmp_path, precision, monkeypatch):
    """The loss scale of float16, and what it skips, are the same, too."""
    monkeypatch.setattr(loss_scale, "FIRST", 2.0**14)  # too large for float16
    for count in (1, 2):
        flags = ["--deterministic", "--shards=4", f"--precision={precision}"]
        flags += ["--max_steps=4", f"--devices=cpu:{count}", "--batch_tokens=100"]
        corpora.run_train(digits, tmp_path / str(count), *flags)
    one, two = (left_by(tmp_path / str(count), 4) for count in (1, 2))
    assert one == two
    if precision == "float16":
        variables = corpora.read_variables(checkpoints.path_of(str(tmp_path / "1"), 4))
        assert 0 < variables["loss_scale/skipped_updates"] < 4


@pytest.mark.slow
def test_a_run_goes_on_with_other_devices(digits, tmp_path, on_one_device, capsys):
    """In the middle of an epoch; what was chosen at the start is kept."""
    flags = ["--deterministic", "--dropout_rate=0.2", "--search=beam"]
    for steps, count in ((3, 4), (5, 1), (8, 3)):
        where = [f"--max_steps={steps}", f"--devices=cpu:{count}"]
        corpora.run_train(digits, tmp_path, *flags, *where)
    assert hparams.load(str(tmp_path)).shards == 8
    assert left_by(tmp_path, 8) == left_by(on_one_device, 8)
    assert "devices cpu:1 -> cpu:3" in capsys.readouterr().err
    # It exits where one differs.
    verify_run.main([f"--logdir={tmp_path}", "--draw=1", "--steps=2", "--reach=3"])
    assert "equal to the bit" in capsys.readouterr().out
