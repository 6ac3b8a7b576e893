"""The model in the page: JavaScript computes what TensorFlow computes."""

import base64
import contextlib
import dataclasses
import gzip
import json
import os
import random
import re
import shutil

import corpora
import numpy as np
import pytest
import sentencepiece
from javascript import needs_node, run_node
from slow import slow_except

from transformer import hparams
from transformer.exports import weights
from transformer.logdir import checkpoints, manifests
from transformer.model import variable_shapes
from transformer.runtime.errors import EngineError
from transformer.text.vocabulary import (
    copy_vocabularies,
    load_vocabularies,
    train_vocabulary,
)
from transformer.translator import Translator
from transformer.viewer import page_files
from transformer.viewer.inspection import inspect_line, list_choices, to_json

pytestmark = pytest.mark.usefixtures("one_thread_only")

MAKE_ENGINE = """
const decode = (text) => Uint8Array.from(Buffer.from(text, "base64"));
const kernels = chooseKernels(decode(input.kernels));
const engine = new Engine(decode(input.weights), kernels);
"""
# Sides that are not multiples of what the kernels take at once.
ODD = {
    "num_encoder_blocks": 1,
    "num_decoder_blocks": 2,
    "d_model": 20,
    "d_ff": 36,
    "num_heads": 2,
    "beam_size": 3,
}


def encode_base64(content):
    return base64.b64encode(content).decode("ascii")


def read_kernels():
    return encode_base64(page_files.read_bytes(page_files.KERNELS))


def make_logdir(data, logdir, **settings):
    """Write a log directory whose model has random variables, biases too."""
    copied = hparams.read(data) if hparams.has_settings(data) else {}
    logdir = str(logdir)
    os.makedirs(logdir)
    copy_vocabularies(str(data), logdir)
    if not settings.get("joint_vocab", True):
        for name in ("spm.source.model", "spm.target.model"):
            shutil.copy(os.path.join(logdir, "spm.model"), os.path.join(logdir, name))
        os.remove(os.path.join(logdir, "spm.model"))
    vocabularies = load_vocabularies(logdir)
    hp = hparams.HParams(
        **{
            **copied,
            **ODD,
            "max_extra_length": 4,
            "source_vocab_size": vocabularies.source.size,
            "target_vocab_size": vocabularies.target.size,
            **settings,
        }
    )
    hparams.save(hp, logdir)
    random_source = np.random.RandomState(1)
    arrays = {
        name: random_source.normal(
            name.endswith("gamma"),
            1 / shape[-1] ** 0.5 if len(shape) > 1 else 0.3,
            shape,
        ).astype(np.float32)
        for name, shape in variable_shapes(hp).items()
    }
    checkpoints.save_arrays(arrays, logdir, 1)
    return logdir


@contextlib.contextmanager
def open_translator(logdir, changes=None):
    hp = hparams.load(logdir, changes)
    with Translator.for_settings(hp, logdir, hp.num_hypotheses, True) as translator:
        translator.find_and_restore()
        yield translator


def export(logdir, kind="float32", changes=None):
    [checkpoint, *_] = manifests.list_candidates(logdir)
    return weights.export_weights(hparams.load(logdir, changes), checkpoint, kind)


def search(translator, lines):
    """Return the (ids, score) of the n best translations of each line, each alone."""
    target = translator.vocabularies.target
    n_bests = []
    for source in translator.encode(lines):
        [(_, hypotheses)] = translator.search([source])
        ids = map(target.strip_special, hypotheses.ids[0])
        n_bests.append(list(zip(ids, hypotheses.scores[0])))
    return n_bests


SEARCH = (
    MAKE_ENGINE
    + "return input.lines.map((line) => engine.search(engine.encode(line), []).nBest)"
)


def assert_same_search(translator, exported, lines, kernels):
    """Compare ids, and scores, with those of JavaScript."""
    data = {"weights": encode_base64(exported), "kernels": kernels, "lines": lines}
    for actual, expected in zip(run_node(SEARCH, data), search(translator, lines)):
        ids, scores = zip(*expected)
        assert [best["ids"] for best in actual] == list(ids)
        np.testing.assert_allclose(
            [best["score"] for best in actual], scores, atol=1e-4
        )


# The tokenizer

OPTIONS = [
    {"model_type": "bpe"},
    {"model_type": "unigram"},
    {"model_type": "bpe", "byte_fallback": True},
    {"model_type": "unigram", "normalization_rule_name": "nfkc_cf"},
    {"model_type": "bpe", "split_by_whitespace": False},
]
CHARACTERS = [chr(i) for i in range(0x30000) if not 0xD800 <= i < 0xE000]


def train_sentencepiece(folder, lines, **options):
    """Train a model; return its path."""
    text, model = str(folder / "text.de"), str(folder / "other.model")
    corpora.write_lines(text, lines)
    train_vocabulary([text], model, 500, **options)
    return model


@needs_node
@pytest.mark.parametrize("options", OPTIONS, ids=json.dumps)
def test_the_tokenizer_equals_the_library(options, tmp_path):
    draw = random.Random(1)
    sample = corpora.read_lines(os.path.join(corpora.ROOT, "data/sample/train.de"))
    path = train_sentencepiece(tmp_path, sample[:500], **options)
    library = sentencepiece.SentencePieceProcessor(model_file=path)
    lines = ["", " ", "\u2581", " \u2581 a\u2581 \u2581", "Ein  Hund. ", "x" * 300]
    lines += sample[500:700]
    for _ in range(400):
        parts = [
            draw.choice(CHARACTERS),
            draw.choice(" abcß "),
            draw.choice(sample)[:20],
        ]
        lines.append("".join(draw.choice(parts) for _ in range(draw.randrange(9))))
    ids = [
        [draw.choice([1, draw.randrange(4, 500)]) for _ in range(draw.randrange(9))]
        for _ in range(400)
    ]
    lines_of_characters = ["".join(CHARACTERS[i::1000]) for i in range(1000)]
    actual = run_node(
        "const v = new Vocabulary(Uint8Array.from(Buffer.from(input.model, 'base64')));"
        "return [input.lines.map((line) => v.encode(line)),"
        " input.ids.map((ids) => v.decode(ids)),"
        " input.characters.map((line) => v.normalize(line))];",
        {
            "model": encode_base64(page_files.read_bytes(path)),
            "lines": lines,
            "ids": ids,
            "characters": lines_of_characters,
        },
    )
    assert actual[0] == library.encode(lines)
    assert actual[1] == [library.decode(row) for row in ids]
    assert actual[2] == [library.normalize(line) for line in lines_of_characters]


# The weights


def test_safetensors_are_those_of_the_package(digits, tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy", reason="no safetensors")
    logdir = make_logdir(digits, tmp_path / "logs")
    variables = corpora.read_variables(manifests.list_candidates(logdir)[0])
    tolerances = {"float32": 0, "float16": 1e-3, "int8": 1 / 250}
    for kind, tolerance in tolerances.items():
        tensors = safetensors.load(export(logdir, kind))
        assert bytes(tensors.pop("spm.model")) == page_files.read_bytes(
            os.path.join(logdir, "spm.model")
        )
        for name, variable in variables.items():
            tensor = tensors.pop(name).astype(np.float32)
            if name + weights.SCALE in tensors:
                tensor *= tensors.pop(name + weights.SCALE)[:, None]
            if name.endswith("kernel"):
                tensor = tensor.T
            error = np.abs(tensor - variable).max()
            assert error <= tolerance * np.abs(variable).max(), name
        assert not tensors


def test_what_the_page_cannot_compute_is_refused_by_name(digits, tmp_path):
    logdir = make_logdir(digits, tmp_path / "logs")
    hp = dataclasses.replace(
        hparams.load(logdir), max_relative_position=4, search="sample", min_length=2
    )
    names = "max_relative_position, the search sample, min_length$"
    with pytest.raises(EngineError, match=names):
        weights.export_weights(hp, manifests.list_candidates(logdir)[0])
    options = {"model_type": "char", "hard_vocab_limit": False}
    other = train_sentencepiece(tmp_path, ["a b c"], **options)
    shutil.copy(other, os.path.join(logdir, "spm.model"))
    with pytest.raises(EngineError, match="a SentencePiece model of type char$"):
        weights.refuse_unsupported(hparams.load(logdir), load_vocabularies(logdir))


def test_each_setting_is_computed_or_refused():
    """A new setting belongs to one of these."""
    refused = {
        "max_relative_position": 1,
        "proximity_bias": True,
        "d_k": 32,
        "d_v": 32,
        "pad_sources_to": 1,
        "min_length": 1,
        "no_repeat_ngram": 1,
        "repetition_penalty": 2.0,
        "keep_open": True,
    }
    for name, value in refused.items():
        hp = dataclasses.replace(hparams.HParams(), **{name: value})
        assert weights.list_unsupported(hp) == [name]
    computed = {*weights.SETTINGS, "dialect", "positions", "beam_size"}
    computed |= {"num_blocks", "num_encoder_blocks", "num_decoder_blocks", "d_ff"}
    computed |= {"joint_vocab", "source_vocab_size", "target_vocab_size"}
    of_sampling = {*hparams.SAMPLING, "seed"}
    of_batches = {"decode_batch_size", "decode_precision", "deterministic"}
    settings = {*hparams.MODEL_DEFAULTS, *hparams.DECODING}
    assert settings - computed - of_sampling - of_batches == set(refused)


# The model and the search


@needs_node
@pytest.mark.parametrize(
    "dialect", slow_except(("kyubyong_legacy", "tensor2tensor"), weights.DIALECTS)
)
def test_ids_and_scores_of_each_dialect_are_those_of_tensorflow(
    dialect, digits, lines, tmp_path
):
    positions = {"kyubyong_legacy": "per_channel", "tensor2tensor_v1": "interleaved"}
    logdir = make_logdir(
        digits,
        tmp_path / "logs",
        dialect=dialect,
        positions=positions.get(dialect, ""),
        joint_vocab=dialect in ("paper", "kyubyong"),
    )
    with open_translator(logdir) as translator:
        assert_same_search(translator, export(logdir), lines[:8], read_kernels())


@needs_node
@pytest.mark.parametrize("name", ["beam", "greedy"])
def test_a_trained_model_translates_the_same(trained, lines, name):
    changes = {"search": name}
    if name == "beam":
        changes["length_penalty_form"] = "power"
    with open_translator(trained, changes) as translator:
        for kernels in [read_kernels(), ""]:  # in WebAssembly, and in JavaScript
            exported = export(trained, changes=changes)
            assert_same_search(translator, exported, lines, kernels)


@needs_node
@pytest.mark.parametrize("name", ["beam", "greedy"])
def test_an_inspection_has_the_numbers_of_tensorflow(trained, lines, name):
    changes = {"search": name}
    line, *_ = lines
    requests = [
        {"text": line, "prefix": [], "target": None},
        {"text": "7\u200e Q 3", "prefix": [], "target": [5, 6, 7]},
        {"text": line, "prefix": [6, 7], "target": None},
    ]
    data = {
        "weights": encode_base64(export(trained, changes=changes)),
        "kernels": read_kernels(),
        "requests": requests,
    }
    program = (
        MAKE_ENGINE
        + """const results = [];
        const plain = (x) => ({ ...x, data: [...x.data].map((step) => step / 65535) });
        const flat = (layers) => layers.flatMap((weights) => [...weights]);
        return (async () => {
            for (const request of input.requests) {
                const result = engine.inspect(request);
                const target = result.target.ids.slice(0, -1);
                result.without = await engine.leaveOutWords({ ...request, target });
                const attention = mapValues(result.attention, plain);
                const forced = engine.force(engine.encode(request.text), target);
                const floats = mapValues(forced.attention, flat);
                results.push({ ...result, attention, floats });
            }
            return results;
        })();"""
    )
    actual = run_node(program, data)
    with open_translator(trained, changes) as translator:
        for request, result in zip(requests, actual):
            inspection = inspect_line(
                translator, request["text"], request["prefix"], request["target"]
            )
            expected = json.loads(json.dumps(to_json(inspection)))
            attention = result.pop("attention")
            floats = result.pop("floats")
            expected.pop("attention")
            for kind, values in inspection.attention.items():
                assert attention[kind]["shape"] == list(values.shape)
                values = values.ravel()
                np.testing.assert_allclose(floats[kind], values, atol=1e-5)
                # Sent in steps of 1 / 65,535: half a step is lost.
                error = np.abs(attention[kind]["data"] - values).max()
                assert error <= 1e-5 + 0.5 / 65535
            assert_close(result, expected)


@needs_node
def test_the_choices_of_a_word_are_those_of_tensorflow(trained, lines):
    with open_translator(trained) as translator:
        target = translator.vocabularies.target.encode("3 1212 7")
        expected = [
            [
                {"word": word, "probability": p, "ids": ids, "isEnd": is_end}
                for word, p, ids, is_end in list_choices(
                    translator, lines[0], target, index
                )
            ]
            for index in range(3)
        ]
    data = {
        "weights": encode_base64(export(trained)),
        "kernels": read_kernels(),
        "request": {"text": lines[0], "target": target},
    }
    program = (
        "return [0, 1, 2].map((word) => engine.listWords({...input.request, word}));"
    )
    assert_close(run_node(MAKE_ENGINE + program, data), expected)


@needs_node
def test_no_sentence_is_searched_twice_and_an_empty_one_not_at_all(trained, lines):
    data = {
        "weights": encode_base64(export(trained)),
        "kernels": read_kernels(),
        "lines": [*lines[:2], "\u200e"],
    }
    body = """let searches = 0;
        engine.model.startSearch = function (memory) {
            searches += 1;
            return Transformer.prototype.startSearch.call(this, memory);
        };
        const texts = input.lines.map((text) => engine.translate({ text })[0].text);
        engine.inspect({ text: input.lines[0], prefix: [], target: null });
        return [texts, searches];"""
    texts, searches = run_node(MAKE_ENGINE + body, data)
    with open_translator(trained) as translator:
        expected = [best.text for best, *_ in translator.translate(data["lines"])]
    assert texts == expected and texts[2] == ""
    assert searches == 2


@needs_node
def test_the_engine_does_not_keep_the_file(trained):
    """A view of one vector would keep all of it in memory."""
    data = {"weights": encode_base64(export(trained)), "kernels": read_kernels()}
    body = """const file = new Uint8Array(decode(input.weights));
        const seen = new Set();
        const keeps = (value) => {
            if (typeof value !== "object" || value === null || seen.has(value)) {
                return false;
            }
            seen.add(value);
            if (ArrayBuffer.isView(value)) return value.buffer === file.buffer;
            const items = value instanceof Map ? [...value.values()] : [];
            return [...items, ...Object.values(value)].some(keeps);
        };
        return [keeps([file]), keeps(new Engine(file, kernels)), seen.size];"""
    is_found, is_kept, count = run_node(MAKE_ENGINE + body, data)
    assert is_found and not is_kept and count > 50


@needs_node
def test_computations_use_the_same_memory_again_even_at_the_same_time(trained, lines):
    data = {
        "weights": encode_base64(export(trained)),
        "kernels": read_kernels(),
        "lines": lines[:2],
    }
    body = """const pause = () => new Promise((resolve) => { setImmediate(resolve); });
        const [first, second] = input.lines.map((text) => {
            const target = engine.search(engine.encode(text), []).nBest[0].ids;
            return { text, target };
        });
        const { arena } = engine;
        const calls = [
            () => engine.leaveOutWords(first, pause),
            () => ablateEach(engine, second, pause),
            () => ablateEach(engine, first, pause),
            () => arena.scope(() => engine.listWords({ ...second, word: 0 })),
        ];
        const { memory } = kernels.kernels;
        const inUse = () => [arena.block, arena.end, kernels.end];
        const size = () => [arena.blocks.length, memory.buffer.byteLength];
        return (async () => {
            const before = inUse();
            const results = [];
            for (const call of calls) {
                results.push(await call());
            }
            const sizes = [size()];
            const others = await Promise.all(calls.map((call) => call()));
            return [results, others, before, inUse(), ...sizes, size()];
        })();"""
    results, others, before, after, *sizes = run_node(MAKE_ENGINE + body, data)
    assert results == others
    assert before == after and sizes[0] == sizes[1]


@needs_node
def test_what_has_no_answer_is_refused(trained, lines):
    data = {
        "weights": encode_base64(export(trained)),
        "kernels": read_kernels(),
        "calls": [
            ["translate", {"text": " ".join(lines[:1] * 300)}],
            ["listWords", {"text": "\u200e", "target": [5, 6], "word": 0}],
            ["listWords", {"text": lines[0], "target": [5, 6], "word": 2}],
            ["listWords", {"text": lines[0], "target": [5, 6], "word": -1}],
            ["leaveOutWords", {"text": "\u200e", "target": [5, 6]}],
            ["leaveOutWords", {"text": lines[0], "target": [5, 9999]}],
        ],
    }
    body = """const messages = input.calls.map(async ([method, request]) => {
            try {
                return await engine[method](request);
            } catch (error) {
                return error.message;
            }
        });
        return Promise.all(messages);"""
    patterns = [
        r"The sentence has [\d,]+ pieces; at most \d+ .*",
        "Refused: expected a sentence, got a line without pieces.",
        r"Refused: expected the index of one of \d words, got 2.",
        r"Refused: expected the index of one of \d words, got -1.",
        "Refused: expected a sentence, got a line without pieces.",
        "Refused: expected ids of pieces below .*, got 9999.",
    ]
    for message, pattern in zip(run_node(MAKE_ENGINE + body, data), patterns):
        assert re.fullmatch(pattern, message)


def assert_close(actual, expected, path=""):
    """Compare JSON; numbers may differ by 1e-4."""
    if isinstance(expected, dict):
        assert sorted(actual) == sorted(expected), path
        for name, value in expected.items():
            assert_close(actual[name], value, f"{path}.{name}")
    elif isinstance(expected, list):
        assert len(actual) == len(expected), path
        for i, value in enumerate(expected):
            assert_close(actual[i], value, f"{path}[{i}]")
    elif isinstance(expected, float):
        assert actual == pytest.approx(expected, abs=1e-4), path
    else:
        assert actual == expected, path


# The command


def test_the_command_writes_a_page(trained, digits, tmp_path, capsys):
    out = tmp_path / "page.html"
    arguments = ["--logdir", trained, "--out", str(out), "--docs", "."]
    assert corpora.exit_status("page", *arguments) == 0
    assert "weights in int8" in capsys.readouterr().out
    html = out.read_text(encoding="utf-8")
    assert "connect-src 'none'" in html and "{{" not in html
    text = re.search(r'id="data">(.*?)</script>', html, re.S).group(1)
    data = json.loads(text)
    assert set(data["examples"]) < set(corpora.read_lines(f"{digits}/dev.de"))
    assert (data["models"][0]["beam"], data["docs"]) == (4, ".")
    folder = tmp_path / "folder"
    for _ in range(2):  # and again, in its place
        arguments = ["--logdir", trained, "--out", str(folder), "--split"]
        assert corpora.exit_status("page", *arguments) == 0
        assert sorted(os.listdir(folder)) == ["index.html", "page.model.1.js"]
    refusal = corpora.refusal(
        capsys, "page", "--logdir", trained, trained, "--out", str(out)
    )
    assert "expected one log directory, got 2: a page does not" in refusal
    before = corpora.read_tree(trained)
    out = os.path.join(trained, "hparams.json")
    refusal = corpora.refusal(capsys, "page", "--logdir", trained, "--out", out)
    assert "got a file of --logdir" in refusal
    assert corpora.read_tree(trained) == before


def test_the_code_of_the_engine_is_small():
    code = b"".join(
        page_files.read_bytes(os.path.join(page_files.FOLDER, name))
        for name in (*page_files.TRANSLATOR, page_files.KERNELS)
    )
    assert len(gzip.compress(code)) <= 15_000


# The kernels


def test_the_assembled_kernels_are_those_of_the_source():
    pytest.importorskip("wasmtime", reason="wasmtime is not installed")
    import assemble

    assert page_files.read_bytes(page_files.KERNELS) == assemble.assemble()


def run_kernels(body, cases):
    """Run a function body with the kernels of WebAssembly, for `input.cases`."""
    fields = [
        [x.ravel().tolist() if hasattr(x, "ravel") else x for x in case]
        for case in cases
    ]
    return run_node(
        """const bytes = Uint8Array.from(Buffer.from(input.kernels, "base64"));
        const kernels = new WasmKernels(bytes);
        const floats = (x) => Float32Array.from(x);
        """
        + body,
        {"cases": fields, "kernels": read_kernels()},
    )


@needs_node
def test_the_kernels_multiply():
    draw = np.random.RandomState(1)
    cases = []
    for rows, ins, outs in [
        (1, 1, 1),
        (2, 8, 4),
        (5, 12, 7),
        (8, 2050, 6),
        (9, 35, 50),
    ]:
        x = draw.normal(size=[rows, ins], scale=ins**-0.5).astype(np.float32)
        x[-1] = 0
        w = draw.randint(-128, 128, [outs, ins])
        scale = draw.uniform(0.5, 2, outs).astype(np.float32)
        bias = draw.normal(size=outs).astype(np.float32)
        cases.append([x, w, scale, bias])
    actual = run_kernels(
        """return input.cases.map(([x, w, scale, bias]) => {
            const shape = [scale.length, w.length / scale.length];
            const float32 = { data: floats(w), shape };
            const int8 = { data: Int8Array.from(w), shape, scale: floats(scale) };
            return [float32, int8].map((matrix) => {
                const loaded = kernels.load(matrix);
                const [weights, factor] = kernels.row(loaded, shape[0] - 1);
                const row = Array.from(weights, (weight) => weight * factor);
                return [[...kernels.product(floats(x), loaded, floats(bias))], row];
            });
        });""",
        cases,
    )
    for (x, w, scale, bias), (matrix, int8) in zip(cases, actual):
        expected = (x.astype(float) @ w.T + bias).ravel()
        np.testing.assert_allclose(matrix[0], expected, rtol=1e-5, atol=1e-3)
        # int8: the inputs are rounded to integers, as large as the sums allow; one that
        # is halfway between two may be rounded otherwise
        limit = min(2**15 - 1, (2**31 - 1) // (128 * (-(-x.shape[1] // 16) * 16)))
        steps = np.abs(x).max(1, keepdims=True) / np.float32(limit)
        inputs = np.rint(x / np.where(steps == 0, 1, steps)) * steps
        expected = ((inputs.astype(float) @ w.T) * scale + bias).ravel()
        close = {"rtol": 1e-5, "atol": steps.max() * 2 * np.abs(w).max()}
        np.testing.assert_allclose(int8[0], expected, **close)
        np.testing.assert_allclose(matrix[1], w[-1])
        np.testing.assert_allclose(int8[1], w[-1] * scale[-1], rtol=1e-6)


@needs_node
def test_the_kernels_attend_and_normalize():
    draw = np.random.RandomState(1)
    heads, size, num_keys = 3, 16, 11
    queries, keys, values = (
        3 * draw.normal(size=[rows, heads * size]).astype(np.float32)
        for rows in (4, num_keys, num_keys)
    )
    visible = [[2], [0, 1, 2, 3, 4], [10, 3, 8, 0], list(range(num_keys))]
    logits = 20 * draw.normal(size=[3, 501]).astype(np.float32)
    [result] = run_kernels(
        """return input.cases.map(([queries, keys, values, visible, heads, logits]) => {
            const present = { keys: floats(keys), values: floats(values) };
            const weights = new Float32Array(heads * visible.length * 11);
            const rows = floats(queries);
            const context = kernels.attend(rows, present, visible, heads, weights);
            const normalizers = kernels.logSumExp(floats(logits), 3);
            return [[...context], [...weights], normalizers, kernels.end];
        });""",
        [[queries, keys, values, visible, heads, logits]],
    )
    split = [x.reshape(-1, heads, size).swapaxes(0, 1) for x in (queries, keys, values)]
    mask = np.full([4, num_keys], -np.inf)
    for row, indices in zip(mask, visible):
        row[indices] = 0
    scores = split[0] @ split[1].swapaxes(1, 2) / size**0.5 + mask
    expected = np.exp(scores - scores.max(-1, keepdims=True))
    expected /= expected.sum(-1, keepdims=True)
    context = (expected @ split[2]).swapaxes(0, 1)
    np.testing.assert_allclose(result[0], context.ravel(), atol=1e-5)
    np.testing.assert_allclose(result[1], expected.ravel(), atol=1e-6)
    expected = np.log(np.exp(logits.astype(float)).sum(1))
    np.testing.assert_allclose(result[2], expected, atol=1e-5)
    assert result[3] == 16  # all scratch memory is free again
