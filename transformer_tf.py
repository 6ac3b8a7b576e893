"""The package `transformer` by another name, beside a transformer.py of your own.

    from transformer_tf.compat.sasrec import *

Python takes a `transformer.py` in the folder of your program for this package. Below
this name its modules are imported while yours is put aside, and yours is back when they
are there. For the blocks: `modules`, `compat`, `functional`, `keras_layers`, `checks`.
The command of that name is `python -m transformer_tf.porting`.
"""

import contextlib
import importlib
import importlib.abc
import importlib.util
import os
import sys

PACKAGE = "transformer"
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), PACKAGE)
INIT = os.path.join(FOLDER, "__init__.py")

__path__ = []  # to Python, this module is a package


def _named_so():
    """Return the modules called `transformer` or below it: name → module."""
    return {
        name: module
        for name, module in sys.modules.items()
        if name == PACKAGE or name.startswith(PACKAGE + ".")
    }


def _is_found():
    """Return whether `import transformer` gives the package, and no other module."""
    spec = importlib.util.find_spec(PACKAGE)
    return bool(spec and spec.origin) and os.path.samefile(spec.origin, INIT)


def _load_package():
    """Import the package itself, whatever else is called so on the path."""
    spec = importlib.util.spec_from_file_location(
        PACKAGE, INIT, submodule_search_locations=[FOLDER]
    )
    module = sys.modules[PACKAGE] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `transformer_tf.x`: the module `transformer.x` of the package."""

    def __init__(self):
        self.ours = {}  # modules of the package, while others have their names

    @contextlib.contextmanager
    def others_aside(self):
        """Give the names of the package to its own modules."""
        if _is_found():
            yield  # there is no other module of that name
            return
        others = _named_so()
        for name in others:
            del sys.modules[name]
        sys.modules.update(self.ours)
        try:
            if not self.ours:
                _load_package()
            yield
        finally:
            self.ours = _named_so()
            for name in self.ours:
                del sys.modules[name]
            sys.modules.update(others)

    def find_spec(self, name, path=None, target=None):
        """Return the spec of a name below this one."""
        if name.startswith(__name__ + "."):
            place = os.path.join(FOLDER, *name.split(".")[1:])
            is_package = os.path.isdir(place)
            return importlib.util.spec_from_loader(
                name,
                self,
                origin=os.path.join(place, "__init__.py")
                if is_package
                else place + ".py",
                is_package=is_package,
            )
        return None

    def get_code(self, name):
        """Return what `python -m` runs for a name: the command of that module."""
        text = f"import {__name__} as package\npackage.run_command({name!r})\n"
        return compile(text, name, "exec")

    def exec_module(self, module):
        """Put the module of the package in the place of `module`."""
        with self.others_aside():
            found = importlib.import_module(PACKAGE + module.__name__[len(__name__) :])
            for name in getattr(found, "__all__", ()):
                getattr(found, name)  # some are imported on first use: now
        sys.modules[module.__name__] = found


def run_command(name):
    """Run the command of a module below this name, others being put aside."""
    with FINDER.others_aside():
        module = importlib.import_module(PACKAGE + name[len(__name__) :])
        cli = importlib.import_module(PACKAGE + ".runtime.cli")
        cli.main(module.parser(), module.run)


FINDER = Finder()
sys.meta_path.insert(0, FINDER)
