"""Checkpoints of the original systems become log directories of this project."""
import os
import re

import corpora
import fixtures
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import eval as eval_program
import hparams
from scripts import import_checkpoint, translate
from transformer import checkpoints, importing, recorded, sources, text
from transformer.model import Transformer
from transformer.training import cross_entropy, make_update
from transformer.translator import Translator

VOCAB = int(corpora.VOCAB_SIZE)
SIZES = {"num_blocks": 2, "d_model": 8, "d_ff": 12, "source_vocab_size": VOCAB,
         "target_vocab_size": VOCAB}
TOLD = {"tutorial": {"joint_vocab": False, "max_positions": 7}}
DIALECTS = ["tutorial", "kyubyong", "tensor2tensor", "tensor2tensor_v1"]
SHARDS = 12  # so that weights_10 must not come before weights_2
SPACES = 4


def source_of(dialect):
    return "tensor2tensor" if dialect.startswith("tensor2tensor") else dialect


def settings(dialect):
    """What an import should find in the shapes."""
    return dict(SIZES, dialect=dialect, **TOLD.get(dialect, {"joint_vocab": True}))


def random_model(dialect, seed=0):
    """The variables of a small model of ours, by our names."""
    rng, hp = np.random.RandomState(seed), hparams.HParams(
        num_heads=2, **settings(dialect))
    shapes = importing.variables_of(hp)
    return {name: rng.uniform(-0.5, 0.5, shapes[name]).astype(np.float32)
            for name in sorted(shapes)}


def as_original(model, dialect, slot=""):
    """The same as the original system would name, shape and shard them."""
    arrays = {}
    for name, array in model.items():
        original = sources.original_name(name, dialect, array.shape)
        if original.endswith("weights_"):
            for i, part in enumerate(np.array_split(array, SHARDS)):
                arrays["{}{}{}".format(original, i, slot)] = part
        elif name == "encoder/target_space":
            rows = [array + (i - 1) for i in range(SPACES)]  # row 1 is the one
            arrays[original + slot] = np.stack(rows)
        else:
            arrays[original + slot] = array[None] if "conv1d" in original and (
                array.ndim == 2) else array
    return arrays


def with_moments(dialect, step=3):
    """An original checkpoint in the middle of a training."""
    arrays = {"global_step": np.array(step, np.int32),
              "beta1_power": np.float32(0.5), "beta2_power": np.float32(0.75)}
    for seed, slot in enumerate(["", *importing.SLOTS]):
        model = random_model(dialect, seed)
        if slot:
            model = {name: abs(array) for name, array in model.items()}
        arrays.update(as_original(model, dialect, slot))
    return arrays


def write(arrays, folder):
    """Writes a checkpoint as a TF1 program would; its path."""
    path = os.path.join(str(folder), "original")
    with tf.Graph().as_default(), tf.Session() as session:
        values = {tf.get_variable(name, initializer=tf.zeros_like(array)): array
                  for name, array in arrays.items()}
        session.run([variable.initializer for variable in values],
                    {variable.initial_value: values[variable] for variable in values})
        return tf.train.Saver().save(session, path, write_meta_graph=False)


def run_import(dialect, checkpoint, logdir, *flags):
    import_checkpoint.main(["--from", source_of(dialect), "--ckpt", checkpoint,
                            "--num_heads", "2", "--out", str(logdir), *flags])
    return str(logdir)


def imported(arrays, dialect, space=1):
    """The import of arrays that are in no file."""
    arrays = importing.join_shards(arrays)
    told = importing.settings_of(source_of(dialect), arrays)
    return importing.convert(arrays, hparams.HParams(num_heads=2, **told), space)


def recorded_case(dialect, arrays, folder):
    """Writes the .npz that the original would have recorded; its path."""
    rng, names = np.random.RandomState(5), recorded.RECORDED[source_of(dialect)]
    source, target = (rng.randint(4, VOCAB, [3, length]) for length in (6, 5))
    target[:, -1] = names.end
    source[1, 4:] = target[2, 3:] = 0
    target_in = recorded.shifted(target, names.first)
    with tf.Graph().as_default(), tf.Session() as session:
        model = Transformer(hparams.HParams(num_heads=2, **settings(dialect)))
        memory = model.encode(tf.constant(source, tf.int32))
        logits, _ = model.decode(tf.constant(target_in, tf.int32), memory)
        losses = [cross_entropy(logits, tf.constant(target), epsilon,
                                model.dialect.smoothing) for _, epsilon in names.losses]
        session.run(tf.global_variables_initializer())
        variables = tf.trainable_variables()
        session.run([variable.initializer for variable in variables],
                    {v.initial_value: arrays[v.op.name] for v in variables})
        logits, losses = session.run([logits, [loss.sum / loss.count
                                               for loss in losses]])
    case = {names.source: source, names.target_out: target, names.logits: logits,
            "meta": '{"target_space_id": 1}'}
    case.update((key, loss) for (key, _), loss in zip(names.losses, losses))
    if names.target_in:
        case[names.target_in] = target_in
    path = os.path.join(str(folder), "case.npz")
    np.savez(path, **case)
    return path


@pytest.mark.parametrize("dialect", DIALECTS)
def test_settings_and_variables_come_back(dialect, tmp_path):
    model = random_model(dialect)
    arrays = importing.read(write(as_original(model, dialect), tmp_path))
    assert importing.settings_of(source_of(dialect), arrays) == settings(dialect)
    hp = hparams.HParams(num_heads=2, **settings(dialect))
    result = importing.convert(arrays, hp, target_space_id=1)
    assert (result.step, result.has_moments) == (0, False)
    for name, array in model.items():
        np.testing.assert_array_equal(result.arrays[name], array, name)
        assert not result.arrays[name + "/Adam"].any()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_checkpoint_has_what_training_restores(dialect, tmp_path):
    arrays = with_moments(dialect)
    logdir = run_import(dialect, write(arrays, tmp_path), tmp_path / "log",
                        "--target_space_id", "1")
    found = corpora.variables_of(checkpoints.prefix(logdir, 3))
    model, ids = Transformer(hparams.load(logdir)), tf.ones([1, 2], tf.int32)
    loss = cross_entropy(model.decode(ids, model.encode(ids))[0], ids)
    make_update(loss, model.hp, tf.train.get_or_create_global_step())
    assert {name: (value.shape, value.dtype) for name, value in found.items()} == {
        variable.op.name: (tuple(variable.shape.as_list()),
                           variable.dtype.base_dtype.as_numpy_dtype)
        for variable in tf.global_variables()}
    assert found["global_step"] == 3 and found["beta2_power"] == np.float32(0.75)
    for seed, slot in enumerate(["", *importing.SLOTS]):
        for name, array in random_model(dialect, seed).items():
            if name != "encoder/target_space":
                np.testing.assert_array_equal(found[name + slot],
                                              abs(array) if slot else array)


def test_sinusoids_are_recognized():
    model = {name: array for name, array in random_model("tutorial").items()
             if "positional" not in name}
    arrays = as_original(model, "tutorial")
    assert importing.settings_of("tutorial", arrays)["positions"] == "sinusoid"
    assert imported(arrays, "tutorial").arrays.keys() >= model.keys()


def test_the_scope_of_the_optimizer_and_statistics_are_no_hindrance(tmp_path):
    arrays = {("training/" if "Adam" in name or "power" in name else "") + name: array
              for name, array in with_moments("tensor2tensor").items()}
    arrays["losses_avg/problem_0/total_loss"] = np.float32(1)
    read = importing.read(write(arrays, tmp_path))
    assert imported(read, "tensor2tensor").has_moments


@pytest.mark.parametrize("dialect", DIALECTS)
def test_any_missing_variable_is_named(dialect):
    complete = importing.join_shards(as_original(random_model(dialect), dialect))
    for name in sorted(complete)[::11]:
        if not re.search("_pe/", name):  # without these, positions are sinusoids
            arrays = {other: complete[other] for other in complete if other != name}
            with pytest.raises(ValueError, match=re.escape(
                    name.split("_25_8")[0])):
                imported(arrays, dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_any_misshapen_variable_is_named_with_both_shapes(dialect):
    complete = importing.join_shards(as_original(random_model(dialect), dialect))
    free = re.compile(r"target_space|lookup_table|weight_mat")  # sizes no other tells
    for name in sorted(complete)[1::11]:
        if not free.search(name):
            wrong = complete[name][..., :-1]
            with pytest.raises(ValueError) as error:
                imported(dict(complete, **{name: wrong}), dialect)
            assert str(error.value).startswith("{}: found shape {}, wanted [".format(
                name, list(wrong.shape)))


@pytest.mark.parametrize("change, said", [
    ({"encoder/extra": np.zeros(3, np.float32)},
     "encoder/extra: found shape [3], wanted no such variable: 1 would be left over"),
    ({"encoder/extra/Adam": np.zeros(3, np.float32)}, "encoder/extra/Adam: found"),
    ({"encoder/num_blocks_2/x": np.zeros(3, np.float32)}, "num_blocks_2")])
def test_what_is_left_over_is_refused(change, said):
    arrays = dict(as_original(random_model("kyubyong"), "kyubyong"), **change)
    with pytest.raises(ValueError, match=re.escape(said)):
        imported(arrays, "kyubyong")


def test_a_missing_or_narrow_shard_is_refused():
    arrays = as_original(random_model("tensor2tensor"), "tensor2tensor")
    table = "transformer/symbol_modality_25_8/shared/weights_"
    for bad, said in ((3, "weights_3: found shards"),
                      (SHARDS - 1, "weights_: found shape [23, 8], wanted [25, 8]")):
        with pytest.raises(ValueError, match=re.escape(said)):
            imported({name: arrays[name] for name in arrays
                      if name != table + str(bad)}, "tensor2tensor")
    with pytest.raises(ValueError, match="one width"):
        imported(dict(arrays, **{table + "0": arrays[table + "0"][:, 1:]}),
                 "tensor2tensor")
    with pytest.raises(ValueError, match="found 4 rows, wanted row 9"):
        imported(arrays, "tensor2tensor", space=9)


@pytest.fixture
def original(tmp_path):
    """A checkpoint of Kyubyong's, in the middle of a training."""
    return write(with_moments("kyubyong"), tmp_path)


def refused(capsys, *argv):
    return corpora.refusal(capsys, import_checkpoint.main, *argv)


def test_refusals_of_the_command(capsys, original, tmp_path, digits):
    out = tmp_path / "log"
    argv = ["--from", "kyubyong", "--ckpt", original, "--num_heads", "2", "--out", out]
    spm = os.path.join(digits, text.JOINT_MODEL)
    assert "found no checkpoint" in refused(capsys, *argv, "--ckpt", tmp_path / "none")
    assert "of tutorial" in refused(capsys, *argv, "--from", "tutorial")
    assert "num_heads: found 3" in refused(capsys, *argv, "--num_heads", "3")
    assert "one vocabulary" in refused(capsys, *argv, "--src_vocab", spm,
                                       "--tgt_vocab", spm)
    assert "--src_vocab" in refused(capsys, *argv, "--src_vocab", spm)
    assert "<PAD>" in refused(capsys, *argv, "--vocab", corpora.write_lines(
        tmp_path / "bad", ["word{}".format(i) for i in range(VOCAB)]))
    assert "found no .npz" in refused(capsys, *argv, "--verify", original)
    assert not out.exists()
    run_import("kyubyong", original, out)
    assert "wanted a new one" in refused(capsys, *argv)


def test_without_a_vocabulary_it_says_so(capsys, original, tmp_path):
    logdir = run_import("kyubyong", original, tmp_path / "log")
    said = capsys.readouterr().out
    assert "imported for ids only" in said and "training goes on exactly" in said
    assert "output_projection: False (paper: True)" in said
    argv = ["--logdir", logdir]
    assert "found no vocabulary" in corpora.refusal(capsys, translate.main, *argv)
    some = corpora.write_lines(tmp_path / "text", ["1 2"])
    assert "found no vocabulary" in corpora.refusal(
        capsys, eval_program.main, *argv, "--files", some, some)


def test_an_imported_model_translates_and_is_trained_on(original, tmp_path, digits):
    logdir = run_import("kyubyong", original, tmp_path / "log", "--spm",
                        os.path.join(digits, text.JOINT_MODEL))
    with Translator(hparams.load(logdir), logdir) as translator:
        assert translator.restore() == checkpoints.prefix(logdir, 3)
        assert len(translator.translate(["1 2 3", "4"])) == 2
    before = corpora.variables_of(checkpoints.prefix(logdir, 3))
    corpora.train.main(["--data", digits, "--logdir", logdir, "--max_steps", "4",
                        "--batch_tokens", "200", "--search", "greedy",
                        "--max_extra_length", "3"])
    after = corpora.variables_of(checkpoints.prefix(logdir, 4))
    assert after["global_step"] == 4
    np.testing.assert_allclose(after["beta1_power"], 0.9 * before["beta1_power"])
    for name in random_model("kyubyong"):
        assert (before[name] != after[name]).any(), name
        # An old moment fades by beta1 = 0.9 or beta2 = 0.999: it was not thrown away.
        assert (after[name + "/Adam_1"] >= 0.998 * before[name + "/Adam_1"]).all()


def test_training_goes_on_from_a_checkpoint_of_step_0(tmp_path, digits):
    original = write(as_original(random_model("kyubyong"), "kyubyong"), tmp_path)
    logdir = run_import("kyubyong", original, tmp_path / "log", "--spm",
                        os.path.join(digits, text.JOINT_MODEL))
    corpora.train.main(["--data", digits, "--logdir", logdir, "--max_steps", "1",
                        "--batch_tokens", "200", "--search", "greedy",
                        "--max_extra_length", "3", "--schedule", "constant",
                        "--learning_rate", "0.001"])
    before, after = (corpora.variables_of(checkpoints.prefix(logdir, step))
                     for step in (0, 1))
    for name in random_model("kyubyong"):  # Adam moves nothing further than its rate
        np.testing.assert_allclose(after[name], before[name], rtol=0, atol=0.0011)


def word_list(path, size, more=()):
    """Writes a list as the tutorial's: `word<TAB>count`, the commonest first."""
    words = ["<PAD>", "<UNK>", "<S>", "</S>"] + [
        "w{}".format(i) for i in range(4, size)]
    counts = ["1000"] * 4 + [str(1000 - i) for i in range(4, size)]
    return corpora.write_lines(path, ["\t".join(line) for line in zip(
        words, counts)] + list(more))


def test_word_lists_of_the_tutorial(capsys, tmp_path):
    checkpoint = write(as_original(random_model("tutorial"), "tutorial"), tmp_path)
    rare = word_list(tmp_path / "de.vocab.tsv", VOCAB, ["rare\t19", "rarer\t18"])
    exact = word_list(tmp_path / "en.vocab.tsv", VOCAB)
    logdir = run_import("tutorial", checkpoint, tmp_path / "log",
                        "--src_vocab", rare, "--tgt_vocab", exact)
    vocabularies = text.load_vocabularies(logdir)
    assert not vocabularies.joint
    assert vocabularies.source.encode("w4  w9 rare <S>") == [4, 9, text.UNK, text.UNK]
    assert vocabularies.target.encode_lines(["w5", ""]) == [[5], []]
    assert vocabularies.target.decode([2, 5, 6, 3, 7]) == "w5 w6"
    with Translator(hparams.load(logdir), logdir) as translator:
        translator.restore()
        [[best]] = translator.translate(["w4 w5"])
        assert all(word in ("<UNK>",) or word.startswith("w")
                   for word in best.text.split())
    tied = word_list(tmp_path / "tied.tsv", VOCAB,
                     ["rare\t{}".format(1000 - VOCAB + 1)])
    short = word_list(tmp_path / "short.tsv", VOCAB - 1)
    for bad, found in ((tied, VOCAB + 1), (short, VOCAB - 1)):
        assert "found {} words, wanted {}".format(found, VOCAB) in refused(
            capsys, "--from", "tutorial", "--ckpt", checkpoint, "--num_heads", "2",
            "--out", tmp_path / "other", "--src_vocab", bad, "--tgt_vocab", exact)


def test_a_word_list_is_checked(tmp_path):
    twice = word_list(tmp_path / "twice.tsv", 6, ["w4\t1"])
    with pytest.raises(ValueError, match="'w4' 2 times"):
        text.load_vocabulary(twice)


def test_a_vocabulary_of_tensor2tensor_is_refused(capsys, tmp_path):
    checkpoint = write(as_original(random_model("tensor2tensor"), "tensor2tensor"),
                       tmp_path)
    said = refused(capsys, "--from", "tensor2tensor", "--ckpt", checkpoint,
                   "--num_heads", "2", "--out", tmp_path / "log",
                   "--vocab", "vocab.subwords")
    assert "imported for ids only" in said


@pytest.mark.parametrize("dialect", DIALECTS)
def test_verify(dialect, tmp_path, capsys):
    model = random_model(dialect)
    case = recorded_case(dialect, model, tmp_path)
    checkpoint = write(as_original(model, dialect), tmp_path)
    run_import(dialect, checkpoint, tmp_path / "good", "--verify", case)
    said = capsys.readouterr().out
    assert re.search(r"^logits: worst relative difference \d", said, re.MULTILINE)
    assert "loss" in said
    name = "decoder/block_1/feedforward/outer/bias"
    model[name] = model[name] + np.float32(1e-3) * np.arange(SIZES["d_model"])
    os.mkdir(str(tmp_path / "changed"))
    changed = write(as_original(model, dialect), tmp_path / "changed")
    said = refused(capsys, "--from", source_of(dialect), "--ckpt", changed,
                   "--num_heads", "2", "--out", tmp_path / "bad", "--verify", case)
    assert "logits" in said and "wanted at most 1e-05" in said


def original_checkpoints():
    """[(case, checkpoint)] of the recorded whole models whose checkpoint is there."""
    found = []
    for name in fixtures.cases("A", "B", "D",
                               where=lambda meta: "checkpoint" in meta):
        folder = re.match(r"(ckpt_\w+)/", fixtures.load(name)["meta"]["checkpoint"])
        folder = folder and fixtures.path_of(name[:2] + folder.group(1))
        if folder and os.path.isdir(folder):
            found += [(name, os.path.join(folder, file[:-len(".index")]))
                      for file in sorted(os.listdir(folder)) if file.endswith(".index")]
    return found


@fixtures.skip_without_fixtures
def test_the_original_checkpoints_reproduce_what_was_recorded(tmp_path, capsys):
    for number, (name, checkpoint) in enumerate(original_checkpoints()):
        case = fixtures.load(name)
        source = {"A": "tutorial", "B": "kyubyong", "D": "tensor2tensor"}[name[0]]
        if checkpoint.endswith("step5") and "out/global_step_after" not in case:
            continue  # what was decoded at the first step
        import_checkpoint.main([
            "--from", source, "--ckpt", checkpoint, "--out",
            str(tmp_path / str(number)), "--verify", fixtures.path_of(name),
            "--num_heads", str(case["meta"]["kwargs"]["num_heads"])])
        assert "worst relative difference" in capsys.readouterr().out
