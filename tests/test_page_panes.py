"""The two panes of the page, in a real browser: what a translator does."""

import json

import pytest
from browser import needs_browser
from serving import serve, url
from test_page import (
    DATA,
    SILENT,
    VIOLATIONS,
    choose,
    open_frozen_page,
    open_model_page,
    read_axe,
    type_text,
    write_text,
)

from transformer.viewer.inspection import list_choices

pytestmark = [
    pytest.mark.usefixtures("one_thread_only"),
    needs_browser,
    pytest.mark.slow,
]

# The server cannot be reached when the first choice of the link is made again.
FAIL_ONCE = """page.source.inspect = function (request, signal) {
  if (request.text === "1 2 3") {
    delete page.source.inspect;
    return Promise.reject(new Unreachable("Retrying …"));
  }
  return Object.getPrototypeOf(this).inspect.call(this, request, signal);
}"""


@pytest.fixture(scope="module")
def server(model):
    with serve([model]) as server:
        yield server


@pytest.fixture
def page(browser, server):
    """The page of a server, with a sentence; the browser reports no error."""
    browser.open(url(server))
    type_text(browser, "1 2 3 4 5")
    yield browser
    assert browser.errors() == []


LIST = "[...document.querySelectorAll('#word-list button')]"


def open_list(browser, word):
    """Click a word of the translation; return what the list below it says."""
    browser.click(f"#translation [data-word='{word}']")
    browser.until(f"{LIST}.length > 0")
    return browser.run(f"{LIST}.map((button) => button.firstChild.textContent)")


def check_list(browser, model, word):
    """Take the second choice for a word of “1 2 3 4 5”; return the ids before."""
    ids = browser.run(f"{DATA}.target.ids.slice(0, -1)")
    expected = list_choices(model.translator, "1 2 3 4 5", ids, word)
    words = [choice.word or "⟨end⟩" for choice in expected]
    assert open_list(browser, word) == words
    assert browser.run("document.activeElement.dataset.choice") == "0"
    taken = 0 if expected[0].ids != ids[: word + 1] else 1
    if taken:
        browser.press("ArrowDown")
    browser.press("Enter")
    kept = json.dumps(expected[taken].ids)
    browser.until(
        f"JSON.stringify({DATA}.target.ids.slice(0, {word + 1})) === '{kept}'"
        f".replaceAll(' ', '') && {SILENT}"
    )
    assert browser.run("byId('word-list').hidden")
    assert browser.run("document.activeElement.dataset.word") == str(word)
    return ids


def check_ids(browser, ids):
    text = json.dumps(ids).replace(" ", "")
    browser.until(f"JSON.stringify({DATA}.target.ids.slice(0, -1)) === '{text}'")


UNDO = """document.activeElement.dispatchEvent(new KeyboardEvent(
    'keydown', {key: 'z', ctrlKey: true, bubbles: true}))"""


def test_a_word_is_replaced_by_another_and_put_back(page, model):
    for undo in (UNDO, "history.back()"):
        ids = check_list(page, model, 1)
        page.run(undo)
        check_ids(page, ids)
        page.until(SILENT)
    open_list(page, 0)
    page.press("Escape")
    assert page.run("byId('word-list').hidden")
    assert page.run("document.activeElement.dataset.word") == "0"


SHOWN = "byId('translation').textContent.split('\\n')"


def take_other_word(page):
    """Take the second choice for the first word of the sentence."""
    open_list(page, 0)
    page.press("ArrowDown")
    page.press("Enter")
    page.until(f"hasChoice() && !isStale() && {SILENT}")


def test_each_sentence_keeps_its_choice(page):
    write_text(page, "1 2 3\n4 5 6\n7 8 9")
    best = page.run(SHOWN)
    take_other_word(page)
    page.click("#next-sentence")
    page.until(f"page.inspection.text === '4 5 6' && {SILENT}")
    assert page.run("hasChoice()") is False
    take_other_word(page)
    chosen = page.run(SHOWN)
    assert [a != b for a, b in zip(best, chosen)] == [True, True, False]
    page.click("#next-sentence")
    page.until(f"page.inspection.text === '7 8 9' && {SILENT}")
    assert page.run(SHOWN) == chosen
    write_text(page, "1 2 3\n4 5 6\n9 8 7")  # one of them is edited
    assert page.run(SHOWN)[:2] == chosen[:2]
    page.until("!byId('prefix').hidden")
    page.click("#next-sentence")
    page.until(f"page.inspection.text === '4 5 6' && hasChoice() && {SILENT}")
    link = page.run("copyLink() && location.href")
    page.run(UNDO)  # of this sentence, and no return to the other
    page.until(f"page.inspection.text === '4 5 6' && !hasChoice() && {SILENT}")
    assert page.run(SHOWN)[:2] == [chosen[0], best[1]]
    page.open(link)  # which has both choices
    page.until("choices.size === 2 && page.linkedChoices.length === 0")
    assert page.run(SHOWN)[:2] == chosen[:2]
    # It is made again if the server cannot be reached at that moment.
    linked = page.run("JSON.stringify([[0, ...Object.values(choiceOf('1 2 3'))]])")
    page.run(f"choices.clear(); page.linkedChoices = {linked}; {FAIL_ONCE}")
    page.run("refresh(); 0")
    page.until("byId('status').textContent.includes('Retrying')")
    page.until(f"!page.linkedChoices.length && {SILENT}")
    assert page.run(SHOWN)[:2] == chosen[:2]
    # What was expected is of one sentence only.
    page.run("expect('9 9')")
    page.until("whyNot.explanation")
    page.click("#previous-sentence")
    page.until(f"page.inspection.text === '1 2 3' && {SILENT}")
    assert page.run("view.expected + byId('expected').value") == ""
    page.click("#next-sentence")
    page.until(f"page.inspection.text === '4 5 6' && {SILENT}")
    # Of pieces that the model writes otherwise, or that do not exist, the page says so.
    for pieces, [sentence, *rest] in (
        ("▁else", [0, [], [3]]),
        ("", [0, [10**6], None]),
    ):
        link = json.dumps([[sentence, *rest, pieces]])
        page.run(f"choices.clear(); page.linkedChoices = {link}; refresh(); 0")
        page.until(f"!page.linkedChoices.length && {SILENT}")
        assert "copied from another model" in page.run("byId('misfit').textContent")
        assert page.run("findChoice('1 2 3') === undefined")
    page.events.clear()  # the browser complains of the refusal


def check_typed_word(browser, typed):
    """Type a word of one's own in place of the second one."""
    before = browser.run(f"{DATA}.target.words.slice(0, 1)")
    open_list(browser, 1)
    browser.run("document.querySelector('#word-list input').focus()")
    browser.type(typed)
    browser.press("Enter")
    browser.until(f"hasChoice() && {SILENT} && {DATA}.target.words[1] === '{typed}'")
    assert browser.run(f"{DATA}.target.words.slice(0, 1)") == before
    browser.run(UNDO)
    browser.until(f"!hasChoice() && {SILENT}")


def test_a_word_that_is_not_in_the_list_is_typed(page, browser, model, tmp_path):
    listed = open_list(page, 1)
    page.press("Escape")
    typed = next(word for word in "987612345" if word not in listed)
    check_typed_word(page, typed)
    open_list(page, 1)
    page.run("chooseTypedWord(1, 'X')")
    page.until("byId('status').textContent.includes('cannot write it: “X”')")
    open_model_page(browser, tmp_path, model)
    check_typed_word(browser, typed)


def test_a_page_with_a_model_lists_the_same_words(browser, model, tmp_path):
    open_model_page(browser, tmp_path, model)
    ids = check_list(browser, model, 1)
    browser.run(UNDO)
    check_ids(browser, ids)
    assert browser.errors() == []


def test_a_file_lists_the_words_that_it_has(browser, model, tmp_path):
    open_frozen_page(browser, tmp_path, [model], ["1 2 3 4 5"])
    ids = check_list(browser, model, 1)
    browser.click("#translation [data-word='0']")  # of a choice, the file has no list
    browser.until("byId('status').textContent.includes('not in the file')")
    browser.run(UNDO)
    check_ids(browser, ids)
    assert browser.errors() == []


def test_the_panes_are_beside_each_other_if_there_is_room(page):
    boxes = """['source-pane', 'target-pane'].map((id) => {
        const {left, top, width, height} = byId(id).getBoundingClientRect();
        return [left, top, width, height]; })"""
    sizes = {}
    for width in (1260, 899, 360):
        page.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=800,
            deviceScaleFactor=1,
            mobile=False,
        )
        source, target = sizes[width] = page.run(boxes)
        assert source[2] == target[2] and min(source[3], target[3]) >= 150
        assert page.run("document.documentElement.scrollWidth") <= width
        is_beside = source[1] == target[1] and source[0] < target[0]
        is_below = source[0] == target[0] and source[1] < target[1]
        assert (is_beside, is_below) == (width >= 900, width < 900)
    assert sizes[1260][0][2] == 578
    style = "getComputedStyle(byId('{}')).{}"
    for name in ("text", "translation"):
        assert page.run(style.format(name, "fontSize")) == "18px"


def test_the_box_counts_offers_examples_and_is_cleared(page, model):
    write_text(page, "1 2 3 4 5 6")
    assert page.run("byId('counter').textContent") == "11 / 20,000"
    page.click("#show-examples")
    examples = model.describe()["examples"]
    shown = "[...document.querySelectorAll('#examples button')]"
    assert page.run(f"{shown}.map((button) => button.textContent)") == examples
    page.click("#examples button")
    page.until(f"page.inspection?.text === {json.dumps(examples[0])} && {SILENT}")
    assert page.run("byId('examples').hidden")
    page.click("#clear")
    page.until("page.inspection === null")
    assert page.run("[byId('text').value, byId('counter').textContent]") == [
        "",
        "0 / 20,000",
    ]
    assert page.run("document.activeElement.id") == "text"
    assert not page.run("byId('examples').hidden")


def test_sentences_are_chosen_by_the_keys_and_the_unsure_words_are_named(page):
    write_text(page, "1 2 3\n4 5 6\n7 8 9")
    page.run("document.querySelector('#translation [data-word=\"0\"]').focus()")
    for _ in range(page.run("document.querySelectorAll('#translation .word').length")):
        page.press("ArrowRight")
    assert page.run("document.activeElement.dataset.sentence") == "1"
    page.press("Enter")
    page.until(f"page.inspection.text === '4 5 6' && {SILENT}")
    unsure = page.run(
        f"{DATA}.target.words.slice(0, -1).filter((_, i) =>"
        "page.inspection.probabilities(true)[i] < 0.5)"
    )
    remark = page.run("byId('remarks').textContent")
    assert bool(unsure) == ("Not sure" in remark)
    assert all(f"“{word}”" in remark for word in unsure[:3])
    page.run(
        "page.inspection.data.logProbs.fill(0);"
        "page.translation.sentences.forEach((sentence) => {"
        " sentence.words = []; }); show()"
    )
    number = page.run("byId('sentence-number').textContent")
    assert number == "Sentence 2 of 3 · sure" and page.run("byId('remarks').hidden")
    page.run(
        "page.inspection.probabilities = () => [0.1, 0.1, 0.1, 0.1, 0.1];"
        f"{DATA}.target.words = ['a', 'a', 'b,', 'c', 'd', '⟨end⟩'];"
        f"{DATA}.realSource = 9; {DATA}.target.ids.length = 4; showRemarks("
        "page.inspection, 1)"
    )
    assert page.run("byId('remarks').textContent.trim()") == (
        "Not sure: “a”, “b”, “c” and 1 more. The translation is less than half as long"
        " as the sentence: a part may be missing."
    )
    page.run("refresh(); 0")
    page.until(f"page.inspection.probabilities(true)[0] !== 0.1 && {SILENT}")
    page.run("page.inspection.data.logProbs.fill(Math.log(0.6)); show()")
    shades = "document.querySelectorAll('#translation .chosen :not(.shade4)').length"
    assert "sure" in page.run("byId('sentence-number').textContent")
    assert page.run(shades) == 0


def test_a_sentence_that_is_too_long_is_named_and_left(page):
    long = "1 " * 300 + "2"
    write_text(page, f"1 2 3\n{long}\n4 5")
    assert page.run("document.querySelector('#translation .failed').lang") == "de"
    assert page.run("byId('translation').textContent.includes('1 1 1 1')")
    note = page.run("byId('failures').textContent")
    assert note.startswith("Not translated: a sentence, from “1 1 1") and "256" in note
    page.click("#next-sentence")
    page.until(f"page.inspection.text === '4 5' && {SILENT}")
    page.events.clear()  # the browser complains of the refusal


SHADES = """[...document.querySelectorAll('#translation .other')].map((sentence) =>
    [...sentence.children].map((word) => word.className))"""


def test_the_other_sentences_of_a_text_show_doubts_too(page):
    """Those of a text are the same, whichever sentence of it is inspected."""
    write_text(page, "1 2 3\n4 X 5 6\n7 8 9")
    shown = page.run(SHADES)
    assert len(shown) == 2 and all(map(len, shown))
    rated = page.run("page.translation.sentences.map(({words}) => words)")
    unsure = [
        word["word"]
        for words in rated[1:]
        for word in words
        if word["probability"] < 0.5
    ]
    remarks = page.run("byId('remarks').textContent")
    assert "Not in the vocabulary in the other sentences: “X”." in remarks
    assert bool(unsure) == ("Not sure in the other sentences" in remarks)
    for i in (1, 2):
        page.click("#next-sentence")
        page.until(f"view.sentence === {i} && !isStale() && {SILENT}")
        own = page.run(
            "[...document.querySelectorAll('#translation [data-word]')]"
            ".map(({classList}) => classList[1])"
        )
        assert own == shown[i - 1]
    page.run(read_axe() + "; 0")
    page.run(
        "page.translation.sentences.forEach(({words}) =>"
        " words.forEach((word, i) => { word.probability = i / 5; })); show()"
    )
    assert len(set(sum(page.run(SHADES), []))) >= 3
    for theme in ("dark", "light"):
        page.run(f"view.theme = '{theme}'; setTheme()")
        assert page.run(VIOLATIONS) == [], theme
    page.run(
        "page.translation.sentences.forEach((sentence) =>"
        " { sentence.words = null; }); show()"
    )  # of a search that keeps none
    assert page.run(SHADES) == [[], []]


def test_errors_are_in_the_language_of_the_page(page, monkeypatch):
    choose(page, "language", "de")
    enter = "byId('text').value = {}; handleInput()"
    bad = "byId('status').classList.contains('bad') && byId('status').textContent"
    page.run(enter.format("'1 '.repeat(300)"))
    assert page.until(bad).startswith("Der Satz hat 300 Stücke; das Modell liest höch")
    page.run(enter.format("'\\u00ad'"))
    page.until("byId('status').textContent.startsWith('In diesem Text ist nichts')")
    monkeypatch.setattr("transformer.serving.jobs.MAX_WAITING_FOR_PAGE", 0)
    page.run(enter.format("'1 2'"))
    page.until("byId('status').textContent.startsWith('Der Server ist mit anderen')")
    monkeypatch.undo()
    page.until(f"page.inspection?.text === '1 2' && {SILENT}")
    page.events.clear()  # the browser complains of the refusals


def test_words_are_left_out_unasked_in_a_pause_of_typing(page):
    page.run(
        "globalThis.asked = []; const [ask, begin] = [page.source.leaveOutWords,"
        "showWithout]; page.source.leaveOutWords = function (inspection, signal) {"
        "asked.push([inspection.text, performance.now() - globalThis.typed]);"
        "return ask.call(this, inspection, signal); };"
        "showWithout = (...options) => { setTimeout(() => {"
        "globalThis.typed = performance.now(); byId('expected')"
        ".dispatchEvent(new Event('input', {bubbles: true})); }, 50);"
        "return begin(...options); }; 0"
    )
    long = " ".join(["1 2 3 4 5"] * 6)
    write_text(page, long)
    page.until(f"{DATA}.without")
    top = page.run("byId('without').getBoundingClientRect().top - innerHeight")
    assert top > 200  # nobody has scrolled to the bars
    [pause] = page.run(f"asked.flatMap(([text, ms]) => text === '{long}' ? ms : [])")
    assert pause >= page.run("SETTLED")
    page.run(
        f"{DATA}.without = {DATA}.source.words.slice(0, -1).map(() => [-2, 0.1]);"
        f"{DATA}.source.words[3] = 'Fahrrad.'; {DATA}.without[2] = [-0.2, 0];"
        f"{DATA}.without[3] = [0.1, 0]; page.models[0].sourceVocabulary = 0; show()"
    )
    assert "Perhaps left out: “3 Fahrrad”." in page.run("byId('remarks').textContent")
    page.run("page.models[0].sourceVocabulary = 1e6; show()")  # all words are frequent
    assert "left out" not in page.run("byId('remarks').textContent")


def test_one_click_explains_what_was_left_out(page):
    """The expected translation is one that attends more to the words left out;
    paper only names them."""
    own = page.run(f"{DATA}.target.ids.slice(0, -1)")
    page.run(
        f"{DATA}.without = {DATA}.source.words.slice(0, -1).map(() => [-2, 0]);"
        f"{DATA}.without[2] = [0.1, 0]; globalThis.isRareWord = (_, i) => i === 2;"
        "show()"
    )
    page.run(read_axe() + "; 0")
    assert page.run(VIOLATIONS) == []
    page.call("Emulation.setEmulatedMedia", media="print")
    text = page.run("document.querySelector('#remarks button').textContent")
    assert f"Perhaps left out: {text}." in page.run("byId('remarks').innerText")
    switches = "#switch-off-panel .tools"
    style = f"getComputedStyle(document.querySelector('{switches}')).display"
    assert page.run(style) == "none"
    page.call("Emulation.setEmulatedMedia", media="")
    typed = page.run(
        "(async () => { const box = byId('expected'); const done ="
        " explainLeftOut([2], '3'); box.value = '3 1';"
        "box.dispatchEvent(new Event('input')); await done; return box.value; })()"
    )
    assert typed == "3 1"  # what comes later does not replace it
    page.click("#remarks button")
    page.until(f"{SILENT} && byId('verdict').textContent.endsWith('.')")
    ids = page.run("whyNot.ids")
    place = page.run("placeOfRun(page.inspection, [2])")
    assert ids[:place] == own[:place] and ids != own
    page.run(f"globalThis.own = page.inspection; choose({{prefix: [], target: {ids}}})")
    page.until(f"String({DATA}.target.ids.slice(0, -1)) === String({ids})")
    assert page.run("gainAttention(own, page.inspection, [2])") > 0


def test_paper_has_a_line_for_each_step(page):
    page.run("dispatchEvent(new Event('beforeprint'))")
    page.call("Emulation.setEmulatedMedia", media="print")
    rows = page.run(
        "[...byId('strip').rows].map((row) => [...row.cells].map((c) => c.innerText))"
    )
    words = page.run(f"{DATA}.target.words")
    assert [row[1] for row in rows[1:]] == words
    assert [row[0] for row in rows[1:]] == [str(i + 1) for i in range(len(words))]
    probability = page.run("page.inspection.probabilities(true)[0]")
    assert rows[1][2] == f"{probability:.2f}" and len(rows[1]) == 5
    page.call("Emulation.setEmulatedMedia", media="")
    page.run("dispatchEvent(new Event('afterprint'))")


STATES = {
    "phone": {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": True},
    "200 %": {"width": 640, "height": 450, "deviceScaleFactor": 2, "mobile": False},
    "dark": {"width": 1280, "height": 800, "deviceScaleFactor": 1, "mobile": False},
}


def test_axe_finds_no_violation_on_a_phone_in_the_dark_and_at_200_percent(page):
    page.run(read_axe() + "; 0")
    write_text(page, "1 2 3\n4 5 X 6")
    for state, metrics in STATES.items():
        page.call("Emulation.setDeviceMetricsOverride", **metrics)
        page.run(f"view.theme = '{'dark' if state == 'dark' else 'light'}'; setTheme()")
        open_list(page, 1)
        assert page.run(VIOLATIONS) == [], state
        width = page.run("document.documentElement.scrollWidth")
        assert width <= metrics["width"], state
    page.press("Escape")
    page.call("Emulation.setDeviceMetricsOverride", **STATES["phone"])
    assert not page.run("byId('tree').checkVisibility()")
    page.run("byId('show-tree').focus()")
    page.press("Enter")  # sections that are filled in would move it under the mouse
    page.until("document.querySelector('#tree .node')?.checkVisibility()")
    assert page.run("byId('show-tree').ariaExpanded") == "true"
    assert page.run(VIOLATIONS) == []


def test_the_settings_are_folded_on_a_phone(page):
    page.run(read_axe() + "; 0")
    page.call("Emulation.setDeviceMetricsOverride", **STATES["phone"])
    assert not page.run("byId('model').checkVisibility()")
    top = "byId('text').getBoundingClientRect().top"
    before = page.run(top)
    assert before < STATES["phone"]["height"] / 3  # the text is what one sees
    assert page.run("byId('show-settings').getBoundingClientRect().height") >= 44
    page.run("byId('show-settings').focus()")
    page.press("Enter")
    assert page.run("byId('show-settings').ariaExpanded") == "true"
    for name in ("model", "pieces", "theme", "language", "link"):
        box = page.run(f"byId('{name}').getBoundingClientRect().toJSON()")
        assert box["width"] and 0 <= box["left"] and box["right"] <= 360, name
    assert page.run(VIOLATIONS) == []
    page.press("Enter")
    assert [page.run(top), page.run("byId('show-settings').ariaExpanded")] == [
        before,
        "false",
    ]


def test_forced_colours_leave_what_colours_say(page):
    """What is chosen, probable or doubted also differs in its border."""
    page.run(read_axe() + "; 0")
    page.run(
        "chooseStep(2); page.inspection.data.logProbs[0] = -9; show();"
        "byId('why').scrollIntoView()"
    )
    forced = {"name": "forced-colors", "value": "active"}
    page.call("Emulation.setEmulatedMedia", features=[forced])
    colour = "getComputedStyle(document.querySelector({})).{}"

    def read(selector, side="borderTopColor"):
        return page.run(colour.format(json.dumps(selector), side))

    canvas = read("body", "backgroundColor")
    for chosen, other in (
        ("#below .now", "#below .spot:not(.now)"),
        ("#grid [aria-pressed='true']", "#grid [aria-pressed='false']"),
        ("#nbest [aria-pressed='true']", "#nbest [aria-pressed='false']"),
    ):
        assert canvas != read(chosen) != read(other), chosen
    bottom = "borderBottomColor"
    selected = read("#why-tabs [aria-selected='true']", bottom)
    assert canvas != selected != read("#why-tabs [aria-selected='false']", bottom)
    assert canvas != read("#next .length")
    assert canvas != read("#translation .shade0", bottom)
    assert read("#translation .shade0", "borderBottomStyle") == "solid"
    assert page.run(VIOLATIONS) == []
    page.call("Emulation.setEmulatedMedia", features=[])
