"""Score a trained model: `transformer/commands/evaluate.py`."""

import sys

from transformer.__main__ import main

if __name__ == "__main__":
    main(["eval", *sys.argv[1:]])
