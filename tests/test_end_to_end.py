"""The whole walk through the commands: text → ids → training → BLEU → translations."""

import json
import os
import shutil
import subprocess
import sys

import corpora
import pytest

# Half a minute on two cores; on TensorFlow 1.15 and 2.21, with any seed that was tried,
# dev BLEU is above 99 at step 600.
SETTINGS = [
    "--num_blocks",
    "1",
    "--d_model",
    "64",
    "--d_ff",
    "256",
    "--num_heads",
    "4",
    "--dropout_rate",
    "0",
    "--batch_tokens",
    "1024",
    "--max_steps",
    "900",
    "--schedule",
    "linear",
    "--learning_rate",
    "0.003",
    "--warmup_steps",
    "200",
    "--eval_every",
    "300",
    "--save_every",
    "300",
    "--log_every",
    "100",
    "--max_extra_length",
    "5",
]


def run(*argv, **options):
    """Runs a command of the repository; returns the finished process, with its text."""
    environment = dict(os.environ, PYTHONIOENCODING="utf-8", TF_CPP_MIN_LOG_LEVEL="2")
    return subprocess.run(
        [sys.executable, *map(str, argv)],
        cwd=corpora.ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        **options,
    )


def succeed(*argv, **options):
    """As `run`; returns the lines on standard output of a command that succeeds."""
    finished = run(*argv, **options)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.splitlines()


@pytest.mark.slow
def test_a_model_learns_to_reverse_digits(tmp_path):
    splits = corpora.reversed_symbols({"train": 5000, "dev": 50, "test": 200})
    sources, references = splits["test"]
    data = corpora.write_text(tmp_path / "data", splits)
    logdir = str(tmp_path / "logs" / "digits")
    scores = str(tmp_path / "scores.json")

    succeed("scripts/prepare.py", "--out", data, "--vocab-size", corpora.VOCAB_SIZE)
    succeed("train.py", "--data", data, "--logdir", logdir, *SETTINGS)
    evaluated = succeed("eval.py", "--logdir", logdir, "--json", scores)
    with open(scores, encoding="utf-8") as file:
        found = json.load(file)
    assert evaluated[-6].startswith(f"BLEU = {found['bleu']:.2f}, ")
    assert found["lines"] == 200
    assert found["bleu"] >= 95

    given = "".join(line + "\n" for line in sources)
    translated = succeed("scripts/translate.py", "--logdir", logdir, input=given)
    assert translated == corpora.read_lines(found["translations"])
    right = sum(map(str.__eq__, translated, references))
    assert right >= 0.9 * len(references)

    # Everything that a translation needs is in the log directory, wherever it is.
    moved = str(tmp_path / "elsewhere")
    files = [
        shutil.copy(os.path.join(data, name), str(tmp_path))
        for name in ("test.de", "test.en")
    ]
    shutil.move(logdir, moved)
    shutil.rmtree(data)
    again = succeed("eval.py", "--logdir", moved, "--files", *files)
    assert again[-6:] == evaluated[-6:]
    assert moved in again[0]
    assert succeed("scripts/translate.py", "--logdir", moved, input=given) == translated


@pytest.mark.slow
@pytest.mark.parametrize(
    "command, flags",
    [
        ("train.py", ["--data", "no/data", "--logdir"]),
        ("eval.py", ["--logdir"]),
        ("scripts/translate.py", ["--logdir"]),
    ],
    ids=["train", "eval", "translate"],
)
def test_a_refusal_is_one_line_and_a_status(tmp_path, command, flags):
    finished = run(command, *flags, tmp_path / "none", input="")
    assert finished.returncode == 2
    assert finished.stdout == ""
    assert "Traceback" not in finished.stderr
    name = os.path.basename(command)
    assert finished.stderr.splitlines()[-1].startswith(name + ": ")
    assert not (tmp_path / "none").exists()
