"""Run the JavaScript of the page in node."""

import json
import shutil
import subprocess
import tempfile

import pytest

from transformer.viewer import page_files

NODE = shutil.which("node")

needs_node = pytest.mark.skipif(NODE is None, reason="no node: apt-get install nodejs")

PROGRAM = """%s
const input = JSON.parse(require("fs").readFileSync(0, "utf8"));
Promise.resolve((() => { %s })()).then(
  (result) => process.stdout.write(JSON.stringify(result)));
"""


def run_node(body, data=None, scripts=page_files.ENGINE):
    """Run a function body after files of the page; return the value it returns.

    Args:
      body: JavaScript that returns a value or a promise; in it, `input` is `data`.
      data: JSON.
      scripts: names of the files.
    """
    sources = "".join(map(page_files.read_file, scripts))
    with tempfile.NamedTemporaryFile("w", suffix=".js", encoding="utf-8") as file:
        file.write(PROGRAM % (sources, body))
        file.flush()
        done = subprocess.run(
            [NODE, file.name],
            input=json.dumps(data).encode("ascii"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    assert done.returncode == 0, done.stderr.decode("utf-8")
    return json.loads(done.stdout.decode("utf-8"))
