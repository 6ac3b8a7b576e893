#!/usr/bin/env bash
# TensorFlow 2.21.0: tf.data.TextLineDataset and tf.io.gfile remove each carriage return, also in
# the middle of a line, and join the words around it.
# Guessed: a CR is removed before LF only. Seen: b"one\rtwo" is read as b"onetwo".
# Met by: whoever reads text with old line ends, or with cells of a spreadsheet, into a pipeline.
# (tf.io.read_file keeps the bytes.)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet tensorflow-cpu==2.21.0

TF_CPP_MIN_LOG_LEVEL=3 env/bin/python - 2> /dev/null <<'PYTHON'
import tensorflow as tf

with open("lines.txt", "wb") as file:
    file.write(b"one\rtwo\r\nthree\nfour\r\r\n")
lines = list(tf.data.TextLineDataset("lines.txt").as_numpy_iterator())
print("TextLineDataset:", lines)
assert lines == [b"onetwo", b"three", b"four"], lines
with tf.io.gfile.GFile("lines.txt") as file:
    lines = file.readlines()
print("gfile:", lines)
assert lines == ["onetwo\n", "three\n", "four\n"], lines
PYTHON
