"""Run the tests of tensor2tensor 1.15.7 on the functions of `compat.tensor2tensor`.

    python tools/peers/peers.py                                     # this Python
    python tools/peers/peers.py .venv-tf1/bin/python .venv/bin/python

Fetches the package from PyPI into a temporary folder, runs four of its test files with
each Python, and prints the table of docs/porting.md: a column for each TensorFlow.

In the first, second and fourth file, only the import is changed: the tests call our
functions. Those that call a function that we do not have are not counted. In
`transformer_test`, our functions replace those of the same name in the modules that
tensor2tensor's own Transformer is built of. What tensor2tensor imports, and these tests
do not need, is replaced by stand-ins (`stand_ins.py`); TensorFlow 2 also gets tf_keras.
"""

import argparse
import contextlib
import datetime
import importlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

PACKAGE = "tensor2tensor==1.15.7"
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COMPAT = "transformer.compat.tensor2tensor"
TEST_FILES = {
    "common_attention_test": "tensor2tensor.layers",
    "common_layers_test": "tensor2tensor.layers",
    "transformer_test": "tensor2tensor.models",
    "beam_search_test": "tensor2tensor.utils",
}
# They run each test in a graph and eagerly; the others need graphs.
EAGER = ("common_attention_test", "common_layers_test")
# The modules that our functions replace.
MODULES = [
    "tensor2tensor.layers.common_attention",
    "tensor2tensor.layers.common_layers",
    "tensor2tensor.layers.transformer_layers",
    "tensor2tensor.utils.beam_search",
]
SECONDS = 1800  # for a test file
PASSED, NOT_HERE = "passed", "not here"


# In the process of a test file


def load_tests(test_file):
    """Import a test file, with our functions; return its tests by name."""
    import stand_ins
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    stand_ins.install()
    stand_ins.skip_init("tensor2tensor.models")  # it imports every model
    compat = importlib.import_module(COMPAT)
    module = importlib.import_module(f"{TEST_FILES[test_file]}.{test_file}")
    for name in MODULES:
        replaced = importlib.import_module(name)
        if test_file != "transformer_test":
            short_name = name.rsplit(".", 1)[1]
            if hasattr(module, short_name):
                setattr(module, short_name, compat)
            continue
        for function in compat.__all__:
            if hasattr(replaced, function):
                setattr(replaced, function, getattr(compat, function))
    if test_file in EAGER:
        tf.enable_eager_execution()
    tests = {}
    for suite in unittest.defaultTestLoader.loadTestsFromModule(module):
        for test in suite:
            name = test.id().rsplit(".", 1)[1]
            if name != "test_session":
                tests[name] = test
    return tests


def run_test(test):
    """Run a test; return PASSED, NOT_HERE, or the first line of its error."""
    result = unittest.TestResult()
    with contextlib.redirect_stdout(io.StringIO()):
        test.run(result)
    errors = [text for _, text in result.errors + result.failures]
    if not errors:
        return PASSED
    if f"module '{COMPAT}' has no attribute" in errors[0]:
        return NOT_HERE
    message = re.findall(r"^\S*(?:Error|Exception).*", errors[0], re.MULTILINE)[-1]
    return re.sub(r" at 0x\w+", "", message)


def run_file(test_file, done):
    """Run the tests of a file except those done; print two JSON lines for each."""
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else prints
    for name, test in load_tests(test_file).items():
        if name not in done:
            print(json.dumps([name, "ended the process"]), file=output, flush=True)
            print(json.dumps([name, run_test(test)]), file=output, flush=True)
    print(json.dumps(["", "all"]), file=output, flush=True)


# In the first process


def fetch(folder, python):
    """Fetch the package, and tf_keras for a Python with TensorFlow 2.

    Returns:
      (version of TensorFlow, the folders for PYTHONPATH).
    """
    code = "import tensorflow as tf; print(tf.__version__)"
    version = subprocess.check_output([python, "-c", code], text=True).split()[-1]
    pip = [python, "-m", "pip", "-q", "--disable-pip-version-check"]
    wheels = os.path.join(folder, "wheels")
    sources = os.path.join(folder, "sources")
    if not os.path.isdir(sources):
        subprocess.check_call([*pip, "download", "--no-deps", "-d", wheels, PACKAGE])
        [wheel] = os.listdir(wheels)
        zipfile.ZipFile(os.path.join(wheels, wheel)).extractall(sources)
    paths = [sources]
    if not version.startswith("1."):
        major, minor, _ = version.split(".")
        keras = os.path.join(folder, f"keras-{version}")
        subprocess.check_call(
            [*pip, "install", "--no-deps", "-t", keras, f"tf_keras=={major}.{minor}.*"]
        )
        paths.append(keras)
    return version, paths


def run_all(python, version, test_file, paths):
    """Run a test file; after a test that ends the process, start another one.

    Returns:
      Name of a test → what `run_test` returned.
    """
    environment = dict(
        os.environ,
        PYTHONPATH=os.pathsep.join([ROOT, *paths]),
        TF_USE_LEGACY_KERAS="1",
        TF_CPP_MIN_LOG_LEVEL="2",
    )
    results = {}
    while "" not in results:
        command = [python, __file__, "--file", test_file, "--done", *results]
        process = subprocess.run(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=SECONDS,
        )
        lines = process.stdout.decode().splitlines()
        if not lines:
            sys.exit(process.stderr.decode()[-2000:])
        results.update(map(json.loads, lines))
    del results[""]
    print(f"{version}: {test_file} is done", file=sys.stderr)
    return {name: text for name, text in results.items() if text != NOT_HERE}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pythons", nargs="*", default=[sys.executable])
    parser.add_argument("--file", choices=TEST_FILES, help=argparse.SUPPRESS)
    parser.add_argument("--done", nargs="*", default=[], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.file:
        run_file(args.file, args.done)
        return
    columns = {}
    with tempfile.TemporaryDirectory() as folder:
        for python in args.pythons:
            version, paths = fetch(folder, python)
            columns[version] = {
                test_file: run_all(python, version, test_file, paths)
                for test_file in TEST_FILES
            }
    print(f"{PACKAGE}, {datetime.date.today()}\n")
    print(f"| test file | {' | '.join(f'TensorFlow {name}' for name in columns)} |")
    print("|---" * (1 + len(columns)) + "|")
    for test_file in TEST_FILES:
        cells = [f"`{test_file}`"]
        for results in columns.values():
            texts = list(results[test_file].values())
            cells.append(f"{texts.count(PASSED)} of {len(texts)}")
        print(f"| {' | '.join(cells)} |")
    print()
    for version, results in columns.items():
        for test_file, texts in results.items():
            for name, text in texts.items():
                if text != PASSED:
                    print(f"{version} {test_file}.{name}: {text}")


if __name__ == "__main__":
    main()
