"""symptoms.py, scripts/doctor.py: each defect is found by its own check alone."""

import json
import os
import shutil

import corpora
import doctor
import pytest

from transformer.runtime import checkpoints
from transformer.symptoms import SYMPTOMS, Texts, examine

pytestmark = pytest.mark.usefixtures("one_thread_only")


def sample(split, language):
    return corpora.read_lines(
        os.path.join(corpora.ROOT, "data", "sample", f"{split}.{language}")
    )[:80]


SOURCES, REFERENCES = sample("test", "de"), sample("test", "en")
KNOWN = sample("dev", "de"), sample("dev", "en")


def worse(line):
    """A translation as a fair model makes them: one word of the reference is wrong."""
    words = line.split()
    return " ".join([*words[:2], "something", *words[3:]])


FAIR = [worse(line) if i % 2 else line for i, line in enumerate(REFERENCES)]


def separated(line):
    """With spaces before the punctuation, as tokenizers write it."""
    return "".join(f" {each}" if each in ".,?!" else each for each in line)


def mixed(bad, every=2):
    """The fair translations, but one in `every` is what `bad` makes of it."""
    return [line if i % every else bad(line) for i, line in enumerate(FAIR)]


DEFECTS = {
    "empty translations": mixed(lambda line: ""),
    "translations equal to each other": mixed(lambda line: FAIR[3]),
    "unknown pieces": mixed(lambda line: line.replace("e ", "e ⁇ ", 1)),
    "not detokenized": mixed(lambda line: "▁" + line.replace(" ", " ▁")),
    "copies of the source": SOURCES,
    "the wrong language": [
        line for i in range(0, 80, 8) for line in SOURCES[i : i + 8][::-1]
    ],
    "translations cut off": [
        " ".join(line.split()[: len(line.split()) // 2]) for line in FAIR
    ],
    "endless translations": [f"{line} " * 3 for line in FAIR],
}


def found(translations, sources=SOURCES, references=REFERENCES, known=KNOWN):
    return examine(Texts(sources, references, translations, known))


@pytest.mark.parametrize("translations", [FAIR, REFERENCES], ids=["fair", "perfect"])
def test_nothing_is_wrong_with_good_translations(translations):
    assert found(translations) == {}
    assert found(translations, known=None) == {}


@pytest.mark.parametrize("name", sorted(DEFECTS))
def test_each_defect_is_found_and_no_other(name):
    assert list(found(DEFECTS[name])) == [name]


@pytest.mark.parametrize(
    "make",
    [
        separated,
        lambda line: line.replace("e", "e@@ ", 1),
        lambda line: line.replace("n", "&apos;", 1),
    ],
    ids=["spaces", "joints", "entities"],
)
def test_other_signs_of_tokens(make):
    assert list(found([make(line) for line in FAIR])) == ["not detokenized"]


def test_what_the_references_hold_too_is_no_defect():
    spaced = [separated(line) for line in REFERENCES]
    assert found([separated(line) for line in FAIR], references=spaced) == {}
    alike = [REFERENCES[0] if i % 2 else line for i, line in enumerate(REFERENCES)]
    assert found(alike, references=alike) == {}


@pytest.mark.parametrize("by", [1, 2, -1])
def test_lines_that_moved(by):
    moved = FAIR[-by:] + FAIR[:-by]
    texts = found(moved)
    assert list(texts) == ["lines shifted"]
    assert (
        f"{abs(by)} lines further {'up' if by > 0 else 'down'}"
        in texts["lines shifted"]
    )


def test_a_few_lines_tell_nothing_of_their_places():
    """With ten, the same ones do."""
    for count in (9, 10):
        first = [lines[:count] for lines in (SOURCES, REFERENCES)]
        moved = REFERENCES[count - 1 : count] + REFERENCES[: count - 1]
        assert ("lines shifted" in found(moved, *first)) == (count == 10)


def test_sources_and_references_that_changed_places():
    """Whatever the model then makes of its own language."""
    for translations in (REFERENCES, SOURCES):
        texts = found(translations, sources=REFERENCES, references=SOURCES)
        assert "sources and references swapped" in texts
        assert "copies of the source" not in texts
        assert "the wrong language" not in texts


def test_every_check_is_tried_above():
    assert set(SYMPTOMS) == {
        *DEFECTS,
        "lines shifted",
        "sources and references swapped",
    }


# --- A log directory ------------------------------------------------------------------


@pytest.fixture
def logdir(trained, digits, tmp_path):
    return shutil.copytree(trained, str(tmp_path / "logs"))


def run(capsys, *argv):
    """(exit status, the lines that it prints)."""
    status = 0
    try:
        doctor.main([str(word) for word in argv])
    except SystemExit as stopped:
        status = stopped.code
    captured = capsys.readouterr()
    return status, (captured.out or captured.err).splitlines()


@pytest.mark.slow
def test_translations_that_eval_wrote_are_read_or_else_made(
    logdir, digits, capsys, monkeypatch
):
    status, made = run(capsys, "--logdir", logdir)
    assert status in (0, 1)
    assert made[0].startswith("20 translations (translated now), step ")
    best = checkpoints.find(logdir)
    references = corpora.read_lines(os.path.join(digits, "dev.en"))
    path = corpora.write_lines(best + ".dev.translations", references)
    monkeypatch.setattr(doctor, "translate", None)
    status, read = run(capsys, "--logdir", logdir)
    assert read == [
        f"20 translations ({path}), step {checkpoints.step_of(best)}: BLEU 100.00",
        "nothing found",
    ]
    assert status == 0


def test_a_defect_is_printed_and_the_status_is_1(logdir, digits, tmp_path, capsys):
    files = [os.path.join(digits, f"test.{language}") for language in ("de", "en")]
    written = corpora.write_lines(tmp_path / "written", ["1 2 3"] * 20)
    status, lines = run(
        capsys, "--logdir", logdir, "--files", *files, "--translations", written
    )
    assert status == 1
    assert "found: translations equal to each other" in lines
    assert any("20 of 20 translations are '1 2 3'" in line for line in lines)


def change(logdir, **settings):
    path = os.path.join(logdir, "hparams.json")
    with open(path) as file:
        values = json.load(file)
    with open(path, "w") as file:
        json.dump(dict(values, **settings), file)


def about(check, logdir, which="newest"):
    return check(doctor.hparams.load(logdir), logdir, checkpoints.find(logdir, which))


def test_too_few_steps(logdir):
    rows = [
        {"step": 160, "bleu": 1.0, "chrf": 9.0, "loss": 3.0},
        {"step": 240, "bleu": 1.2, "chrf": 9.0, "loss": 2.9},
    ]

    def scores(**last):
        with open(os.path.join(logdir, "dev_scores.jsonl"), "w") as file:
            file.writelines(
                json.dumps(row) + "\n" for row in (rows[0], dict(rows[1], **last))
            )

    scores()
    assert about(doctor.too_few_steps, logdir) is None
    scores(bleu=4.0)
    assert "from 1.0 to 4.0" in about(doctor.too_few_steps, logdir)
    scores(loss=2.0)
    assert "from 3.00 to 2.00" in about(doctor.too_few_steps, logdir)
    scores()
    change(logdir, warmup_steps=500)
    assert "step 240 is before the end of the warm-up, 500" in about(
        doctor.too_few_steps, logdir
    )


def test_a_vocabulary_of_another_size(logdir, tmp_path, capsys):
    assert about(doctor.other_vocabulary, logdir) is None
    splits = corpora.reversed_symbols({"train": 100, "dev": 5}, "abcdefghijklmno")
    folder = corpora.write_text(tmp_path / "letters", splits)
    corpora.prepare.main(["--out", folder, "--vocab-size", "35"])
    shutil.copy(os.path.join(folder, "spm.model"), logdir)
    said = about(doctor.other_vocabulary, logdir)
    assert "has 35 source pieces, the model 25" in said
    capsys.readouterr()
    status, lines = run(capsys, "--logdir", logdir)
    assert status == 1
    assert lines[0] == "found: a vocabulary that is not the model's"


def test_a_vocabulary_that_is_not_that_of_the_data_folder(logdir, tmp_path):
    splits = corpora.reversed_symbols({"train": 100, "dev": 5}, "abcdefghij")
    folder = corpora.prepared(tmp_path / "letters", splits)
    change(logdir, data=folder)
    said = about(doctor.other_vocabulary, logdir)
    assert os.path.join(folder, "spm.model") in said and "rewritten" in said


def test_what_cannot_be_looked_at(logdir, digits, tmp_path, capsys):
    short = corpora.write_lines(tmp_path / "short", ["1 2 3"])
    for flags, words in (
        (["--logdir", tmp_path / "none"], [str(tmp_path / "none"), "train.py"]),
        (
            ["--logdir", logdir, "--translations", short],
            ["20 source lines", "1 translations", short],
        ),
        (["--logdir", logdir, "--files", short, tmp_path / "no"], ["no"]),
    ):
        status, lines = run(capsys, *flags)
        assert status == 2 and len(lines) == 1
        assert lines[0].startswith("doctor.py: ")
        assert [word for word in words if word not in lines[0]] == []


# --- Verdicts on whole models ---------------------------------------------------------


def poor(line):
    """A translation as a weak model makes them: one word in three is right."""
    wrong = ("we", "then", "maybe", "saw", "this")
    return " ".join(
        word if i % 3 == 0 else wrong[i % 5] for i, word in enumerate(line.split())
    )


POOR = [poor(line) for line in REFERENCES]


def curve(*bleus, losses=()):
    """Evaluations, 80 steps apart, by their distance to that of the checkpoint."""
    rows = [
        {"step": 80 * (i + 1 - len(bleus)), "bleu": bleu}
        for i, bleu in enumerate(bleus)
    ]
    for row, loss in zip(rows, losses):
        row["loss"] = loss
    return rows


# name: (dev scores up to the checkpoint, translations, warm-up, what is found)
MODELS = {
    # The model of README: it learned up to its last step, and it is good.
    "sample": (curve(34.2, 84.1, 95.7, losses=(1.9, 0.6, 0.2)), FAIR, 60, []),
    "perfect": (curve(99.0, 100.0, losses=(0.2, 0.1)), REFERENCES, 60, []),
    "evaluated once": (curve(40.0, losses=(2.0,)), FAIR, 60, []),
    "never evaluated": ([], FAIR, 60, []),
    "without losses": (curve(1.0, 40.0), FAIR, 60, []),
    "a good one, in its warm-up": (curve(20.0, 40.0), FAIR, 500, []),
    "weak and flat": (curve(9.0, 9.1, losses=(3.0, 2.95)), POOR, 60, []),
    "weak, flat, without losses": (curve(9.0, 9.1), POOR, 60, []),
    "weak, worse since": (curve(9.1, 8.0, losses=(2.9, 3.3)), POOR, 60, []),
    "weak, evaluated once": (curve(9.1, losses=(2.9,)), POOR, 60, []),
    # The sick.
    "in its warm-up": (curve(0.1, 0.2), POOR, 500, ["too few steps"]),
    "never evaluated, in its warm-up": ([], POOR, 500, ["too few steps"]),
    "BLEU rises": (curve(1.0, 9.0), POOR, 60, ["too few steps"]),
    "the loss falls": (curve(8.8, 9.0, losses=(4.0, 3.0)), POOR, 60, ["too few steps"]),
    **{
        name: (curve(9.0, 9.1), translations, 60, [name])
        for name, translations in DEFECTS.items()
    },
}


@pytest.mark.parametrize("name", MODELS)
def test_the_verdict_on_a_model(name, logdir, tmp_path, capsys):
    rows, translations, warmup_steps, wanted = MODELS[name]
    step = checkpoints.step_of(checkpoints.find(logdir))
    change(logdir, warmup_steps=warmup_steps)
    with open(os.path.join(logdir, "dev_scores.jsonl"), "w") as file:
        file.writelines(
            json.dumps(dict(row, step=step + row["step"])) + "\n" for row in rows
        )
    paths = [
        corpora.write_lines(tmp_path / side, lines)
        for side, lines in (
            ("source", SOURCES),
            ("reference", REFERENCES),
            ("translations", translations),
        )
    ]
    status, lines = run(
        capsys, "--logdir", logdir, "--files", *paths[:2], "--translations", paths[2]
    )
    assert [line[7:] for line in lines if line.startswith("found: ")] == wanted
    assert status == bool(wanted) and "BLEU" in lines[0]


def test_enough_models_are_tried():
    healthy = [name for name, (_, _, _, wanted) in MODELS.items() if not wanted]
    assert len(healthy) >= 10 and len(MODELS) - len(healthy) >= 10
