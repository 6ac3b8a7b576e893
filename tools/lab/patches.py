"""A change of one place of the package, applied when its file is imported.

`install(patch)` comes before the first import of the file. The file on disk stays as it
is: a run of the laboratory is a process of its own.
"""

import difflib
import importlib.abc
import importlib.machinery
import os
import sys
from typing import List, NamedTuple

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))


class Patch(NamedTuple):
    """Another text for one place of a file."""

    file: str  # in transformer/
    old: str  # it occurs once
    new: str


def change(patch: Patch, text: str) -> str:
    """Return the text of the file with the change.

    Raises:
      ValueError: the place is not there, or there are several.
    """
    count = text.count(patch.old)
    if count != 1:
        raise ValueError(
            f"{patch.file}: expected this place once, got it {count} times; the code "
            f"has changed, so change the row of tools/lab/rows.py: {patch.old!r}"
        )
    return text.replace(patch.old, patch.new)


def diff(patch: Patch) -> List[str]:
    """Return the change as lines of a diff."""
    with open(os.path.join(ROOT, "transformer", patch.file), encoding="utf-8") as file:
        text = file.read()
    before, after = text.splitlines(), change(patch, text).splitlines()
    names = [f"transformer/{patch.file}"] * 2
    return list(difflib.unified_diff(before, after, *names, lineterm="", n=0))


class _Finder(importlib.abc.MetaPathFinder):
    """Finds one module, and gives it the loader that changes it."""

    def __init__(self, patch: Patch):
        self._patch = patch
        stem = os.path.splitext(patch.file)[0]
        self._name = "transformer." + stem.replace("/", ".")

    def find_spec(self, fullname, path, target=None):
        """Return the spec of the module; None for any other."""
        if fullname != self._name:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        spec.loader = _Loader(fullname, spec.origin, self._patch)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles the changed text, and neither reads nor writes a cache of it."""

    def __init__(self, fullname: str, path: str, patch: Patch):
        super().__init__(fullname, path)
        self._patch = patch

    def get_code(self, fullname):
        """Return the code of the module."""
        return compile(
            change(self._patch, self.get_source(fullname)), self.path, "exec"
        )


def install(patch: Patch) -> importlib.abc.MetaPathFinder:
    """Apply a patch to later imports; return what was added to `sys.meta_path`."""
    finder = _Finder(patch)
    sys.meta_path.insert(0, finder)
    return finder
