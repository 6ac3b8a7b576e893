#!/usr/bin/env bash
# CTranslate2 4.8.5: the score of a translation with a target_prefix leaves out the probability of
# the prefix, but is divided by a length that includes it; max_decoding_length cuts the prefix, too.
# Guessed: the score is the mean log-probability of all pieces, and a prefix is always kept.
# Seen: (log-probabilities of the pieces after the prefix) / (all pieces); with
# max_decoding_length=1, the second piece of the prefix is missing.
# Met by: whoever ranks completions of a translator's first words, or suggests the rest of a line.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet ctranslate2==4.8.5 numpy==2.3.5

cat > model.py <<'PYTHON'
"""Write a small Transformer with random weights to the folder "model"."""

import os

import numpy as np
from ctranslate2.specs import TransformerSpec

PIECES = ["<unk>", "<s>", "</s>"] + [f"w{i}" for i in range(50)]
WIDTH, HEADS = 32, 2


def write(seed=0):
    random = np.random.default_rng(seed)

    def draw(*shape):
        return random.normal(0, 0.3, shape).astype("float32")

    def linear(layer, inputs, outputs):
        layer.weight = draw(outputs, inputs)
        layer.bias = np.zeros(outputs, "float32")

    def norm(layer):
        layer.gamma = np.ones(WIDTH, "float32")
        layer.beta = np.zeros(WIDTH, "float32")

    def attention(layer, widths):
        norm(layer.layer_norm)
        for one, width in zip(layer.linear, widths):
            linear(one, WIDTH, width)

    def feedforward(layer):
        norm(layer.layer_norm)
        linear(layer.linear_0, WIDTH, 64)
        linear(layer.linear_1, 64, WIDTH)

    spec = TransformerSpec.from_config((1, 1), HEADS)
    for stack in (spec.encoder, spec.decoder):
        tables = stack.embeddings
        (tables[0] if isinstance(tables, list) else tables).weight = draw(len(PIECES), WIDTH)
        stack.position_encodings.encodings = draw(100, WIDTH)
        norm(stack.layer_norm)
        for layer in stack.layer:
            attention(layer.self_attention, (3 * WIDTH, WIDTH))
            feedforward(layer.ffn)
    attention(spec.decoder.layer[0].attention, (WIDTH, 2 * WIDTH, WIDTH))
    linear(spec.decoder.projection, WIDTH, len(PIECES))
    spec.register_source_vocabulary(PIECES)
    spec.register_target_vocabulary(PIECES)
    spec.validate()
    spec.optimize()
    os.makedirs("model")
    spec.save("model")


if __name__ == "__main__":
    write()
PYTHON
env/bin/python model.py
env/bin/python - <<'PYTHON'
import ctranslate2

translator = ctranslate2.Translator("model", inter_threads=1, intra_threads=1)
SOURCE, PREFIX = ["w3", "w4", "w5"], ["w0", "w6"]


def complete(length):
    [result] = translator.translate_batch(
        [SOURCE],
        target_prefix=[PREFIX],
        beam_size=1,
        return_scores=True,
        max_decoding_length=length,
        min_decoding_length=0,
    )
    return result.hypotheses[0], result.scores[0]


pieces, score = complete(6)
[scored] = translator.score_batch([SOURCE], [pieces])
assert pieces[:2] == PREFIX
length = len(pieces) + (len(pieces) < 6)  # with the end, unless it was cut
log_probs = scored.log_probs[:length]
print(f"{pieces}: score {score:.3f}")
print(f"mean of all {length} log-probabilities: {sum(log_probs) / length:.3f}")
print(f"those after the prefix, divided by {length}: {sum(log_probs[2:]) / length:.3f}")
assert abs(score - sum(log_probs[2:]) / length) < 0.001
assert abs(score - sum(log_probs) / length) > 0.1
pieces, _ = complete(1)
print("max_decoding_length=1:", pieces)
assert pieces == PREFIX[:1]
PYTHON
