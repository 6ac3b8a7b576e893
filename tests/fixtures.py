"""The recorded numbers of the original programs, where they are at hand.

The folder is TRANSFORMER_FIXTURES, or `../shared/fixtures` beside the repository. Its
sections are the folders A to D (see the INDEX.md there); a case is one `.npz`. Tests
choose cases by what their `meta` says, not by their names:

    @fixtures.over("C", function="attention_tf.Attention")
    def test_attention(name):
        case = fixtures.load(name)
        case["in/Q"], case["meta"]["kwargs"], fixtures.group(case, "var")
"""

import fnmatch
import functools
import glob
import json
import os

import numpy as np
import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDER = os.environ.get(
    "TRANSFORMER_FIXTURES", os.path.join(ROOT, os.pardir, "shared", "fixtures")
)
TOLERANCE = 1e-5  # relative to max(1, |recorded|)

skip_without_fixtures = pytest.mark.skipif(
    not os.path.isdir(FOLDER),
    reason="no recorded numbers: TRANSFORMER_FIXTURES names "
    "no folder, and there is no ../shared/fixtures",
)


@functools.lru_cache(maxsize=None)
def _metas():
    """{"C/name": meta} of all cases, sorted by name."""
    names = sorted(
        os.path.relpath(path, FOLDER)[: -len(".npz")].replace(os.sep, "/")
        for path in glob.glob(os.path.join(FOLDER, "*", "*.npz"))
    )
    return {name: _meta(name) for name in names}


def _meta(name):
    with np.load(path_of(name)) as arrays:
        return json.loads(str(arrays["meta"])) if "meta" in arrays else {}


def path_of(name):
    """The file of a case, or of what stands beside the cases ("A/ckpt_...")."""
    path = os.path.join(FOLDER, *name.split("/"))
    return path + ".npz" if os.path.exists(path + ".npz") else path


def cases(*patterns, function=None, where=None):
    """The names of the cases that match, sorted.

    Args:
      patterns: each a section ("C") or a pattern of names ("C/keras_*").
      function: a pattern of what `meta` calls the recorded function.
      where: function of a `meta`, True for those wanted.
    """
    patterns = [pattern if "/" in pattern else pattern + "/*" for pattern in patterns]
    return [
        name
        for name, meta in _metas().items()
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
        and (
            function is None or fnmatch.fnmatchcase(meta.get("function", ""), function)
        )
        and (where is None or where(meta))
    ]


def over(*patterns, function=None, where=None):
    """Decorator: the test runs once a matching case, `name`; skipped without any."""
    names = cases(*patterns, function=function, where=where)
    if not names:
        missing = pytest.mark.skip(
            reason=skip_without_fixtures.kwargs["reason"]
            if not os.path.isdir(FOLDER)
            else "no recorded case of {}, function {}".format(patterns, function)
        )
        names = [pytest.param(None, marks=missing, id="no fixtures")]
    return pytest.mark.parametrize("name", names)


def load(name):
    """A case: {key: array}, keys like "in/x" and "out/out"; "meta" is a dict."""
    with np.load(path_of(name)) as arrays:
        case = {key: arrays[key] for key in arrays.files}
    case["meta"] = json.loads(str(case["meta"])) if "meta" in case else {}
    return case


def group(case, prefix):
    """The arrays under `prefix`/, without it: group(case, "var") has the variables."""
    start = prefix + "/"
    return {
        key[len(start) :]: value for key, value in case.items() if key.startswith(start)
    }


def assert_close(actual, recorded, what="", tolerance=TOLERANCE):
    """Equal shapes, and nowhere further apart than tolerance * max(1, |recorded|)."""
    actual, recorded = np.asarray(actual), np.asarray(recorded)
    assert actual.shape == recorded.shape, what
    worst = np.abs(np.asarray(actual, np.float64) - recorded)
    worst = (worst / np.maximum(1, np.abs(recorded))).max(initial=0)
    assert worst <= tolerance, "{}: off by {:.3g}, wanted {:g}".format(
        what, worst, tolerance
    )
