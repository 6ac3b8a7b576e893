"""Mixed precision: which graph rewriting of TensorFlow computes in which precision."""

import os
import re

import tensorflow.compat.v1 as tf

from transformer.runtime.devices import has_gpu

PRECISIONS = ("float32", "bfloat16", "float16")

# (precision, device) → the option of TensorFlow that rewrites a graph. Matrix products
# and the operations between them, softmax too, are then computed in the lower
# precision; variables, updates, normalization and the sums of losses stay float32.
REWRITINGS = {
    ("bfloat16", "CPU"): "auto_mixed_precision_onednn_bfloat16",
    ("float16", "GPU"): "auto_mixed_precision",
}


def rewriting_to(precision: str) -> str:
    """Return the option of TensorFlow that rewrites a graph to a lower precision.

    Args:
      precision: one of `PRECISIONS`, but not float32.

    Raises:
      ValueError: this TensorFlow, or this machine, has no such rewriting.
    """
    device = "GPU" if has_gpu() else "CPU"
    name = REWRITINGS.get((precision, device))
    if not hasattr(tf.ConfigProto().graph_options.rewrite_options, str(name)):
        lacking = f"TensorFlow {tf.__version__} cannot train in {precision}"
    elif device == "CPU" and _cpu_lacks("avx512f"):
        lacking = "TensorFlow computes in float32 without AVX-512, which is missing"
    elif device == "CPU" and os.environ.get("TF_ENABLE_ONEDNN_OPTS") == "0":
        lacking = "TF_ENABLE_ONEDNN_OPTS is 0, and only oneDNN has it"
    else:
        return name
    raise ValueError(
        f"precision: found {precision}, wanted float32: {lacking} on this {device}"
    )


def _cpu_lacks(flag: str) -> bool:
    """Return whether Linux reports an x86 processor without such instructions."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            flags = set(re.findall(r"\w+", file.read()))
    except OSError:
        return False
    return "sse2" in flags and flag not in flags
