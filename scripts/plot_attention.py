"""Draw the attention of a model: `transformer/commands/plot_attention.py`."""

import os
import sys

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    from transformer.__main__ import main

    main(["attention", *sys.argv[1:]])
