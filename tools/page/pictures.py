"""Make the pictures of the page in docs/, with the model in the page and Chromium.

    python scripts/page.py --logdir logs/sample --weights float32 --out page.html
    python tools/page/pictures.py --page page.html --out docs

The page is controlled by the DevTools protocol (tests/browser.py). PNGs are reduced to
a palette if Pillow is installed (`pip install -e '.[plot]'`).
"""

import argparse
import base64
import json
import os
import pathlib
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests"))

from browser import Browser  # noqa: E402

SENTENCE = "Die Frau, die wir besuchen, ist müde."
WIDTH, HEIGHT = 1200, 900
COLOURS = 256
# For each picture: what to do first, what must be true then, and what it shows.
PICTURES = {
    "seeing-page": ("chooseStep(3)", "page.inspection.choices[2]", "body", 830),
    "seeing-translation": (
        "releaseClock(); openChoices(document.querySelector('[data-word=\"2\"]'))",
        "itemsOf(byId('word-list')).length",
        "#panes",
        210,
    ),
    "seeing-attention": (
        "closeChoices(); setHighlight({row: 2})",
        "page.highlight.row === 2",
        "#attention",
        None,
    ),
    "seeing-without": (
        "byId('without').scrollIntoView()",
        "page.inspection.data.without",
        "#without",
        None,
    ),
    "seeing-why": (
        "byId('nbest').querySelectorAll('.small')[0].click()",
        "byId('verdict').textContent.endsWith('.')",
        "#why",
        None,
    ),
    "seeing-inside": (
        "byId('inside').click(); byId('why').scrollIntoView()",
        "byId('chain').children.length",
        "#why",
        None,
    ),
    "seeing-switches": (
        "byId('switch-off').click(); tryAll()",
        "page.inspection.texts?.size === listHeads(page.inspection).length",
        "#why",
        None,
    ),
    "seeing-tree": ("chooseStep(3)", "true", "#search", None),
}


def take_picture(browser, selector, height):
    """Return a PNG of an element, or of its upper part."""
    x, y, width, full_height = browser.run(
        f"""(() => {{ document.activeElement.blur();
        const box = document.querySelector('{selector}').getBoundingClientRect();
        return [box.x + scrollX, box.y + scrollY, box.width, box.height]; }})()"""
    )
    clip = {"x": x, "y": y, "width": width, "height": height or full_height, "scale": 1}
    answer = browser.call(
        "Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip
    )
    return base64.b64decode(answer["data"])


def reduce_colours(path):
    """Reduce a PNG to a palette, if Pillow is there."""
    try:
        from PIL import Image
    except ImportError:
        return
    with Image.open(path) as image:
        reduced = image.convert("RGB").quantize(COLOURS)
    reduced.save(path, optimize=True)


def main(argv=None):
    """Make all pictures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--page", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--sentence", default=SENTENCE)
    args = parser.parse_args(argv)
    address = pathlib.Path(args.page).resolve().as_uri()
    with Browser() as browser:
        browser.open(address)
        browser.call(
            "Emulation.setDeviceMetricsOverride",
            width=WIDTH,
            height=HEIGHT,
            deviceScaleFactor=1,
            mobile=False,
        )
        browser.until("page.inspection")
        text = json.dumps(args.sentence)
        browser.run(f"setText({text})")
        browser.until(
            f"page.inspection?.text === {text} && !byId('status').textContent"
        )
        browser.run("byId('player').style.position = 'static'")  # not over the rest
        browser.run(  # what is out of sight is drawn, too
            "BELOW_STAGE.map(byId).forEach(({style}) => {"
            " style.contentVisibility = 'visible'; })"
        )
        for name, (script, condition, selector, height) in PICTURES.items():
            browser.run(script + "; 0")
            browser.until(f"!!({condition})")
            time.sleep(0.5)  # what moves comes to rest
            browser.run(
                "new Promise((drawn) => {"
                " requestAnimationFrame(() => requestAnimationFrame(() => drawn())); })"
            )
            path = os.path.join(args.out, name + ".png")
            with open(path, "wb") as file:
                file.write(take_picture(browser, selector, height))
            reduce_colours(path)
            print(path, os.path.getsize(path), "bytes")


if __name__ == "__main__":
    main()
