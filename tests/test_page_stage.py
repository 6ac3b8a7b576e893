"""The stage of the page, its player and its lessons, in a real browser."""

import contextlib
import json
import os

import corpora
import pytest
from browser import needs_browser
from serving import serve, url
from test_page import (
    VIOLATIONS,
    choose,
    open_frozen_page,
    open_model_page,
    read_axe,
    type_text,
)

from transformer.text.words import word_attention
from transformer.viewer import page_files
from transformer.viewer.inspection import inspect_line

pytestmark = [
    pytest.mark.usefixtures("one_thread_only"),
    needs_browser,
    pytest.mark.slow,
]

SENTENCES = ["1 2 3 4 5", "1 2 3 4 5 6 7 8 9 1 2 3 4 5 6 7"]
DATA = "page.inspection.data"
# The number of the word, in each place that shows the step.
SHOWN = """(() => {
    const number = (selector) => [...document.querySelectorAll(selector)].findIndex(
        (element) => element.classList.contains("now")) + 1;
    const node = document.querySelector("#tree .now");
    return {
        heat: page.highlight && page.highlight.row + 1,
        stage: number("#below > *"),
        words: number("#translation [data-word]"),
        tree: node && page.inspection.data.target.spans.findIndex(
            ([, end]) => end === page.inspection.data.nodes[node.dataset.node][1]) + 1,
        scrubber: Number(byId("scrubber").value),
    };
})()"""


@pytest.fixture(scope="module")
def address(model, tmp_path_factory):
    """The address of a page without a server."""
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(page_files.make_frozen_page([model], SENTENCES)[0], "utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def opened(browser, address):
    """The page without a server, opened once."""
    browser.open(address)
    browser.until("page.inspection !== null")
    return browser


def follow(page, link=""):
    """Follow a link in the page, without opening it again."""
    page.run(
        f"history.replaceState(null, '', {json.dumps('#' + link)});"
        "readLink(); refresh()"
    )


@pytest.fixture
def page(opened):
    """The page as it opens; afterwards, the browser has reported no error."""
    opened.run("document.activeElement.blur()")
    follow(opened)
    yield opened
    assert opened.errors() == []


def test_each_place_shows_the_step(page):
    last = page.run("lastStep()")
    assert page.run(f"[view.step, {SHOWN}.heat]") == [None, None]
    for key, step in (
        ("Home", 0),  # the only layer of the encoder
        ("ArrowRight", 1),
        ("ArrowRight", 2),
        ("ArrowLeft", 1),
        ("End", last),
        ("ArrowLeft", last - 1),
    ):
        page.press(key)
        shown = page.run(SHOWN)
        assert shown.pop("scrubber") == step == page.run("view.step")
        if step == last:  # the end is no word
            assert shown.pop("words") == 0
        assert set(shown.values()) == ({step} if step else {0, None}), key
    word, said = page.run(
        f"[{DATA}.target.words[lastStep() - 2], byId('step-heard').textContent]"
    )
    assert said.startswith(f"Step {last - 1} of {last}.") and f"“{word}”" in said
    page.press("Escape")
    assert page.run(f"[view.step, {SHOWN}.heat]") == [None, None]


def test_a_word_or_row_that_is_chosen_elsewhere_moves_the_clock(page):
    page.click("#below [data-step='2']")
    assert page.run(f"{SHOWN}.heat") == 2
    page.click("[data-chip='row-2']")
    assert page.run(f"{SHOWN}.stage") == 3
    x, y = page.run(
        "(() => { byId('heat').scrollIntoView({block: 'center'});"
        "const l = page.layout, b = byId('heat').getBoundingClientRect();"
        "return [b.x + l.left + 1.5 * l.cell, b.y + l.top + 0.5 * l.cell]; })()"
    )
    page.mouse("mouseMoved", x, y)
    assert page.run(f"[{SHOWN}.heat, view.step]") == [1, 3]  # only pointed at
    page.mouse("mouseMoved", 5, 5)
    assert page.run(f"[{SHOWN}.heat, view.step]") == [3, 3]
    for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
        page.mouse(kind, x, y)
    assert page.run("[view.step, page.highlight]") == [1, {"row": 0, "column": 1}]
    page.run(
        "byId('scrubber').value = 4;byId('scrubber').dispatchEvent(new Event('input'))"
    )
    assert page.run(f"{SHOWN}.stage") == 4
    assert page.run("byId('scrubber').getAttribute('aria-valuetext')").startswith(
        "Step 4 of "
    )


def test_the_clock_is_in_the_link(page):
    page.run("chooseStep(3); writeLink()")
    link, last = page.run("[location.hash.slice(1), lastStep()]")
    assert "&s=3" in link
    for text, step in (("999", last), ("0", 0), ("-99", None), ("1.5", None), ("3", 3)):
        follow(page, link.replace("&s=3", f"&s={text}"))
        assert page.run("view.step") == step, text
    assert page.run(f"[{SHOWN}.heat, {SHOWN}.stage]") == [3, 3]


def test_ribbons_are_as_wide_as_the_weights(page, model):
    inspection = inspect_line(model.translator, SENTENCES[0])
    spans = {
        "encoder": (inspection.source.spans, inspection.source.spans),
        "decoder": (inspection.target_in.spans, inspection.target_in.spans),
        "cross": (inspection.target.spans, inspection.source.spans),
    }
    for kind, step, row in (
        ("cross", 2, 1),
        ("decoder", 3, 2),
        ("cross", None, None),
        ("encoder", 0, None),
    ):
        page.run(f"chooseHead({{kind: '{kind}', layer: 0, head: 1}})")
        page.run(f"moveClock({json.dumps(step)})")
        weights = word_attention(inspection.attention[kind][0, 1], *spans[kind])
        expected = {
            (i, j): 14 * weight
            for i, weights_of_row in enumerate(weights)
            for j, weight in enumerate(weights_of_row)
            if weight >= 0.05 and row in (i, None)
        }
        ribbons = page.run(
            "[...byId('ribbons').children].map((ribbon) => [ribbon.dataset.row,"
            "ribbon.dataset.column, ribbon.getAttribute('stroke-width')].map(Number))"
        )
        assert {(i, j): width for i, j, width in ribbons} == pytest.approx(
            expected, abs=1e-3
        )


def test_the_encoder_has_its_own_steps(page):
    kind = "[view.step, view.kind, view.layer, view.head, page.matrix.kind]"
    page.run("chooseHead({kind: 'decoder', layer: 0, head: 1}); chooseStep(0)")
    assert page.run(kind) == [0, "encoder", 0, "mean", "encoder"]
    page.press("ArrowRight")
    assert page.run(kind) == [1, "decoder", 0, 1, "decoder"]
    page.run("chooseStep(3); chooseHead({kind: 'encoder'})")
    assert page.run(kind)[:2] == [0, "encoder"]
    page.run("chooseHead({kind: 'cross'})")
    assert page.run(kind)[:2] == [1, "cross"]


def test_the_hypotheses_of_a_step_are_those_of_the_search(page):
    page.run("moveClock(2)")
    end = page.run("spanOfStep()[1]")
    nodes = page.run(f"{DATA}.nodes.filter((node) => node[1] === {end})")
    kept = sorted((-node[3] for node in nodes if node[5] != "cut"))
    lines = "[...document.querySelectorAll('#kept li{}')]"
    numbers = page.run(
        lines.format(":not(.dropped)")
        + f".map((line) => {DATA}.nodes[line.dataset.hypothesis][3])"
    )
    assert [-number for number in numbers] == kept
    dropped = page.run(lines.format(".dropped") + ".length")
    assert dropped == min(3, len(nodes) - len(kept))


def test_another_next_word_is_tried_in_the_same_step(page):
    page.run("chooseStep(2)")
    before = page.run(f"{DATA}.target.words")
    other = "#next [aria-pressed='false']:not([aria-disabled])"
    word = page.run(
        f"document.querySelector({other!r}).querySelector('.text').textContent"
    )
    page.click(other)
    page.until(f"{DATA}.target.words[1] === {word!r}")
    assert page.run(f"[view.step, {DATA}.target.words[0]]") == [2, before[0]]
    choose(page, "sentence", SENTENCES[1])
    page.until("page.inspection.data.source.words.length > 9")
    assert page.run("view.step") is None


def test_keys_play_unless_the_focus_needs_them(page):
    page.press(" ")
    assert page.run("player.isPlaying")
    assert page.run("byId('play').ariaLabel") == "Pause"
    page.press(" ")
    assert not page.run("player.isPlaying")
    step = page.run("view.step")
    page.run("byId('padding').parentElement.hidden = false; byId('padding').focus()")
    for key in (" ", "Home", "ArrowRight"):
        page.press(key)
    page.run("byId('keys').click(); document.activeElement.blur()")
    for key in (" ", "Home", "ArrowRight"):
        page.press(key)
    assert page.run("[view.step, player.isPlaying]") == [step, False]


def test_a_step_moves_unless_motion_is_reduced(page):
    count = "stepBy(1); document.getAnimations().length"
    assert page.run(f"chooseStep(1); {count}") > 2
    page.call(
        "Emulation.setEmulatedMedia",
        features=[{"name": "prefers-reduced-motion", "value": "reduce"}],
    )
    page.run("document.getAnimations().forEach((animation) => animation.finish())")
    still = page.run(count)
    page.call("Emulation.setEmulatedMedia", features=[])
    assert still == 0


@pytest.mark.parametrize(
    ("width", "theme"),
    [(1280, "light"), (640, "dark"), (360, "light")],  # 640: 1280 at 200 %
)
def test_the_stage_is_accessible_and_fits(page, width, theme):
    choose(page, "sentence", SENTENCES[1])
    page.until("page.inspection.data.source.words.length > 9")
    page.call(
        "Emulation.setDeviceMetricsOverride",
        width=width,
        height=800,
        deviceScaleFactor=1,
        mobile=False,
    )
    page.run(f"view.theme = '{theme}'; setTheme(); " + read_axe() + "; 0")
    for action in ("moveClock(0)", "openLesson(2), moveClock(9)"):
        page.run(action)
        assert page.run("document.documentElement.scrollWidth") <= width
        assert page.run(VIOLATIONS) == []
    page.run("closeLesson()")
    middle = page.run(
        "(() => { const box = document.querySelector('#below .now')"
        ".getBoundingClientRect(); return (box.left + box.right) / 2; })()"
    )
    assert 0 < middle < width


def test_a_long_sentence_is_smaller_so_that_it_fits(page):
    size = "parseFloat(getComputedStyle(byId('above').firstChild).fontSize)"
    before = page.run(size)
    word = "page.inspection.data.source.words[0]"
    own = page.run(word)
    page.run(f"{word} = 'x'.repeat(100); showStage()")
    smallest = page.run("STAGE.smallest")
    assert smallest <= page.run(size) < before
    fits = page.run("byId('above').scrollWidth <= byId('lines').clientWidth")
    assert fits or page.run(size) == smallest
    page.run(f"{word} = '{own}'; showStage()")
    assert page.run(size) == before


LANGUAGES = ("en", "de", "es", "fr", "zh")


def test_a_lesson_sets_the_view_and_asks_in_each_language(page):
    page.run("chooseHead({kind: 'decoder', head: 1}); chooseStep(2)")
    page.click("#lessons")
    count = page.run("countLessons()")
    questions = set()
    for number in range(count):
        page.until(f"lesson.number === {number} && page.matrix.kind === view.kind")
        fields = page.run(f"LESSON_VIEWS[{number}].fields")
        link = dict(page.run("[...new URLSearchParams(location.hash.slice(1))]"))
        for name in set(fields) - {"s"}:
            assert link[name] == str(fields[name])
        first = page.run("firstStep()")
        unsure = page.run("findUnsureStep()")
        steps = {"": None, "first": first, "unsure": unsure}
        step = steps.get(fields["s"], fields["s"])
        assert page.run("view.step") == step
        for language in LANGUAGES:
            choose(page, "language", language)
            assert page.run("document.documentElement.lang") == language
            questions.add(page.run("byId('lesson-question').textContent"))
            text = page.run("byId('lesson').innerText")
            assert "docs/" not in text and "{" not in text  # a pupil has no such files
        page.click("#next-lesson")
    assert len(questions) == len(LANGUAGES) * count
    link = page.run("location.hash")
    page.click("#close-lesson")
    assert page.run("[view.byWords, byId('pieces').checked]") == [True, False]
    page.run(f"location.hash = {json.dumps(link)}")
    page.until(f"lesson.number === {count - 1} && !byId('lesson').hidden")
    page.click("#close-lesson")
    assert page.run("[byId('lesson').hidden, document.activeElement.id]") == [
        True,
        "lessons",
    ]


@pytest.mark.parametrize("source", ["server", "file", "model"])
def test_play_reaches_the_end(browser, model, address, tmp_path, source):
    with contextlib.ExitStack() as stack:
        if source == "server":
            browser.open(url(stack.enter_context(serve([model]))))
            type_text(browser, SENTENCES[0])
        elif source == "file":
            browser.open(address)
            browser.until("page.inspection !== null")
        else:
            open_model_page(browser, tmp_path, model)
        browser.run(
            "page.seen = []; const {showClock: original} = window;"
            "window.showClock = () => { page.seen.push(view.step); original(); };"
            "byId('speed').value = 2; byId('speed').dispatchEvent(new Event('change'))"
        )
        browser.click("#play")
        browser.until("view.step === lastStep() && !player.isPlaying")
        first, last, seen = browser.run("[firstStep(), lastStep(), page.seen]")
        assert seen == list(range(first, last + 1))
        assert browser.run("byId('play').ariaLabel") == "Play"
        assert browser.run("byId('step-heard').textContent") == ""  # only by hand
        assert browser.errors() == []


# Whether the word of the step, and the one that it attends to most, are in sight.
IN_SIGHT = """(() => {
    const box = (element) => element.getBoundingClientRect();
    const isIn = (word, line) => box(word).left >= box(line).left - 1
        && box(word).right <= box(line).right + 1
        && box(word).top >= 0 && box(word).bottom <= innerHeight;
    const [above, below] = [byId("above"), byId("below")];
    const row = view.step - 1;
    const weights = [...page.matrix.values].slice(
        row * page.matrix.columns, (row + 1) * page.matrix.columns);
    const most = above.children[weights.indexOf(Math.max(...weights))];
    return isIn(below.children[row], below) && isIn(most, above);
})()"""


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (360, 740)])
def test_the_step_of_a_long_sentence_is_in_sight(browser, model, width, height):
    with serve([model]) as server:
        browser.open(url(server))
        browser.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        type_text(browser, " ".join("123456789" * 7)[:123])
        browser.run("document.activeElement.blur(); scrollTo(0, 0)")
        assert browser.run("byId('above').scrollWidth > byId('above').clientWidth")
        browser.run(
            "const seen = []; const {playStep: original} = window;"
            "window.playStep = (step) => {"
            f"if (view.step > 0) {{ seen.push({IN_SIGHT}); }} original(step); }};"
            "player.speed = 50; 0"
        )
        browser.click("#play")
        browser.until("view.step === lastStep() && !player.isPlaying")
        seen, last = browser.run("[seen, lastStep()]")
        assert len(seen) == last - 1 and all(seen)
        browser.run("scrollTo(0, 0); document.activeElement.blur()")
        browser.press("ArrowLeft")
        assert browser.run(IN_SIGHT)
        browser.run(
            f"scrollTo(0, 0); byId('scrubber').value = {last // 2};"
            "byId('scrubber').dispatchEvent(new Event('input'))"
        )
        assert browser.run(f"view.step === {last // 2} && {IN_SIGHT}")
        path = "document.querySelector('#ribbons path').getAttribute('d')"
        before = browser.run(path)
        browser.run(  # the other line follows, and the ribbons, too
            "const line = byId('above'); line.scrollLeft = line.scrollLeft ? 0 : 1e4"
        )
        browser.until(f"{path} !== {before!r}")
        for place, faded in (0, "more-right"), (1e4, "more-left"):
            browser.run(f"byId('above').scrollLeft = {place}")
            browser.until(f"byId('above').className === 'line {faded}'")
            assert browser.run(f"byId('ribbons').classList.contains('{faded}')")
        ends = browser.run(
            "['above', 'below'].map(byId).map(({scrollLeft, scrollWidth, clientWidth})"
            " => [scrollLeft, scrollWidth - clientWidth - scrollLeft])"
        )
        assert abs(ends[0][0] - ends[1][0]) < 1 or max(ends[0][1], ends[1][1]) < 1
        browser.run(read_axe() + "; 0")
        assert browser.run(VIOLATIONS) == []
        assert browser.errors() == []


def test_escape_leaves_the_text_for_the_player(browser, model):
    example = model.inspect_example()
    with serve([model], example=example) as server:
        browser.open(url(server))
        browser.until("getSelection().toString() === page.inspection.text")
        browser.press(" ")  # it would delete the example
        assert browser.run("[byId('text').value, player.isPlaying]") == [
            example["text"],
            True,
        ]
        browser.press(" ")
        assert not browser.run("player.isPlaying")
        type_text(browser, "1 2 3")
        browser.press(" ")
        assert browser.run("[byId('text').value, player.isPlaying]") == [
            "1 2 3 ",
            False,
        ]
        browser.until("byId('status').textContent === '' && !isStale()")
        browser.press("Escape")
        assert browser.run("document.activeElement.id") == "play"
        browser.press(" ")
        assert browser.run("player.isPlaying && view.step !== null")
        browser.press("/")
        assert browser.run("document.activeElement.id") == "text"
        assert browser.errors() == []


@pytest.mark.parametrize("docs", ["https://docs.example/transformer", "."])
def test_links_lead_to_the_documents_and_nothing_is_requested(
    browser, tmp_path, model, docs
):
    def add_docs(data):
        data["docs"] = docs

    address = open_frozen_page(browser, tmp_path, [model], ["1 2"], change=add_docs)
    site = f"{docs}/" if docs != "." else f"{tmp_path.as_uri()}/"
    names = set()
    for language in ("en", "zh"):
        choose(browser, "language", language)
        for number in range(browser.run("countLessons()")):
            browser.run(f"lesson.number = {number}; showLesson()")
            links = "[...document.querySelectorAll('#documents a, #lesson a')]"
            for href in browser.run(f"{links}.map(({{href}}) => href)"):
                assert href.startswith(site) and href.endswith(".html")
                names.add(href[len(site) : -len(".html")])
    assert "walkthrough/zh/08-search" in names
    for name in names:  # where tools/docs/hooks.py puts their pages
        source = name[len("api/") :] + ".py" if name.startswith("api/") else None
        source = source or f"docs/{name}.md"
        assert os.path.exists(os.path.join(corpora.ROOT, source)), name
    others = "[...document.links].filter(({target, rel}) => target !== '_blank'"
    assert browser.run(others + " || rel !== 'noreferrer').length") == 0
    assert browser.run("document.links.length") > 8
    browser.run(read_axe() + "; 0")
    assert browser.run(VIOLATIONS) == []
    assert browser.requests() == [address] and browser.errors() == []
