"""Fixtures for all tests: the examples on the path, graph mode, a graph per test."""

import contextlib
import copy
import functools
import gc
import glob
import os
import resource
import signal
import sys

import hypothesis
import hypothesis.configuration
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python.framework import config as tf_config

from transformer import trainer
from transformer.runtime.devices import avoid_broken_amx, has_gpu

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# What programs of these folders have on their path. The package is there because it was
# installed, as users have it: the checkout itself is not on the path.
for folder in ("examples", os.path.join("tools", "*")):
    sys.path[:0] = sorted(glob.glob(os.path.join(ROOT, folder, "")))
tf.disable_eager_execution()

# A run in the background or under nohup ignores signals, and so would what it starts.
for signal_number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(signal_number) == signal.SIG_IGN:
        signal.signal(signal_number, signal.SIG_DFL)

# One of several processes of pytest-xdist has one core, and so has what it starts.
# TensorFlow reads this when it opens its first session.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")

avoid_broken_amx()  # tests open sessions of their own, too

# A GPU multiplies float32 matrices in TF32, which does not keep what tests allow.
os.environ.setdefault("NVIDIA_TF32_OVERRIDE", "0")
# Several processes of pytest-xdist share it.
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")

HAS_BFLOAT16 = not tf.__version__.startswith("1.")

# Tiny graphs, run a few times each: optimizing them takes longer than running them.
CONFIG = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
CONFIG.graph_options.rewrite_options.disable_meta_optimizer = True

# The same inputs in every run; with `--hypothesis-profile=random` others each time.
# What hypothesis writes nevertheless is a cache, and goes where pytest's is.
hypothesis.settings.register_profile("random", deadline=None, database=None)
hypothesis.settings.register_profile(
    "repeatable", hypothesis.settings.get_profile("random"), derandomize=True
)
hypothesis.settings.load_profile("repeatable")
hypothesis.configuration.set_hypothesis_home_dir(
    os.path.join(ROOT, ".pytest_cache", "hypothesis")
)


def pytest_make_parametrize_id(val, argname):
    """Name bytes by their argument: gzip writes the time, and names must not change.

    pytest-xdist refuses tests whose names differ between its processes.
    """
    return argname if isinstance(val, bytes) else None


def pytest_collection_finish(session):
    """Collect garbage less often; without slow tests, build smaller graphs.

    Modules and tests are never garbage, and graphs have many objects: to look through
    all of them took 8 % of the time of tests that train. Most of the rest goes into
    building graphs that then run a few times. So TensorFlow does not rewrite these, and
    no batch is cut into micro-batches. Slow tests compare with processes that do both.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20000, 20, 20)
    if not any(item.get_closest_marker("slow") for item in session.items):
        create_config = tf.ConfigProto

        def create_plain_config(**fields):
            config = create_config(**fields)
            config.graph_options.rewrite_options.disable_meta_optimizer = True
            return config

        tf.ConfigProto = create_plain_config
        trainer.MICRO_BATCHES = 1


def pytest_collection_modifyitems(config, items):
    """Coverage is that of the quick tests: counting takes a third of the time."""
    if config.pluginmanager.hasplugin("pytest_cov"):
        for item in items:
            if item.get_closest_marker("slow"):
                item.add_marker("no_cover")


@pytest.fixture(autouse=True)
def no_coverage_of_subprocesses():
    """Do not count the coverage of processes that tests start."""
    for name in ("COV_CORE_SOURCE", "COV_CORE_CONFIG", "COV_CORE_DATAFILE"):
        os.environ.pop(name, None)


@pytest.fixture(autouse=True)
def reset_determinism():
    """Switch off determinism, which holds for a process, after each test."""
    yield
    if getattr(tf_config, "is_op_determinism_enabled", bool)():
        tf_config.disable_op_determinism()


@pytest.fixture(autouse=True)
def graph():
    """An empty graph, which is the default graph of the test."""
    with tf.Graph().as_default() as empty:
        yield empty


def random_values(variables, seed):
    """name -> float64 array of values that a float32 variable holds exactly.

    Random, because at their first values (a bias of 0, a gamma of 1) a bias that is
    never added and a gamma that never multiplies cannot be seen.
    """
    rng, values = np.random.RandomState(seed), {}
    for variable in sorted(variables, key=lambda v: v.op.name):
        name, shape = variable.op.name, variable.shape.as_list()
        value = rng.randn(*shape) * (0.3 if len(shape) == 1 else shape[-2] ** -0.5)
        value += 1 if name.endswith(("gamma", "/Variable_1")) else 0
        values[name] = value.astype(np.float32).astype(np.float64)
    return values


def initialize(session, values, variables=None):
    """Give variables, by default all that are trained, their values: name → array."""
    variables = tf.trainable_variables() if variables is None else variables
    session.run(
        [variable.initializer for variable in variables],
        {variable.initial_value: values[variable.op.name] for variable in variables},
    )


@pytest.fixture(scope="session")
def open_session():
    """open_session(graph) → (a session with random variables, their values).

    A session ends with the last reference to it, and its graph with it.
    """

    def open_session(graph, seed=0):
        with graph.as_default():
            session = tf.Session(config=CONFIG)
            values = random_values(tf.trainable_variables(), seed)
            session.run(
                [tf.global_variables_initializer(), tf.local_variables_initializer()]
            )
            initialize(session, values)
        return session, values

    return open_session


@pytest.fixture
def start(graph, open_session):
    """start() → (session, values) of the graph of this test; see `open_session`."""
    return lambda seed=0: open_session(graph, seed)


@pytest.fixture(scope="session")
def digits(tmp_path_factory):
    """A data folder whose targets are the reversed sources; do not write."""
    import corpora  # not above: it imports the repository

    splits = corpora.reversed_symbols({"train": 2000, "dev": 20, "test": 20})
    return corpora.prepare_corpus(tmp_path_factory.mktemp("digits"), splits)


@pytest.fixture(scope="session")
def lines(digits):
    """The sources of its test split."""
    import corpora

    return corpora.read_lines(os.path.join(digits, "test.de"))


@pytest.fixture(scope="session")
def trained(digits, tmp_path_factory):
    """The log directory of a model that learned some of `digits`; do not write."""
    import corpora

    logdir = str(tmp_path_factory.mktemp("logs") / "trained")
    with one_thread():
        corpora.run_train(digits, logdir, *corpora.SMALL)
    return logdir


@pytest.fixture(scope="module")
def model(trained):
    """The model of `trained`, as the page inspects it."""
    from transformer import hparams
    from transformer.viewer.models import Model

    model = Model(hparams.load(trained), trained)
    yield model
    model.close()


@pytest.fixture(scope="module")
def browser():
    """A browser, whose tab each test opens again."""
    from browser import Browser

    with Browser() as browser:
        yield browser


@pytest.fixture(scope="session")
def whole(digits, tmp_path_factory):
    """The log directory of a run that was not interrupted; do not write."""
    import corpora

    if has_gpu():
        pytest.skip("a GPU adds up in another order in each run: see --deterministic")
    logdir = str(tmp_path_factory.mktemp("logs") / "whole")
    with one_thread():
        corpora.run_train(digits, logdir, *corpora.HARD)
    return logdir


@pytest.fixture
def limit_file_size():
    """limit_file_size(n): no file may exceed n bytes; without n: no limit again."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size=soft: resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextlib.contextmanager
def one_thread():
    """Give sessions that are opened in the body CONFIG.

    With more threads, TensorFlow 1.15 adds up in an order that changes from run to run.
    """
    import transformer.workers.exchange  # noqa: F401 (before tf.Session is no class)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tf, "Session", functools.partial(tf.Session, config=CONFIG))
        patched.setattr(tf, "ConfigProto", lambda **_: copy.deepcopy(CONFIG))
        yield


@pytest.fixture(scope="module")
def one_thread_only():
    """All sessions of a test file use one thread."""
    with one_thread():
        yield
