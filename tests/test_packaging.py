"""The shape of the repository: one direction, small files, nothing that leaks."""

import ast
import glob
import os
import re
import statistics
import subprocess
import sys

import pytest

import transformer

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# The order in which text flows: a file imports only files that stand before it.
ORDER = [name for name, _, _ in transformer.READING_ORDER]

TOP = ["hparams.py", "train.py", "eval.py", "transformer_tf.py"]

# At most so many lines and parameters; of the lines of a function, half have fewer.
FILE, FUNCTION, MEDIAN, PARAMETERS = 350, 50, 12, 8

# Whose parameters are those of the tutorial and of the code that is ported from it.
PUBLIC_SIGNATURES = (
    "transformer/modules.py",
    "transformer/functional.py",
    "transformer/blocks/attention.py",
)
KERAS_LAYERS = ("transformer/keras_layers/", "transformer/compat/bojone_keras.py")
CALLED_BY_TENSORFLOW = (
    "transformer/compat/variables.py",
    "transformer/runtime/precision.py",
    "tools/precision/precision.py",
)

# Verbs that end in "s", and first words of a docstring that are no verb at all.
ENDS_IN_S = {"Bias", "Bypass", "Compress", "Cross", "Discuss", "Express", "Pass"}
ENDS_IN_S |= {"Access", "Address", "Focus", "Guess", "Possess", "Press", "Process"}
NO_VERB = set("A An As At For How In No Of On One Only The What Where Whether".split())
NO_VERB |= set("Which Who Whose Each Every It Its Our Their Them This Those".split())

nodes_have_ends = pytest.mark.skipif(
    sys.version_info < (3, 8), reason="ast of Python 3.7 knows no ends of nodes"
)


def present(*patterns):
    """The files of the repository that match, relative to its root, with slashes."""
    return sorted(
        os.path.relpath(path, ROOT).replace(os.sep, "/")
        for pattern in patterns
        for path in glob.glob(os.path.join(ROOT, pattern))
    )


PACKAGE = present("transformer/*.py", "transformer/*/*.py")
PUBLIC_SIGNATURES += tuple(present("transformer/compat/*.py"))
CODE = PACKAGE + present("scripts/*.py", "tools/*/*.py", "examples/*.py", *TOP)
TESTS = present("tests/*.py")


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
    return ".".join(os.path.splitext(path)[0].split("/")[1:])


def functions(path):
    """(dotted name, node) of each function and method of a file."""

    def inside(node, before):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
                if isinstance(child, ast.FunctionDef):
                    yield before + child.name, child
                yield from inside(child, before + child.name + ".")
            else:
                yield from inside(child, before)

    return inside(ast.parse(read(path)), "")


def lines_of(function):
    """How many lines the body of a function has, its docstring not counted."""
    documented = ast.get_docstring(function) is not None
    begin = function.body[0].end_lineno + 1 if documented else function.body[0].lineno
    return function.end_lineno - begin + 1


# The order of reading


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


def test_the_reading_order_names_each_file_once():
    paths = ["transformer/" + name.replace(".", "/") + ".py" for name in ORDER]
    assert sorted(paths) == [path for path in PACKAGE if "__init__" not in path]


# What no file does


@pytest.mark.parametrize("path", PACKAGE)
def test_the_package_does_not_print(path):
    calls = [
        node.func.id
        for node in ast.walk(ast.parse(read(path)))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    assert "print" not in calls


@pytest.mark.parametrize("path", CODE)
def test_no_function_takes_whatever_comes_or_shares_its_defaults(path):
    """Except for what Keras and TensorFlow call with arguments of their own."""
    for name, node in functions(path):
        is_called = path.startswith(KERAS_LAYERS) or path in CALLED_BY_TENSORFLOW
        assert is_called or node.args.kwarg is None, f"{name}: found **kwargs"
        for default in node.args.defaults + node.args.kw_defaults:
            assert not isinstance(default, (ast.List, ast.Dict, ast.Set)), name


def test_importing_the_package_needs_no_tensorflow_and_the_settings_neither():
    code = (
        "import sys; import hparams, transformer; "
        "sys.exit(sorted(set(sys.modules) & {'tensorflow', 'numpy'}) or None)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_no_file_names_a_folder_of_one_machine():
    roots = "|".join(["home", "opt", "private", "root", "tmp", "Users", "work"])
    pattern = re.compile(r"(?<![\w./}*-])/(?:" + roots + r")/\S*")
    paths = CODE + TESTS
    paths += present("*.md", "*/*.md", "*.toml", "setup.*", "Makefile", ".ci/run")
    found = [(path, match) for path in paths for match in pattern.findall(read(path))]
    assert found == []


# Sizes


@pytest.mark.parametrize("path", CODE)
def test_a_file_fits_the_reader(path):
    assert len(read(path).splitlines()) <= FILE


@nodes_have_ends
@pytest.mark.parametrize("path", CODE)
def test_a_function_fits_the_screen(path):
    sizes = {name: lines_of(node) for name, node in functions(path)}
    assert {name: size for name, size in sizes.items() if size > FUNCTION} == {}


@nodes_have_ends
def test_half_of_the_functions_are_short():
    sizes = [lines_of(node) for path in CODE for _, node in functions(path)]
    assert statistics.median(sizes) <= MEDIAN


@pytest.mark.parametrize("path", CODE)
def test_a_function_has_few_parameters(path):
    for name, node in functions(path):
        is_public = not name.startswith("_") and path in PUBLIC_SIGNATURES
        is_layer = path.startswith(KERAS_LAYERS) and name.endswith(".__init__")
        parameters = [each.arg for each in node.args.args + node.args.kwonlyargs]
        if not (is_public or is_layer):
            assert len(set(parameters) - {"self"}) <= PARAMETERS, name


# Words


@pytest.mark.parametrize("path", CODE + TESTS)
def test_a_file_begins_with_what_it_is_for(path):
    docstring = ast.get_docstring(ast.parse(read(path)))
    assert docstring and docstring.splitlines()[0].strip(), path


def is_imperative(sentence):
    """Whether the first word may be a verb that tells somebody to do something."""
    word = re.match(r"[A-Z][a-z]+(?=[\s,.]|$)", sentence)
    if not word or word.group() in NO_VERB:
        return False
    return not word.group().endswith("s") or word.group() in ENDS_IN_S


@pytest.mark.parametrize(
    "sentence, wanted",
    [
        ("Return the mean.", True),
        ("Pass it on.", True),
        ("Returns the mean.", False),
        ("The mean.", False),
        ("`x`, rounded.", False),
        ("[N, T, D] → the same.", False),
    ],
)
def test_what_an_imperative_is(sentence, wanted):
    assert is_imperative(sentence) == wanted


@pytest.mark.parametrize("path", PACKAGE)
def test_the_first_line_of_a_docstring_is_an_imperative(path):
    """Of functions and methods; a property is what it is."""
    found = {
        name: ast.get_docstring(node).splitlines()[0]
        for name, node in functions(path)
        if ast.get_docstring(node) and "property" not in decorators(node)
    }
    wrong = [
        f"{name}: {said}" for name, said in found.items() if not is_imperative(said)
    ]
    assert not wrong, "\n" + "\n".join(wrong)


def decorators(function):
    """The names of the decorators that are plain names."""
    return [getattr(each, "id", "") for each in function.decorator_list]


def is_constant(node):
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True


def writes(call):
    """Whether a call opens a file for writing; a pipe is none."""
    name = getattr(call.func, "id", "") or getattr(call.func, "attr", "")
    modes = [str(ast.literal_eval(a)) for a in call.args[1:] if is_constant(a)]
    names = [a.id for a in call.args[1:] if isinstance(a, ast.Name)]
    return name in ("savefig", "TFRecordWriter") or (
        name == "open" and (set("".join(modes)) & set("wax+") or "mode" in names)
    )


def test_the_files_that_write_are_told():
    """In rule 4 of CONTRIBUTING.md."""
    found = [
        path
        for path in PACKAGE
        if any(
            writes(node)
            for node in ast.walk(ast.parse(read(path)))
            if isinstance(node, ast.Call)
        )
    ]
    told = re.search(
        r"small files are written by(.*?)\.\n", read("CONTRIBUTING.md"), re.S
    )
    names = re.findall(r"`(\w+/\w+\.py)`", told.group(1))
    assert sorted("transformer/" + name for name in names) == found


# What is installed


def test_every_folder_of_the_package_is_installed():
    """setup.py finds the folders that have an __init__.py."""
    for folder, _, files in os.walk(os.path.join(ROOT, "transformer")):
        if any(name.endswith(".py") for name in files):
            assert "__init__.py" in files, folder


def test_setup_lists_the_top_modules():
    modules = re.search(r"py_modules=\[(.*)\]", read("setup.py")).group(1)
    assert sorted(re.findall(r'"(\w+)"', modules)) == sorted(
        os.path.splitext(name)[0] for name in TOP
    )


def test_the_change_log_knows_the_version():
    version = re.search(r'version="([^"]+)"', read("setup.py")).group(1)
    assert "## [{}]".format(version) in read("CHANGELOG.md")
