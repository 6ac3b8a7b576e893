"""Finds modules named `transformer` that hide this package; its other name there."""

import os
from typing import List

from transformer.porting.calls import imports, paths_of
from transformer.porting.reading import Script

OTHER_NAME = "transformer_tf"


def hider(folder: str) -> str:
    """Return what of a folder Python takes for this package: "" where nothing is."""
    if os.path.isfile(os.path.join(folder, "transformer", "__init__.py")):
        compat = os.path.join(folder, "transformer", "compat", "__init__.py")
        return "" if os.path.isfile(compat) else "the folder transformer"
    is_there = os.path.isfile(os.path.join(folder, "transformer.py"))
    return "transformer.py" if is_there else ""


def hider_of(script: Script) -> str:
    """Return what hides this package from a file, which runs; "" where nothing does."""
    folder = top = os.path.dirname(os.path.abspath(script.path))
    while os.path.isfile(os.path.join(top, "__init__.py")):
        top = os.path.dirname(top)  # the folder from which a package is imported
    if top == folder and not _is_on_the_path(script, folder):
        return ""
    return hider(top)


def named(script: Script, lines: List[str]) -> List[str]:
    """Return lines that import from this package, under the name that it has there."""
    if not hider_of(script):
        return lines
    ours = "from transformer.compat"
    return [line.replace(ours, f"from {OTHER_NAME}.compat") for line in lines]


def _is_on_the_path(script, folder) -> bool:
    """Return whether the folder of a file is on the path when the file runs.

    It is where the file is a program, imports files beside it by their bare names, or
    lies where this command runs.
    """
    if any(token.string.strip("\"'") == "__main__" for token in script.tokens):
        return True
    for _, module, level in imports(script):
        paths = paths_of(script, module, level)
        found = next((path for path in paths if os.path.exists(path)), None)
        if found or level:
            return not level and found == paths[0]
    return folder == os.getcwd()
