"""Checkpoints of the original systems become log directories of this project."""

import dataclasses
import glob
import io
import os
import re
import sys

import corpora
import fixtures
import import_checkpoint
import numpy as np
import pytest
import translate
from originals import (
    DIALECTS,
    SIZES,
    VOCAB,
    as_original,
    random_model,
    recorded_case,
    run_import,
    source_of,
    subword_list,
    with_moments,
    word_list,
    write,
)

import eval as eval_program
import hparams
from transformer.originals import convert, recorded
from transformer.runtime import checkpoints
from transformer.runtime.reporting import read_dev_scores
from transformer.text.vocabulary import BOS, EOS, PAD, UNK
from transformer.text.vocabulary_files import (
    JOINT_MODEL,
    load_vocabularies,
    load_vocabulary,
)
from transformer.translator import Translator

SOURCE = {"A": "tutorial", "B": "kyubyong", "D": "tensor2tensor"}


@pytest.fixture
def original(tmp_path):
    """A checkpoint of Kyubyong's, in the middle of a training."""
    return write(with_moments("kyubyong"), tmp_path)


def refused(capsys, *argv):
    return corpora.refusal(capsys, import_checkpoint.main, *argv)


def test_refusals_of_the_command(capsys, original, tmp_path, digits):
    out = tmp_path / "log"
    argv = ["--from", "kyubyong", "--ckpt", original, "--num_heads", "2", "--out", out]
    spm = os.path.join(digits, JOINT_MODEL)
    assert "found no checkpoint" in refused(capsys, *argv, "--ckpt", tmp_path / "none")
    assert "of tutorial" in refused(capsys, *argv, "--from", "tutorial")
    assert "num_heads: found 3" in refused(capsys, *argv, "--num_heads", "3")
    assert "one vocabulary" in refused(
        capsys, *argv, "--src_vocab", spm, "--tgt_vocab", spm
    )
    assert "--src_vocab" in refused(capsys, *argv, "--src_vocab", spm)
    assert "<PAD>" in refused(
        capsys,
        *argv,
        "--vocab",
        corpora.write_lines(
            tmp_path / "bad", ["word{}".format(i) for i in range(VOCAB)]
        ),
    )
    assert "found no .npz" in refused(capsys, *argv, "--verify", original)
    block = str(tmp_path / "block.npz")
    np.savez(block, **{"in/inputs": np.zeros(1)})
    assert "found no in/x, wanted a case" in refused(capsys, *argv, "--verify", block)
    data = original + ".data-00000-of-00001"
    for damage in (os.remove, lambda path: corpora.write_lines(path, ["no data"])):
        damage(data)
        assert "or a damaged one" in refused(capsys, *argv)
    assert not out.exists()


@pytest.mark.slow
def test_a_log_directory_is_not_overwritten(capsys, original, tmp_path):
    out = run_import("kyubyong", original, tmp_path / "log")
    assert "wanted a new folder" in refused(
        capsys,
        "--from",
        "kyubyong",
        "--ckpt",
        original,
        "--num_heads",
        "2",
        "--out",
        out,
    )


@pytest.mark.slow
def test_without_a_vocabulary_it_says_so(capsys, original, tmp_path):
    logdir = run_import("kyubyong", original, tmp_path / "log")
    said = capsys.readouterr().out
    assert "imported for ids only" in said and "training continues exactly" in said
    assert "output_projection: False (paper: True)" in said
    argv = ["--logdir", logdir]
    assert "found no vocabulary" in corpora.refusal(capsys, translate.main, *argv)
    some = corpora.write_lines(tmp_path / "text", ["1 2"])
    assert "found no vocabulary" in corpora.refusal(
        capsys, eval_program.main, *argv, "--files", some, some
    )


@pytest.mark.slow
def test_an_imported_model_translates_and_is_trained_on(original, tmp_path, digits):
    logdir = run_import(
        "kyubyong",
        original,
        tmp_path / "log",
        "--spm",
        os.path.join(digits, JOINT_MODEL),
    )
    with Translator(hparams.load(logdir), logdir) as translator:
        assert translator.restore() == checkpoints.path_of(logdir, 3)
        assert len(translator.translate(["1 2 3", "4"])) == 2
    before = corpora.read_variables(checkpoints.path_of(logdir, 3))
    corpora.train.main(
        [
            "--data",
            digits,
            "--logdir",
            logdir,
            "--max_steps",
            "4",
            "--batch_tokens",
            "200",
            "--search",
            "greedy",
            "--max_extra_length",
            "3",
        ]
    )
    after = corpora.read_variables(checkpoints.path_of(logdir, 4))
    assert after["global_step"] == 4
    np.testing.assert_allclose(after["beta1_power"], 0.9 * before["beta1_power"])
    for name in random_model("kyubyong"):
        assert (before[name] != after[name]).any(), name
        # An old moment fades by beta1 = 0.9 or beta2 = 0.999: it was not thrown away.
        assert (after[name + "/Adam_1"] >= 0.998 * before[name + "/Adam_1"]).all()


@pytest.mark.slow
def test_training_goes_on_from_a_checkpoint_of_step_0(tmp_path, digits):
    original = write(as_original(random_model("kyubyong"), "kyubyong"), tmp_path)
    logdir = run_import(
        "kyubyong",
        original,
        tmp_path / "log",
        "--spm",
        os.path.join(digits, JOINT_MODEL),
    )
    corpora.train.main(
        [
            "--data",
            digits,
            "--logdir",
            logdir,
            "--max_steps",
            "1",
            "--batch_tokens",
            "200",
            "--search",
            "greedy",
            "--max_extra_length",
            "3",
            "--schedule",
            "constant",
            "--learning_rate",
            "0.001",
        ]
    )
    before, after = (
        corpora.read_variables(checkpoints.path_of(logdir, step)) for step in (0, 1)
    )
    for name in random_model("kyubyong"):  # Adam moves nothing further than its rate
        np.testing.assert_allclose(after[name], before[name], rtol=0, atol=0.0011)


@pytest.mark.slow
def test_word_lists_of_the_tutorial(capsys, tmp_path):
    checkpoint = write(as_original(random_model("tutorial"), "tutorial"), tmp_path)
    rare = word_list(tmp_path / "de.vocab.tsv", VOCAB, more=["rare\t19", "rarer\t18"])
    exact = word_list(tmp_path / "en.vocab.tsv", VOCAB)
    logdir = run_import(
        "tutorial",
        checkpoint,
        tmp_path / "log",
        "--src_vocab",
        rare,
        "--tgt_vocab",
        exact,
    )
    vocabularies = load_vocabularies(logdir)
    assert not vocabularies.joint
    assert vocabularies.source.encode("w4  w9 rare <S>") == [4, 9, UNK, UNK]
    assert vocabularies.target.encode_lines(["w5", ""]) == [[5], []]
    assert vocabularies.target.decode([2, 5, 6, 3, 7]) == "w5 w6"
    with Translator(hparams.load(logdir), logdir) as translator:
        translator.restore()
        [[best]] = translator.translate(["w4 w5"])
        assert all(
            word in ("<UNK>",) or word.startswith("w") for word in best.text.split()
        )
    tied = word_list(
        tmp_path / "tied.tsv", VOCAB, more=["rare\t{}".format(1000 - VOCAB + 1)]
    )
    short = word_list(tmp_path / "short.tsv", VOCAB - 1)
    for bad, found in ((tied, VOCAB + 1), (short, VOCAB - 1)):
        assert "found {} words, wanted {}".format(found, VOCAB) in refused(
            capsys,
            "--from",
            "tutorial",
            "--ckpt",
            checkpoint,
            "--num_heads",
            "2",
            "--out",
            tmp_path / "other",
            "--src_vocab",
            bad,
            "--tgt_vocab",
            exact,
        )


@pytest.mark.slow
def test_sentences_of_the_tutorial_are_padded_as_there(capsys, tmp_path):
    """It attends to padding: so a translation depends on how much of it there is."""
    checkpoint = write(as_original(random_model("tutorial"), "tutorial"), tmp_path)
    logdir = run_import(
        "tutorial",
        checkpoint,
        tmp_path / "log",
        "--vocab",
        word_list(tmp_path / "vocab.tsv", VOCAB),
    )
    assert "sources are padded to 7 pieces" in capsys.readouterr().out
    hp, line = hparams.load(logdir), "w4 w5"
    ids = [[4, 5, EOS] + [PAD] * width for width in (0, 4)]
    scores, logits = [], []
    for padded in (hp, dataclasses.replace(hp, pad_sources_to=0)):
        with Translator(padded, logdir) as translator:
            translator.restore()
            for lines in ([line], [line, "w6 w7 w8 w9 w10"]):
                scores.append(translator.translate(lines)[0][0].score)
        with recorded.Model(padded, checkpoints.find(logdir, "newest")) as model:
            logits += [model.run_logits([source], [[BOS]]) for source in ids]
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-5)
    assert abs(scores[2] - scores[3]) > 1e-3
    for place in (0, 1):
        np.testing.assert_allclose(logits[place], logits[3], rtol=1e-5, atol=1e-5)


def test_a_word_list_is_checked(tmp_path):
    twice = word_list(tmp_path / "twice.tsv", 6, more=["w4\t1"])
    with pytest.raises(ValueError, match="'w4' 2 times"):
        load_vocabulary(twice)


def greedy_ids(model, source, limit):
    """What a model of tensor2tensor says, place by place; the end is 1."""
    ids = []
    while 1 not in ids and len(ids) < limit - 1:
        logits = model.run_logits([source], [[0, *ids]])[0, -1]
        ids.append(int(logits[1:].argmax()) + 1)  # anything but padding
    return ids


@pytest.mark.slow
def test_a_subword_vocabulary_of_tensor2tensor(capsys, tmp_path):
    model = random_model("tensor2tensor", seed=5)
    model["embedding/lookup_table"][1] *= 2.5  # so that some sentences end
    checkpoint = write(as_original(model, "tensor2tensor"), tmp_path)
    argv = ["--from", "tensor2tensor", "--ckpt", checkpoint, "--num_heads", "2"]
    long = subword_list(tmp_path / "long", VOCAB + 1)
    for flag, said in (
        ("--vocab", f"found {VOCAB + 1} pieces, wanted {VOCAB}"),
        ("--spm", "wanted --vocab"),
    ):
        assert said in refused(capsys, *argv, "--out", tmp_path / "log", flag, long)
    logdir = run_import(
        "tensor2tensor",
        checkpoint,
        tmp_path / "log",
        "--vocab",
        subword_list(tmp_path / "vocab.ende", VOCAB),
    )
    assert "ids only" not in capsys.readouterr().out
    hp = dataclasses.replace(hparams.load(logdir), search="greedy", max_extra_length=5)
    lines = ["2", "1;", "9_0", "0 1 2"]
    with Translator(hp, logdir) as translator:
        checkpoint = translator.restore()
        vocabulary = translator.vocabularies.source
        said = [best.text for [best] in translator.translate(lines)]
    sources = [[*ids, 1] for ids in vocabulary.encode_lines(lines)]
    with recorded.Model(hp, checkpoint) as model:
        wanted = [greedy_ids(model, source, len(source) + 5) for source in sources]
    assert said == [vocabulary.decode(ids) for ids in wanted]
    assert len({1 in ids for ids in wanted}) == 2, "some end, some are ended"


@pytest.mark.slow
def test_two_subword_vocabularies_of_tensor2tensor(tmp_path):
    told = dict(source_vocab_size=VOCAB + 4, target_vocab_size=VOCAB, joint_vocab=False)
    model = random_model("tensor2tensor", **told)
    logdir = run_import(
        "tensor2tensor",
        write(as_original(model, "tensor2tensor"), tmp_path),
        tmp_path / "log",
        "--src_vocab",
        subword_list(tmp_path / "de", VOCAB + 4),
        "--tgt_vocab",
        subword_list(tmp_path / "en", VOCAB),
    )
    vocabularies = load_vocabularies(logdir)
    assert (vocabularies.source.size, vocabularies.target.size) == (VOCAB + 4, VOCAB)
    assert not hparams.load(logdir).joint_vocab


@pytest.mark.parametrize(
    "dialect",
    [
        DIALECTS[0],
        *(pytest.param(each, marks=pytest.mark.slow) for each in DIALECTS[1:]),
    ],
)
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
    said = refused(
        capsys,
        "--from",
        source_of(dialect),
        "--ckpt",
        changed,
        "--num_heads",
        "2",
        "--out",
        tmp_path / "bad",
        "--verify",
        case,
    )
    assert "logits" in said and "wanted at most 1e-05" in said


def test_a_result_of_another_shape_is_no_small_difference():
    """Though NumPy would subtract a row from each of a table."""
    said = r"found a result of shape \(2, 3\), wanted \(3,\) as recorded"
    with pytest.raises(ValueError, match=said):
        recorded.worst(np.zeros([2, 3]), np.zeros([3]))
    assert recorded.worst(np.zeros([3]), [0, 0.25, -8]) == 1


WHOLE = fixtures.cases("A", "B", "D", where=lambda meta: "checkpoint" in meta)


def original_checkpoints():
    """[(case, checkpoint)] of the recorded whole models whose checkpoint is there."""
    found = []
    for name in WHOLE:
        folder = re.match(r"(ckpt_\w+)/", fixtures.load(name)["meta"]["checkpoint"])
        folder = folder and fixtures.path_of(name[:2] + folder.group(1))
        if folder and os.path.isdir(folder):
            found += [
                (name, os.path.join(folder, file[: -len(".index")]))
                for file in sorted(os.listdir(folder))
                if file.endswith(".index")
            ]
    return found


@pytest.mark.slow
@fixtures.skip_without_fixtures
def test_the_original_checkpoints_reproduce_what_was_recorded(tmp_path, capsys):
    for number, (name, checkpoint) in enumerate(original_checkpoints()):
        case = fixtures.load(name)
        if checkpoint.endswith("step5") and "out/global_step_after" not in case:
            continue  # what was decoded at the first step
        import_checkpoint.main(
            [
                "--from",
                SOURCE[name[0]],
                "--ckpt",
                checkpoint,
                "--out",
                str(tmp_path / str(number)),
                "--verify",
                fixtures.path_of(name),
                "--num_heads",
                str(case["meta"]["kwargs"]["num_heads"]),
            ]
        )
        assert "worst relative difference" in capsys.readouterr().out


@pytest.mark.slow
@fixtures.skip_without_fixtures
def test_recorded_variables_in_a_checkpoint_reproduce_what_was_recorded(
    tmp_path, capsys
):
    """Of the whole models whose checkpoint was not kept."""
    kept = {name for name, _ in original_checkpoints()}
    for number, name in enumerate(sorted(set(WHOLE) - kept)):
        case = fixtures.load(name)
        folder = tmp_path / str(number)
        os.mkdir(str(folder))
        checkpoint = write(fixtures.group(case, "var"), folder)
        import_checkpoint.main(
            [
                "--from",
                SOURCE[name[0]],
                "--ckpt",
                checkpoint,
                "--out",
                str(folder / "log"),
                "--verify",
                fixtures.path_of(name),
                "--num_heads",
                str(case["meta"]["kwargs"]["num_heads"]),
            ]
        )
        said = capsys.readouterr().out
        assert "logits: worst relative difference" in said
        for kind in ("greedy", "beam"):
            if any(kind in key for key in case):
                assert f"\n{kind}: worst relative difference" in said


@pytest.mark.slow
@fixtures.skip_without_fixtures
def test_a_model_of_tensor2tensor_is_used_like_any_other(tmp_path, capsys, monkeypatch):
    name, checkpoint = next(each for each in original_checkpoints() if "D/" in each[0])
    heads = fixtures.load(name)["meta"]["kwargs"]["num_heads"]
    told = convert.settings_of("tensor2tensor", convert.read(checkpoint))
    vocab = subword_list(
        tmp_path / "vocab",
        told["source_vocab_size"],
        [f"{digit}_" for digit in range(10)],
    )
    logdir = run_import(
        "tensor2tensor",
        checkpoint,
        tmp_path / "log",
        "--num_heads",
        str(heads),
        "--vocab",
        vocab,
    )
    data = corpora.write_text(
        tmp_path / "data",
        corpora.reversed_symbols({"train": 2000, "dev": 20, "test": 20}),
    )
    corpora.prepare.main(["--out", data, "--vocab-from", logdir])
    model_flags = corpora.SMALL.index("--batch_tokens")
    corpora.train.main(
        ["--data", data, "--logdir", logdir, *corpora.SMALL[model_flags:]]
    )
    first, *_, last = [row["bleu"] for row in read_dev_scores(logdir)]
    assert last > first + 5, "it learns"
    capsys.readouterr()
    eval_program.main(["--logdir", logdir])
    [bleu] = re.findall(r"^BLEU = ([\d.]+),", capsys.readouterr().out, re.MULTILINE)
    assert float(bleu) > first
    [path] = glob.glob(os.path.join(logdir, "best.*.test.translations"))
    with open(os.path.join(data, "test.de"), "rb") as file:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file))
        translate.main(["--logdir", logdir])
    assert capsys.readouterr().out.splitlines() == corpora.read_lines(path)
