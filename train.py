"""Train a translation model: `transformer/commands/train.py`, with your presets."""

import sys

from transformer.__main__ import interrupt_quietly, main

if __name__ == "__main__":
    interrupt_quietly()
    import hparams  # noqa: F401 (it may add to PRESETS)

    main(["train", *sys.argv[1:]])
