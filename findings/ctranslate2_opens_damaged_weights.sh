#!/usr/bin/env bash
# CTranslate2 4.8.5: a model file whose weights were overwritten opens like any other, and translates.
# Guessed: a damaged model.bin is refused when it is opened, as a truncated one is.
# Seen: with 4 KiB of zeros in place of weights, no error and no warning; the translations are others.
# The format has no checksum.
# Met by: whoever serves a model from a disk, or from a download, that lost a block.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet ctranslate2==4.8.5 numpy==2.3.5

env/bin/python - <<'PYTHON'
import os

import ctranslate2
import numpy as np
from ctranslate2.specs import TransformerSpec

PIECES = ["<unk>", "<s>", "</s>"] + [f"w{i}" for i in range(50)]
WIDTH, HEADS = 32, 2
random = np.random.default_rng(0)


def draw(*shape):
    return random.normal(0, 0.3, shape).astype("float32")


def fill_linear(layer, inputs, outputs):
    layer.weight = draw(outputs, inputs)
    layer.bias = np.zeros(outputs, "float32")


def fill_norm(layer):
    layer.gamma = np.ones(WIDTH, "float32")
    layer.beta = np.zeros(WIDTH, "float32")


def fill_attention(layer, widths):
    fill_norm(layer.layer_norm)
    for linear, width in zip(layer.linear, widths):
        fill_linear(linear, WIDTH, width)


spec = TransformerSpec.from_config((1, 1), HEADS)
for stack in (spec.encoder, spec.decoder):
    tables = stack.embeddings
    (tables[0] if isinstance(tables, list) else tables).weight = draw(len(PIECES), WIDTH)
    stack.position_encodings.encodings = draw(100, WIDTH)
    fill_norm(stack.layer_norm)
    for layer in stack.layer:
        fill_attention(layer.self_attention, (3 * WIDTH, WIDTH))
        fill_norm(layer.ffn.layer_norm)
        fill_linear(layer.ffn.linear_0, WIDTH, 64)
        fill_linear(layer.ffn.linear_1, 64, WIDTH)
fill_attention(spec.decoder.layer[0].attention, (WIDTH, 2 * WIDTH, WIDTH))
fill_linear(spec.decoder.projection, WIDTH, len(PIECES))
weights = spec.decoder.projection.weight.tobytes()[:4096]
spec.register_source_vocabulary(PIECES)
spec.register_target_vocabulary(PIECES)
spec.validate()
spec.optimize()
os.makedirs("model")
spec.save("model")


def translate():
    translator = ctranslate2.Translator("model", inter_threads=1, intra_threads=1)
    lines = [[f"w{i}", f"w{i + 1}", f"w{i + 2}"] for i in range(30)]
    results = translator.translate_batch(lines, beam_size=1, max_decoding_length=9)
    return [result.hypotheses[0] for result in results]


before = translate()
assert translate() == before
with open("model/model.bin", "r+b") as file:
    content = file.read()
    file.seek(content.index(weights))
    file.write(bytes(len(weights)))
after = translate()
different = sum(a != b for a, b in zip(after, before))
print(f"with {len(weights)} bytes of zeros, {different} of {len(before)} lines differ")
assert different
PYTHON
