"""The laboratory: rows change what their names say; the runner skips and continues."""

import ast
import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zlib

import numpy as np
import pytest
import sacrebleu
import tensorflow.compat.v1 as tf

if tf.__version__.startswith("1."):
    pytest.skip("the laboratory needs TensorFlow 2", allow_module_level=True)

import lab
import page
import patches
import table
from documents import ROOT
from rows import BASE, ROWS, TABLE_3

from transformer import hparams

BY_NAME = {row.name: row for row in ROWS}
HP = {
    "dialect": "tensor2tensor",  # the base's
    "num_blocks": 1,
    "d_model": 8,
    "d_ff": 16,
    "num_heads": 2,
    "source_vocab_size": 13,
    "target_vocab_size": 13,
    "dropout_rate": 0.3,
}
SOURCE = np.array([[5, 9, 4, 3], [6, 3, 0, 0]])
TARGET = np.array([[2, 7, 8, 10, 4], [2, 7, 6, 0, 0]])


@contextlib.contextmanager
def package(name=""):
    """Give a function that imports from the package, with the patch of a row."""
    removed = {key: sys.modules.pop(key) for key in [*sys.modules] if is_ours(key)}
    finder = name and patches.install(BY_NAME[name].patch)
    try:
        yield lambda module: importlib.import_module(f"transformer.{module}")
    finally:
        if finder:
            sys.meta_path.remove(finder)
        for key in [key for key in sys.modules if is_ours(key)]:
            del sys.modules[key]
        sys.modules.update(removed)


def is_ours(module):
    return module.split(".")[0] == "transformer"


def values_of(name, shape):
    """The values of a variable, which its name determines."""
    draw = np.random.RandomState(zlib.crc32(name.encode("utf-8")))
    return 0.4 * draw.randn(*shape).astype(np.float32)


def evaluate(build, get=lambda session, fetches: session.run(fetches)):
    """The values of what a function builds; its variables have `values_of`."""
    with tf.Graph().as_default(), tf.Session() as session:
        fetches = build()
        for variable in tf.global_variables():
            variable.load(values_of(variable.op.name, variable.shape), session)
        return get(session, fetches)


def run_model(name, source=SOURCE, target=TARGET, **options):
    """The logits, and the attention weights by scope, of a small model with a row."""
    with package(name) as load:
        hp = load("hparams").HParams(**HP)

        def build():
            weights = {}
            model = load("model").Transformer(hp)
            memory = model.encode(tf.constant(source, tf.int32), weights=weights)
            ids = tf.constant(target, tf.int32)
            return model.decode(ids, memory, weights=weights), weights

        return evaluate(build, **options)


def call(name, module, function, *args):
    """The value of a function of arrays and others, with a row."""
    with package(name) as load:
        return evaluate(
            lambda: getattr(load(module), function)(
                *(tf.constant(x) if isinstance(x, np.ndarray) else x for x in args)
            )
        )


def after_changing(name, place):
    """Which positions of the first target have other logits if one piece is another."""
    targets = TARGET[[0, 0]]
    targets[1, place] = 11
    before, after = run_model(name, SOURCE[[0, 0]], targets)[0]
    return (np.abs(before - after).max(axis=-1) > 1e-6).tolist()


# --- All rows -------------------------------------------------------------------------


def test_rows_can_run():
    assert len(BY_NAME) == len(ROWS) >= 45
    for row in ROWS:
        hparams.resolve(row.settings, "lab")
        changes = [row.settings, row.patch, row.prepare, row.average]
        assert row is BASE or any(changes), row.name
        assert not row.uses_base or set(row.settings) <= set(hparams.DECODING)
        assert row.group != TABLE_3 or not row.patch
        if row.patch:
            lines = patches.diff(row.patch)
            assert 5 <= len(lines) <= 10, row.name  # two names, a place, a change
            assert sum(line.startswith("@@") for line in lines) == 1


def test_a_place_that_has_changed_is_named():
    patch = patches.Patch("model.py", "no such line", "")
    with pytest.raises(ValueError, match="model.py: expected this place once"):
        patches.diff(patch)


OF_DIALECT = [row for row in ROWS if row.patch and row.patch.file == "dialects.py"]


@pytest.mark.parametrize("row", OF_DIALECT, ids=lambda row: row.name)
def test_a_row_of_the_dialect_changes_the_named_fields_only(row):
    with package(row.name) as load:
        changed = {name: x._asdict() for name, x in load("dialects").DIALECTS.items()}
    from transformer.dialects import DIALECTS

    [call] = ast.parse("{" + row.patch.new + "}").body[0].value.values
    fields = {field.arg: ast.literal_eval(field.value) for field in call.keywords}
    for name, dialect in DIALECTS.items():
        if name == "tensor2tensor":
            assert all(getattr(dialect, x) != value for x, value in fields.items())
            dialect = dialect._replace(**fields)
        assert changed[name] == dialect._asdict()


# --- Masks ----------------------------------------------------------------------------


@pytest.mark.slow
def test_the_base_is_causal():
    assert after_changing("", 2) == [False, False, True, True, True]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, expected",
    [
        ("no causal mask", [True] * 5),
        ("causal mask lets the next piece through", [False, True, True, True, True]),
        ("causal mask hides the piece itself", [True, False, True, True, True]),
        ("softmax over queries", [True] * 5),
        ("heads by reshape alone", [True] * 5),
    ],
)
def test_who_sees_a_piece(name, expected):
    assert after_changing(name, 2) == expected


@pytest.mark.slow
def test_a_piece_hidden_from_itself():
    scope = "decoder/block_0/self_attention"
    weights = run_model("causal mask hides the piece itself")[1][scope][0]  # [H, T, T]
    diagonal = np.diagonal(weights, axis1=1, axis2=2)
    np.testing.assert_array_equal(diagonal[:, 1:], 0)
    np.testing.assert_allclose(weights[:, 0], 1 / 5, atol=1e-6)  # it may see nothing


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, encoder, decoder",
    [
        ("", False, False),
        ("padding as keys of the encoder", True, False),
        ("padding as keys of the decoder", False, True),
        ("a padding mask that masks nothing", True, True),
    ],
)
def test_who_attends_to_padding(name, encoder, decoder):
    weights = run_model(name)[1]
    for scope, is_seen in (
        ("encoder/block_0/self_attention", encoder),
        ("decoder/block_0/cross_attention", decoder),
    ):
        of_padding = weights[scope][1, :, :, SOURCE[1] == 0]
        assert (of_padding > 0).all() if is_seen else not of_padding.any()


# --- Batches, positions, formula ------------------------------------------------------


@pytest.mark.parametrize(
    "name, target_in, target_out",
    [
        ("", [[2, 7, 8], [2, 9, 0]], [[7, 8, 3], [9, 3, 0]]),
        ("the target not shifted", [[7, 8, 3], [9, 3, 0]], [[7, 8, 3], [9, 3, 0]]),
        ("no EOS after the target", [[2, 7, 8], [2, 9, 0]], [[7, 8, 0], [9, 0, 0]]),
    ],
)
def test_batches(name, target_in, target_out):
    with package(name) as load:
        batch = load("text.batches").make_batch([[5], [6, 4]], [[7, 8], [9]], 0)
    assert batch.source.tolist() == [[5, 3, 0], [6, 4, 3]]
    assert batch.target_in.tolist() == target_in
    assert batch.target_out.tolist() == target_out


@pytest.mark.parametrize(
    "name, encoder, decoder",
    [
        ("no positions in the encoder", 0, 1),
        ("no positions in the decoder", 1, 0),
        ("no positions at all", 0, 0),
        ("positions added twice", 2, 2),
    ],
)
def test_how_often_positions_are_added(name, encoder, decoder):
    def embed(name):
        with package(name) as load:
            model = load("model").Transformer(load("hparams").HParams(**HP))
            return evaluate(
                lambda: [
                    model.embed(tf.constant(TARGET, tf.int64), stack, tf.range(5))
                    for stack in ("encoder", "decoder")
                ]
            )

    none, base, changed = map(embed, ("no positions at all", "", name))
    for i, times in enumerate((encoder, decoder)):
        positions = base[i] - none[i]
        assert np.abs(positions).max() > 0.5
        np.testing.assert_allclose(changed[i] - none[i], times * positions, atol=1e-5)


def softmax(x, axis):
    exp = np.exp(x - x.max(axis=axis, keepdims=True))
    return exp / exp.sum(axis=axis, keepdims=True)


@pytest.mark.parametrize(
    "name, scale, axis",
    [
        ("", 0.5, -1),
        ("no scale by √d_k", 1, -1),
        ("softmax over queries", 0.5, 2),
        ("softmax over heads", 0.5, 1),
    ],
)
def test_attention(name, scale, axis):
    q, k, v = np.random.RandomState(0).randn(3, 2, 3, 5, 4).astype(np.float32)
    module = "blocks.attention"
    context, _ = call(name, module, "scaled_dot_product_attention", q, k, v)
    expected = softmax(scale * q @ k.swapaxes(2, 3), axis) @ v
    np.testing.assert_allclose(context, expected, atol=1e-5)


def test_heads_by_reshape_alone():
    x = np.arange(24.0).reshape([2, 3, 4])
    with package("heads by reshape alone") as load:
        heads = evaluate(lambda: load("blocks.layers").split_heads(tf.constant(x), 2))
    np.testing.assert_array_equal(heads, x.reshape([2, 2, 3, 2]))
    assert x.reshape([2, 3, 2, 2])[0, 1, 1, 0] == 6  # what belongs to head 1, place 1
    assert heads[0, 1, 1, 0] == 8


def test_embeddings_without_scale():
    def embed(name):
        return call(name, "modules", "embedding", SOURCE, 13, 8)

    changed = embed("no scale by √d_model")
    np.testing.assert_allclose(embed(""), changed * 8**0.5, rtol=1e-6)
    assert not changed[1, 2:].any()


# --- Loss -----------------------------------------------------------------------------


def loss_of(name, target_out):
    logits = np.random.RandomState(0).randn(2, 3, 7).astype(np.float32)
    loss = call(name, "training", "cross_entropy", logits, target_out, 0.2, "others")
    return logits, loss


def test_what_the_loss_counts():
    target_out = np.array([[4, 5, 3], [3, 0, 0]])
    logits, base = loss_of("", target_out)
    _, with_padding = loss_of("loss over padding", target_out)
    assert (base.count, with_padding.count) == (4, 6)
    log_probs = np.log(softmax(logits, -1))
    labels = np.full([7], 0.2 / 6)
    labels[0] = 0.8
    entropy = -(labels * np.log(labels)).sum()
    each = -(labels * log_probs[1, 1:]).sum(axis=-1) - entropy  # of the label 0
    np.testing.assert_allclose(with_padding.sum - base.sum, each.sum(), rtol=1e-4)

    _, spared = loss_of("smoothing without a share for padding", target_out)
    share = -(0.2 / 6) * log_probs[..., 0][target_out != 0].sum()
    np.testing.assert_allclose(base.sum - spared.sum, share, rtol=1e-4)
    assert spared.count == 4

    _, means = loss_of("mean over sentences of their means", target_out)
    alone = [
        loss_of("", np.where(np.arange(2)[:, None] == i, target_out, 0))[1]
        for i in range(2)
    ]
    expected = [loss.sum / loss.count for loss in alone]
    np.testing.assert_allclose(means.sum / means.count, np.mean(expected), rtol=1e-5)


# --- Layers ---------------------------------------------------------------------------


@pytest.mark.slow
def test_dropout_while_translating():
    def run_twice(session, fetches):
        return [session.run(fetches[0]) for _ in range(2)]

    for name, differ in (("", False), ("dropout while translating", True)):
        first, second = run_model(name, get=run_twice)
        assert (np.abs(first - second).max() > 1e-3) == differ


def test_norm_before_and_after():
    def sublayer(name):
        with package(name) as load:
            x = np.random.RandomState(0).randn(1, 3, 8).astype(np.float32)

            def build():
                settings = load("modules").FeedforwardSettings(
                    (16, 8), load("dialects").DIALECTS["tensor2tensor"]
                )
                y = load("modules").feedforward_sublayer(tf.constant(x), settings, "f")
                names = [variable.op.name for variable in tf.global_variables()]
                return y, tf.constant(names)

            return evaluate(build)

    (base, names), (changed, more_names) = map(sublayer, ("", "norm before and after"))
    added = {name.decode() for name in set(more_names) - set(names)}
    assert added == {"f/ln_after/beta", "f/ln_after/gamma"}
    beta, gamma = (values_of(f"f/ln_after/{x}", [8]) for x in ("beta", "gamma"))
    standard = (base - base.mean(-1, keepdims=True)) / base.std(-1, keepdims=True)
    np.testing.assert_allclose(changed, standard * gamma + beta, atol=1e-4)


def test_kernels_begin_at_another_deviation():
    with package("kernels begin at 0.02") as load, tf.Graph().as_default():
        load("blocks.layers").dense_variables(200, 200, False, "dense")
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            [kernel] = session.run(tf.global_variables())
    assert 0.015 < kernel.std() < 0.02 and np.abs(kernel).max() <= 0.04


# --- Scores ---------------------------------------------------------------------------


def test_what_bleu_pretends():
    lines = ["A well-known dog runs", "two red birds sing there"]
    references = ["a well-known dog runs fast", "two red birds sing"]

    def bleu(name):
        with package(name) as load:
            return load("evaluation").score(lines, references).bleu

    def truth(lines, references):
        return sacrebleu.corpus_bleu(lines, [references], force=True).score

    assert bleu("") == pytest.approx(truth(lines, references))
    lower = [[line.lower() for line in x] for x in (lines, references)]
    assert bleu("BLEU in lower case") == pytest.approx(truth(*lower))
    split = [[line.replace("-", " @-@ ") for line in x] for x in (lines, references)]
    assert bleu("BLEU of tokenized text") == pytest.approx(truth(*split))
    each = [truth([x], [y]) for x, y in zip(lines, references)]
    assert bleu("mean of the sentences' BLEU") == pytest.approx(np.mean(each))


def test_translations_read_with_the_other_vocabulary():
    class Vocabulary:
        def __init__(self, word):
            self.word = word

        def decode(self, ids):
            return self.word

        def pieces(self, ids):
            return [self.word]

        def strip_special(self, ids):
            return ids

    for name, expected in (
        ("", "target"),
        ("translations read with the other vocabulary", "source"),
    ):
        with package(name) as load:
            vocabularies = load("text.vocabulary").Vocabularies(
                Vocabulary("source"), Vocabulary("target"), False
            )
            translator = load("text.translations").BaseTranslator(vocabularies, 10)
            assert translator.translation([1], 0.0).text == expected


# --- The runner -----------------------------------------------------------------------


def write_text(folder):
    folder.mkdir()
    for split, count in (("train", 60), ("dev", 4)):
        for language in lab.LANGUAGES:
            letters = "0123456" if language == "de" else "abcdefg"
            lines = [
                " ".join(letters[i * k % 7] for k in (1, 2, 3)) for i in range(count)
            ]
            (folder / f"{split}.{language}").write_text("\n".join(lines) + "\n")
    return str(folder)


class Faked(lab.Lab):
    """A laboratory whose runs end at once, with a BLEU of 10 times the seed.

    It is 3 less where the row is not the base.
    """

    def __init__(self, out, failing=()):
        super().__init__(str(out), str(out), "lab")
        self.failing = failing
        self.started = []

    def start(self, run, worker, workers):
        self.started.append((run.row.name, run.seed))
        folder = self.folder(run)
        os.makedirs(folder, exist_ok=True)
        bleu = 10.0 * run.seed - 3 * (run.row is not BASE)
        result = {"bleu": bleu, "dev_loss": 1.0, "doctor": []}
        path = os.path.join(folder, "result.json")
        program = f"open({path!r}, 'w').write({json.dumps(result)!r})"
        if run.row.name in self.failing:
            program = "raise SystemExit(1)"
        return subprocess.Popen([sys.executable, "-S", "-c", program])


def make_runs(laboratory, seeds=(1, 2)):
    rows = [BASE, BY_NAME["beam 2"], BY_NAME["no warm-up"]]
    return [laboratory.make_run(row, seed) for seed in seeds for row in rows]


def test_runs_are_done_once_and_rows_of_the_base_wait_for_it(tmp_path):
    laboratory = Faked(tmp_path)
    assert lab.run_all(laboratory, make_runs(laboratory), workers=3) == 0
    assert sorted(laboratory.started) == sorted(
        (run.row.name, run.seed) for run in make_runs(laboratory)
    )
    for seed in (1, 2):
        place = laboratory.started.index
        assert place(("beam 2", seed)) > place(("base", seed))
    again = Faked(tmp_path)  # reads what the first has written
    assert lab.run_all(again, make_runs(again, (1, 2, 3)), 1) == 0
    assert {seed for _, seed in again.started} == {3}
    shutil.rmtree(again.folder(again.make_run(BASE, 1)))
    lost = Faked(tmp_path)  # results from another machine
    assert lab.run_all(lost, [lost.make_run(BASE, 1)], 1) == 0 and not lost.started
    row = BY_NAME["beam 5"]
    assert lab.run_all(lost, [lost.make_run(x, 1) for x in (BASE, row)], 1) == 0
    assert lost.started == [("base", 1), ("beam 5", 1)]
    other_code = Faked(tmp_path)
    other_code.code = "changed"
    assert not any(map(other_code.is_done, make_runs(other_code)))


def test_a_run_that_fails_is_named_and_the_others_go_on(tmp_path, capsys):
    laboratory = Faked(tmp_path, failing=["base"])
    assert lab.run_all(laboratory, make_runs(laboratory, [1]), 1) == 1
    assert len(laboratory.lines) == 1
    errors = capsys.readouterr().err.splitlines()
    assert errors == ["no result: base, seed 1", "no result: beam 2, seed 1"]


def test_the_table_pairs_by_seed(tmp_path):
    laboratory = Faked(tmp_path)
    lab.run_all(laboratory, make_runs(laboratory, (1, 2, 3)), 2)
    table.write(laboratory.lines, str(tmp_path))
    text = (tmp_path / "table.md").read_text(encoding="utf-8")
    assert "| base | 20.00 | 3 | +0.00 ± 0.00 |" in text
    assert "| no warm-up | 17.00 | 3 | -3.00 ± 0.00 | -3.0 |" in text  # 7, 17, 27
    if importlib.util.find_spec("matplotlib"):
        assert (tmp_path / "table.png").stat().st_size > 1000
    # The deviation is 1, the quantile of two degrees of freedom 4.303.
    assert table.half_interval([1.0, 2.0, 3.0]) == pytest.approx(4.303 / 3**0.5)


def test_a_script_runs_with_the_change_of_a_row(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "import tensorflow.compat.v1 as tf\n"
        "from transformer.blocks.masks import causal_mask\n"
        "with tf.Session() as session:\n"
        "    visible = session.run(causal_mask(tf.range(3)))\n"
        "print(visible.reshape([3, 3]).astype(int).tolist(), *sys.argv[1:])\n"
    )
    program = os.path.join(os.path.dirname(lab.__file__), "with_row.py")

    def run(row):
        command = [sys.executable, program, row, str(script), "--flag"]
        return subprocess.run(command, capture_output=True, text=True)

    name = "causal mask hides the piece itself"
    assert run(name).stdout == "[[0, 0, 0], [1, 0, 0], [1, 1, 0]] --flag\n"
    failed = run("dropout 0.5")  # which changes settings only
    assert failed.returncode == 1 and "Rows that change the code: " in failed.stderr


def test_a_page_shows_each_mistake_and_hides_what_it_costs(tmp_path):
    laboratory = Faked(tmp_path)
    rows = [BASE, BY_NAME["no causal mask"], BY_NAME["no warm-up"]]
    runs = [laboratory.make_run(row, seed) for row in rows for seed in (1, 2, 3)]
    lab.run_all(laboratory, runs, 2)
    text = "# Evidence\n\n<!-- lab mistakes -->\nold\n<!-- end -->\n\nAfter.\n"
    filled = page.fill(text, laboratory.lines)
    mask, warm_up = filled.split("### ")[1:]
    diff = "-            visible=causal_mask(positions),\n+            visible=None,\n"
    assert f"In `transformer/model.py`:\n\n```diff\n{diff}```\n" in mask
    assert "With `warmup_steps = 1`.\n" in warm_up
    shown, hidden = warm_up.split("<details>")
    assert "17.00" not in shown
    assert "BLEU **17.00** instead of 20.00: -3.00 ± 0.00. Expected: -3.0." in hidden
    assert "Dev loss 1.00 instead of 1.00." in hidden
    assert "old" not in filled and filled.endswith("<!-- end -->\n\nAfter.\n")
    assert page.fill(filled, laboratory.lines) == filled


def test_the_page_of_the_documents_has_the_kept_results():
    with open(os.path.join(ROOT, "docs", "evidence.md"), encoding="utf-8") as file:
        text = file.read()
    assert page.fill(text, table.read_lines(page.HERE)) == text


def test_results_are_kept_until_code_that_a_run_uses_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(patches, "ROOT", str(tmp_path))
    (tmp_path / "transformer" / "commands").mkdir(parents=True)

    def checksum(model, command="print()"):
        (tmp_path / "transformer" / "model.py").write_text(model)
        (tmp_path / "transformer" / "commands" / "doctor.py").write_text(command)
        return lab.checksum_of_code()

    first = checksum('def f():\n    """Return 1."""\n    return 1\n')
    assert first == checksum("def f():\n    return 1  # one\n")
    assert first == checksum("def f():\n    return 1\n", "print(1)")
    assert first != checksum("def f():\n    return 2\n")


def test_training_imports_no_folder_that_the_checksum_leaves_out():
    program = "import sys, transformer.trainer; print(*sys.modules)"
    names = subprocess.check_output([sys.executable, "-c", program], text=True).split()
    folders = {name.split(".")[1] for name in names if is_ours(name) and "." in name}
    assert {"text", "trainer"} <= folders
    # Another engine, which a run does not use.
    assert folders & set(lab.OTHER_FOLDERS) <= {"exports"}
    exports = [name for name in names if name.startswith("transformer.exports.")]
    assert exports in ([], ["transformer.exports.ctranslate2"])


@pytest.mark.slow
def test_a_row_from_text_to_table(tmp_path):
    """It is stopped once, and continues."""
    text, out = write_text(tmp_path / "text"), tmp_path / "out"
    settings = "num_blocks=1 d_model=16 d_ff=32 num_heads=2 batch_tokens=64 "
    settings += "log_every=10 max_steps=400 save_every=100 eval_every=200"
    rows = ["no causal mask", "beam 2", "average of 3 checkpoints"]
    command = [sys.executable, lab.__file__, "--text", text, "--out", str(out)]
    command += ["--seeds", "1", "--vocab_size", "20", "--rows", *rows]
    command += ["--set", *settings.split()]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        while not list(out.glob("runs/*/logs/model.ckpt-100.index")):
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
    subprocess.run(command, check=True)
    lines = {line["row"]: line for line in table.read_lines(str(out))}
    assert sorted(lines) == sorted(["base", *rows])
    assert lines["base"]["seconds"] is None  # it was stopped
    assert [step for step, _, _ in lines["base"]["by_step"]] == [200, 400]
    assert 0 < lines["base"]["train_loss"] < 3
    assert lines["no causal mask"]["patch"].count("\n") == 4
    assert "| beam 2 |" in (out / "table.md").read_text(encoding="utf-8")
    assert len(list(out.glob("runs/*"))) == 1  # the base's
