"""The shape of the repository: one direction, small files, nothing that leaks."""

import ast
import glob
import io
import os
import re
import subprocess
import sys
import tokenize

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# The order in which text flows: a file imports only files that stand before it.
ORDER = [
    "lines",
    "subwords",
    "text",
    "bpe_dropout",
    "data",
    "dialects",
    "primitives",
    "masks",
    "positions",
    "attention",
    "relative",
    "local",
    "modules",
    "functional",
    "keras_base",
    "keras_positions",
    "keras_layers",
    "model",
    "decoding",
    "training",
    "distribution",
    "sources",
    "sessions",
    "checkpoints",
    "diagnosis",
    "memory",
    "importing",
    "recorded",
    "translator",
    "evaluation",
    "reporting",
    "runs",
    "checks",
]

TOP = ["hparams.py", "train.py", "eval.py"]


def present(*patterns):
    """The files of the repository that match, relative to its root."""
    return sorted(
        os.path.relpath(path, ROOT)
        for pattern in patterns
        for path in glob.glob(os.path.join(ROOT, pattern))
    )


PACKAGE = present("transformer/*.py")
CODE = PACKAGE + present("scripts/*.py", "scripts/bench/*.py", *TOP)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def imported(path):
    """The dotted names that a file imports, anywhere in it; `.x` is `transformer.x`."""
    names = set()
    for node in ast.walk(ast.parse(read(path))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                module = ("transformer." + module).rstrip(".")
            if module == "transformer":
                names.update("transformer." + alias.name for alias in node.names)
            else:
                names.add(module)
    return names


@pytest.mark.parametrize("path", PACKAGE)
def test_imports_go_one_way(path):
    name = os.path.splitext(os.path.basename(path))[0]
    assert name in ORDER + ["__init__"], "say in ORDER where the file stands"
    before = ORDER[: ORDER.index(name)] if name in ORDER else []
    for other in imported(path):
        parts = other.split(".")
        assert parts[0] not in ("hparams", "train", "eval", "scripts", "tests"), other
        if parts[0] == "transformer":
            assert parts[1:] and parts[1] in before, other


@pytest.mark.parametrize("path", PACKAGE)
def test_the_package_does_not_print(path):
    calls = [
        node.func.id
        for node in ast.walk(ast.parse(read(path)))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    assert "print" not in calls


def test_importing_the_package_needs_no_tensorflow_and_the_settings_neither():
    code = (
        "import sys; import hparams, transformer; "
        "sys.exit(sorted(set(sys.modules) & {'tensorflow', 'numpy'}) or None)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def code_lines(text):
    """The numbers of the lines that are neither blank, comment nor docstring."""
    docstrings = set()
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
            and ast.get_docstring(node) is not None
        ):
            docstrings.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    ignored = (
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    )
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in ignored:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines - docstrings


@pytest.mark.skipif(sys.version_info < (3, 8), reason="ast knows no ends of nodes")
@pytest.mark.parametrize("path", CODE)
def test_files_and_functions_are_small(path):
    text = read(path)
    lines = code_lines(text)
    assert len(lines) <= 350, path
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            size = len(lines & set(range(node.lineno, node.end_lineno + 1)))
            assert size <= 50, "{}: {}".format(path, node.name)


def test_no_file_names_a_folder_of_one_machine():
    roots = "|".join(["home", "opt", "private", "root", "tmp", "Users", "work"])
    pattern = re.compile(r"(?<![\w./}*-])/(?:" + roots + r")/\S*")
    paths = CODE + present(
        "tests/*.py", "*.md", "*.toml", "setup.*", "Makefile", ".ci/run", "data/*.md"
    )
    found = [(path, match) for path in paths for match in pattern.findall(read(path))]
    assert found == []


def test_setup_lists_what_is_there():
    text = read("setup.py")
    modules = re.search(r"py_modules=\[(.*)\]", text).group(1)
    assert sorted(re.findall(r'"(\w+)"', modules)) == sorted(
        os.path.splitext(name)[0] for name in TOP
    )
    assert 'packages=["transformer"]' in text
    assert [
        folder
        for folder, _, files in os.walk(os.path.join(ROOT, "transformer"))
        if any(name.endswith(".py") for name in files)
    ] == [os.path.join(ROOT, "transformer")]


def test_the_change_log_knows_the_version():
    version = re.search(r'version="([^"]+)"', read("setup.py")).group(1)
    assert "## [{}]".format(version) in read("CHANGELOG.md")
