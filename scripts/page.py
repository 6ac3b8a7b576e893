"""Write a page with a model in it: `transformer/commands/page.py`."""

import os
import sys

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    from transformer.__main__ import main

    main(["page", *sys.argv[1:]])
