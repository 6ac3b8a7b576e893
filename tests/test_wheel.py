"""The wheel and the source distribution, as a user of pip has them.

The wheel is built from the source distribution and installed into an environment that
sees the packages of this one, but not the checkout. Commands run by the name that a
user types, in an empty folder, with an empty home.
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import textwrap
import zipfile

import corpora
import pytest
from conftest import HAS_BFLOAT16

from transformer import __version__
from transformer.commands.terminal import COMMANDS

pytestmark = pytest.mark.slow

TRAIN = corpora.TINY + "--max_steps=4 --save_every=2 --eval_every=4".split()
# A command → its flags; they run in this order.
STEPS = {
    "download": "sample --out data/sample",
    "prepare": "--out digits --vocab_size=25",
    "train": f"--data digits --logdir logs {' '.join(TRAIN)}",
    "eval": "--logdir logs --split test",
    "average": "--logdir logs --last 2 --out mean",
    "doctor": "--logdir logs",
}


def run(*words, status=0, **options):
    """Run a program; return its standard output and error."""
    done = subprocess.run(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
        **options,
    )
    assert done.returncode == status, f"{words}\n{done.stdout[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """The unpacked source distribution of what is checked in, or would be."""
    folder = str(tmp_path_factory.mktemp("source"))
    ignored = shutil.ignore_patterns(
        ".git", ".venv*", "*.egg-info", ".*_cache", "logs", "build", "dist"
    )
    shutil.copytree(corpora.ROOT, folder + "/checkout", ignore=ignored)
    run(sys.executable, "setup.py", "-q", "sdist", cwd=folder + "/checkout")
    [archive] = glob.glob(folder + "/checkout/dist/*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(folder)
    [unpacked] = glob.glob(folder + "/transformer[-_]tf-*")
    return unpacked


def build(source, folder):
    """Build a wheel from a copy of the sources; return its path."""
    copy = shutil.copytree(source, str(folder / "copy"))
    words = "-m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir".split()
    run(sys.executable, *words, str(folder), copy)
    [wheel] = glob.glob(str(folder / "*.whl"))
    return wheel


@pytest.fixture(scope="module")
def wheel(source, tmp_path_factory):
    return build(source, tmp_path_factory.mktemp("wheel"))


class Installed:
    """An environment with the wheel, and an empty folder to work in."""

    def __init__(self, folder, wheel):
        self.work = os.path.join(folder, "work")
        self.bin = os.path.join(folder, "environment", "bin")
        self.variables = {
            "HOME": os.path.join(folder, "home"),
            "PATH": os.pathsep.join([self.bin, "/usr/bin", "/bin"]),
            "PYTHONIOENCODING": "utf-8",
            "CUDA_VISIBLE_DEVICES": "",  # workers on cores of the CPU
        }
        os.makedirs(self.work)
        os.makedirs(self.variables["HOME"])
        run(sys.executable, "-m", "venv", os.path.dirname(self.bin))
        script = "import sysconfig; print(sysconfig.get_path('purelib'))"
        self.packages = self.run("python", "-c", script).strip()
        with open(os.path.join(self.packages, "beside.pth"), "w") as file:
            file.write(sysconfig.get_path("purelib") + "\n")
        flags = "--quiet --no-deps --no-index --disable-pip-version-check".split()
        self.run("pip", "install", *flags, wheel)

    def run(self, program, *words, status=0, **options):
        """Run a program of the environment; return its output."""
        path = os.path.join(self.bin, program)
        options = {"cwd": self.work, "env": self.variables, **options}
        return run(path, *words, status=status, **options)

    def command(self, *words, **options):
        """Run transformer-tf."""
        return self.run("transformer-tf", *words, **options)


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    return Installed(str(tmp_path_factory.mktemp("installed")), wheel)


@pytest.fixture(scope="module")
def trained(installed):
    """Run the commands of STEPS; return their outputs by name."""
    splits = corpora.reversed_symbols({"train": 200, "dev": 5, "test": 5})
    corpora.write_text(os.path.join(installed.work, "digits"), splits)
    output = {}
    for name, flags in STEPS.items():
        options = {"status": 1} if name == "doctor" else {}  # it finds too few steps
        output[name] = installed.command(name, *flags.split(), **options)
    return output


# What is built


def test_the_source_distribution_has_all_that_is_checked_in(source):
    if not os.path.exists(os.path.join(corpora.ROOT, ".git")):
        pytest.skip("no checkout")
    tracked = run("git", "ls-files", "-z", cwd=corpora.ROOT).split("\0")[:-1]
    there = {name for name in tracked if os.path.exists(f"{corpora.ROOT}/{name}")}
    assert there - set(corpora.read_tree(source)) == set()


def test_the_metadata_of_the_wheel(wheel):
    with zipfile.ZipFile(wheel) as archive:
        folder = f"transformer_tf-{__version__}.dist-info/"
        names = {name.split("/")[0] + "/" for name in archive.namelist()}
        assert names == {"transformer/", folder}
        assert "transformer/py.typed" in archive.namelist()
        fields = archive.read(folder + "METADATA").decode("utf-8")
    assert f"\nVersion: {__version__}\n" in fields
    assert "\nDescription-Content-Type: text/markdown\n" in fields
    assert "# A Transformer for TensorFlow, to read, import and trust" in fields
    assert "\nClassifier: Typing :: Typed\n" in fields


# The program


def test_without_arguments_the_program_lists_its_commands(installed):
    text = installed.command()
    assert text == installed.run("python", "-m", "transformer", "--help")
    assert installed.command("--version") == f"transformer-tf {__version__}\n"


@pytest.mark.parametrize("name", list(COMMANDS))
def test_help_names_a_command_as_it_is_typed(installed, name):
    text = installed.command(name, "--help")
    assert text.startswith(f"usage: transformer-tf {name} ")
    assert f"    transformer-tf {name} " in text
    files = {os.path.basename(command.file) for command in COMMANDS.values()}
    assert not files & set(re.findall(r"\w+\.py", text))


def test_bash_completes_commands_and_flags(installed):
    script = """
        source <(transformer-tf completion bash)
        ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _transformer_tf; }
        ask transformer-tf tra; echo "${COMPREPLY[@]}"
        ask transformer-tf train --pre; echo "${COMPREPLY[@]}"
        ask transformer-tf serve --logdir lo; echo "${COMPREPLY[@]}"
    """
    output = run(
        *("bash", "-uc", textwrap.dedent(script)),
        cwd=installed.work,
        env=installed.variables,
    )
    assert output.splitlines() == ["train translate", "--preset --precision", ""]
    for shell in ("bash", "zsh"):
        if shutil.which(shell):
            run(shell, "-n", input=installed.command("completion", shell))
    assert "bashcompinit" in installed.command("completion", "zsh")
    assert "expected bash or zsh, got ''" in installed.command("completion", status=2)


# From text to a model that is used


def test_from_text_to_scores(trained):
    assert "transformer-tf prepare --out data/sample" in trained["download"]
    assert re.search(r"^BLEU = \d+\.\d\d", trained["eval"], re.M)
    assert "mean: the average of the checkpoints of steps 2, 4" in trained["average"]
    assert "found: too few steps" in trained["doctor"]


def test_the_sample_corpus_comes_with_the_package(installed, trained):
    for path in glob.glob(os.path.join(corpora.ROOT, "data", "sample", "*.??")):
        copy = os.path.join(installed.work, "data/sample", os.path.basename(path))
        assert corpora.read_lines(copy) == corpora.read_lines(path)
    corpora.write_lines(os.path.join(installed.work, "data/sample/dev.de"), ["mine"])
    message = installed.command("download", "sample", status=2)
    assert "data/sample/dev.de: expected no other text" in message


def test_it_translates_by_the_program_and_in_three_lines(installed, trained):
    lines = "1 2 3\n4 5\n"
    output = installed.command("translate", "--logdir", "logs", input=lines)
    program = """
        from transformer import Translator
        with Translator("logs") as t:
            print(*(best.text for [best] in t.translate(["1 2 3", "4 5"])), sep="\\n")
    """
    program = textwrap.dedent(program)
    # This model has hardly been trained: it may say that it reached a length limit.
    translations = output.partition("transformer-tf translate: ")[0]
    assert installed.run("python", "-c", program).endswith(translations)
    assert len(translations.splitlines()) == 2


def test_it_exports(installed, trained):
    pytest.importorskip("ctranslate2")
    flags = "--format ctranslate2 --logdir logs --out exported".split()
    installed.command("export", *flags)
    assert os.path.exists(os.path.join(installed.work, "exported", "model.bin"))
    installed.command("page", "--logdir", "logs", "--out", "page.html")
    assert os.path.getsize(os.path.join(installed.work, "page.html")) > 100000


@pytest.mark.skipif(not HAS_BFLOAT16, reason="several workers need TensorFlow 2")
def test_several_workers_run_the_program(installed, trained):
    words = "launch --workers 2 -- transformer-tf train --data digits".split()
    output = installed.command(*words, "--logdir=two", *TRAIN)
    assert (
        "[0] 2 workers: each computes 1 of 2 shards" in output and "dev BLEU" in output
    )


# A checkout beside it


def test_the_files_of_a_checkout_run_its_own_package(installed, source, tmp_path):
    """From any folder, though another one is installed."""
    checkout = shutil.copytree(source, str(tmp_path / "checkout"))
    with open(checkout + "/hparams.py", "a") as file:
        file.write('PRESETS["mine"] = {"num_blocks": 4}\n')
    for name in ("prepare", "train"):
        path = f"{checkout}/transformer/commands/{name}.py"
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace('"""', '"""Here: ', 1))
    text = installed.run("python", checkout + "/scripts/prepare.py", "--help")
    assert text.startswith("usage: prepare.py ") and "Here: " in text
    assert re.search(r"    python \S*checkout/scripts/prepare.py --out", text)
    text = installed.run("python", "train.py", "--help", cwd=checkout)
    assert text.startswith("usage: train.py ") and "Here: " in text and ", mine" in text
    assert "    python train.py --preset sample" in text
