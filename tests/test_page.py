"""The page, in a real browser: what a person does, and what may go wrong."""

import json
import re
import threading

import pytest
from browser import Browser, needs_browser
from serving import address

import hparams
from transformer.runtime import checkpoints
from transformer.seeing import frozen, packing, page_files
from transformer.seeing.jobs import Jobs
from transformer.seeing.models import Model
from transformer.seeing.requests import Asked
from transformer.seeing.server import Server

pytestmark = [
    pytest.mark.usefixtures("one_thread_only"),
    needs_browser,
    pytest.mark.slow,
]

HOSTILE = (
    "\"'><img src=x onerror=alert(1)> </script><script>alert(2)</script> 🐕 ▁ &lt;"
)


SILENT = "byId('status').textContent === ''"
SEEN = "page.sight.pack"


@pytest.fixture(scope="module")
def models(trained):
    hp, oldest = hparams.load(trained), checkpoints.steps(trained)[0]
    opened = [Model(hp, trained), Model(hp, trained, oldest)]
    opened[0].legend = {"lines": 3, "shades": [[0.0, 0.3, 4, 1]] * 5}
    yield opened
    for model in opened:
        model.close()


def started(place, models):
    server = Server(place, models, Jobs())
    threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
    return server


@pytest.fixture(scope="module")
def server(models):
    server = started(("127.0.0.1", 0), models)
    yield server
    server.drain()


@pytest.fixture(scope="module")
def browser():
    with Browser() as browser:
        yield browser


@pytest.fixture
def page(browser, server):
    """The page, on which a sentence was typed; afterwards nothing was complained of."""
    browser.open(address(server))
    typed(browser, "1 2 3 4 5")
    yield browser
    assert browser.complaints() == []
    assert all(url.startswith(address(server)) for url in browser.requests())


def typed(browser, text):
    browser.until("page.models.length > 0")
    browser.run("byId('text').value = ''; byId('text').focus()")
    browser.type(text)
    said = json.dumps(" ".join(text.split()))
    browser.until(f"page.sight && page.sight.text === {said} && {SILENT}")


def test_a_sentence_is_translated_as_it_is_typed(page, models):
    [row] = models[0].translate([Asked(0, "1 2 3 4 5", [], None, 0)])
    shown = page.run(
        "[...document.querySelectorAll('#nbest button')].map(b => b.textContent)"
    )
    assert shown == [each["text"] or "(empty)" for each in row]
    typed(page, "5 4 3 2")
    assert page.run("document.querySelectorAll('#bars .bar').length") == 4
    page.run("byId('text').value = ''; byId('text').dispatchEvent(new Event('input'))")
    page.until("byId('reading').hidden")


def test_the_heat_map_has_the_models_weights_and_hovering_says_them(page, models):
    page.run("chooseHead({kind: 'cross', layer: 0, head: 1})")
    values = page.run("[...page.matrix.values]")
    [seen] = models[0].see([Asked(0, "1 2 3 4 5", [], None, 0)])
    weights = packing.unpacked_weights(seen["attention"]["cross"])[0, 1]
    from transformer.seeing.words import between_words

    wanted = between_words(weights, seen["target"]["spans"], seen["source"]["spans"])
    assert max(abs(a - b) for a, b in zip(values, wanted.ravel())) < 1e-4
    x, y = page.run(
        "(() => { byId('heat').scrollIntoView(); const l = page.layout;"
        "const b = byId('heat').getBoundingClientRect();"
        "return [b.x + l.left + 1.5 * l.cell, b.y + l.top + 0.5 * l.cell]; })()"
    )
    page.mouse("mouseMoved", x, y)
    said = page.until("byId('cell').textContent")
    assert re.search(r"looks at “2” with \d\.\d+\.", said)
    assert "{:.3f}".format(wanted[0, 1]) in said


def test_hovering_a_word_lights_where_it_looks(page):
    page.run("document.querySelectorAll('#chips .line')[1].scrollIntoView()")
    x, y = page.middle("#chips .line:nth-child(1) button")
    page.mouse("mouseMoved", x, y)
    page.until("page.lit && page.lit.row === 0")
    lit = page.run(
        "[...document.querySelectorAll('#chips .line:nth-child(2) button')]"
        ".map(b => b.style.background !== '')"
    )
    assert lit and all(lit)


def test_thumbnails_keys_and_choices_lead_to_a_head(page):
    page.click("[data-head='decoder-0-2']")
    assert page.run("[view.kind, view.layer, view.head]") == ["decoder", 0, 2]
    assert re.match(
        r"This head looks .*, \d\.\d\d; entropy", page.run("byId('role').textContent")
    )
    page.run("document.activeElement.blur()")
    for key in ("3", "}"):
        page.press(key)
    assert page.run("[view.kind, view.head]") == ["cross", 3]
    page.run("byId('heat').focus()")
    for key in ("ArrowDown", "ArrowRight"):
        page.press(key)
    assert "looks at" in page.run("byId('cell').textContent")
    page.run("byId('as-table').open = true")
    page.until("document.querySelectorAll('#table td').length > 9")


def test_future_and_padded_cells_say_why(page):
    page.run(
        "byId('padding').value = 3; byId('padding').dispatchEvent(new Event('change'))"
    )
    page.until("page.sight.pack.source.words.length === 9")
    assert "padding" in page.run("page.sight.hidden('cross', true)(0, 7)")
    assert "future" in page.run("page.sight.hidden('decoder', true)(0, 1)")
    assert page.run("page.sight.hidden('decoder', true)(1, 1)") == ""
    page.run("chooseHead({kind: 'cross'}); light({row: 0, column: 7})")
    assert "cannot look" in page.run("byId('cell').textContent")


def test_an_alternative_keeps_what_stands_before_it(page):
    before = page.run("page.sight.pack.target.ids")
    other = page.run(
        f"{SEEN}.alternatives[1].find(a => a[0] !== {SEEN}.target.ids[1])[0]"
    )
    page.click(f"[data-alternative='1-{other}']")
    page.until(f"page.sight.pack.target.ids[1] === {other}")
    assert page.run("page.sight.pack.target.ids[0]") == before[0]
    page.click("#free")
    page.until(f"page.sight.pack.target.ids.join() === '{','.join(map(str, before))}'")


def test_a_hypothesis_of_the_tree_shows_its_attention(page):
    assert page.run(
        f"document.querySelectorAll('#tree .node').length === {SEEN}.nodes.length"
    )
    number = page.run("page.sight.pack.nodes.findIndex(n => n[6] === 2)")
    page.run(
        f"document.querySelector('[data-node=\"{number}\"]')"
        ".dispatchEvent(new MouseEvent('click'))"
    )
    page.until("document.querySelector('[data-rank=\"2\"]').ariaPressed === 'true'")
    page.run("byId('cut').click()")
    assert page.run(
        "document.querySelectorAll('#tree .node').length < page.sight.pack.nodes.length"
    )


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
    link, shown = page.run("location.href"), page.run("byId('nbest').textContent")
    browser.open(link)
    browser.until("page.sight !== null")
    assert browser.run("[view.kind, view.head, view.byWords]") == [
        "encoder",
        "max",
        False,
    ]
    assert browser.run("byId('nbest').textContent") == shown
    browser.open(address(server) + "#t=1&m=99&l=-1&k=__proto__&h=1e9&p=a.b&d=x")
    browser.until("page.sight !== null")
    assert browser.run("[view.kind, view.head, view.layer]") == ["cross", "mean", 0]


def test_two_models_are_compared(page):
    page.run(
        "byId('other').value = '1'; byId('other').dispatchEvent(new Event('change'))"
    )
    page.until("page.other !== null && !byId('comparison').hidden")
    page.run("chooseHead({kind: 'encoder', layer: 0, head: 0})")
    assert page.run("page.matrix.isDifference")
    sums = page.run(
        "page.sight.matrix('encoder', 0, 0, true).values[0] + page.matrix.values[0]"
    )
    assert sums == pytest.approx(
        page.run("page.other.matrix('encoder', 0, 0, true).values[0]")
    )
    assert page.run("byId('beside').hidden")


def test_where_words_differ_both_maps_are_shown(page):
    page.run(
        "byId('other').value = '1'; byId('other').dispatchEvent(new Event('change'))"
    )
    page.until("page.other !== null")
    page.run("chooseHead({kind: 'cross', layer: 0, head: 0})")
    page.run("page.other.pack.target.words[0] = 'else'; showAttention()")
    assert not page.run("page.matrix.isDifference || byId('beside').hidden")
    assert page.run("byId('beside-name').textContent === page.models[1].name")
    drawn = "heatLayout(page.other.matrix('cross', 0, 0, true), {width}).height"
    height = page.run(drawn.format(width="byId('large').clientWidth"))
    assert page.run("byId('heat-beside').clientHeight") == pytest.approx(height, abs=1)
    assert "the other below" in page.run("byId('role').textContent")
    page.run("Object.defineProperty(page.other, 'layers', {value: 0}); showAttention()")
    assert page.run("byId('beside').hidden")
    assert "no such layer" in page.run("byId('role').textContent")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_follows_the_theme_and_fits_a_telephone(browser, server, dark, models):
    browser.open(address(server), width=360, dark=dark)
    typed(browser, "1 2 3 4 5")
    assert browser.run("document.documentElement.dataset.theme") == (
        "dark" if dark else "light"
    )
    assert browser.run("document.documentElement.scrollWidth") <= 360
    contrast = browser.run(CONTRAST)
    assert min(contrast) >= 4.5


# The contrast of the text colours with both backgrounds, by WCAG 2.
CONTRAST = """(() => {
  const light = (name) => {
    const hex = themeColour(name);
    const parts = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255)
      .map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2] + 0.05;
  };
  const pairs = ["--ink", "--soft", "--accent", "--warm"].flatMap((ink) =>
    ["--page", "--panel"].map((on) => [light(ink), light(on)]));
  return pairs.map(([a, b]) => Math.max(a, b) / Math.min(a, b));
})()"""


def test_what_is_typed_is_never_html(page):
    typed(page, HOSTILE)
    assert page.run("document.querySelectorAll('img, script').length") == 2
    typed(page, " ".join("1234567890" * 6))
    assert page.run("page.sight.pack.source.words.length") == 61


def test_what_a_model_says_is_never_html(browser, models, tmp_path):
    text, _ = frozen.page_of(models[:1], ["1 2 3"])
    [block] = re.findall(r'id="data">(.*?)</script>', text, re.S)
    data = json.loads(block)
    data["models"][0]["name"] = HOSTILE
    for each in data["sights"]:
        for side in ("source", "target", "targetIn"):
            seen = each["sight"][side]
            seen["words"] = [HOSTILE] * len(seen["words"])
            seen["pieces"] = [HOSTILE] * len(seen["pieces"])
        for best in each["sight"]["nBest"]:
            best["text"] = HOSTILE
        each["sight"]["alternatives"] = [
            [[one, HOSTILE, p] for one, _, p in row]
            for row in each["sight"]["alternatives"]
        ]
        each["sight"]["nodePieces"] = dict.fromkeys(
            each["sight"]["nodePieces"], HOSTILE
        )
    path = tmp_path / "page.html"
    path.write_text(page_files.page(data)[0], encoding="utf-8")
    browser.open(path.as_uri())
    browser.until("page.sight !== null")
    assert browser.run("document.querySelectorAll('img, script').length") == 2
    assert HOSTILE in browser.run("byId('nbest').textContent")
    for kind in ("svg", "png"):
        browser.click(f"[data-export='tree-{kind}']")
    assert b"<img" not in browser.downloaded("tree.svg")
    assert browser.complaints() == []


def test_a_frozen_page_works_from_a_file_without_a_network(browser, models, tmp_path):
    text, [best, _] = frozen.page_of(models, ["1 2 3", "4 5 6"])
    path = tmp_path / "page.html"
    path.write_text(text, encoding="utf-8")
    browser.open(path.as_uri())
    browser.until("page.sight !== null")
    assert browser.run("document.querySelector('#nbest button').textContent") == best
    browser.click("[data-rank='1']")
    browser.until(
        f"{SEEN}.target.ids.slice(0, -1).join() === {SEEN}.nBest[1].ids.join()"
    )
    browser.run(
        "byId('sentence').value = '4 5 6';"
        "byId('sentence').dispatchEvent(new Event('change'))"
    )
    browser.until("page.sight.pack.source.words[0] === '4'")
    browser.run("chooseAlternative(0, page.sight.pack.alternatives[0][4][0])")
    browser.until("byId('status').textContent.includes('not in the file')")
    assert browser.requests() == [path.as_uri()] and browser.complaints() == []


def test_a_dead_server_is_told_and_the_page_recovers(browser, models):
    server = started(("127.0.0.1", 0), models)
    browser.open(address(server))
    typed(browser, "1 2 3")
    place = server.server_address
    server.drain()
    browser.run("byId('text').focus()")
    browser.type(" 4")
    browser.until("byId('status').classList.contains('bad')")
    server = started(place, models)
    browser.until(
        "page.sight.pack.source.words.length === 5 && byId('status').textContent === ''"
    )
    server.drain()


def test_sixty_words_of_a_base_model_are_drawn_at_once(browser, models, tmp_path):
    """60 words, 6 layers, 8 heads, 3 kinds; the median of five drawings."""
    text, _ = frozen.page_of(models[:1], ["1 2 3"])
    path = tmp_path / "page.html"
    path.write_text(text, encoding="utf-8")
    browser.open(path.as_uri())
    browser.until("page.sight !== null")
    print("milliseconds:", [round(each) for each in browser.run(LARGE)])
    assert browser.run("document.querySelectorAll('#grid canvas').length") == 144


LARGE = """(() => {
  const { pack } = page.sight;
  const words = Array(61).fill("word");
  const spans = words.map((_, i) => [i, i + 1]);
  const side = { ids: Array(61).fill(5), pieces: words, words, spans };
  Object.assign(pack, { source: side, target: side, targetIn: side, realSource: 61 });
  pack.logProbs = Array(61).fill(-0.1);
  pack.alternatives = Array(61).fill(pack.alternatives[0]);
  pack.without = Array(60).fill(Array(61).fill(-0.1));
  const heads = Array(6).fill(Array(8).fill(pack.roles.cross[0][0]));
  for (const kind of Object.keys(KINDS)) {
    pack.attention[kind].shape = [6, 8, 61, 61];
    pack.roles[kind] = heads;
    page.sight.weights[kind] = new Uint16Array(48 * 61 * 61).map((_, i) => i % 2000);
  }
  return [1, 2, 3, 4, 5].map(() => {
    page.sight.made.clear();
    show();
    return page.drawn;
  });
})()"""
