"""Worker for this project: training, decoding, and only reading batches."""

import dataclasses
import functools
import itertools
import time

import several
import tensorflow.compat.v1 as tf
import work
from worker import Measure, serve

from transformer import hparams
from transformer.trainer import TrainingData, TrainingGraph
from transformer.training import run_update
from transformer.translator import Translator
from transformer.workers.cluster import Cluster


def training_settings(spec: dict) -> hparams.HParams:
    """Return the settings that a user would choose to train a model of this size."""
    return hparams.HParams(
        data=spec["data"],
        dialect="tensor2tensor",
        seed=work.SEED,
        dropout_rate=work.DROPOUT,
        label_smoothing=work.LABEL_SMOOTHING,
        schedule="constant",
        learning_rate=work.LEARNING_RATE,
        source_vocab_size=spec["vocab_size"],
        target_vocab_size=spec["vocab_size"],
        precision=spec["precision"],
        **spec["sizes"],
    )


def open_training(spec: dict) -> Measure:
    """Return a function that measures training."""
    hp = training_settings(spec)
    graph = TrainingGraph(hp, TrainingData(hp), start=0)
    session = graph.make_session()
    session.run(graph.initialize)

    def measure(request):
        tokens, start = 0, time.perf_counter()
        for _ in range(request["steps"]):
            _, metrics = session.run([graph.update.apply, graph.update.metrics])
            tokens += int(metrics.tokens)
        return {"tokens": tokens, "seconds": time.perf_counter() - start}

    return measure


def open_several(spec: dict) -> Measure:
    """Return a function that measures training in several processes.

    A request is {"steps": n} for updates, or {"exchanges": n} for only the sums over
    the processes that updates need.
    """
    several.take_device(spec)
    addresses = spec["addresses"]
    cluster = Cluster(addresses, spec["index"]) if len(addresses) > 1 else None
    hp = training_settings(spec)
    graph = TrainingGraph(hp, TrainingData(hp), 0, cluster)
    exchange = tf.no_op()
    if cluster:
        zeros = [tf.zeros(variable.shape) for variable in tf.trainable_variables()]
        exchange = tf.group(graph.exchange.all_reduce(zeros))
    session = graph.make_session()
    session.run(graph.initialize)

    def measure(request):
        tokens, start = 0, time.perf_counter()
        for _ in range(request.get("exchanges", 0)):
            session.run(exchange)
        for _ in range(request.get("steps", 0)):
            tokens += int(run_update(session, graph.update).metrics.tokens)
        seconds = time.perf_counter() - start
        return {
            "tokens": tokens,
            "seconds": seconds,
            "parameters": graph.num_parameters,
        }

    return measure


def open_decoding(spec: dict) -> Measure:
    """Return a function that measures translation."""
    hp = hparams.load(spec["logdir"])
    hp = dataclasses.replace(
        hp,
        search=spec["search"],
        beam_size=spec["beam_size"],
        length_penalty=0.0,
        decode_precision=spec["precision"],
    )

    @functools.lru_cache(None)
    def open_translator(batch):
        translator = Translator.for_settings(
            dataclasses.replace(hp, decode_batch_size=batch), spec["logdir"]
        )
        translator.find_and_restore()
        return translator

    def translate(lines, batch):
        return [best.text for best, *_ in open_translator(batch).translate(lines)]

    return work.measure_decoding(translate, work.test_lines(spec["data"])[0])


def process_memory() -> float:
    """Return the memory of this process in MiB, without mapped files."""
    with open("/proc/self/status") as file:
        fields = dict(line.split(":", 1) for line in file)
    return int(fields["RssAnon"].split()[0]) / 1024


def open_input(spec: dict) -> Measure:
    """Return a function that measures the memory for a corpus and 200 batches."""

    def measure(request):
        before, source = process_memory(), work.batches(spec)
        for _ in itertools.islice(source, 200):
            pass
        return {"memory": process_memory() - before}

    return measure


if __name__ == "__main__":
    tf.disable_eager_execution()
    tf.logging.set_verbosity(tf.logging.ERROR)
    serve(
        {
            "train": open_training,
            "several": open_several,
            "decode": open_decoding,
            "input": open_input,
        }
    )
