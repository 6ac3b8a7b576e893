"""The tabs "Inside this head" and "Switch off" of the page, in a real browser."""

import json
import os
import re

import numpy as np
import pytest
from browser import needs_browser
from serving import serve, url
from test_page import VIOLATIONS, open_model_page, read_axe, type_text

import transformer
from transformer.viewer.heads import HeadName, ablate, ablate_each, inspect_head

pytestmark = [
    pytest.mark.usefixtures("one_thread_only"),
    needs_browser,
    pytest.mark.slow,
]

LINE = "1 2 3 4 5"
TARGET = "page.inspection.data.target.ids.slice(0, -1)"


@pytest.fixture(params=["server", "model"])
def page(request, browser, model, tmp_path):
    """The page of a server, or with the model in it; the browser reports no error."""
    if request.param == "model":
        open_model_page(browser, tmp_path, model)
        yield browser
        assert browser.errors() == []
    else:
        with serve([model]) as server:
            browser.open(url(server))
            type_text(browser, LINE)
            yield browser
            assert browser.errors() == []  # a server that stops refuses what is open


def open_tab(page, name):
    page.run(f"byId('why').scrollIntoView(); byId('{name}').click()")


def click(page, selector):
    """Click at an element, wherever it is now: the sections above still grow."""
    page.run(f"document.querySelector({json.dumps(selector)}).click()")


def read_numbers(page, box, what="title"):
    """The numbers of the keys in a box; None for those that are masked."""
    titles = page.run(
        f"[...document.querySelectorAll('[data-box=\"{box}\"] .keys:not(.shares) li')]"
        f".map((item) => item.querySelector('.number')?.{what} ?? null)"
    )
    return [
        title and float(re.findall(r"[−\d.]+", title)[-1].replace("−", "-"))
        for title in titles
    ]


def test_each_box_has_the_numbers_of_the_model(page, model):
    page.run("chooseHead({kind: 'cross', layer: 0, head: 0})")
    open_tab(page, "inside")
    page.until("document.querySelectorAll('.box').length === 5")
    target = page.run(TARGET)
    head = inspect_head(model.translator, LINE, HeadName("cross", 0, 0), target)
    for query in (0, 3):
        click(page, f"[data-query='{query}']")
        page.until(f"inside.piece === {query}")
        logits = head.keys @ head.queries[query] / head.keys.shape[1] ** 0.5
        weights = np.exp(logits) / np.exp(logits).sum()
        np.testing.assert_allclose(read_numbers(page, 2), logits, atol=2e-4)
        np.testing.assert_allclose(read_numbers(page, 3), weights, atol=2e-4)
        percents = read_numbers(page, 4)
        np.testing.assert_allclose(percents, 100 * weights, atol=2e-2)
        # They are those of the heat map, and its row is lit.
        row = page.run(f"rowOf(page.inspection.matrix('cross', 0, 0, false), {query})")
        np.testing.assert_allclose(row, weights, atol=1e-4)
        shares = page.run(
            "[...document.querySelectorAll('[data-share]')].map((item) => item.title)"
        )
        for title, alternative in zip(shares, head.alternatives[query]):
            numbers = [float(x.replace("−", "-")) for x in title.split(" of ")]
            expected = [alternative.share, alternative.logit]
            assert numbers == pytest.approx(expected, abs=2e-4)
    assert page.run("page.highlight.row") == page.run(
        "page.inspection.spans('target', view.byWords).findIndex(([, end]) => end > 3)"
    )
    # A product, cell by cell; the box that is pointed at is bold in the formula.
    page.run("document.querySelector(\"[data-of-key='2']\").focus()")
    assert page.run("document.querySelectorAll('.product:not([hidden])').length") == 1
    product = page.run("document.querySelector('.product:not([hidden])').textContent")
    logit = head.keys[2] @ head.queries[3] / head.keys.shape[1] ** 0.5
    assert f"= {logit:.2f}".replace("-", "−") in product
    bold = "[...document.querySelectorAll('#formula .now')].map(x => x.textContent)"
    assert page.run(bold) == ["KT"]
    # The temperature changes only what is drawn.
    page.run("temperature.value = 2; temperature.dispatchEvent(new Event('input'))")
    page.until("inside.temperature === 2")
    drawn = np.exp(logits / 2) / np.exp(logits / 2).sum()
    np.testing.assert_allclose(read_numbers(page, 3), drawn, atol=2e-4)
    assert read_numbers(page, 4) == percents
    page.run("inside.temperature = 1")


def test_the_first_query_is_that_of_a_word_or_of_the_step(page):
    open_tab(page, "inside")
    page.until("document.querySelectorAll('.box').length === 5")
    pieces = page.run("page.inspection.data.target.pieces")
    assert page.run("inside.piece") == 0 and pieces[0] != "⟨end⟩"
    page.run("inside.inspection = null; leapTo(lastStep())")
    assert page.run("inside.piece") == len(pieces) - 1
    page.until("!byId('inside-panel').classList.contains('pending')")


def test_masked_keys_say_why_and_the_encoder_has_no_share(page):
    page.run("chooseHead({kind: 'decoder', layer: 0, head: 1})")
    open_tab(page, "inside")
    page.until("document.querySelectorAll('.box').length === 5")
    click(page, "[data-query='1']")
    page.until("document.querySelectorAll('[data-box=\"2\"] .masked').length > 2")
    logits = page.run("document.querySelector('[data-box=\"2\"]').textContent")
    assert "Hatched: it comes later in the translation." in logits
    assert [x is None for x in read_numbers(page, 3)][:3] == [False, False, True]
    # Of all heads together, the one that looks most sharply is shown.
    page.run("chooseHead({kind: 'encoder', head: 'mean'})")
    page.until("byId('inside-note').textContent.includes('looks most sharply')")
    assert page.run("document.querySelectorAll('[data-share]').length") == 0
    values = "document.querySelector('[data-box=\"4\"]').textContent"
    page.until(f"{values}.includes('only through the decoder')")


def test_a_head_is_switched_off_and_on(page, model):
    open_tab(page, "switch-off")
    page.until("document.querySelectorAll('[data-switch]').length === 12")
    best = page.run("textOf(page.inspection)")
    target = page.run(TARGET)
    off = [HeadName("cross", 0, 1), HeadName("decoder", 0, 0)]
    for i, name in enumerate(off, 1):
        click(page, f"[data-switch='{name.kind}-{name.layer}-{name.head}']")
        page.until("byId('ablated').textContent.startsWith('Without')")
        expected = ablate(model.translator, LINE, off[:i], target)
        # They are named in the order of the switches.
        names = ["cross 1.2", "decoder 1.1, cross 1.2"][i - 1]
        page.until(f"byId('ablated').textContent.startsWith('Without {names}:')")
        text = page.run("document.querySelector('.ablated').textContent.trim()")
        assert text == expected.n_best[0].text
        marked = page.run(
            "[...document.querySelectorAll('.ablated mark')].map(x => x.textContent)"
        )
        assert bool(marked) == (text != best) or len(text) < len(best)
        numbers = f"score {expected.n_best[0].score:.2f} (was ".replace("-", "−")
        assert numbers in page.run("byId('ablated').textContent")
        assert (
            page.run(
                "[...document.querySelectorAll('[data-switch]')]"
                ".filter((item) => item.ariaChecked === 'false').length"
            )
            == i
        )
    assert "f=cross.0.1_decoder.0.0" in page.run("location.hash")
    click(page, "#all-on")
    page.until("byId('ablated').textContent.startsWith('All heads are on')")
    assert page.run("document.activeElement.id") == "try-all"


def test_all_heads_are_tried_and_sorted(page, model):
    open_tab(page, "switch-off")
    page.until("byId('try-all').textContent === 'Try all 12'")
    click(page, "#try-all")
    page.until(
        "page.inspection.changes && byId('ranking').textContent.includes('Most needed')"
    )
    expected = ablate_each(model.translator, LINE, page.run(TARGET))
    changes = page.run("page.inspection.changes")
    for kind, layers in expected.items():
        np.testing.assert_allclose(changes[kind], layers, atol=1e-3)
    others = page.run(
        "(() => { const { texts } = page.inspection; page.inspection.texts = new Map("
        "[['cross 1.1', page.inspection.data.nBest[0].text]]);"
        "showRanking(page.inspection, listHeads(page.inspection));"
        "page.inspection.texts = texts; return byId('ranking').textContent; })()"
    )
    assert others.endswith("1 of 12; so far, the translation is the same.")
    page.until("page.inspection.texts?.size === 12")
    shown = page.run(
        "[...document.querySelectorAll('#switches button')].map((button) =>"
        " [button.dataset.switch, button.querySelector('.change').textContent])"
    )
    numbers = [float(re.sub(" ≠$", "", text).replace("−", "-")) for _, text in shown]
    assert len(numbers) == 12 and numbers == sorted(numbers)
    best = page.run("page.inspection.data.nBest[0].text")
    target = page.run(TARGET)
    for switch, text in (shown[0], shown[-1]):
        kind, layer, head = switch.split("-")
        name = HeadName(kind, int(layer), int(head))
        ablated = ablate(model.translator, LINE, [name], target)
        assert text.endswith("≠") == (ablated.n_best[0].text != best)
    click(page, "#sorted")
    page.until("document.querySelectorAll('#switches table').length === 3")
    first = page.run("document.querySelector('[data-switch] .change').textContent")
    assert float(first.split()[0].replace("−", "-")) == pytest.approx(
        expected["encoder"][0][0], abs=6e-3
    )


def test_a_link_opens_the_tab_with_its_heads_off(browser, model):
    with serve([model]) as server:
        browser.open(url(server) + "#t=1+2+3&b=switch-off&f=cross.0.1_cross.9.0_x.1.1")
        browser.until("page.inspection !== null")
        browser.until("byId('ablated').textContent.startsWith('Without cross 1.2:')")
        assert browser.run("scrollY") > 0
        note = browser.run("byId('heads-off').textContent")
        assert note.startswith("Switched off: cross 1.2.")
        # Another sentence is translated without it, too.
        type_text(browser, "5 4 3")
        browser.run("byId('why').scrollIntoView()")
        browser.until("byId('ablated').textContent.startsWith('Without cross 1.2:')")
        [_, ablation] = browser.run("[...page.inspection.ablations][0]")
        expected = ablate(model.translator, "5 4 3", [HeadName("cross", 0, 1)])
        assert ablation["nBest"][0]["ids"] == expected.best_ids[0]
        click(browser, "#heads-on")
        assert browser.run("[view.off.length, byId('heads-off').hidden]") == [0, True]
    assert browser.errors() == []


def test_axe_finds_no_violation_in_the_tabs(browser, model, tmp_path):
    script = read_axe()
    open_model_page(browser, tmp_path, model)
    browser.run(script + "; 0")
    open_tab(browser, "inside")
    browser.until("document.querySelectorAll('.box').length === 5")
    browser.run("document.querySelector('.keys button').focus()")
    assert browser.run(VIOLATIONS) == []
    open_tab(browser, "switch-off")
    click(browser, "#try-all")
    browser.until("document.querySelectorAll('.change').length === 12")
    click(browser, "[data-switch='cross-0-1']")
    browser.until("byId('ablated').textContent.startsWith('Without')")
    for theme in ("dark", "light"):
        browser.run(f"view.theme = '{theme}'; setTheme()")
        assert browser.run(VIOLATIONS) == []


def test_each_box_names_a_line_of_the_code(browser, model, tmp_path):
    open_model_page(browser, tmp_path, model)
    path = os.path.join(os.path.dirname(transformer.__file__), "blocks", "attention.py")
    with open(path, encoding="utf-8") as file:
        code = file.read()
    for line in browser.run("BOXES.map(({ code }) => code)"):
        assert line in code, line


def test_the_last_lessons_open_the_tabs(page):
    shows = page.run("LESSON_VIEWS.map(({ show }) => show)")
    assert page.run("countLessons()") == len(shows)
    for number in (i for i, show in enumerate(shows) if show == "why"):
        page.run(f"openLesson({number})")
        tab = page.run(f"LESSON_VIEWS[{number}].fields.b")
        page.until(f"view.tab === '{tab}' && !byId('{tab}-panel').hidden")
    page.run("closeLesson()")
