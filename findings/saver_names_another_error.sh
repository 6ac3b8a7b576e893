#!/usr/bin/env bash
# TensorFlow 2.21.0: if the folder of a checkpoint vanishes, `Saver.save` raises a ValueError.
# Guessed: a `tf.errors.NotFoundError`, as `save` documents a ValueError for wrong arguments only, and
# as its own operation SaveV2 raises for the same folder. Seen: `save` replaces it by a ValueError, so a
# program that expects errors of the disk as `tf.errors.OpError` or OSError ends.
# Met by: whoever moves a log directory while a training run saves. (A full disk gives an OpError.)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet tensorflow-cpu==2.21.0

TF_CPP_MIN_LOG_LEVEL=3 env/bin/python - 2> /dev/null <<'PYTHON'
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
x = tf.get_variable("x", [3])
saver = tf.train.Saver()
operation = tf.raw_ops.SaveV2(
    prefix="vanished/run/a", tensor_names=["x"], shape_and_slices=[""], tensors=[x]
)
errors = {}
with tf.Session() as session:
    session.run(x.initializer)
    for name, save in (
        ("SaveV2", lambda: session.run(operation)),
        ("Saver.save", lambda: saver.save(session, "vanished/run/a")),
    ):
        try:
            save()
        except Exception as error:
            errors[name] = type(error)
            print(name, "raises", type(error).__name__)
assert not issubclass(errors["Saver.save"], (tf.errors.OpError, OSError))
assert issubclass(errors["Saver.save"], ValueError)
PYTHON
