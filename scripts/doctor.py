"""Explain a BLEU near zero: `transformer/commands/doctor.py`."""

import os
import sys

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    from transformer.__main__ import main

    main(["doctor", *sys.argv[1:]])
