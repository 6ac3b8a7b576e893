"""The languages of the page: each text is translated, and none is forgotten."""

import html.parser
import re

import pytest
from browser import needs_browser
from javascript import needs_node, run_node
from serving import serve, url
from test_page import SILENT, VIOLATIONS, choose, read_axe, type_text

from transformer.text.public_corpora import DOMAINS
from transformer.viewer import page_files
from transformer.viewer.models import Model
from transformer.viewer.roles import PLACES, PLACES_OF_KIND

TEXT_ATTRIBUTES = ("aria-label", "placeholder", "title")
UNTRANSLATED = ("cite", "code", "kbd", "script", "style", "title")  # titles of papers


def read_code_texts():
    """The texts of all scripts: say`step ${n}` is "step {0}"."""
    texts = set()
    for name in page_files.SCRIPTS:
        code = page_files.read_file(name)
        for match in re.finditer(r"\bsay(?:With)?`", code):
            texts.add(read_template(code, match.end())[0])
    return texts


def read_template(code, start):
    """Read a template literal from its first character: (text, its end)."""
    text, count, i = "", 0, start
    while code[i] != "`":
        if code.startswith("${", i):
            text += "{%d}" % count
            count += 1
            i = skip_expression(code, i + 2)
        else:
            text += code[i]
            i += 1
    return text, i + 1


def skip_expression(code, i):
    """The index after the brace that ends an expression in a template."""
    depth = 1
    while depth:
        if code[i] == "`":
            i = read_template(code, i + 1)[1] - 1
        elif code[i] == '"':
            i = code.index('"', i + 1)
        depth += {"{": 1, "}": -1}.get(code[i], 0)
        i += 1
    return i


class StaticTexts(html.parser.HTMLParser):
    """The texts and the attributes of an HTML page."""

    def __init__(self):
        super().__init__()
        self.texts, self.tags = set(), []

    def handle_starttag(self, tag, attributes):
        if tag not in ("input", "link", "meta"):
            self.tags.append(tag)
        self.texts.update(
            value for name, value in attributes if name in TEXT_ATTRIBUTES
        )

    def handle_startendtag(self, tag, attributes):
        """A tag without content has no texts in this page."""

    def handle_endtag(self, tag):
        self.tags.pop()

    def handle_data(self, data):
        if not set(UNTRANSLATED) & set(self.tags):
            self.texts.add(" ".join(data.split()))


def read_static_texts():
    parser = StaticTexts()
    parser.feed(page_files.read_file("page.html"))
    return {
        text
        for text in parser.texts
        if re.search("[a-zA-Z]{2}", text) and not text.startswith("{{")
    }


CONSTANTS = """return [
    ...Object.keys(KINDS), ...Object.values(KINDS).map((kind) => kind.name),
    ...BOXES.map((box) => box.name), ...FACTS];"""


def read_constants():
    """The texts that `translate` gets: of tables, and of viewer/roles.py."""
    scripts = ["inspection.js", "inside_head.js", "panes.js"]
    places = [*PLACES.values(), *PLACES_OF_KIND.values()]
    heads = ["everywhere equally", "single pieces", "several pieces"]
    return {
        *run_node(CONSTANTS, scripts=scripts),
        *(f"looks at {place}" for place in [*places, *heads[1:]]),
        f"looks {heads[0]}",
        *("Kind", "Layer", "Head"),
        *("the examples", "sentences like the examples", *DOMAINS.values()),
    } - {"q · k / √dₖ"}


@needs_node
@pytest.mark.parametrize("language", ["GERMAN", "SPANISH", "FRENCH", "CHINESE"])
def test_each_text_is_translated_and_nothing_else(language):
    texts = run_node(f"return {language};", scripts=[f"{language.lower()}.js"])
    expected = read_code_texts() | read_static_texts() | read_constants()
    optional = {"Space"}  # a key
    assert set(texts) - optional == expected - optional
    for english, translation in texts.items():
        for text in (english, translation):
            assert sorted(re.findall(r"{\d}", text)) == sorted(
                re.findall(r"{\d}", english)
            )


# A language whose texts are in brackets: what has none was not translated. The words of
# the digits model have no letters.
BRACKETS = """PAGE_LANGUAGES.xx = {
    name: "", texts: new Proxy({}, { get: (_, key) => `⟦${key}⟧` }) };
    chooseLanguage("xx");"""
FORGOTTEN = """(() => {
    const strip = (text) => {
        for (let depth = 0; depth < 5; depth += 1) {
            text = text.replace(/⟦[^⟦⟧]*⟧/g, "");
        }
        return text.replace(/⟨(begin|end|unk)⟩/g, "");
    };
    const texts = [];
    for (const element of document.body.querySelectorAll("*")) {
        if (!element.matches(SKIPPED) && element.checkVisibility()) {
            const own = [...element.childNodes].filter((node) => node.nodeType === 3);
            texts.push(own.map((node) => node.data).join(""));
            texts.push(...ATTRIBUTES.map((name) => element.getAttribute(name) ?? ""));
        }
    }
    return texts.map(strip).filter((text) => /[a-z]{3}/i.test(text));
})()"""
# What was said before, names of models and languages, papers, code.
SKIPPED = (
    "#heard, #formula, #formula *, #model *, #other *, #language *, #about, "
    "#beside-name, h3, cite, cite *, code, kbd"
)


@needs_browser
@pytest.mark.slow
def test_no_text_is_forgotten(browser, trained, one_thread_only):
    from transformer import hparams
    from transformer.logdir import manifests

    hp, oldest = hparams.load(trained), manifests.list_steps(trained)[0]
    models = [Model(hp, trained), Model(hp, trained, oldest)]
    find = FORGOTTEN.replace("SKIPPED", repr(SKIPPED)).replace(
        "ATTRIBUTES", repr(list(TEXT_ATTRIBUTES))
    )
    with serve(models) as server:
        browser.open(url(server))
        type_text(browser, "1 2 3 4 5")
        browser.run(BRACKETS)
        assert browser.run("document.documentElement.lang") == "xx"
        browser.run("chooseStep(2); byId('as-table').open = true")
        assert browser.run(find) == []
        browser.run("chooseHead({kind: 'decoder', head: 1}); byId('pieces').click()")
        browser.run("expect('1 2 2'); byId('learned').open = true")
        browser.until("byId('verdict').textContent.includes('⟧')")
        browser.until("byId('expected-words').children.length")
        assert browser.run(find) == []
        for tab, done in (
            ("inside", "byId('chain').children.length === 5"),
            ("switch-off", "byId('switches').children.length"),
        ):
            browser.run(f"byId('{tab}').click(); byId('why').scrollIntoView()")
            browser.until(done)
            assert browser.run(find) == [], tab
        choose(browser, "other", "1")
        browser.until(f"page.other !== null && {SILENT}")
        assert browser.run(find) == []
        browser.run(read_axe() + "; 0")
        for language, thousand, half in (
            ("de", "1.000", "0,5"),
            ("es", "1000", "0,5"),
            ("fr", "1\u202f000", "0,5"),
            ("zh", "1,000", "0.5"),
        ):
            choose(browser, "language", language)
            browser.run(
                "{ const { text } = view; view.text = '1'.repeat(1000);"
                "showCounter(); view.text = text; }"
            )
            assert browser.run("byId('counter').textContent").startswith(thousand)
            talks = "translateFilled('best at talks', FACTS)"  # the domain, too
            assert "talks" not in browser.run(talks)
            fact = "translateFilled('0.5 million parameters', FACTS)"
            assert browser.run(fact).startswith(half)
            assert browser.run("formatNumber(-0.5, 1)") == "−" + half
            assert browser.run("formatNumber(-0.001)") == browser.run("formatNumber(0)")
            assert browser.run("byId('copy').textContent") != "Copy"
            assert browser.run(VIOLATIONS) == []
        link = browser.run("location.hash")
        browser.open(url(server) + link)  # the link has the language
        browser.until("document.documentElement.lang === 'zh' && page.inspection")
        assert browser.errors() == []
    for model in models:
        model.close()
