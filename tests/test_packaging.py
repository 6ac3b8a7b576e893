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

import transformer

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# The order in which text flows: a file imports only files that stand before it.
ORDER = [name for name, _, _ in transformer.READING_ORDER]

TOP = ["hparams.py", "train.py", "eval.py"]


def present(*patterns):
    """The files of the repository that match, relative to its root."""
    return sorted(
        os.path.relpath(path, ROOT)
        for pattern in patterns
        for path in glob.glob(os.path.join(ROOT, pattern))
    )


PACKAGE = present("transformer/*.py", "transformer/*/*.py")
CODE = PACKAGE + present("scripts/*.py", "tools/*/*.py", "examples/*.py", *TOP)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def imported(path):
    """The dotted names that a file imports, anywhere in it."""
    names = set()
    for node in ast.walk(ast.parse(read(path))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: wanted the whole name of what is imported"
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def dotted(path):
    """The name of a file of the package as READING_ORDER has it: "text.lines"."""
    return ".".join(os.path.splitext(path)[0].split(os.sep)[1:])


@pytest.mark.parametrize("path", PACKAGE)
def test_imports_go_one_way(path):
    name = dotted(path)
    is_folder = name.endswith("__init__")
    assert is_folder or name in ORDER, "say in READING_ORDER where the file stands"
    before = ORDER if is_folder else ORDER[: ORDER.index(name)]
    for other in imported(path):
        package, _, module = other.partition(".")
        assert package not in ("hparams", "train", "eval", "scripts", "tests"), other
        if package == "transformer" and module in ORDER:
            assert module in before, other


def test_the_reading_order_names_files_that_exist():
    paths = ["transformer/" + name.replace(".", "/") + ".py" for name in ORDER]
    assert sorted(paths) == [path for path in PACKAGE if "__init__" not in path]


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
    packages = re.findall(r'"(transformer[\w.]*)"', text)
    folders = {os.path.dirname(path).replace(os.sep, ".") for path in PACKAGE}
    assert sorted(packages) == sorted(folders)


def test_the_change_log_knows_the_version():
    version = re.search(r'version="([^"]+)"', read("setup.py")).group(1)
    assert "## [{}]".format(version) in read("CHANGELOG.md")
