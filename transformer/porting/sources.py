"""Load the functions of a file, and find our functions that may correspond to them."""

import importlib.machinery
import importlib.util
import inspect
import os
import re
import sys
import tokenize
import types
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

import numpy as np

from transformer.compat import (
    bojone,
    functional_time,
    interhat,
    kyubyong,
    kyubyong_legacy,
    sasrec,
    tensor2tensor,
    tutorial,
)
from transformer.porting import tensorflow1
from transformer.porting.cases import find_synonym


class Source(NamedTuple):
    """A module of `transformer.compat`, and the marks of files derived from its source.

    Such a file has functions or parameters with all names in `marks`, and none with a
    name in `absent`.
    """

    module: types.ModuleType
    marks: str
    absent: str = ""


# The first row whose marks a file has is its likely source.
SOURCES = {
    "tensor2tensor": Source(tensor2tensor, "query_antecedent"),
    "bojone": Source(bojone, "nb_head"),
    "kyubyong": Source(kyubyong, "key_masks training"),
    "functional_time": Source(functional_time, "with_qk time_encoding"),
    "sasrec": Source(sasrec, "with_qk"),
    "tutorial": Source(tutorial, "mulithead_attention"),
    "interhat": Source(interhat, "multihead_attention queries keys", "causality"),
    "kyubyong_legacy": Source(
        kyubyong_legacy, "multihead_attention queries keys causality"
    ),
}


def load_file(path: str) -> Tuple[types.ModuleType, Optional[BaseException]]:
    """Run a file as a module that finds the names of TensorFlow 1.

    Returns:
      (the module with what the file defines, the exception that ended it or None).
    """
    with tokenize.open(path) as file:
        text = file.read()
    try:
        code = compile(text, path, "exec")
    except TabError:  # in Python 2, a tab is eight columns
        code = compile(text.expandtabs(8), path, "exec")
    tensorflow1.install_tf1_names(text)
    folder = os.path.dirname(os.path.abspath(path))
    sys.path[:0] = [folder, os.getcwd()]
    dots = re.findall(r"^\s*from\s+(\.+)", text, re.MULTILINE)
    package = _make_packages(folder, depth=max(map(len, dots)) if dots else 0)
    stem = os.path.splitext(os.path.basename(path))[0]
    module = types.ModuleType(f"{package}.{stem}")
    # Python 2 has xrange; np came from an `import *` of TensorFlow 1.
    module.__dict__.update(np=np, xrange=range, unicode=str, __file__=path)
    module.__package__ = package
    sys.modules[module.__name__] = module
    try:
        exec(code, module.__dict__)
    except (Exception, SystemExit) as error:
        is_end = isinstance(error, SystemExit) and not error.code
        return module, None if is_end else error
    finally:
        tensorflow1.use_resource_variables()  # the file may have switched them off
    return module, None


def _make_packages(folder: str, depth: int) -> str:
    """Make packages of a folder and of those above it, for relative imports.

    Args:
      folder: the folder of the file.
      depth: the number of dots of its relative imports.

    Returns:
      The name of the innermost package.
    """
    name = "measured"
    if depth > 1:
        name = f"{_make_packages(os.path.dirname(folder), depth - 1)}.inner"
    spec: Any = importlib.machinery.ModuleSpec(name, None, is_package=True)
    init = os.path.join(folder, "__init__.py")
    if depth and os.path.isfile(init):
        spec = importlib.util.spec_from_file_location(name, init)
    spec.submodule_search_locations = [folder]
    package = importlib.util.module_from_spec(spec)
    sys.modules[name] = package
    if spec.loader is not None:
        spec.loader.exec_module(package)
    return name


def public_functions(module: types.ModuleType) -> Dict[str, Callable]:
    """Return the public functions that a file itself defines, by name."""
    return {
        name: value
        for name, value in vars(module).items()
        if inspect.isfunction(value)
        and inspect.unwrap(value).__code__.co_filename == module.__file__
        and not name.startswith("_")
        and name != "main"
    }


def guess_source(functions: Dict[str, Callable]) -> str:
    """Guess the source of the functions of a file: a key of SOURCES, or ""."""
    words = set(functions)
    for function in functions.values():
        for name, parameter in inspect.signature(function).parameters.items():
            words.update([name, str(parameter.default)])
    for name, source in SOURCES.items():
        has_marks = words >= set(source.marks.split())
        if has_marks and not words & set(source.absent.split()):
            return name
    return ""


# What the name of an argument says about its values. Others are tensors.
NAMES_OF_SIZES = re.compile(
    "num|size|dim|unit|head|depth|width|len|max|hidden|vocab|channel|filter|^[A-Z]$|^n"
)
NAMES_OF_MASKS = re.compile("mask|padding|bias")


class Candidate(NamedTuple):
    """A function of ours that may correspond to a function of the file."""

    source: str  # a key of SOURCES
    line: str  # the import
    function: Callable
    their_names: Dict[str, str] = {}  # our name of an argument → the name in the file


def find_candidates(
    name: str, function: Callable, likely_source: str
) -> List[Candidate]:
    """Return our functions that can be called like a function of the file.

    Those of the likely source come first.

    Raises:
      ValueError: there are none.
    """
    parameters = {
        name: parameter
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }
    candidates: Dict[Callable, Candidate] = {}  # two sources may share a function
    missing: Dict[str, None] = {}  # required arguments of ours, joined by "and"
    for source in sorted(SOURCES, key=lambda source: source != likely_source):
        our_functions = _exported_functions(SOURCES[source].module)
        our_name = find_synonym(name, our_functions)
        if our_name is None:
            continue
        our_function = our_functions[our_name]
        our_parameters = inspect.signature(our_function).parameters
        their_names = _match_parameters(our_parameters, parameters)
        required = [
            parameter
            for parameter in our_parameters
            if _is_required(our_parameters[parameter])
            and parameter not in (*parameters, *their_names)
        ]
        if required:
            missing[" and ".join(required)] = None
            continue
        alias = "" if our_name == name else f" as {name}"
        line = f"from transformer.compat.{source} import {our_name}{alias}"
        candidates.setdefault(
            our_function, Candidate(source, line, our_function, their_names)
        )
    if candidates:
        return list(candidates.values())
    if missing:
        raise ValueError(f"our functions of that name require {', or '.join(missing)}")
    raise ValueError("we have no function of that name")


def _exported_functions(module: types.ModuleType) -> Dict[str, Callable]:
    """Return the functions that `import *` of a module imports."""
    exports = {name: getattr(module, name) for name in module.__all__}
    return {name: value for name, value in exports.items() if callable(value)}


def _is_required(parameter: inspect.Parameter) -> bool:
    is_variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return parameter.default is parameter.empty and not is_variadic


def _match_parameters(
    our_parameters: Mapping[str, inspect.Parameter],
    parameters: Mapping[str, inspect.Parameter],
) -> Dict[str, str]:
    """Match required arguments with other names by position: our name → their name."""
    return {
        our_name: their_name
        for (our_name, our_parameter), (their_name, their_parameter) in zip(
            our_parameters.items(), parameters.items()
        )
        if our_name not in parameters and their_name not in our_parameters
        if _is_required(our_parameter) and _is_required(their_parameter)
        if all(
            bool(names.search(our_name)) == bool(names.search(their_name))
            for names in (NAMES_OF_SIZES, NAMES_OF_MASKS)
        )
    }
