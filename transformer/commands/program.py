"""The program `transformer-tf`, whose first word is the name of a command.

    transformer-tf train --preset base --data data/mine --logdir logs/mine
    transformer-tf train --help
    source <(transformer-tf completion bash)    # of zsh too

`python -m transformer` is the same program.
"""

import importlib
import sys
from typing import Any, List, Optional

from transformer import __version__
from transformer.commands import cli
from transformer.commands.terminal import (
    COMMANDS,
    PROGRAM,
    command_name,
    make_warn,
    print_lines,
)
from transformer.runtime.errors import REFUSED
from transformer.runtime.names import describe_unknown

SHELLS = ("bash", "zsh")

HELP = f"""usage: {PROGRAM} COMMAND [--flag value] ...

{{commands}}

{PROGRAM} COMMAND --help describes a command. This is version {{version}}.

Exit status: 0 done; 1 something was found (doctor, port); 2 refused, with the reason in
one line; 75 a worker of several was lost; 128 + the number of the signal that ended it,
130 for Ctrl-C."""


def help_text() -> str:
    """Return the text of `--help`."""
    summaries = {name: command.summary for name, command in COMMANDS.items()}
    summaries["completion"] = f"print the word completion for {' or '.join(SHELLS)}"
    width = max(map(len, summaries))
    lines = [f"  {name:<{width}}  {summary}" for name, summary in summaries.items()]
    return HELP.format(commands="\n".join(lines), version=__version__)


def completion(shell: str) -> str:
    """Return a script that completes commands and their flags in bash or zsh."""
    cases = []
    for name, command in COMMANDS.items():
        module = importlib.import_module("transformer." + command.module)
        cases.append(f"    {name}) words='{' '.join(module.parser().flags)}' ;;")
    lines = [
        "_transformer_tf() {",
        "  local words",
        "  case ${COMP_WORDS[1]} in",
        *cases,
        "  esac",
        f"  [ $COMP_CWORD = 1 ] && words='{' '.join([*COMMANDS, 'completion'])}'",
        '  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))',
        "}",
        f"complete -o default -F _transformer_tf {PROGRAM}",
    ]
    if shell == "zsh":
        lines.insert(0, "autoload -U +X compinit bashcompinit; compinit; bashcompinit")
    return "\n".join(lines)


def main(argv: Optional[List[str]] = None) -> None:
    """Run the command named by the first word, with the words after it.

    Raises:
      SystemExit: with the status of the command; 2 if the command is unknown, or a
        package that all commands need is not installed.
    """
    name, *arguments = (sys.argv[1:] if argv is None else argv) or ["--help"]
    if name in COMMANDS:
        module = import_command(name)
        cli.main(module.parser(), module.run, arguments, COMMANDS[name].advice)
        return
    cli.prepare_streams()
    with cli.ignore_closed_output():
        print_about(name, arguments)


def import_command(name: str) -> Any:
    """Import the module of a command; refuse a Python without its packages.

    Raises:
      SystemExit: with status 2 if one is not installed.
    """
    try:
        return importlib.import_module("transformer." + COMMANDS[name].module)
    except ModuleNotFoundError as error:
        if not error.name or error.name.split(".")[0] == "transformer":
            raise
        make_warn(command_name(name))(
            f"{error.name} is not installed for {sys.executable}: activate the "
            "environment (after make demo: source .venv/bin/activate), or install the "
            "packages: pip install -e ."
        )
        sys.exit(REFUSED)


def print_about(name: str, arguments: List[str]) -> None:
    """Print the help, the version or a completion; refuse anything else.

    Raises:
      SystemExit: with status 2 for an unknown command.
    """
    if name in ("--help", "-h", "help"):
        print_lines(*help_text().splitlines())
    elif name == "--version":
        print_lines(f"{PROGRAM} {__version__}")
    elif name == "completion" and arguments in (["--help"], ["-h"]):
        print_lines(f"source <({PROGRAM} completion bash)    # or zsh: completes words")
    elif name == "completion" and len(arguments) == 1 and arguments[0] in SHELLS:
        print_lines(*completion(arguments[0]).splitlines())
    else:
        message = (
            f"completion: expected {' or '.join(SHELLS)}, got {' '.join(arguments)!r}"
        )
        if name != "completion":
            message = describe_unknown("command", name, [*COMMANDS, "completion"])
        make_warn(PROGRAM)(message + "; --help lists all commands")
        sys.exit(REFUSED)
