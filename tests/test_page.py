"""The page, in a real browser: what a person does, and what may go wrong."""

import importlib.util
import json
import os
import re
import shutil

import corpora
import pictures
import pytest
from browser import needs_browser
from documents import read
from serving import serve, url

from transformer import hparams
from transformer.logdir import manifests
from transformer.text.words import word_attention
from transformer.viewer import page_files
from transformer.viewer.inspection import inspect_line
from transformer.viewer.model_page import PAGE, PART, make_model_page
from transformer.viewer.models import Model
from transformer.viewer.sentence_request import SentenceRequest

pytestmark = [
    pytest.mark.usefixtures("one_thread_only"),
    needs_browser,
    pytest.mark.slow,
]

HOSTILE = (
    "\"'><img src=x onerror=alert(1)> </script><script>alert(2)</script> 🐕 ▁ &lt;"
)


SILENT = "byId('status').textContent === ''"
DATA = "page.inspection.data"


@pytest.fixture(scope="module")
def models(trained):
    hp, oldest = hparams.load(trained), manifests.list_steps(trained)[0]
    models = [Model(hp, trained), Model(hp, trained, oldest)]
    yield models
    for model in models:
        model.close()


@pytest.fixture(scope="module")
def server(models):
    with serve(models) as server:
        yield server


@pytest.fixture
def page(browser, server):
    """The page with a typed sentence; afterwards, the browser has reported no error."""
    browser.open(url(server))
    type_text(browser, "1 2 3 4 5")
    yield browser
    assert browser.errors() == []
    requests = browser.requests()
    assert all(request.startswith(url(server)) for request in requests)


def type_text(browser, text):
    browser.until("page.models.length > 0")
    browser.run("byId('text').value = ''; byId('text').focus()")
    browser.type(text)
    line = json.dumps(" ".join(text.split()))
    browser.until(f"page.inspection && page.inspection.text === {line} && {SILENT}")


def choose(browser, name, value):
    """Choose in a list, or type into a field and leave it."""
    browser.run(
        f"byId('{name}').value = '{value}';"
        f"byId('{name}').dispatchEvent(new Event('change'))"
    )


def choose_piece(browser, place, piece):
    """Choose an alternative among the pieces."""
    browser.run("byId('pieces').checked || byId('pieces').click()")
    browser.click(f"[data-alternative='{place}-{piece}']")


def test_a_sentence_is_translated_as_it_is_typed(page, models):
    [n_best] = models[0].translate([SentenceRequest("1 2 3 4 5")])
    texts = page.run(
        "[...document.querySelectorAll('#nbest [data-rank]')].map(b => b.textContent)"
    )
    assert texts == [translation["text"] or "(empty)" for translation in n_best]
    type_text(page, "5 4 3 2")
    page.run(  # as the model in a page reports the first words
        "const ask = page.source.leaveOutWords; page.source.leaveOutWords ="
        "async function (inspection, signal, report) {"
        "const rows = await ask.call(this, inspection, signal);"
        "report(rows.slice(0, 2)); globalThis.first = byId('bars').innerText;"
        "return rows; }; byId('without').scrollIntoView(); 0"
    )
    page.until("document.querySelectorAll('#bars .bar').length === 4")
    assert re.fullmatch(r"5\s+\S+\s+4\s+\S+\s+Leaving out words …", page.run("first"))
    without = inspect_line(models[0].translator, "5 4 3 2").without
    assert abs(without - page.run(f"{DATA}.without")).max() < 1e-4
    page.run("byId('text').value = ''; byId('text').dispatchEvent(new Event('input'))")
    page.until("byId('reading').hidden")


def test_the_heat_map_has_the_weights_of_the_model_and_hovering_shows_them(
    page, models
):
    page.run("chooseHead({kind: 'cross', layer: 0, head: 1})")
    values = page.run("[...page.matrix.values]")
    inspection = inspect_line(models[0].translator, "1 2 3 4 5")
    weights = inspection.attention["cross"][0, 1]
    spans = inspection.target.spans, inspection.source.spans
    expected = word_attention(weights, *spans)
    assert max(abs(a - b) for a, b in zip(values, expected.ravel())) < 1e-4
    x, y = page.run(
        "(() => { byId('heat').scrollIntoView(); const l = page.layout;"
        "const b = byId('heat').getBoundingClientRect();"
        "return [b.x + l.left + 1.5 * l.cell, b.y + l.top + 0.5 * l.cell]; })()"
    )
    page.mouse("mouseMoved", x, y)
    text = page.until("byId('cell').textContent")
    assert re.search(r"attends to “2” with weight \d\.\d+\.", text)
    assert "{:.3f}".format(expected[0, 1]) in text


def test_masked_cells_say_why(page):
    choose(page, "padding", "3")
    page.until("page.inspection.data.source.words.length === 9")
    hidden = "page.inspection.matrix('{}', 0, 0, true).maskReason({})"
    assert "padding" in page.run(hidden.format("cross", "0, 7"))
    assert "padding" in page.run(hidden.format("encoder", "7, 0"))
    assert "later" in page.run(hidden.format("decoder", "0, 1"))
    assert page.run(hidden.format("decoder", "1, 1")) == ""
    page.run("chooseHead({kind: 'cross'}); setHighlight({row: 0, column: 7})")
    assert "cannot attend" in page.run("byId('cell').textContent")
    # As in the dialects that do not mask padding.
    page.run("page.matrix.values[7] = 0.25; setHighlight({row: 0, column: 6})")
    page.run("setHighlight({row: 0, column: 7})")
    assert "with weight 0.250" in page.run("byId('cell').textContent")
    page.run("byId('as-table').open = true")
    cells = "[...document.querySelectorAll('#table tbody tr:first-child td')]"
    page.until(f"{cells}[7]?.textContent === '0.25' && {cells}[8].textContent === '–'")


def test_an_alternative_keeps_the_pieces_before_it(page):
    before = page.run("page.inspection.data.target.ids")
    other = page.run(
        f"{DATA}.alternatives[1].find(a => a[0] !== {DATA}.target.ids[1])[0]"
    )
    choose_piece(page, 1, other)
    page.until(f"page.inspection.data.target.ids[1] === {other}")
    assert page.run("page.inspection.data.target.ids[0]") == before[0]
    words = page.run(f"{DATA}.target.words.slice(0, -1).join(' ')")
    announced = page.run(
        "[...document.querySelectorAll('[aria-live=\"polite\"]')]"
        ".map((element) => element.textContent)"
    )
    assert words and any(words in text for text in announced)
    page.click("#reset-choice")
    page.until(
        f"page.inspection.data.target.ids.join() === '{','.join(map(str, before))}'"
    )


def test_a_choice_keeps_the_prefix_of_the_inspection(page):
    other = page.run(
        f"{DATA}.alternatives[1].find(a => a[0] !== {DATA}.target.ids[1])[0]"
    )
    choose_piece(page, 1, other)
    page.until(f"page.inspection.data.target.ids[1] === {other} && {SILENT}")
    note = "byId('prefix').textContent"
    assert "The first 2 pieces are kept" in page.run(note)
    prefix, best = page.run("[view.prefix, page.inspection.data.nBest[0].text]")
    # A choice has the prefix of the inspection that is shown, not that of the view.
    page.run("view.prefix = []; document.querySelector('[data-rank=\"1\"]').click()")
    page.until(f"view.target && {SILENT}")
    assert page.run("[view.prefix, page.inspection.prefix]") == [prefix, prefix]
    assert page.run("page.inspection.data.nBest[0].text") == best
    assert "the hypothesis that you chose" in page.run(note)


def test_pictures_are_saved(page):
    for picture in ("heat", "grid", "tree"):
        page.click(f"[data-export='{picture}-svg']")
        assert page.downloaded(picture + ".svg").startswith(b"<svg xmlns=")
        page.click(f"[data-export='{picture}-png']")
        assert page.downloaded(picture + ".png").startswith(b"\x89PNG")


def test_a_link_reproduces_the_view(page, server, browser):
    page.run(
        "chooseHead({kind: 'encoder', layer: 0, head: 'max'}); byId('pieces').click()"
    )
    link, n_best = page.run("location.href"), page.run("byId('nbest').textContent")
    assert "&i=en" in link  # which was not chosen, but is that of the browser
    browser.open(link)
    browser.until("page.inspection !== null")
    assert browser.run("[view.kind, view.head, view.byWords]") == [
        "encoder",
        "max",
        False,
    ]
    assert browser.run("byId('nbest').textContent") == n_best
    is_unchanged = browser.run(
        "(() => { const {models} = page, {head} = view, before = location.href;"
        "page.models = []; view.head = 1; writeLink();"
        "Object.assign(page, {models}); view.head = head;"
        "return location.href === before; })()"
    )
    assert is_unchanged  # until the models are known, the link is still to be read
    browser.open(url(server) + "#t=1&m=99&l=-1&k=__proto__&h=1e9&p=a.b&d=x")
    browser.until("page.inspection !== null")
    assert browser.run("[view.kind, view.head, view.layer]") == ["cross", "mean", 0]


def test_two_models_are_compared(page):
    choose(page, "other", "1")
    page.until("page.other !== null && !byId('comparison').hidden")
    assert page.run(
        "view.other = 0; show();"
        "byId('compared').querySelectorAll('h3')[1].textContent === page.models[1].name"
        "&& isStale()"
    )
    page.run("view.other = 1; show()")
    page.run("chooseHead({kind: 'encoder', layer: 0, head: 0})")
    assert page.run("page.matrix.isDifference")
    first = "page.inspection.matrix('encoder', 0, 0, true).values[0]"
    sums = page.run(f"{first} + page.matrix.values[0]")
    assert sums == pytest.approx(
        page.run("page.other.matrix('encoder', 0, 0, true).values[0]")
    )
    assert page.run("byId('beside').hidden")
    scores = "JSON.stringify([page.inspection, page.other].map((x) => x.data.nBest))"
    before = json.loads(page.run(scores))
    page.click("#swap")
    page.until(f"page.inspection.model === 1 && page.other?.model === 0 && {SILENT}")
    assert json.loads(page.run(scores)) == before[::-1]


def insert_hostile_text(data):
    """Put HOSTILE in place of entry text of a page."""
    data["models"][0]["name"] = HOSTILE
    for entry in data["inspections"]:
        entry["text"] = HOSTILE
        for side in ("source", "target", "targetIn"):
            tokens = entry["inspection"][side]
            tokens["words"] = [HOSTILE] * len(tokens["words"])
            tokens["pieces"] = [HOSTILE] * len(tokens["pieces"])
        for best in entry["inspection"]["nBest"]:
            best["text"] = HOSTILE
        entry["inspection"]["alternatives"] = [
            [[piece, HOSTILE, p] for piece, _, p in row]
            for row in entry["inspection"]["alternatives"]
        ]
        entry["inspection"]["nodePieces"] = dict.fromkeys(
            entry["inspection"]["nodePieces"], HOSTILE
        )


def test_no_text_is_html(browser, models, tmp_path):
    open_frozen_page(browser, tmp_path, models[:1], ["1 2 3"], "", insert_hostile_text)
    assert browser.run("document.querySelectorAll('img, script').length") == 2
    assert HOSTILE in browser.run("byId('nbest').textContent")
    for kind in ("svg", "png"):
        browser.click(f"[data-export='tree-{kind}']")
    assert b"<img" not in browser.downloaded("tree.svg")
    assert browser.errors() == []


def test_a_frozen_page_works_from_a_file_without_a_network(browser, models, tmp_path):
    address = open_frozen_page(browser, tmp_path, models, ["1 2 3", "4 5 6"])
    [[best, *_]] = models[0].translate([SentenceRequest("1 2 3")])
    text = browser.run("document.querySelector('#nbest button').textContent")
    assert text == best["text"]
    browser.click("[data-rank='1']")
    browser.until(
        f"{DATA}.target.ids.slice(0, -1).join() === {DATA}.nBest[1].ids.join()"
    )
    choose(browser, "sentence", "4 5 6")
    browser.until("page.inspection.data.source.words[0] === '4'")
    assert browser.requests() == [address] and browser.errors() == []


def test_the_page_recovers_when_the_server_returns(browser, models):
    with serve(models) as server:
        browser.open(url(server))
        type_text(browser, "1 2 3")
        port = server.server_address[1]
    browser.run("byId('text').focus()")
    browser.type(" 4")
    browser.until("byId('status').classList.contains('bad')")
    assert browser.run("document.body.classList.contains('stale')")
    with serve(models, port=port):
        browser.until(f"page.inspection.data.source.words.length === 5 && {SILENT}")


def open_frozen_page(
    browser, tmp_path, models, lines, link="", change=lambda data: None
):
    """Open a page without a server, whose data may be changed; return its address."""
    text, _ = page_files.make_frozen_page(models, lines)
    [block] = re.findall(r'id="data">(.*?)</script>', text, re.S)
    data = json.loads(block)
    change(data)
    path = tmp_path / "page.html"
    path.write_text(page_files.make_page(data)[0], encoding="utf-8")
    browser.open(path.as_uri() + link)
    browser.until("page.inspection !== null")
    return path.as_uri()


def open_model_page(browser, folder, model, link="", split=False):
    """Open a page that holds the model; return its address."""
    hp, [checkpoint] = model.translator.hp, model.translator.checkpoints
    examples = ["1 2 3 4 5", "5 4 3 2"]
    pages = make_model_page(hp, checkpoint, examples, "float32", split=split)
    for name, content in pages.items():
        (folder / name).write_text(content, encoding="utf-8")
    address = (folder / PAGE).as_uri()
    browser.open(address + link)
    browser.until("page.inspection !== null")
    return address


def test_a_page_with_a_model_translates_without_a_network(browser, models, tmp_path):
    address = open_model_page(browser, tmp_path, models[0])
    assert browser.run("page.inspection.text") == "1 2 3 4 5"  # the first example
    for text in ("5 4 3 2", "7 7 1"):
        type_text(browser, text)
        [expected] = models[0].inspect([SentenceRequest(text)])
        inspection = browser.run(DATA)
        assert inspection["target"] == json.loads(json.dumps(expected["target"]))
        texts = [translation["text"] for translation in inspection["nBest"]]
        assert texts == [translation["text"] for translation in expected["nBest"]]
    browser.run("byId('without').scrollIntoView()")
    expected = inspect_line(models[0].translator, "7 7 1").without
    actual = browser.until(f"{DATA}.without")
    assert abs(expected - actual).max() < 1e-4
    assert browser.run("document.querySelectorAll('#bars .bar').length") == 3
    values = browser.run("[...page.inspection.matrix('cross', 0, 1, false).values]")
    weights = inspect_line(models[0].translator, "7 7 1").attention["cross"][0, 1]
    assert max(abs(a - b) for a, b in zip(values, weights.ravel())) < 2e-5
    assert browser.requests() == [address] and browser.errors() == []


def test_a_split_page_loads_the_model_beside_it(browser, models, tmp_path):
    address = open_model_page(browser, tmp_path, models[0], split=True)
    [best, *_] = models[0].translate([SentenceRequest("1 2 3 4 5")])[0]
    assert browser.run(f"{DATA}.nBest[0].text") == best["text"]
    part = tmp_path / PART.format(1)
    assert browser.requests() == [address, part.as_uri()] and browser.errors() == []
    part.unlink()
    browser.open(address)
    browser.until("byId('status').classList.contains('bad')")
    assert "1.js is missing" in browser.run("byId('status').textContent")


def test_a_page_with_a_model_decodes_choices_again(browser, models, tmp_path):
    open_model_page(browser, tmp_path, models[0])
    before = browser.run(f"{DATA}.target.ids")
    other = browser.run(f"{DATA}.alternatives[1].find(a => a[0] !== {before[1]})[0]")
    choose_piece(browser, 1, other)
    browser.until(f"{DATA}.target.ids[1] === {other}")
    [expected] = models[0].inspect(
        [SentenceRequest("1 2 3 4 5", prefix=[before[0], other])]
    )
    assert browser.run(f"{DATA}.target.ids") == expected["target"]["ids"]
    # A call that is no longer wanted ends without an answer.
    browser.run("document.querySelectorAll('#examples button')[0].click(); refresh()")
    browser.run("document.querySelectorAll('#examples button')[1].click()")
    browser.until("page.inspection.text === '5 4 3 2'")
    browser.run("byId('without').scrollIntoView()")
    browser.until(f"{DATA}.without")
    browser.until("page.source.waiting.size === 0")
    browser.run("byId('text').value = '1 '.repeat(600); handleInput()")
    browser.until("byId('status').classList.contains('bad')")
    status = browser.run("byId('status').textContent")
    assert "600 pieces" in status and "at most 256" in status
    assert browser.errors() == []
    script = read_axe()
    type_text(browser, "1 2 3")
    browser.run(script + "; 0")
    assert browser.run(VIOLATIONS) == []


@pytest.mark.parametrize("link", ["#t=1+2&p=999999", "#t=1+2&d=3"])
def test_a_link_to_a_page_with_a_model_is_checked(browser, models, tmp_path, link):
    open_model_page(browser, tmp_path, models[0], link)
    assert browser.run("[view.prefix, view.padding, page.inspection.text]") == [
        [],
        0,
        "1 2",
    ]
    assert browser.errors() == []


def test_a_frozen_file_has_the_likeliest_alternatives(browser, models, tmp_path):
    open_frozen_page(browser, tmp_path, models[:1], ["1 2 3", "4 5 6"])
    target = browser.run(f"{DATA}.target")
    alternatives = browser.run(f"{DATA}.alternatives")
    choices = browser.run(f"{DATA}.choices")
    assert len(choices) == len(target["words"]) - 1
    for (_, end), words in zip(target["spans"], choices):
        others = [
            {"prefix": [], "target": word["ids"]}
            if word["isEnd"]
            else {"prefix": word["ids"], "target": None}
            for word in words
            if word["isEnd"] or word["ids"] != target["ids"][:end]
        ]
        likeliest = json.dumps(others[: page_files.ALTERNATIVES_PER_WORD])
        assert browser.run(
            f"{likeliest}.every((choice) =>"
            "page.source.has({...makeRequest(0), ...choice}))"
        )
    end = target["ids"][-1]
    [other, *_] = [
        piece for piece, _, _ in alternatives[1] if piece not in (target["ids"][1], end)
    ]
    choose_piece(browser, 1, other)
    browser.until(f"{DATA}.target.ids[1] === {other}")
    assert browser.run(f"{DATA}.target.ids[0]") == target["ids"][0]
    browser.click("#reset-choice")
    browser.until(f"{DATA}.target.ids.join() === '{','.join(map(str, target['ids']))}'")
    choose_piece(browser, 1, other)
    browser.until(f"{DATA}.target.ids[1] === {other}")
    choose(browser, "sentence", "4 5 6")
    browser.until("page.inspection.text === '4 5 6' && !view.prefix.length")
    assert browser.errors() == []


def test_what_a_frozen_file_lacks_is_disabled(browser, models, tmp_path):
    open_frozen_page(browser, tmp_path, models[:1], ["1 2 3", "4 5 6"])
    best = browser.run(f"{DATA}.nBest.map((best) => best.ids.join())")
    displayed = browser.run(f"{DATA}.target.ids.join()")
    disabled = "[data-alternative][aria-disabled='true']"
    style = f"getComputedStyle(document.querySelector({json.dumps(disabled)}))"
    assert float(browser.run(style + ".opacity")) < 1
    for selector in (disabled, ".node[aria-disabled='true']"):
        browser.run(
            f"document.querySelector({json.dumps(selector)})"
            ".dispatchEvent(new MouseEvent('click'))"
        )
        browser.until("byId('status').textContent.includes('not in the file')")
        assert browser.run(f"{DATA}.target.ids.join()") == displayed
        assert "p=&" in browser.run("location.hash")
    browser.click("[data-rank='1']")
    browser.until(f"{DATA}.target.ids.slice(0, -1).join() === {json.dumps(best[1])}")


@pytest.mark.parametrize("link", ["#p=5.5.5", "#t=7+7&p=9"])
def test_a_link_to_what_a_file_lacks_shows_what_it_has(browser, models, tmp_path, link):
    open_frozen_page(browser, tmp_path, models[:1], ["1 2 3", "4 5 6"], link)
    browser.until("byId('status').textContent.includes('not in the file')")
    assert browser.run("[view.text, view.prefix, view.target]") == ["1 2 3", [], None]
    assert "p=&g=-" in browser.run("location.hash")
    choose(browser, "sentence", "4 5 6")
    browser.until("page.inspection.data.source.words[0] === '4'")


@pytest.mark.parametrize(
    ("link", "sentence"),
    [
        ("#t=1+2+3&p=999999", "The link keeps a choice, in pieces that"),
        ("#t=1+2+3&p=999999&c=%E2%96%819", "The link keeps “9”, in pieces that"),
        ("#t=1+2+3&p=a.b", "p is “a.b”, expected numbers of pieces"),
        ("#t=1+2+3&l=7&k=__proto__", "k is “__proto__”, expected encoder, decoder, "),
        ("#t=1+2+3&h=9&d=x", "h is “9”, expected mean, max, 0 to 3; d is “x”"),
        ("#t=1+2+3&m=lost", "for the model “lost”, which is not here. This is “"),
        ("#t=1+2+3&o=lost", "with the model “lost”, which is not here, so"),
    ],
)
def test_a_link_that_does_not_fit_says_what_is_wrong(browser, server, link, sentence):
    browser.open(url(server) + link)
    browser.until(f"page.inspection !== null && !isStale() && {SILENT}")
    assert sentence in browser.run("byId('misfit').textContent")
    assert browser.run("[view.prefix, page.inspection.text]") == [[], "1 2 3"]
    type_text(browser, "3 2 1")
    assert browser.run("byId('misfit').hidden")


def test_results_of_another_text_are_marked_as_stale(page):
    at_once = page.run(
        "(() => { byId('text').value = '9 9'; handleInput();"
        "return [document.body.classList.contains('stale'), byId('stale').hidden,"
        "byId('stale').textContent]; })()"
    )
    assert at_once[:2] == [True, False] and "“1 2 3 4 5”" in at_once[2]
    dimmed = "['reading', 'attention', 'without', 'search'].every("
    assert page.run(dimmed + "(id) => getComputedStyle(byId(id)).opacity < 0.5)")
    before = page.run("JSON.stringify(view)")
    page.run("document.querySelector('[data-rank=\"1\"]').click()")
    assert page.run("JSON.stringify(view)") == before
    page.until("page.inspection.text === '9 9' && byId('stale').hidden")
    assert not page.run("document.body.classList.contains('stale')")
    typed_long = "byId('text').value = '1 '.repeat(600); handleInput()"
    page.run(typed_long)
    page.until("byId('status').classList.contains('bad')")
    assert "pieces" in page.run("byId('status').textContent")
    assert page.run("byId('reading').hidden && byId('attention').hidden")
    page.events.clear()  # the browser complains of the refusal


FOCUSED = "JSON.stringify({...document.activeElement.dataset})"


def test_keys_keep_the_focus(page):
    page.run("document.querySelector('[data-head=\"encoder-0-1\"]').focus()")
    page.press("Enter")
    assert page.run("[view.kind, view.head]") == ["encoder", 1]
    assert json.loads(page.run(FOCUSED)) == {"head": "encoder-0-1"}
    page.run("document.querySelector('[data-choice=\"Head\"]').focus()")
    page.press("ArrowDown")
    page.until("view.head === 2")
    assert json.loads(page.run(FOCUSED)) == {"choice": "Head"}
    node = page.run("page.inspection.data.nodes.findIndex((node) => node[6] === 2)")
    for key in ("Enter", " "):
        page.run(f"document.querySelector('[data-node=\"{node}\"]').focus()")
        page.press(key)
        page.until(f"!byId('prefix').hidden && {SILENT}")
        page.until("document.querySelector('[data-rank=\"2\"]').ariaPressed === 'true'")
        assert json.loads(page.run(FOCUSED)) == {"node": str(node)}
        page.run("byId('reset-choice').focus()")
        page.press("Enter")
        page.until("byId('prefix').hidden")
        assert page.run("byId('translation').contains(document.activeElement)")


def test_a_server_that_restarts_with_another_model(page, models, monkeypatch):
    monkeypatch.setattr(models[0], "name", "logs · another")
    type_text(page, "5 4")
    chosen = "byId('model').selectedOptions[0].textContent"
    assert page.run(f"[page.models[0].name, {chosen}]") == ["logs · another"] * 2


def test_a_kind_with_fewer_layers_shows_its_last_layer(browser, digits, tmp_path):
    logdir = str(tmp_path / "logs")
    blocks = ["--num_encoder_blocks", "2", "--num_decoder_blocks", "1"]
    corpora.run_train(digits, logdir, *corpora.SMALL, *blocks, "--max_steps", "1")
    model = Model(hparams.load(logdir), logdir)
    open_frozen_page(browser, tmp_path, [model], ["1 2 3"])
    model.close()
    browser.run("chooseHead({kind: 'encoder', layer: 1}); chooseHead({kind: 'cross'})")
    assert browser.run("[view.kind, view.layer]") == ["cross", 0]
    assert browser.errors() == []


def test_each_group_is_one_tab_stop(page):
    stops = "[...byId('{}').querySelectorAll('*')].filter((e) => e.tabIndex === 0)"
    for group in ("words", "nbest", "grid", "chips", "tree"):
        assert page.run(stops.format(group) + ".length") == 1, group
    page.run("document.querySelector('[data-head=\"cross-0-0\"]').focus()")
    for key, head in (("ArrowRight", "cross-0-1"), ("ArrowUp", "decoder-0-1")):
        page.press(key)
        assert json.loads(page.run(FOCUSED)) == {"head": head}


def test_keys_do_what_the_page_says(page):
    page.run("chooseHead({kind: 'decoder', head: 2}); byId('pieces').focus()")
    for key in ("w", "3", "}"):
        page.press(key)
    assert page.run("[view.byWords, view.kind, view.head]") == [False, "cross", 3]
    page.run("byId('heat').focus()")
    page.press("ArrowRight")
    assert page.run("page.highlight") == {"row": 0, "column": 0}
    page.press("ArrowRight")
    assert page.run("page.highlight") == {"row": 0, "column": 1}
    page.press("Escape")
    assert page.run("page.highlight === null && byId('cell').textContent === ''")
    page.click("[data-rank='1']")
    page.until("!byId('prefix').hidden")
    page.press("Escape")
    page.until("byId('prefix').hidden")
    page.run("byId('keys').click(); document.activeElement.blur()")
    page.press("1")
    assert page.run("view.kind") == "cross"
    page.run("byId('keys').click(); document.activeElement.blur()")
    page.press("1")
    assert page.run("view.kind") == "encoder"
    for key in re.findall(r"<kbd>(.*?)</kbd>", page_files.read_file("page.html")):
        names = {"←": "ArrowLeft", "→": "ArrowRight", "Space": " "}
        assert key in ("Esc", "Enter", "Shift") or page.run(
            "(() => { const e = new KeyboardEvent('keydown', {"
            f"key: {names.get(key, key)!r},"
            "bubbles: true, cancelable: true}); document.body.dispatchEvent(e);"
            "return e.defaultPrevented; })()"
        ), key


def read_axe():
    """The script of axe-core."""
    spec = importlib.util.find_spec("axe_core_python")
    if spec is None:
        pytest.skip("axe-core-python is not installed")
    path = os.path.join(os.path.dirname(spec.origin), "axe.min.js")
    with open(path, encoding="utf-8") as file:
        return file.read()


VIOLATIONS = """axe.run({rules: {"label-content-name-mismatch": {enabled: true}}})
    .then((results) => results.violations.map(
        (rule) => [rule.id, rule.nodes.length, rule.nodes[0].html.slice(0, 200)]))"""


def test_axe_finds_no_violation(browser, server, models, tmp_path):
    script = read_axe()
    browser.open(url(server))
    type_text(browser, "1 2 3 4 5")
    browser.run(script + "; 0")
    assert browser.run(VIOLATIONS) == []
    browser.run("byId('as-table').open = true; chooseHead({head: 1})")
    browser.until("document.querySelectorAll('#table td').length > 9")
    browser.click("[data-rank='1']")
    browser.until("!byId('prefix').hidden")
    assert browser.run(VIOLATIONS) == []
    choose(browser, "other", "1")
    browser.until("page.other !== null && !byId('comparison').hidden")
    browser.run("page.other.data.target.words[0] = 'else'; showAttention()")
    assert browser.run("byId('beside').hidden") is False
    assert browser.run(VIOLATIONS) == []
    open_frozen_page(browser, tmp_path, models[:1], ["1 2 3", "4 5 6"])
    browser.run(script + "; 0")
    assert browser.run(VIOLATIONS) == []


def test_heads_of_two_runs_are_not_subtracted(page, models, trained, tmp_path):
    copy = str(tmp_path / "trained")
    shutil.copytree(trained, copy)
    hp = models[0].translator.hp
    other = Model(hp, copy)
    runs = [model.describe()["run"] for model in (*models, other)]
    other.close()
    assert runs[0] == runs[1] != runs[2]
    choose(page, "other", "1")
    page.until("page.other !== null")
    page.run("chooseHead({kind: 'encoder', layer: 0, head: 1})")
    assert page.run("page.matrix.isDifference && byId('beside').hidden")
    page.run(f"page.models[1].run = '{runs[2]}'; showAttention()")
    assert page.run("!page.matrix.isDifference && !byId('beside').hidden")
    assert "no common order" in page.run("byId('role').textContent")
    page.run("chooseHead({head: 'mean'})")
    assert page.run("page.matrix.isDifference && byId('beside').hidden")


BOX = "document.activeElement.getBoundingClientRect()"


def test_arrow_keys_stay_in_their_line(page):
    page.run("document.querySelector('[data-chip=\"row-0\"]').focus()")
    for _ in range(page.run("page.matrix.rows + 2")):
        page.press("ArrowRight")
    last = page.run("page.matrix.rows - 1")
    assert json.loads(page.run(FOCUSED)) == {"chip": f"row-{last}"}
    page.press("ArrowDown")
    assert json.loads(page.run(FOCUSED))["chip"].startswith("column")
    page.run("byId('pieces').click()")
    page.run("document.querySelectorAll('#words ul:first-child button')[2].focus()")
    top, lefts = page.run(BOX + ".top"), []
    for _ in range(page.run("document.querySelectorAll('#words ul').length")):
        lefts.append(page.run(BOX + ".left"))
        assert page.run(BOX + ".top") == top
        page.press("ArrowRight")
    assert lefts == sorted(set(lefts))


def test_the_chosen_heads_are_in_view(page):
    height = "byId('grid').scrollHeight"
    low = "innerHeight - byId('player').offsetHeight"
    assert page.run(f"{height} <= byId('grid').clientHeight && {height} < {low}")
    page.run("byId('grid').style.maxHeight = '150px'")
    for kind in ("cross", "encoder"):
        page.run(f"chooseHead({{kind: '{kind}', layer: 0, head: 'mean'}})")
        boxes = page.run(
            "[byId('grid'), document.querySelector('#grid [aria-pressed=\"true\"]')]"
            ".map((e) => e.getBoundingClientRect()).map((b) => [b.top, b.bottom])"
        )
        assert boxes[0][0] <= boxes[1][0] and boxes[1][1] <= boxes[0][1]


def test_a_focused_word_says_where_it_looks(page):
    page.run("document.querySelector('[data-chip=\"row-1\"]').focus()")
    label, weight, row = page.run(
        "(() => { const {rowLabels, columnLabels, columns, values} = page.matrix;"
        "const row = [...values.slice(columns, 2 * columns)];"
        "const most = Math.max(...row);"
        "return [columnLabels[row.indexOf(most)], most, rowLabels[1]]; })()"
    )
    sentence = page.run("byId('cell').textContent")
    assert sentence.startswith(f"“{row}” attends to “{label}” {weight:.2f}")
    page.run("document.querySelector('[data-chip=\"column-0\"]').focus()")
    assert "is attended to by" in page.run("byId('cell').textContent")


def test_the_words_of_both_sides_have_their_language(page):
    languages = "[...document.querySelectorAll('%s')].map((element) => element.lang)"
    page.run("byId('without').scrollIntoView()")
    page.until("document.querySelector('#bars .bar') !== null")
    for selector, language in (
        ("#text", "de"),
        ("#translation", "en"),
        ("#words .text", "en"),
        ("#nbest [data-rank]", "en"),
        ("#chips [data-chip^=row]", "en"),
        ("#chips [data-chip^=column]", "de"),
        ("#bars .bar > span:first-child", "de"),
    ):
        assert set(page.run(languages % selector)) == {language}, selector
    page.run("page.models[0].languages = ['source', 'target']; show()")
    assert set(page.run(languages % "#words .text")) == {""}


def test_a_comparison_is_one_sentence_a_case_and_has_a_scale(page):
    choose(page, "other", "1")
    page.until("page.other !== null && !byId('comparison').hidden")
    role, scale = "byId('role').textContent", "byId('scale').textContent"
    page.run("chooseHead({kind: 'encoder', layer: 0, head: 'mean'})")
    mean = "Encoder, layer 1, mean of 4 heads. Green: the other model attends more"
    assert page.run(role).startswith(mean)
    assert re.search("−1.*0.*1", page.run(scale))
    page.run("chooseHead({head: 0})")
    assert re.search(r"head 1: looks .* bits\. Green: ", page.run(role))
    page.run("page.other.data.target.words[0] = 'else'; page.other.matrices.clear()")
    page.run("chooseHead({kind: 'cross'})")
    assert "words of the two models differ" in page.run(role)
    assert page.run(scale).startswith("Weight:")
    captions = page.run(
        "[...document.querySelectorAll('#grid caption')].map((c) => c.textContent)"
    )
    assert ["difference" in caption for caption in captions] == [True, False, False]


def test_paper_shows_where_it_comes_from(page):
    page.run("dispatchEvent(new Event('beforeprint'))")
    page.call("Emulation.setEmulatedMedia", media="print")
    printed = page.run("byId('printed').innerText")
    assert page.run("page.models[0].name") in printed
    assert page.run("byId('printed').querySelector('a').href === location.href")
    style = "getComputedStyle(document.querySelector('{}')).{}"
    assert page.run(style.format("#scale span", "printColorAdjust")) == "exact"
    for missing in ("#search .tools", "#panes .foot", "#without"):
        assert page.run(style.format(missing, "display")) == "none", missing
    page.run("byId('tree').style.width = '300px'")
    width = "document.querySelector('#tree svg').getBoundingClientRect().width"
    assert page.run(width) <= 300
    assert page.run(style.format("#bars", "printColorAdjust")) == "exact"
    page.run("globalThis.isOnline = () => false; showPrinted()")
    assert page.run("byId('printed').querySelector('a')") is None
    page.run("page.inspection = null; showPrinted()")
    assert "before the translation" in page.run("byId('printed').textContent")
    page.call("Emulation.setEmulatedMedia", media="")
    page.run("dispatchEvent(new Event('afterprint'))")
    assert page.run(style.format("#printed", "display")) == "none"


def test_paper_has_the_numbers_of_the_open_tab_or_nothing(page):
    display = "getComputedStyle(byId('why')).display"
    page.run("chooseTab('inside')")
    page.call("Emulation.setEmulatedMedia", media="print")
    assert page.run(display) == "none"  # "Reading the head …"
    page.until("byId('chain').children.length === 5")
    assert page.run("scrollY") == 0
    assert page.run(display) != "none"
    page.call("Emulation.setEmulatedMedia", media="")


def test_paper_has_the_ribbons_of_the_step(page):
    display = "getComputedStyle(byId('stage')).display"
    for step, shown in ("null", "none"), ("2", "block"):
        page.run(f"view.step = {step}; show(); dispatchEvent(new Event('beforeprint'))")
        drawn = page.run("byId('lines').clientWidth")
        page.call("Emulation.setEmulatedMedia", media="print")
        assert page.run(display) == shown
        if shown == "block":
            assert abs(page.run("byId('lines').clientWidth") - drawn) <= 1
        page.call("Emulation.setEmulatedMedia", media="")
        page.run("dispatchEvent(new Event('afterprint'))")


def test_paper_has_whole_lines_if_they_scroll_on_a_phone(page):
    page.call(
        "Emulation.setDeviceMetricsOverride",
        width=360,
        height=740,
        deviceScaleFactor=1,
        mobile=True,
    )
    type_text(page, " ".join("123456789" * 3))
    page.run("chooseStep(lastStep()); dispatchEvent(new Event('beforeprint'))")
    page.call("Emulation.setEmulatedMedia", media="print")
    hidden = "byId('above').scrollWidth - byId('above').clientWidth"
    assert page.run(hidden) <= 1 and page.run("byId('above').scrollLeft") == 0
    page.call("Emulation.setEmulatedMedia", media="")
    page.run("dispatchEvent(new Event('afterprint'))")
    assert page.run(hidden) > 1


def test_the_link_is_copied_without_https_and_a_file_says_where_it_leads(page):
    page.run(
        "Object.defineProperty(navigator, 'clipboard', { value: undefined });"
        "addEventListener('copy', () => {"
        " page.copied = document.activeElement.value; });"
        "byId('link').focus()"
    )
    page.run("copyLink()")
    assert page.run("page.copied === location.href")
    assert page.run("document.activeElement.id") == "link"
    status = "byId('status').textContent"
    assert page.run(status) == "The link has been copied."
    page.run("globalThis.isOnline = () => false; copyLink()")
    assert page.run(status).startswith("The link has been copied. It opens this file")


def test_the_beam_tree_is_as_wide_as_the_page(page):
    type_text(page, "1 2 3 4 5 6 7 8 9 1 2 3 4 5 6")
    width = "byId('tree').{}"
    assert page.run(width.format("scrollWidth")) == page.run(
        width.format("clientWidth")
    )
    nodes = page.run("document.querySelectorAll('#tree .node').length")
    assert nodes == page.run(f"{DATA}.nodes.length")
    page.run(read_axe() + "; 0")
    assert page.run(VIOLATIONS) == []


def write_text(browser, text, sentence=0):
    """Put a text into the box as typing does; wait for one of its sentences."""
    browser.run(f"byId('text').value = {json.dumps(text)}; handleInput()")
    line = json.dumps(text.split("\n")[sentence])
    browser.until(f"page.inspection?.text === {line} && !isStale() && {SILENT}")


def test_a_text_is_translated_sentence_by_sentence_and_copied(page, models):
    texts = [
        n_best[0]["text"]
        for n_best in models[0].translate(
            [SentenceRequest("1 2 3"), SentenceRequest("4 5 X 6")]
        )
    ]
    write_text(page, "1 2 3\n4 5 X 6")
    assert page.run("byId('translation').textContent") == "\n".join(texts)
    assert page.run("byId('sentence-number').textContent") == "Sentence 1 of 2"
    assert page.run("byId('several').hidden")
    page.click("#next-sentence")
    page.until(f"page.inspection.text === '4 5 X 6' && {SILENT}")
    assert page.run("byId('translation').textContent") == "\n".join(texts)
    selected = page.run(
        "getSelection().selectAllChildren(byId('translation'));"
        "getSelection().toString()"
    )
    assert selected.split() == " ".join(texts).split()
    page.run("navigator.clipboard.writeText = async (text) => { page.copied = text; }")
    page.click("#copy")
    page.until("byId('copy').textContent === 'Copied'")
    assert page.run("page.copied") == "\n".join(texts)
    page.run(read_axe() + "; 0")
    assert page.run(VIOLATIONS) == []
    page.run("getSelection().removeAllRanges()")
    page.click("#translation .other")
    page.until(f"page.inspection.text === '1 2 3' && {SILENT}")


def test_a_word_that_is_not_in_the_vocabulary_is_named(page):
    write_text(page, "1 2 X 4")
    assert "Not in the vocabulary" in page.run("byId('remarks').textContent")
    assert "“X”" in page.run("byId('remarks').textContent")
    marked = "[...document.querySelectorAll('{} .unknown')].map((e) => e.textContent)"
    page.run("byId('without').scrollIntoView()")
    page.until("document.querySelector('#bars .bar') !== null")
    for group in ("#chips", "#bars"):
        assert page.run(marked.format(group)) == ["X"]
    write_text(page, "1 2 4")
    assert "vocabulary" not in page.run("byId('remarks').textContent")


def test_a_long_text_stays_in_the_box(page):
    text = "\n".join(["1 2 3 4 5 6 7 8 9"] * 150)
    page.run(
        "globalThis.counts = new Set(); const draw = showTranslation;"
        "showTranslation = () => { draw(); counts.add("
        "document.querySelectorAll('#translation > span').length); }; 0"
    )
    write_text(page, text)
    assert page.run("byId('text').value") == text
    assert page.run("page.translation.sentences.length") == 150
    # The beginning was shown before the rest was translated.
    counts = page.run("[...counts].filter((count) => count > 1)")
    assert counts == [4, 20, 120, 150]
    assert page.run("byId('too-long').hidden")
    page.run("byId('text').value = 'far too long '.repeat(2000); handleInput()")
    assert page.run("byId('text').value.length") == 26000
    note = page.run("byId('too-long').textContent")
    assert re.match(r"Not translated: the last 6,0\d\d characters, from “", note)
    page.run("byId('text').value = ''; handleInput()")
    page.events.clear()  # the service may have refused the text


def test_back_undoes_a_choice_and_a_sentence(page):
    before = page.run(f"{DATA}.target.ids")
    other = page.run(f"{DATA}.alternatives[1].find(a => a[0] !== {before[1]})[0]")
    choose_piece(page, 1, other)
    page.until(f"{DATA}.target.ids[1] === {other} && {SILENT}")
    page.run("history.back()")
    page.until(f"{DATA}.target.ids.join() === '{','.join(map(str, before))}'")
    page.until("page.isSettled")  # the sentence has stayed for a while
    write_text(page, "5 4 3")
    page.run("history.back()")
    page.until(f"page.inspection.text === '1 2 3 4 5' && {SILENT}")
    assert page.run("byId('text').value") == "1 2 3 4 5"


def test_a_link_names_its_model_and_what_is_highlighted(page, models, server):
    other = page.run(
        f"{DATA}.alternatives[1].find(a => a[0] !== {DATA}.target.ids[1])[0]"
    )
    choose_piece(page, 1, other)
    page.until(f"{DATA}.target.ids[1] === {other} && {SILENT}")
    page.run("byId('cut').click(); setHighlight({row: 1}); writeLink()")
    link, ids = page.run("location.hash"), page.run(f"{DATA}.target.ids")
    page.open(url(server) + link)
    page.until(f"page.inspection && {SILENT}")
    assert page.run("page.highlight") == {"row": 1}
    assert page.run("[byId('cut').checked, byId('misfit').hidden]") == [False, True]
    assert page.run(f"{DATA}.target.ids") == ids
    # The same ids, in another vocabulary.
    page.open(url(server) + re.sub("&c=[^&]*", "&c=another", link))
    page.until(f"page.inspection && {SILENT}")
    pieces = page.run(f"{DATA}.nodePieces")
    came = "".join(pieces[str(ids[i])] for i in range(2)).replace("▁", " ").strip()
    sentence = f"keeps “another”, but in this model the same pieces are “{came}”."
    assert sentence in page.run("byId('misfit').textContent")
    assert page.run("view.prefix") == []
    page.open(url(server) + re.sub("&m=[^&]*", "&m=lost", link))
    page.until(f"page.inspection && {SILENT}")
    assert "“lost”" in page.run("byId('misfit').textContent")
    page.open(url(server) + "#t=1+2&m=1")  # as earlier versions wrote it
    page.until(f"page.inspection && {SILENT}")
    assert page.run("page.inspection.model") == 1


def test_the_page_opens_with_sentences_to_try(browser, server, models):
    browser.open(url(server))
    browser.until("page.models.length > 0 && !byId('text').disabled")
    assert browser.run("document.activeElement.id") == "text"
    about = browser.run("byId('about').textContent")
    assert about.startswith("German → English · trained on 2,000 sentence pairs")
    assert " · best at sentences like the examples · " in about
    assert "million parameters · BLEU" in about
    examples = browser.run(
        "[...document.querySelectorAll('#examples button')].map((b) => b.textContent)"
    )
    assert 1 <= len(examples) <= 6 and sorted(examples, key=len) == examples
    browser.click("#examples button")
    browser.until(f"page.inspection?.text === {json.dumps(examples[0])}")
    browser.run(read_axe() + "; 0")
    browser.run("byId('text').value = ''; handleInput()")
    browser.until("byId('reading').hidden")
    assert browser.run(VIOLATIONS) == []


def check_example(browser, text):
    """The page shows a translated example, and the box is ready for another text."""
    browser.until("page.inspection !== null && !byId('text').disabled")
    assert browser.run("byId('text').value") == text
    assert browser.run("document.querySelectorAll('#translation [data-word]').length")
    browser.until("document.querySelectorAll('#bars .bar').length")
    browser.until("getSelection().toString() === byId('text').value")
    browser.type("5 4 3 2")  # it replaces the example
    browser.until(f"page.inspection?.text === '5 4 3 2' && {SILENT}")
    assert browser.errors() == []


def test_the_page_of_a_server_opens_with_a_translated_example(browser, models):
    example = models[0].inspect_example()
    with serve(models[:1], example=example) as server:
        browser.open(url(server))
        browser.until("page.inspection !== null")
        assert browser.requests() == [url(server)]  # nothing was asked for
        inspection = json.loads(json.dumps(example["inspection"]))
        assert browser.run(DATA) == inspection
        check_example(browser, example["text"])


def test_a_page_with_a_model_opens_with_a_translated_example(
    browser, models, tmp_path, monkeypatch
):
    hp, [checkpoint] = models[0].translator.hp, models[0].translator.checkpoints
    [expected] = models[0].inspect([SentenceRequest("1 2 3 4 5")])
    path = tmp_path / PAGE
    for worker in (("chrf.js",), page_files.WORKER):  # one that never answers, and ours
        monkeypatch.setattr(page_files, "WORKER", worker)
        pages = make_model_page(
            hp, checkpoint, ["1 2 3 4 5"], "float32", has_example=True
        )
        path.write_text(pages[PAGE], encoding="utf-8")
        browser.open(path.as_uri())
        browser.until("page.inspection !== null")
        if worker == ("chrf.js",):
            assert browser.run(DATA) == json.loads(json.dumps(expected))
    check_example(browser, "1 2 3 4 5")


def test_the_pictures_of_the_documents_are_made(models, tmp_path):
    hp, [checkpoint] = models[0].translator.hp, models[0].translator.checkpoints
    path = tmp_path / PAGE
    html = make_model_page(hp, checkpoint, ["1 2 3 4 5"], "float32")[PAGE]
    path.write_text(html, encoding="utf-8")
    pictures.main(
        ["--page", str(path), "--out", str(tmp_path), "--sentence", "1 2 3 4 5"]
    )
    names = set(re.findall(r"\((seeing-\w+\.png)\)", read("docs/seeing.md")))
    made = {picture.name for picture in tmp_path.glob("*.png")}
    assert made == names - {"seeing-heads.png"}  # of plot_attention.py


def test_a_page_with_a_model_translates_each_sentence(browser, models, tmp_path):
    open_model_page(browser, tmp_path, models[0])
    n_bests = models[0].translate([SentenceRequest("7 7 1"), SentenceRequest("2 3")])
    write_text(browser, "7 7 1\n2 3")
    texts = [n_best[0]["text"] for n_best in n_bests]
    assert browser.run("byId('translation').textContent") == "\n".join(texts)
    assert browser.errors() == []
