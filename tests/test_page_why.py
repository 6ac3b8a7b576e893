"""The section "Why?" of the page, in a real browser."""

import json
import re

import numpy as np
import pytest
from browser import needs_browser
from serving import serve, url
from test_page import VIOLATIONS, read_axe, type_text

from transformer import hparams
from transformer.logdir import manifests
from transformer.text.data_folder import choose_dev_lines, find_references
from transformer.viewer.inspection import inspect_line
from transformer.viewer.model_page import PAGE, make_model_page
from transformer.viewer.why_not import explain_line

pytestmark = [
    pytest.mark.usefixtures("one_thread_only"),
    needs_browser,
    pytest.mark.slow,
]


@pytest.fixture
def page(browser, model):
    """The page of a server, with a sentence; the browser reports no error."""
    with serve([model]) as server:
        browser.open(url(server))
        type_text(browser, "1 2 3 4 5")
        yield browser
        assert browser.errors() == []


def test_one_tab_is_chosen_and_only_its_panel_is_visible(page):
    names = page.run("Object.keys(WHY_TABS)")
    page.run("byId('why-not').click(); byId('why-not').focus()")
    for key, step in (("ArrowRight", 1), ("End", -1), ("Home", 0), ("ArrowLeft", -1)):
        before = names.index(page.run("view.tab"))
        page.press(key)
        after = names[
            -1 if key == "End" else (before + step) % len(names) if step else 0
        ]
        chosen = page.run(
            "[...document.querySelectorAll('#why [role=tab]')]"
            ".filter((tab) => tab.ariaSelected === 'true' && tab.tabIndex === 0"
            " && !byId(tab.getAttribute('aria-controls')).hidden).map(({id}) => id)"
        )
        assert chosen == [after] == [page.run("document.activeElement.id")]
        hidden = page.run(
            "document.querySelectorAll('#why [role=tabpanel][hidden]').length"
        )
        assert hidden == len(names) - 1


def expect(page, text):
    """Type an expected translation; wait for its explanation."""
    page.run("byId('expected').value = ''; byId('expected').focus()")
    page.type(text)
    page.until(
        f"view.expected === {json.dumps(text)} && whyNot.explanation"
        f" && JSON.parse(whyNot.key)[2] === {json.dumps(text)}"
    )
    return page.run("byId('verdict').textContent")


def test_an_expected_translation_is_explained(page, model):
    best = inspect_line(model.translator, "1 2 3 4 5").n_best[0].text
    assert expect(page, best) == "This is the best translation."
    assert page.run("byId('deciding').textContent") == ""
    assert expect(page, "1 1 1 1 1").startswith(("Dropped at", "Never considered"))
    explanation = explain_line(model.translator, "1 2 3 4 5", "1 1 1 1 1")
    best_words = [*best.split(), "⟨end⟩"]
    words = ["1"] * 5 + ["⟨end⟩"]
    word, own = next(pair for pair in zip(words, best_words) if len(set(pair)) > 1)
    assert page.run("byId('deciding').textContent") == (
        f"It parts from the best translation at “{word}”, where that has “{own}”."
    )
    step = explanation.verdict.step
    words = page.run(
        "[...document.querySelectorAll('#expected-words li')].map(({innerText}) =>"
        " innerText)"
    )
    assert len(words) == 6 and page.run("byId('expected-words').children.length") == 6
    for i, (begin, end) in enumerate(explanation.target.spans):
        probability = np.exp(explanation.log_probs[begin:end].sum())
        text = "< 0.01" if probability < 0.005 else f"{probability:.2f}"
        rank = max(explanation.ranks[begin:end])
        if begin < step <= end:  # where the search left it
            rank = explanation.ranks[step - 1]
            assert "✂" in words[i]
        assert re.search(rf"{text}, {rank}(st|nd|rd|th)", words[i])
    [turn] = page.run(
        "[...document.querySelectorAll('#expected-words li')].flatMap((item, i) =>"
        " item.className === 'turn' ? [i] : [])"
    )
    spans = explanation.target.spans
    assert spans[turn][0] <= explanation.turn < spans[turn][1]
    # The link has it; a new sentence has not.
    link = page.run("location.href")
    page.open(link)
    page.until("whyNot.explanation && byId('expected').value === '1 1 1 1 1'")
    type_text(page, "2 1")
    assert page.run("view.expected + byId('verdict').textContent") == ""


def test_one_click_explains_one_of_the_n_best(page, model):
    n_best = inspect_line(model.translator, "1 2 3 4 5").n_best
    page.click("#nbest li:nth-child(3) .small")
    page.until("whyNot.explanation")
    assert page.run("byId('expected').value") == n_best[2].text
    verdict = page.run("byId('verdict').textContent.replaceAll('−', '-')")
    scores = f"its score {n_best[2].score:.3f} lost to {n_best[0].score:.3f}."
    assert verdict == f"It is the 3rd of the n best: {scores}"
    assert page.run("document.activeElement.id") == "expected"


def test_test_sentences_are_sorted_and_a_click_opens_one(page, model):
    page.run("byId('tests').open = true")
    page.until("byId('translate-tests').textContent.includes('20 sentences')")
    page.run("byId('translate-tests').focus()")
    page.press("Enter")  # sections that are filled in would move it under the mouse
    total = model.test_sentences.total
    page.until(f"tests.request === null && testRows(0).length === {total}")
    rows = model.test_sentences.translate(range(total))
    rows.sort(key=lambda row: row["chrf"])
    texts = (
        "[...document.querySelectorAll('#test-rows button')].map((b) => b.innerText)"
    )
    assert page.run(texts) == [row["source"] for row in rows[:50]]
    page.click("#test-rows button")
    line = json.dumps(rows[0]["source"])
    page.until(f"page.inspection?.text === {line} && whyNot.explanation")
    assert page.run("byId('expected').value") == rows[0]["reference"]
    page.run("byId('learned').open = true")
    page.until("document.querySelectorAll('#learned-pairs mark').length > 3")
    page.run(read_axe() + "; 0")
    assert page.run(VIOLATIONS) == []


def test_a_test_sentence_has_the_translations_of_both_models(page):
    texts = page.run(
        "(() => { page.models.push({ ...page.models[0], name: 'other' });"
        "view.other = 1; const row = makeTestRow({ source: '1', reference: '1',"
        " translation: '2', chrf: 3, other: { translation: '4', chrf: 5 } });"
        "page.models.pop(); view.other = -1;"
        "return [...row.querySelectorAll('.note')].map((x) => x.textContent); })()"
    )
    assert texts == ["2", "other: 4"]


def test_the_progress_of_the_test_sentences_is_that_of_both_models(page):
    bar = page.run(
        "(() => { const { total } = page.models[0].testSentences;"
        "page.models.push({ ...page.models[0], name: 'other' }); view.other = 1;"
        "tests.rows.clear(); testRows(0).push({}, {}); showTests();"
        "const { value, max } = byId('tests-progress'); return [value, max / total];"
        "})()"
    )
    assert bar == [2, 2]


def test_the_page_of_a_model_explains_without_a_server(browser, trained, tmp_path):
    hp, [checkpoint, *_] = hparams.load(trained), manifests.list_candidates(trained)
    lines = find_references(hp.data, choose_dev_lines(hp.data, 3))
    pages = make_model_page(hp, checkpoint, ["1 2 3"], "float32", references=lines)
    path = tmp_path / "page.html"
    path.write_text(pages[PAGE], encoding="utf-8")
    browser.open(path.as_uri())
    browser.until("page.inspection && byId('status').textContent === ''")
    assert expect(browser, "1 1 1").startswith(("Dropped at", "Never considered"))
    browser.run("byId('tests').open = true")
    browser.click("#translate-tests")
    browser.until("document.querySelectorAll('#test-rows li').length === 3")
    browser.run("byId('learned').open = true")
    browser.until("byId('learned-pairs').textContent.includes('is not here')")
    browser.run(read_axe() + "; 0")
    assert browser.run(VIOLATIONS) == []
    assert browser.errors() == []
