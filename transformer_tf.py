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
ours = {}  # modules of the package, while others have their names


def _take_named_so():
    """Remove the modules called `transformer` or below it; return name → module."""
    names = [name for name in sys.modules if (name + ".").startswith(PACKAGE + ".")]
    return {name: sys.modules.pop(name) for name in names}


@contextlib.contextmanager
def others_aside():
    """Give the names of the package to its own modules."""
    found = importlib.util.find_spec(PACKAGE)
    if found and found.origin and os.path.samefile(found.origin, INIT):
        yield  # there is no other module of that name
        return
    others = _take_named_so()
    sys.modules.update(ours)
    try:
        if not ours:
            spec = importlib.util.spec_from_file_location(
                PACKAGE, INIT, submodule_search_locations=[FOLDER]
            )
            sys.modules[PACKAGE] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(sys.modules[PACKAGE])
        yield
    finally:
        ours.update(_take_named_so())
        sys.modules.update(others)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `transformer_tf.x`: the module `transformer.x` of the package."""

    def find_spec(self, name, path=None, target=None):
        """Return the spec of a name below this one."""
        if not name.startswith(__name__ + "."):
            return None
        is_package = os.path.isdir(os.path.join(FOLDER, *name.split(".")[1:]))
        return importlib.util.spec_from_loader(
            name, self, origin=name, is_package=is_package
        )

    def get_code(self, name):
        """Return what `python -m` runs for a name: the command of that module."""
        text = f"import {__name__} as package\npackage.run_command({name!r})\n"
        return compile(text, name, "exec")

    def exec_module(self, module):
        """Put the module of the package in the place of `module`."""
        with others_aside():
            found = importlib.import_module(PACKAGE + module.__name__[len(__name__) :])
            for name in getattr(found, "__all__", ()):
                getattr(found, name)  # some are imported on first use: now
        sys.modules[module.__name__] = found


def run_command(name):
    """Run the command of a module below this name, others being put aside."""
    with others_aside():
        module = importlib.import_module(PACKAGE + name[len(__name__) :])
        cli = importlib.import_module(PACKAGE + ".commands.cli")
        parser = module.parser()
        for part in ("prog", "description"):  # they show what the user typed
            text = getattr(parser, part)
            setattr(parser, part, text.replace(f" {PACKAGE}.", f" {__name__}."))
        cli.main(parser, module.run)


sys.meta_path.insert(0, Finder())
