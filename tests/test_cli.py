"""cli.py: flags, refusals in one line with status 2, a start that says nothing."""

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import types

import corpora
import pytest

import transformer.__main__
from transformer import __version__, hparams
from transformer.commands import cli, program, terminal
from transformer.runtime import names
from transformer.runtime.signals import Stopped

NAMES = list(hparams.FIELDS)

DOC = """Does something: `python x.py --logdir logs/sample`.

    python x.py --logdir logs/sample \\
        --d_model 64    # 100 % of it
"""


def parser():
    parser = cli.make_parser("x.py", DOC)
    parser.add_argument("--logdir", type=cli.path, metavar="DIR")
    parser.add_argument("names", nargs="*")
    cli.add_settings(parser, hparams.FIELDS)
    return parser


def parse_settings(*argv):
    return cli.read_settings(cli.parse(parser(), list(argv)), hparams.FIELDS)


# --- Flags ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "argv, expected",
    [
        ([], {}),
        (["--joint_vocab", "false"], {"joint_vocab": False}),
        (["--data", "a-b", "--logdir", "x"], {"data": "a-b"}),
        (["--data=a-b=c"], {"data": "a-b=c"}),
        (["--deterministic"], {"deterministic": True}),
        (["--deterministic", "false"], {"deterministic": False}),
        (["--deterministic", "--seed", "2"], {"deterministic": True, "seed": 2}),
    ],
)
def test_flags_give_exactly_the_typed_settings(argv, expected):
    assert parse_settings(*argv) == expected


def test_words_after_two_dashes_are_not_flags():
    args = cli.parse(parser(), ["--", "--not-a-flag", "a-b"])
    assert args.names == ["--not-a-flag", "a-b"]


def test_help_lists_every_field_once_with_its_default():
    shown = parser().format_help()
    text = " ".join(shown.split())
    for name in NAMES:
        field = hparams.FIELDS[name]
        default = str(field.default).lower() if field.type is bool else field.default
        assert len(re.findall(rf"^  --{name} ", shown, re.MULTILINE)) == 1, name
        assert f"{field.metadata['help']} [{default}]" in text, name
        assert "_" not in name or "--{} ".format(name.replace("_", "-")) not in text
    assert "--d_model INT width of the model [512]" in text


@pytest.mark.parametrize(
    "argv, message",
    [
        (["--d_modle", "3"], "unknown flag --d_modle; did you mean --d_model?"),
        (
            ["--bacth-tokens", "3"],
            "unknown flag --bacth_tokens; did you mean --batch_tokens?",
        ),
        (["--d_mod", "3"], "unknown flag --d_mod; did you mean --d_model?"),
        (["--max_steps", "many"], "argument --max_steps"),
        (["--joint_vocab", "perhaps"], "expected true or false, got 'perhaps'"),
    ],
)
def test_wrong_flags_exit_with_status_2(capsys, argv, message):
    with pytest.raises(SystemExit) as stop:
        cli.parse(parser(), argv)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--logdir", "--json"])
def test_a_path_that_is_empty_is_refused(capsys, flag):
    """An --out that became empty would be the current folder."""
    command_parser = parser()
    command_parser.add_argument("--json", type=cli.path, metavar="FILE")
    cli.parse(command_parser, [flag, "a"])
    with pytest.raises(SystemExit):
        cli.parse(command_parser, [flag, ""])
    assert f"{flag}: expected a path, got an empty name" in capsys.readouterr().err


@pytest.mark.parametrize("address", ["", "javascript:alert(1)", "data:text/html,x"])
def test_an_address_that_is_no_web_page_is_refused(capsys, address):
    command_parser = parser()
    cli.add_docs(command_parser)
    for valid in ("https://docs.example/x", "."):
        args = cli.parse(command_parser, ["--logdir", "a", "--docs", valid])
        assert args.docs == valid
    with pytest.raises(SystemExit):
        cli.parse(command_parser, ["--logdir", "a", "--docs", address])
    assert "--docs: expected https://" in capsys.readouterr().err


def test_the_message_for_an_unknown_name():
    assert names.describe_unknown("search", "beem", ["greedy", "beam"]) == (
        "unknown search beem; did you mean beam? (greedy, beam)"
    )
    assert "(" not in names.describe_unknown("setting", "d_modle", NAMES)
    names.refuse_unknown("search", "beam", ["greedy", "beam"])
    with pytest.raises(ValueError, match="unknown search beem"):
        names.refuse_unknown("search", "beem", ["greedy", "beam"])


# --- The end of a command -------------------------------------------------------------


def run_main(capsys, error=None, returned=None, **options):
    """Run a command; return (exit status, stderr)."""

    def work(args):
        assert isinstance(args, argparse.Namespace) and not args.verbose
        if error:
            raise error
        return returned

    status = 0
    try:
        cli.main(parser(), work, [], **options)
    except SystemExit as stopped:
        status = stopped.code
    return status, capsys.readouterr().err


@pytest.mark.parametrize("kind", [ValueError, OSError, FloatingPointError, MemoryError])
def test_an_error_is_one_line_and_status_2(capsys, kind):
    assert run_main(capsys, kind("expected 2, got 1")) == (
        2,
        "x.py: expected 2, got 1\n",
    )


def test_a_bug_keeps_its_traceback(capsys):
    with pytest.raises(KeyError):
        run_main(capsys, KeyError("a bug"))


def test_an_interrupted_command_says_how_to_continue(capsys):
    error = Stopped(signal.SIGINT)
    message = "x.py: interrupted; run it again\n"
    assert run_main(capsys, error, advice="run it again") == (130, message)
    assert run_main(capsys, returned=1) == (1, "")
    assert run_main(capsys) == (0, "")


# --- The start of TensorFlow ----------------------------------------------------------


def process(program, *argv, **environment):
    environment = dict(os.environ, **environment)
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)
    return corpora.run_python("-c", program, *argv, env=environment)


@pytest.fixture
def held(capfd, monkeypatch):
    """held(fails) → what is on descriptor 2 after a start that may fail, in lines."""

    def held(fails):
        with open(2, "w", closefd=False) as stderr, monkeypatch.context() as patched:
            patched.setattr(sys, "stderr", stderr)
            with contextlib.suppress(ZeroDivisionError), cli.hold_stderr():
                print("from Python", file=sys.stderr)
                os.write(2, b"from C\n")
                1 / int(not fails)
            print("later", file=sys.stderr)
        return sorted(capfd.readouterr().err.splitlines())

    return held


def test_the_held_stderr_is_shown_if_the_import_fails(held):
    opened = os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []
    assert held(fails=False) == ["later"]
    assert held(fails=True) == ["from C", "from Python", "later"]
    assert not opened or len(os.listdir("/proc/self/fd")) == len(opened)


# --- The commands ---------------------------------------------------------------------


RUN = """
import runpy, sys
sys.argv[:1] = []
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
    sys.exit(0)
except SystemExit as stopped:
    print("status", stopped.code, "tensorflow" in sys.modules)
"""


@pytest.mark.parametrize(
    "file",
    [
        command.file
        for command in terminal.COMMANDS.values()
        if command.file.endswith(".py")
    ],
)
def test_help_needs_no_tensorflow_and_shows_the_examples(file):
    done = process(RUN, file, "--help")
    lines = done.stdout.splitlines()
    assert lines[-1] == "status 0 False" and done.stderr == ""
    assert any(f"python {file} --" in line for line in lines)
    assert not re.findall(r"--\w+-\w", done.stdout)  # flags are spelled with _


# What is refused without TensorFlow; {} is a folder that is not there.
REFUSALS = {
    "setting": ("train", "--logdir={}", "--num_heads=7"),
    "data": ("train", "--logdir={}", "--data={}"),
    "unwritable": ("train", "--logdir=train.py/logs"),
    "eval": ("eval", "--logdir={}"),
    "translate": ("translate", "--logdir={}"),
    "doctor": ("doctor", "--logdir={}"),
    "average": ("average", "--logdir={}", "--out={}"),
    "export": ("export", "--format=ctranslate2", "--logdir={}", "--out={}"),
    "system": ("import", "--from=x", "--ckpt={}", "--num_heads=2"),
}


@pytest.mark.parametrize("case", sorted(REFUSALS))
def test_refusals_do_not_import_tensorflow(tmp_path, case):
    name, *flags = REFUSALS[case]
    missing = str(tmp_path / "none")
    file = terminal.COMMANDS[name].file
    done = process(RUN, file, *(flag.format(missing) for flag in flags))
    assert done.stdout == "status 2 False\n"
    lines = [line for line in done.stderr.splitlines() if "usage:" not in line]
    assert len(lines) == 1 and lines[0].startswith(os.path.basename(file) + ": ")
    assert not os.path.exists(missing)


@pytest.mark.slow
def test_a_command_that_succeeds_shows_nothing_of_tensorflow(digits, trained, tmp_path):
    prefixes = ("step ", "learning rate: ", "memory for ", "stopped at ")
    flags = [f"--data={digits}", "--logdir", str(tmp_path / "new"), "--max_steps=4"]
    trains = process(RUN, "train.py", *corpora.TINY, *flags)
    assert trains.returncode == 0
    for line in trains.stderr.splitlines():
        assert line.startswith(prefixes) or " parameters; step 0 of " in line
    logdir = shutil.copytree(trained, str(tmp_path / "trained"))
    for verbose in ([], ["--verbose"]):
        flags = [f"--data={digits}", f"--logdir={logdir}", "--search=greedy"]
        done = process(RUN, "eval.py", *flags, *verbose)
        assert "BLEU = " in done.stdout, done.stderr
        assert (done.stderr == "") != ("cpu_feature" in done.stderr) == bool(verbose)


# --- The program ----------------------------------------------------------------------


def test_the_program_lists_and_completes_its_commands(capsys):
    program.main([])
    listed = capsys.readouterr().out
    program.main(["completion", "bash"])
    completed = capsys.readouterr().out
    for name, command in terminal.COMMANDS.items():
        assert command.summary in listed
        assert f"    {name}) words='--help --verbose " in completed
    program.main(["completion", "--help"])
    assert "source <(transformer-tf completion bash)" in capsys.readouterr().out
    program.main(["--version"])
    assert capsys.readouterr().out == f"transformer-tf {__version__}\n"
    line = corpora.refusal(capsys, "trian")
    assert "unknown command trian; did you mean train?" in line
    line = corpora.refusal(capsys, "completion", "fish")
    assert "expected bash or zsh, got 'fish'" in line


def test_a_python_without_the_packages_is_refused_in_one_line(monkeypatch, capsys):
    def import_module(name):
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)

    importlib = types.SimpleNamespace(import_module=import_module)
    monkeypatch.setattr(program, "importlib", importlib)
    package = "sentencepiece"
    line = corpora.refusal(capsys, "translate", "--logdir", "x")
    for word in (package, sys.executable, "activate", "pip install"):
        assert word in line
    package = "transformer.text"  # a bug
    with pytest.raises(ModuleNotFoundError):
        program.main(["translate"])


def test_messages_name_commands_as_the_user_typed_them(monkeypatch, capsys):
    refuse = ["eval", "--logdir", "none"]
    line = corpora.refusal(capsys, *refuse)
    assert line.startswith("eval.py: ") and line.endswith("; train.py writes one")
    assert terminal.command_line("launch") == "python -m transformer.launch"
    for typed in ("/usr/bin/transformer-tf", transformer.__main__.__file__):
        monkeypatch.setattr(sys, "argv", [typed])
        line = corpora.refusal(capsys, *refuse)
        assert line.startswith("transformer-tf eval: ")
        assert line.endswith("; transformer-tf train writes one")
        assert terminal.command_line("launch") == "transformer-tf launch"


def test_closed_streams_are_replaced_by_the_null_device():
    """Python sets them to None. The work is done, and the status is its own."""
    work = (
        "import sys; from transformer.commands import cli, terminal\n"
        "def work(args):\n"
        "    assert sys.stdin.read() == ''\n"
        "    terminal.print_lines('done')\n"
        "    sys.stderr.write('done')\n"
        "    return 7\n"
        "cli.main(cli.Parser(), work, [])"
    )
    command = f'{sys.executable} -c "$WORK" <&- >&- 2>&-'
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=corpora.ROOT,
        env=dict(os.environ, WORK=work),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert done.returncode == 7, done.stderr


def test_characters_that_a_terminal_cannot_encode_are_escaped():
    """The help of the program has an arrow."""
    shown = {}
    for encoding in ("utf-8", "ascii"):
        done = subprocess.run(
            [sys.executable, "-m", "transformer"],
            cwd=corpora.ROOT,
            env=dict(os.environ, PYTHONIOENCODING=encoding),
            stdout=subprocess.PIPE,
            check=True,
        )
        shown[encoding] = done.stdout.decode(encoding)
    escaped = shown["utf-8"].encode("ascii", "backslashreplace").decode("ascii")
    assert shown["ascii"] == escaped != shown["utf-8"]


def test_without_a_temporary_folder_stderr_is_not_held(held, monkeypatch):
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda: open("/none/x"))
    assert held(fails=False) == ["from C", "from Python", "later"]
