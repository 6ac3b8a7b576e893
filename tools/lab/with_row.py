"""Run a script with the change of the code that a row makes.

    python tools/lab/with_row.py "no causal mask" scripts/doctor.py --logdir ...

What follows the name of the row is the command line of the script.
"""

import runpy
import sys

import patches
from rows import ROWS


def main(argv) -> None:
    """Apply the row's patch, and run the script as the main program."""
    changed = {row.name: row.patch for row in ROWS if row.patch}
    if len(argv) < 2 or argv[0] not in changed:
        sys.exit(f"{__doc__}\nRows that change the code: {', '.join(changed)}")
    name, script = argv[:2]
    patches.install(changed[name])
    sys.path.insert(0, patches.ROOT)
    sys.argv = argv[1:]
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
