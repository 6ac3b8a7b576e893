"""The limits of the machine: matrix products in TensorFlow, and memory copies."""

import threading
import time
from typing import Any, Callable, Tuple

import numpy as np
import tensorflow.compat.v1 as tf
from worker import Measure, serve

PRODUCTS = 8  # in one run, so that the cost of starting it is negligible
COPY_BYTES = 2**28  # bytes, far more than any cache


def repeat(run: Callable[[], Any], seconds: float) -> float:
    """Return the mean duration of a run, measured over `seconds` seconds."""
    run()
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        run()
        count += 1
    return (time.perf_counter() - start) / count


def matrix_rate(
    shape: Tuple[int, int, int], precision: str, intra: int, inter: int, seconds: float
) -> float:
    """Return the GFLOP/s of products [rows, in] x [in, out].

    Args:
      shape: (rows, in, out).
      precision: "float32" or "bfloat16".
      intra: threads within a product.
      inter: products at the same time.
      seconds: how long to measure.
    """
    rows, width, out = shape
    config = tf.ConfigProto(
        intra_op_parallelism_threads=intra, inter_op_parallelism_threads=inter
    )
    with tf.Graph().as_default(), tf.Session(config=config) as session:

        def variable(*shape):
            return tf.Variable(tf.cast(tf.random_normal(shape), precision))

        left = variable(rows, width)
        products = [tf.matmul(left, variable(width, out)) for _ in range(PRODUCTS)]
        # One element of each product, so that each is computed and none is copied.
        elements = [tf.cast(product[0, 0], tf.float32) for product in products]
        session.run(tf.global_variables_initializer())
        duration = repeat(session.make_callable(elements), seconds)
    return PRODUCTS * 2 * rows * width * out / duration / 1e9


def copy_rate(threads: int, seconds: float) -> float:
    """Return the rate, in GB/s, at which `threads` threads copy memory."""
    pairs = [
        (np.ones(COPY_BYTES, np.uint8), np.ones(COPY_BYTES, np.uint8))
        for _ in range(threads)
    ]

    def run():
        copies = [threading.Thread(target=np.copyto, args=pair) for pair in pairs]
        for thread in copies:
            thread.start()
        for thread in copies:
            thread.join()

    return threads * COPY_BYTES / repeat(run, seconds) / 1e9


def open_copies(spec: dict) -> Measure:
    """Return a function that measures memory copies."""
    return lambda request: {"rate": copy_rate(spec["threads"], request["seconds"])}


def open_products(spec: dict) -> Measure:
    """Return a function that measures matrix products with the best use of threads."""
    threads = spec["threads"]
    thread_counts = {(threads, 1), (1, threads), (threads, threads)}
    if spec["device"] == "gpu":
        thread_counts = {(threads, 1)}  # the threads of the host compute nothing

    def measure(request):
        return {
            "rate": max(
                matrix_rate(
                    request["shape"],
                    request["precision"],
                    intra,
                    inter,
                    request["seconds"],
                )
                for intra, inter in thread_counts
            )
        }

    return measure


if __name__ == "__main__":
    tf.disable_eager_execution()
    serve({"copy": open_copies, "product": open_products})
