"""scripts/doctor.py: each defect is found by its own check alone."""

import json
import os
import shutil

import corpora
import numpy as np
import pytest

from transformer import hparams
from transformer.commands import doctor
from transformer.logdir import manifests
from transformer.logdir.names import DEV_SCORES

pytestmark = pytest.mark.usefixtures("one_thread_only")


def sample(split, language):
    return corpora.read_lines(
        os.path.join(corpora.ROOT, "data", "sample", f"{split}.{language}")
    )[:80]


SOURCES, REFERENCES = sample("test", "de"), sample("test", "en")


def worse(line):
    """A translation as a fair model makes them: one word of the reference is wrong."""
    words = line.split()
    return " ".join([*words[:2], "something", *words[3:]])


FAIR = [worse(line) if i % 2 else line for i, line in enumerate(REFERENCES)]


def separated(line):
    """With spaces before the punctuation, as tokenizers write it."""
    return "".join(f" {token}" if token in ".,?!" else token for token in line)


def mix(bad, every=2):
    """The fair translations, but one in `every` is what `bad` makes of it."""
    return [line if i % every else bad(line) for i, line in enumerate(FAIR)]


EMPTY = "translations that ignore the source"
SOURCE = "the language of the source"
# name: (what is found, the translations)
DEFECTS = {
    "empty": (EMPTY, mix(lambda line: "")),
    "alike": (EMPTY, mix(lambda line: FAIR[3])),
    "unknown": ("unknown pieces", mix(lambda line: line.replace("e ", "e ⁇ ", 1))),
    "pieces": ("not detokenized", mix(lambda line: "▁" + line.replace(" ", " ▁"))),
    "spaces": ("not detokenized", [separated(line) for line in FAIR]),
    "joints": ("not detokenized", [line.replace("e", "e@@ ", 1) for line in FAIR]),
    "entities": ("not detokenized", [line.replace("n", "&apos;", 1) for line in FAIR]),
    "copies": (SOURCE, SOURCES),
    "no words": ("words of no language", [line[::-1].lower() for line in FAIR]),
    "endless": (
        "translations that do not end",
        mix(lambda line: line + f" {line}" * 3),
    ),
    "dots": ("translations that do not end", [line + "." * 20 for line in FAIR]),
    "capitals": ("another case", [line.upper() for line in FAIR]),
    "another language": (
        SOURCE,
        [line for i in range(0, 80, 8) for line in SOURCES[i : i + 8][::-1]],
    ),
}


def diagnose(translations, sources=SOURCES, references=REFERENCES):
    texts = doctor.Texts(sources, references, translations)
    explanations = {name: check(texts) for name, check in doctor.SYMPTOMS.items()}
    return {name: text for name, text in explanations.items() if text}


@pytest.mark.parametrize("translations", [FAIR, REFERENCES], ids=["fair", "perfect"])
def test_nothing_is_wrong_with_good_translations(translations):
    assert diagnose(translations) == {}


@pytest.mark.parametrize("name", sorted(DEFECTS))
def test_each_defect_is_found_and_no_other(name):
    symptom, translations = DEFECTS[name]
    assert list(diagnose(translations)) == [symptom]


def test_what_the_references_hold_too_is_no_defect():
    spaced = [separated(line) for line in REFERENCES]
    assert diagnose([separated(line) for line in FAIR], references=spaced) == {}
    alike = [REFERENCES[0] if i % 2 else line for i, line in enumerate(REFERENCES)]
    assert diagnose(alike, references=alike) == {}


def test_sources_and_references_that_were_swapped():
    assert SOURCE in diagnose(REFERENCES, sources=REFERENCES, references=SOURCES)


# --- A log directory ------------------------------------------------------------------


@pytest.mark.parametrize("schedule, is_found", [("", True), ("constant", False)])
def test_only_a_schedule_with_a_warm_up_can_be_within_it(schedule, is_found):
    hp = hparams.HParams(schedule=schedule, warmup_steps=100)
    assert bool(doctor.find_short_training(hp, "model.ckpt-99")) == is_found
    assert doctor.find_short_training(hp, "model.ckpt-100") == ""


@pytest.mark.parametrize(
    "per_character, bleu, is_found",
    [(0.1, 0.3, True), (0.6, 0.3, True), (0.7, 0.3, False), (0.1, 20.0, False)],
)
def test_a_loss_that_translations_do_not_fit(
    per_character, bleu, is_found, digits, tmp_path
):
    lines = corpora.read_lines(os.path.join(digits, "dev.en"))
    pieces = np.load(os.path.join(digits, "dev.target.ids.npy")).size + len(lines)
    loss = per_character * sum(map(len, lines)) / pieces
    rows = [
        {"step": 10, "bleu": 0.1, "loss": 9.0},
        {"step": 20, "bleu": bleu, "loss": loss},
    ]
    (tmp_path / DEV_SCORES).write_text("".join(json.dumps(x) + "\n" for x in rows))

    def find(step, data=digits):
        hp = hparams.HParams(data=str(data))
        return doctor.find_leaked_targets(hp, str(tmp_path / f"model.ckpt-{step}"))

    assert bool(find(20)) == is_found
    assert not is_found or f"{loss:.2f} ({per_character:.2f} per char" in find(20)
    assert not find(10) and not find(30)
    assert not find(20, tmp_path / "gone")


@pytest.fixture
def logdir(trained, digits, tmp_path):
    return shutil.copytree(trained, str(tmp_path / "logs"))


def run(capsys, *argv):
    """(exit status, the lines that it prints)."""
    status = corpora.exit_status("doctor", *argv)
    captured = capsys.readouterr()
    return status, (captured.out or captured.err).splitlines()


@pytest.mark.slow
def test_translations_that_eval_wrote_are_read_or_else_made(
    logdir, digits, capsys, monkeypatch
):
    status, lines = run(capsys, "--logdir", logdir)
    assert status in (0, 1)
    assert lines[0].startswith("20 translations (translated now): BLEU ")
    best = manifests.find_checkpoint(logdir)
    references = corpora.read_lines(os.path.join(digits, "dev.en"))
    path = corpora.write_lines(best + ".dev.translations", references)
    monkeypatch.setattr(doctor, "translate", None)
    status, read = run(capsys, "--logdir", logdir)
    assert read == [f"20 translations ({path}): BLEU 100.00", "nothing found"]
    assert status == 0


def test_defects_are_printed_and_the_status_is_1(
    logdir, digits, tmp_path, capsys, monkeypatch
):
    sides = [
        corpora.read_lines(os.path.join(digits, f"test.{language}"))
        for language in ("de", "en")
    ]
    files = []
    for side, name in zip(sides, ("de", "en")):
        side[3] += "\x85 1"
        files.append(corpora.write_lines(tmp_path / name, side))
    written = corpora.write_lines(tmp_path / "written", ["1 2 3"] * 20)
    monkeypatch.setattr(doctor, "find_misaligned_training", lambda data: f"in {data}")
    status, lines = run(
        capsys, "--logdir", logdir, "--files", *files, "--translations", written
    )
    assert status == 1
    for found in (
        EMPTY,
        "misaligned training pairs",
        "line ends in the sources",
        "line ends in the references",
    ):
        assert f"found: {found}" in lines
    assert any("20 of 20 translations are '1 2 3'" in line for line in lines)
    assert any(f"in {digits}" in line for line in lines)
    assert sum("U+0085 NEL" in line for line in lines) == 2


def test_what_another_finding_explains_is_not_named(logdir, tmp_path, capsys):
    translations = ["1 2 3"] * 20  # of twenty other sentences
    written = corpora.write_lines(tmp_path / "written", translations)
    flags = ["--logdir", logdir, "--translations", written]
    _, before = run(capsys, *flags)
    assert f"found: {EMPTY}" in before
    path = os.path.join(logdir, DEV_SCORES)
    rows = [json.loads(line) for line in corpora.read_lines(path)]
    corpora.write_lines(
        path, [json.dumps({**row, "loss": 0.01, "bleu": 0.0}) for row in rows]
    )
    _, after = run(capsys, *flags)
    assert "found: targets shown to the decoder" in after
    assert f"found: {EMPTY}" not in after


def test_what_cannot_be_looked_at(logdir, digits, tmp_path, capsys):
    short = corpora.write_lines(tmp_path / "short", ["1 2 3"])
    for flags, words in (
        (["--logdir", tmp_path / "none"], [str(tmp_path / "none"), "train.py"]),
        (
            ["--logdir", logdir, "--translations", short],
            ["20 source lines", "got 1", short],
        ),
        (["--logdir", logdir, "--files", short, tmp_path / "no"], ["no"]),
    ):
        status, lines = run(capsys, *flags)
        assert status == 2 and len(lines) == 1
        assert lines[0].startswith("doctor.py: ")
        assert [word for word in words if word not in lines[0]] == []


def test_a_file_given_twice_is_found():
    texts = doctor.Texts(SOURCES, SOURCES, FAIR)
    assert "the same file" in doctor.find_copied_references(texts)
    assert (
        doctor.find_copied_references(doctor.Texts(SOURCES, REFERENCES, FAIR)) is None
    )
