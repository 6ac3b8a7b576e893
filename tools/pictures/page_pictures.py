"""Make the pictures of docs/seeing.md: the page, photographed by Chromium.

    python tools/pictures/page_pictures.py --logdir logs/sample --out docs

It needs `chromium` on the path, or its place in CHROMIUM.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile
import urllib.parse

import hparams
from transformer.runtime import cli
from transformer.runtime.terminal import say

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--hide-scrollbars --virtual-time-budget=5000"
).split()
SENTENCE = "Die Frau, die wir besuchen, ist müde."
# Name of the picture → (its size, what the link of the page says).
PICTURES = {
    "seeing-translation": ("1060,380", {"s": "reading", "y": "light"}),
    "seeing-attention": ("1000,710", {"s": "attention", "y": "light"}),
    "seeing-without": ("1000,350", {"s": "without", "y": "light"}),
    "seeing-tree": ("1180,540", {"s": "search", "y": "dark"}),
}


def parser():
    """Return the parser of the command line."""
    made = cli.make_parser("page_pictures.py", __doc__)
    cli.add_checkpoint(made)
    made.add_argument("--out", required=True, metavar="DIR", help="where they go")
    return made


def photograph(page: pathlib.Path, name: str, out: str) -> str:
    """Write a picture of a part of the page; return its path."""
    size, view = PICTURES[name]
    link = urllib.parse.urlencode({"t": SENTENCE, "k": "cross", "h": "mean", **view})
    path = os.path.join(out, name + ".png")
    browser = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if browser is None:
        raise ValueError("found no chromium, wanted one: apt-get install chromium")
    command = [browser, *FLAGS, f"--user-data-dir={page.parent / 'profile'}"]
    command += [f"--window-size={size}", f"--screenshot={os.path.abspath(path)}"]
    subprocess.run(
        [*command, f"{page.as_uri()}#{link}"], check=True, stderr=subprocess.DEVNULL
    )
    return path


def run(args) -> None:
    """Write the page, then its pictures."""
    hp = hparams.load(args.logdir)
    cli.start_tensorflow(args.verbose)
    from transformer.seeing import frozen
    from transformer.seeing.models import Model

    model = Model(hp, args.logdir, args.checkpoint, cli.warner("page_pictures.py"))
    text, _ = frozen.page_of([model], [SENTENCE])
    model.close()
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "page.html"
        page.write_text(text, encoding="utf-8")
        say(*[photograph(page, name, args.out) for name in PICTURES])


def main(argv=None):
    cli.main(parser(), run, argv)


if __name__ == "__main__":
    main()
