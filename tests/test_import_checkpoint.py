"""Checkpoints of the original systems become log directories of this project."""

import contextlib
import dataclasses
import glob
import os

import corpora
import fixtures
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from originals import (
    VOCAB,
    as_original,
    random_model,
    run_import,
    subword_list,
    with_moments,
    word_list,
    write,
)
from test_dialects_whole import SOURCE, Whole, is_whole

from transformer import hparams
from transformer.logdir import checkpoints, manifests
from transformer.model import Transformer
from transformer.text.vocabulary import (
    BOS,
    EOS,
    JOINT_MODEL,
    PAD,
    UNK,
    load_vocabularies,
    load_vocabulary,
)
from transformer.translator import Translator


@pytest.fixture
def original(tmp_path):
    """A checkpoint of Kyubyong's, in the middle of a training."""
    return write(with_moments("kyubyong"), tmp_path)


def has_file(meta):
    """Tell whether the original checkpoint of a case is stored beside it."""
    return meta.get("checkpoint", "").startswith("ckpt_")


def refusal(capsys, *argv):
    return corpora.refusal(capsys, "import", *argv)


def test_refusals_of_the_command(capsys, original, tmp_path, digits):
    out = tmp_path / "log"
    argv = ["--from", "kyubyong", "--ckpt", original, "--num_heads", "2", "--out", out]
    spm = os.path.join(digits, JOINT_MODEL)
    assert "no checkpoint" in refusal(capsys, *argv, "--ckpt", tmp_path / "none")
    message = refusal(capsys, *argv, "--from", "tutorial")
    assert "is missing: each checkpoint of tutorial has it; " in message
    assert message.endswith(
        "if its variables have other names, rename them with --names"
    )
    assert "d_model = 8, got 3" in refusal(capsys, *argv, "--num_heads", "3")
    assert "one vocabulary" in refusal(
        capsys, *argv, "--src_vocab", spm, "--tgt_vocab", spm
    )
    assert "--src_vocab" in refusal(capsys, *argv, "--src_vocab", spm)
    assert "<PAD>" in refusal(
        capsys,
        *argv,
        "--vocab",
        corpora.write_lines(
            tmp_path / "bad", ["word{}".format(i) for i in range(VOCAB)]
        ),
    )
    data = original + ".data-00000-of-00001"
    for damage in (os.remove, lambda path: corpora.write_lines(path, ["no data"])):
        damage(data)
        assert "or a damaged one" in refusal(capsys, *argv)
    assert not out.exists()


@pytest.mark.slow
def test_without_a_vocabulary_it_says_so(capsys, original, tmp_path):
    logdir = run_import("kyubyong", f"{original}.index", tmp_path / "log")
    output = capsys.readouterr().out
    assert "no vocabulary: translating text needs one" in output
    assert "Adam continues where it was" in output
    assert "output_projection: False (paper: True)" in output
    argv = ["--logdir", logdir]
    assert "the vocabulary is missing" in corpora.refusal(capsys, "translate", *argv)
    path = corpora.write_lines(tmp_path / "text", ["1 2"])
    assert "the vocabulary is missing" in corpora.refusal(
        capsys, "eval", *argv, "--files", path, path
    )


@pytest.mark.slow
def test_word_lists_of_the_tutorial(capsys, tmp_path):
    checkpoint = write(as_original(random_model("tutorial"), "tutorial"), tmp_path)
    rare = word_list(
        tmp_path / "de.vocab.tsv", VOCAB, extra_lines=["rare\t19", "rarer\t18"]
    )
    exact = word_list(tmp_path / "en.vocab.tsv", VOCAB)
    lists = ["--src_vocab", rare, "--tgt_vocab", exact]
    logdir = run_import("tutorial", checkpoint, tmp_path / "log", *lists)
    vocabularies = load_vocabularies(logdir)
    assert not vocabularies.joint
    assert vocabularies.source.encode("w4  w9 rare <S>") == [4, 9, UNK, UNK]
    assert vocabularies.target.encode_lines(["w5", ""]) == [[5], []]
    assert vocabularies.target.decode([2, 5, 6, 3, 7]) == "w5 w6"
    with Translator.for_settings(hparams.load(logdir), logdir) as translator:
        translator.find_and_restore()
        [[best]] = translator.translate(["w4 w5"])
        assert all(
            word in ("<UNK>",) or word.startswith("w") for word in best.text.split()
        )


@contextlib.contextmanager
def restored(hp, checkpoint):
    """Yield run_logits(source, target_in) of a checkpoint → float [N, T, V]."""
    with tf.Graph().as_default(), tf.Session() as session:
        model = Transformer(hp)
        source, target_in = (tf.placeholder(tf.int32, [None, None]) for _ in range(2))
        logits = model.decode(target_in, model.encode(source))
        checkpoints.restore(session, checkpoints.make_saver(), checkpoint)
        yield lambda *ids: session.run(logits, dict(zip((source, target_in), ids)))


@pytest.mark.slow
def test_sentences_of_the_tutorial_are_padded_as_in_the_original(capsys, tmp_path):
    """It attends to padding, so a translation depends on the amount of padding."""
    checkpoint = write(as_original(random_model("tutorial"), "tutorial"), tmp_path)
    vocab = word_list(tmp_path / "vocab.tsv", VOCAB)
    logdir = run_import("tutorial", checkpoint, tmp_path / "log", "--vocab", vocab)
    assert "sources are padded to 7 pieces" in capsys.readouterr().out
    hp, line = hparams.load(logdir), "w4 w5"
    ids = [[4, 5, EOS] + [PAD] * width for width in (0, 4)]
    scores, logits = [], []
    for padded in (hp, dataclasses.replace(hp, pad_sources_to=0)):
        with Translator.for_settings(padded, logdir) as translator:
            translator.find_and_restore()
            for lines in ([line], [line, "w6 w7 w8 w9 w10"]):
                scores.append(translator.translate(lines)[0][0].score)
        with restored(
            padded, manifests.find_checkpoint(logdir, "newest")
        ) as run_logits:
            logits += [run_logits([source], [[BOS]]) for source in ids]
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-5)
    assert abs(scores[2] - scores[3]) > 1e-3
    for place in (0, 1):
        np.testing.assert_allclose(logits[place], logits[3], rtol=1e-5, atol=1e-5)


def test_a_word_list_is_checked(tmp_path):
    twice = word_list(tmp_path / "twice.tsv", 6, extra_lines=["w4\t1"])
    with pytest.raises(ValueError, match="'w4' 2 times"):
        load_vocabulary(twice)


def greedy_ids(run_logits, source, limit):
    """Decode greedily with a model of tensor2tensor; the end is 1."""
    ids = []
    while 1 not in ids and len(ids) < limit - 1:
        logits = run_logits([source], [[0, *ids]])[0, -1]
        ids.append(int(logits[1:].argmax()) + 1)  # anything but padding
    return ids


@pytest.mark.slow
def test_a_subword_vocabulary_of_tensor2tensor(capsys, tmp_path):
    model = random_model("tensor2tensor", seed=5)
    model["embedding/lookup_table"][1] *= 2.5  # so that some sentences end
    checkpoint = write(as_original(model, "tensor2tensor"), tmp_path)
    argv = ["--from", "tensor2tensor", "--ckpt", checkpoint, "--num_heads", "2"]
    long = subword_list(tmp_path / "long", VOCAB + 1)
    for flag, message in (
        (
            "--vocab",
            f"expected {VOCAB} pieces, as many as the model has, got {VOCAB + 1}",
        ),
        ("--spm", "give --vocab"),
    ):
        assert message in refusal(capsys, *argv, "--out", tmp_path / "log", flag, long)
    logdir = run_import(
        "tensor2tensor",
        checkpoint,
        tmp_path / "log",
        "--vocab",
        subword_list(tmp_path / "vocab.ende", VOCAB),
    )
    assert "no vocabulary" not in capsys.readouterr().out
    hp = dataclasses.replace(hparams.load(logdir), search="greedy", max_extra_length=5)
    lines = ["2", "1;", "9_0", "0 1 2"]
    with Translator.for_settings(hp, logdir) as translator:
        checkpoint = translator.find_and_restore()
        vocabulary = translator.vocabularies.source
        texts = [best.text for [best] in translator.translate(lines)]
    sources = [[*ids, 1] for ids in vocabulary.encode_lines(lines)]
    with restored(hp, checkpoint) as run_logits:
        expected = [greedy_ids(run_logits, ids, len(ids) + 5) for ids in sources]
    assert texts == [vocabulary.decode(ids) for ids in expected]
    assert len({1 in ids for ids in expected}) == 2, "only some hypotheses end"


@pytest.mark.slow
@fixtures.over("A", "B", "D", where=lambda meta: is_whole(meta) and has_file(meta))
def test_an_original_checkpoint_has_the_recorded_variables(name, tmp_path):
    """For which test_dialects_whole.py compares logits, gradients and updates."""
    whole = Whole(name)
    meta = whole.case["meta"]
    folder = fixtures.path_of(name[:2] + meta["checkpoint"].split("/")[0])
    paths = sorted(glob.glob(os.path.join(folder, "*.index")))
    assert paths
    for i, path in enumerate(paths):
        logdir = str(tmp_path / str(i))
        space = str(meta.get("target_space_id", 0))
        heads = str(meta["kwargs"]["num_heads"])
        argv = ["--from", SOURCE[name[0]], "--ckpt", path[: -len(".index")]]
        argv += ["--num_heads", heads, "--out", logdir, "--target_space_id", space]
        corpora.run_command("import", *argv)
        variables = corpora.read_variables(manifests.find_checkpoint(logdir, "newest"))
        is_trained = path.endswith("step5.index")
        expected = whole.rename_arrays("out/var_after_5_steps" if is_trained else "var")
        assert expected
        for variable, value in expected.items():
            np.testing.assert_array_equal(variables[variable], value, err_msg=variable)
