"""The commands that the documents show, and make targets, as a user runs them.

In a copy of the checkout, with the interpreter of the environment in which the package
is installed, and nothing else on its path. What takes long is given small counts, and
what a command expects to be there (a corpus, a log directory) is put there.
"""

import glob
import gzip
import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest
import tensorflow.compat.v1 as tf
from documents import ROOT, blocks, commands, documents, read

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        tf.__version__ < "2", reason="the documents show what TensorFlow 2 does"
    ),
]

# Commands that are not run here: a pattern of them → why. Each must match one.
NOT_RUN = {
    r"pip (install|wheel) ": "test_wheel, and the environment of this test",
    r"(source <\()?transformer-tf ": "from a wheel: test_wheel",
    r"(bash )?\.ci/run": "it runs this test",
    r"scripts/download\.py \w": "from a server of its own: test_download",
    r"scripts/import_checkpoint\.py (?!--help)": "see test_import_checkpoint",
    r"docs/walkthrough/run\.py": "test_walkthrough",
    r"(bash )?examples/(?!print_attention|serving_client)": "test_examples",
    r"scripts/serve\.py --": "it serves until it is stopped: test_serve",
    r"-m http\.server": "it serves until it is stopped",
    r"curl ": "to a service that runs: test_serve",
    r"docker ": "it fetches an image",
    r"-m tf2onnx\.convert": "test_elsewhere",
    r"tools/docs/elsewhere\.py": "test_elsewhere",
    r"tools/page/left_out\.py": "on Multi30k: test_left_out",
    r"tools/page/pictures\.py": "it needs a browser: test_page",
    r"tools/peers/peers\.py": "it fetches tensor2tensor",
    r"tools/lab/lab\.py --text": "it trains on Multi30k for minutes: test_lab",
    r"tools/mutants/mutants\.py": "it runs all quick tests: hours",
    r"tools/bench/page/measure_page\.py": "it needs engines from npm",
    r"tools/bench/page/compare_ids\.py": "it translates a whole split twice",
    r"tools/bench/page/measure_memory\.py": "it needs a browser, and minutes",
    r"tools/bench/service\.py": "it measures a service that runs",
    r"tools/bench/libretranslate\.py": "it installs LibreTranslate",
    r"tools/bench/engines\.py": "it refuses a model that learned nothing",
    r"examples/serving_client\.py": "to a service that runs: test_savedmodel",
    r"scripts/align\.py --logdir \S+ --compare": "files of other programs",
    r"tools/bench/benchmark\.py --device gpu": "it needs a GPU",
    r"tools/bench/benchmark\.py --data \S+ --only scaling": "it measures for minutes",
    r"-m transformer\.launch ": "two processes that train: test_worker_processes",
    r"scripts/translate\.py .*--ray auto": "on a Ray cluster: test_ray",
    r"tools/bench/on_ray\.py": "on a Ray cluster, for minutes",
    r"(export TF_CONFIG|exec python train\.py .*/shared/)": "in a pod",
    r"-m transformer\.porting(?! --help)": "on files of the reader: test_porting",
}

# What stands for something else, as a word or as a part of one.
PLACEHOLDERS = {
    "NAME": "tutorial",
    "LOGDIR": "logs/sample",
    "FOLDER": "folder",
    "...": "",
}

# Flags whose values are made small, and flags that the commands of a file get too.
SMALL = {
    "--vocab_size": "2000",
    "--copies": "2",
    "--last": "2",
    "--checkpoint": "4",
    "--check": "5",
    "--cycles": "1",
    "--lines": "20",
    "--pairs": "3000",
    "--layer": "1",
    "--plan_pairs": "3000",
}
ADDED = {
    "train.py": "--num_blocks 1 --d_model 16 --d_ff 32 --num_heads 2 "
    "--batch_tokens 500 --max_extra_length 3 --max_steps 4 --warmup_steps 2 "
    "--log_every 1 --eval_every 4 --save_every 2 --patience 0",
    "tools/docs/significance.py": "--comparisons 2 --lines 20 --samples 40",
    "scripts/prepare.py": "--vocab_size 2000",
    "pytest": "--collect-only --quiet",
}
# Flags without which a file does nothing: a command in running text leaves them out.
NEEDED = {
    "train.py": ["--logdir logs/train"],
    "scripts/export.py": ["--logdir logs/sample", "--out exported"],
    "scripts/doctor.py": ["--logdir logs/sample"],
}
# Programs that end with a status of their own: the doctor, where it finds a reason.
STATUSES = {"scripts/doctor.py": (0, 1)}
# What is skipped without a package that the test extra has.
PACKAGES = {
    "--format ctranslate2": "ctranslate2",
    "plot_attention.py --logdir logs/sample --kind": "matplotlib",
}

# Make targets and what they are run with; the others take long or need a network.
QUICK = "PYTEST=tests/test_packaging.py WORKERS=0"
TARGETS = {
    "help": "",
    "demo": f"LOGDIR=logs/demo TRAIN='{ADDED['train.py']}'",
    "test-all": QUICK,
    "clean": "VENV=.venv-other",  # the other tests need this one
}


class World:
    """A copy of the checkout, in which commands are run one after the other."""

    def __init__(self, folder):
        self.root = os.path.join(folder, "checkout")
        self.bin = os.path.join(folder, "bin")
        self._copy()
        self._link()

    def path(self, name):
        return os.path.join(self.root, *name.split("/"))

    def _copy(self):
        """Copy what is checked in, with fewer sentences to translate."""
        ignored = shutil.ignore_patterns(
            ".git", ".venv*", "__pycache__", "*.egg-info", ".*_cache", "logs", "*.npy"
        )
        shutil.copytree(ROOT, self.root, ignore=ignored)
        for folder in os.listdir(self.path("data")):
            if folder not in ("README.md", "sample"):
                shutil.rmtree(self.path("data/" + folder))
        for name in glob.glob(os.path.join(ROOT, "data", "sample", "[dt]e*.*")):
            name = os.path.basename(name)
            if name.endswith(".npy"):
                continue
            lines = self._sample(name)[:20]
            with open(self.path("data/sample/" + name), "wb") as file:
                file.writelines(lines)

    def _link(self):
        """Make the commands of an environment run the interpreter of this one.

        The folder passes for the VENV of the Makefile too.
        """
        os.makedirs(self.bin)
        programs = {"python": [sys.executable]}
        for name in ("pytest", "ruff", "mypy"):
            if shutil.which(name, path=os.path.dirname(sys.executable)):
                programs[name] = [os.path.join(os.path.dirname(sys.executable), name)]
        for name, words in programs.items():
            path = os.path.join(self.bin, name)
            with open(path, "w", encoding="utf-8") as file:
                quoted = " ".join(map(shlex.quote, words))
                file.write(f'#!/bin/sh\nexec {quoted} "$@"\n')
            os.chmod(path, 0o755)
        for stamp in ("installed", "bench"):
            open(os.path.join(os.path.dirname(self.bin), stamp), "w").close()

    def _sample(self, name):
        with open(self.path("data/sample/" + name), "rb") as file:
            return file.readlines()

    def run(self, command, statuses=(0,)):
        """Run a line of a shell in the copy; return what it says.

        Args:
          statuses: one of them it must end with.
        """
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTEST", "PYTHON", "COV_", "COVERAGE", "MAKE"))
        }
        environment.update(
            PATH=self.bin + os.pathsep + environment["PATH"], PYTHONIOENCODING="utf-8"
        )
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self.root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=600,
            universal_newlines=True,
        )
        assert done.returncode in statuses, f"{command}\n{done.stdout[-3000:]}"
        return done.stdout

    def make(self, words):
        """Run make with what is installed here."""
        return self.run(f"make VENV={shlex.quote(os.path.dirname(self.bin))} {words}")

    def provide(self, command):
        """Put there what a command expects to find; take away what it writes."""
        is_training = " train.py" in " " + command
        logdirs = [
            name for name in values(command, "--compare") if not name.endswith(".en")
        ]
        for name in values(command, "--logdir") + logdirs:
            if is_training:  # a log directory of another command has another corpus
                shutil.rmtree(self.path(name), ignore_errors=True)
            elif not os.path.exists(self.path(name)):
                shutil.copytree(self.path("logs/sample"), self.path(name))
        for name in values(command, "--vocab_from"):
            if not os.path.exists(self.path(name)):
                shutil.copytree(self.path("data/sample"), self.path(name))
        if "--init_from" in command:  # both have the same vocabulary
            pairs = [("--init_from", "logs/sample"), ("--data", "data/sample")]
            for flag, original in pairs:
                for name in values(command, flag):
                    shutil.rmtree(self.path(name), ignore_errors=True)
                    shutil.copytree(self.path(original), self.path(name))
        for name in values(command, "--data"):
            self.provide_corpus(name)
        if is_training and not values(command, "--data"):
            for preset in values(command, "--preset"):
                self.provide_corpus("data/" + preset)
        for out in values(command, "--out"):
            if "prepare.py" in command:
                for split in ("train", "dev", "test"):
                    for language in ("de", "en"):
                        self.provide_text(f"{out}/{split}.{language}")
            elif os.path.isdir(self.path(out)):
                shutil.rmtree(self.path(out))
        if "format_fixture.py" in command:  # a release is recorded once
            for folder in glob.glob(self.path("tests/formats/*")):
                shutil.rmtree(folder)
        for name in re.findall(
            r"(?<!\S)[\w./-]+\.(?:de|en|es)(?:\.gz)?(?!\S)", command
        ):
            self.provide_text(name)

    def provide_corpus(self, name):
        """Put a data folder there, unless it is; it may have texts, not prepared."""
        if not os.path.exists(self.path(name + "/corpus.json")):
            shutil.rmtree(self.path(name), ignore_errors=True)
            shutil.copytree(self.path("data/sample"), self.path(name))

    def provide_text(self, name):
        """Write a file of the sample's sentences, unless it is there."""
        if os.path.exists(self.path(name)):
            return
        language = "en" if ".en" in name else "de"
        split = "train" if re.search("train|corpus", name) else "dev"
        split = "test" if os.path.basename(name).startswith("test") else split
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with (gzip.open if name.endswith(".gz") else open)(
            self.path(name), "wb"
        ) as file:
            file.writelines(self._sample(f"{split}.{language}")[: self._count(name)])

    def _count(self, name):
        """Return the number of lines of the same text in the other language, if any.

        Another command may have written it, which ran in this process alone.
        """
        swapped = {".de": ".en", ".en": ".de"}
        other = re.sub(r"\.(de|en)$", lambda match: swapped[match[0]], name)
        if other == name or not os.path.exists(self.path(other)):
            return None
        with open(self.path(other), "rb") as file:
            return len(file.readlines())


def values(command, flag):
    """The words behind a flag, up to the next flag or the end of the program."""
    words = re.sub(r"([|<>])", r" --\1 ", command).split()
    flag_values = []
    for place, word in enumerate(words):
        if word == flag:
            rest = words[place + 1 :]
            ends = [i for i, following in enumerate(rest) if following.startswith("--")]
            flag_values += rest[: ends[0] if ends else None]
    return flag_values


def small(command):
    """A command with small counts, and with something for each placeholder."""
    for name, meant in PLACEHOLDERS.items():
        command = re.sub(
            r"(?<![\w.])" + re.escape(name) + r"(?![\w.=])", meant, command
        )
    for flag, value in SMALL.items():
        spelled = flag.replace("_", "[-_]")
        command = re.sub(rf"(?<!\S)({spelled}) \S+", rf"\1 {value}", command)
    for script, flags in NEEDED.items():
        if script in command:
            missing = [flag for flag in flags if flag.split()[0] not in command.split()]
            command = " ".join([command, *missing])
    if "--help" in command:
        return command
    for script, flags in ADDED.items():
        if "--vocab_from" in command and "--vocab_size" in flags:
            continue  # it takes the size too
        command = re.sub(
            rf"((?<!\S){re.escape(script)}(?!\S)[^|>]*)", rf"\1 {flags} ", command
        )
    return command.strip()


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """The world, with a corpus and a trained model in it."""
    elsewhere = str(tmp_path_factory.mktemp("elsewhere"))
    script = "import os, transformer; print(os.path.isabs(transformer.__file__))"
    process = subprocess.run(
        [sys.executable, "-c", script], cwd=elsewhere, env=without()
    )
    assert process.returncode == 0, (
        "wanted an environment made by: pip install -e '.[test]'"
    )
    world = World(elsewhere)
    for command in (
        "python scripts/prepare.py --out data/sample",
        "python train.py --preset sample --logdir logs/sample",
    ):
        world.run(small(command))
    return world


def without():
    """The environment without PYTHONPATH."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def reason_not_to_run(command):
    for pattern, reason in NOT_RUN.items():
        if re.match(r"(python3? )?" + pattern, command):
            return reason
    return None


def form(command):
    """The words of a command, those behind its flags left out."""
    words = []
    is_value = False
    for word in command.split():
        if word.startswith("--") or word in ("|", "<", ">"):
            is_value = word.startswith("--")
        words.append("" if is_value and not word.startswith("--") else word)
    return tuple(words)


@pytest.mark.parametrize("pattern", NOT_RUN)
def test_what_is_not_run_is_shown(pattern):
    assert any(
        re.match(r"(python3? )?" + pattern, command.text) for command in commands()
    )


# Of commands that differ in the values of their flags alone, the first.
COMMANDS = {}
for command in commands():
    if not reason_not_to_run(command.text):
        COMMANDS.setdefault(form(command.text), command)
# Programs that read a log directory: one stands for it here.
PROGRAMS = [
    text
    for document in documents()
    for language, text in blocks(read(document))
    if language == "python" and "logs/" in text
]


@pytest.mark.parametrize(
    "command",
    [
        command.text
        for command in COMMANDS.values()
        if not re.match(r"(\w+=\S+ )*make ", command.text)
    ],
)
def test_a_command_of_the_documents(world, command):
    for words, package in PACKAGES.items():
        if words in command:
            pytest.importorskip(package)
    command = small(command)
    unknown = re.findall(r"(?<![\w/.$-])[A-Z]{3,}(?![\w/.=-])", command)
    assert not unknown, "say in PLACEHOLDERS what it stands for"
    world.provide(command)
    statuses = [status for script, status in STATUSES.items() if script in command]
    world.run(command, *statuses)


@pytest.mark.parametrize(
    "command",
    [
        command.text
        for command in COMMANDS.values()
        if re.match(r"(\w+=\S+ )*make ", command.text)
    ],
)
def test_a_make_command_of_the_documents_can_be(world, command):
    world.run(command.replace("make ", "make --dry-run ", 1))


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_of_the_documents_that_reads_a_log_directory(world, program):
    output = world.run(f"python -c {shlex.quote(program)}")
    assert re.search(r"^ *\d+\.\d+", output, re.M)


@pytest.mark.parametrize("target", list(TARGETS))
def test_a_make_target(world, target):
    output = world.make(f"{target} {TARGETS[target]}")
    if target == "demo":
        assert "Source, translation and reference:" in output
