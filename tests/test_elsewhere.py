"""docs/elsewhere.md: blocks as ONNX and LiteRT models, batch and length unknown."""

import elsewhere
import pytest
import tensorflow.compat.v1 as tf
from documents import read
from slow import slow_except

# In `tutorial`, rounding decides what is padding.
STACKS = sorted(set(elsewhere.STACKS) - {"`compat.tutorial`"})

pytestmark = pytest.mark.skipif(
    tf.__version__.startswith("1."), reason="the converters need TensorFlow 2"
)


@pytest.mark.parametrize("name", slow_except(["`compat.kyubyong`"], STACKS))
def test_litert_computes_the_same(name, tmp_path):
    """Without Flex operations: the interpreter has none."""
    pytest.importorskip("ai_edge_litert", reason="pip install ai-edge-litert")
    cases = elsewhere.save(elsewhere.STACKS[name], str(tmp_path / "saved"))
    assert elsewhere.compare_litert(str(tmp_path / "saved"), cases) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in STACKS if "modules" in name])
def test_onnx_computes_the_same(name, tmp_path):
    for package in ("tf2onnx", "onnxruntime"):
        pytest.importorskip(package, reason=f"pip install {package}")
    cases = elsewhere.save(elsewhere.STACKS[name], str(tmp_path / "saved"))
    assert elsewhere.compare_onnx(str(tmp_path / "saved"), cases) < 1e-5


def test_the_page_has_a_row_for_each_stack():
    page = read("docs/elsewhere.md")
    for name in elsewhere.STACKS:
        assert f"\n| {name} |" in page
