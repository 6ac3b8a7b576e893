"""The words that a model doubts: what the search remembers, beside forced decoding."""

import contextlib

import numpy as np
import pytest
from javascript import needs_node, run_node
from test_page_model import MAKE_ENGINE, encode_base64, export, read_kernels

from transformer import hparams
from transformer.viewer.doubts import describe_words
from transformer.viewer.inspection import inspect_line
from transformer.viewer.searches import RecentTranslator

pytestmark = pytest.mark.usefixtures("one_thread_only")

LINES = ["1 2 3", "4 X 5 YZ 6", "9 9 9 9 9 9 9", "7"]


@contextlib.contextmanager
def open_translator(logdir, **changes):
    hp = hparams.load(logdir, changes)
    with RecentTranslator.for_settings(hp, logdir, 1, True) as translator:
        translator.find_and_restore()
        yield translator


def translate_and_describe(translator, lines):
    """Translate lines in one batch, and describe the words of each."""
    n_bests = translator.translate(lines)
    return [
        describe_words(translator, line, best.text)
        for line, [best] in zip(lines, n_bests)
    ]


def test_the_search_knows_how_probable_each_word_is(trained):
    with open_translator(trained, beam_size=3) as translator:
        answers = translate_and_describe(translator, LINES)
        for line, answer in zip(LINES, answers):
            inspection = inspect_line(translator, line, leave_out=False)
            *spans, _ = inspection.target.spans  # without the end
            expected = [
                np.exp(inspection.log_probs[begin:end].sum()) for begin, end in spans
            ]
            words = [word["word"] for word in answer["words"]]
            assert words == inspection.target.words[:-1]
            probabilities = [word["probability"] for word in answer["words"]]
            assert probabilities == pytest.approx(expected, abs=1e-4)
        unknown = [answer["unknown"] for answer in answers]
        assert unknown == [[], ["X", "YZ"], [], []]
        another = describe_words(translator, LINES[0], "of another engine")
        assert another["words"] is None
        assert translate_and_describe(translator, [""])[0]["unknown"] == []
    with open_translator(trained, beam_size=1) as translator:
        [answer] = translate_and_describe(translator, LINES[:1])
        assert answer == {"words": None, "unknown": []}


@needs_node
def test_the_model_in_the_page_doubts_the_same(trained):
    with open_translator(trained, beam_size=3) as translator:
        expected = translate_and_describe(translator, LINES)
    data = {
        "weights": encode_base64(export(trained, changes={"beam_size": 3})),
        "kernels": read_kernels(),
        "lines": [*LINES, ""],
    }
    translate = "return input.lines.map((text) => engine.translate({ text })[0]);"
    *answers, empty = run_node(MAKE_ENGINE + translate, data)
    for answer, words in zip(answers, expected):
        assert answer["unknown"] == words["unknown"]
        for actual, word in zip(answer["words"], words["words"]):
            assert actual["word"] == word["word"]
            assert actual["probability"] == pytest.approx(word["probability"], abs=1e-3)
        assert len(answer["words"]) == len(words["words"])
    assert empty == {"text": "", "score": 0, "words": None, "unknown": []}
