"""Start the program `transformer-tf`, or a command of it: `python -m transformer`."""

import signal
from typing import List, Optional


def main(argv: Optional[List[str]] = None) -> None:
    """Run the command that the first word names; see `transformer/commands/program.py`.

    Args:
      argv: the command and its flags; None for those of the process.
    """
    interrupt_quietly()
    from transformer.commands import program

    program.main(argv)


def interrupt_quietly() -> None:
    """Have Ctrl-C end the process without a traceback until `cli.main` handles it."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    main()
