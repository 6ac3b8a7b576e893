"""The section "Why?" of the page, in a real browser."""

import pytest
from browser import Browser, needs_browser
from serving import serve, url
from test_page import type_text

from transformer import hparams
from transformer.viewer.models import Model

pytestmark = [
    pytest.mark.usefixtures("one_thread_only"),
    needs_browser,
    pytest.mark.slow,
]


@pytest.fixture(scope="module")
def model(trained):
    model = Model(hparams.load(trained), trained)
    yield model
    model.close()


@pytest.fixture(scope="module")
def browser():
    with Browser() as browser:
        yield browser


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
