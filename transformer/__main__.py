"""Start `transformer-tf`, or one of its commands, as `python -m transformer`."""

import signal
import threading
from typing import List, Optional


def main(argv: Optional[List[str]] = None) -> None:
    """Run the command named by the first word: see `transformer/commands/program.py`.

    Args:
      argv: the command and its flags; None: the arguments of the process.
    """
    interrupt_quietly()
    from transformer.commands import program

    program.main(argv)


def interrupt_quietly() -> None:
    """Let Ctrl-C end the process without a traceback until `cli.main` handles it.

    Outside the main thread, where Python does not allow handlers, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    main()
