"""MkDocs hooks: what the site has besides the pages in docs/; see mkdocs.yml.

* README.md and its Chinese version, CONTRIBUTING.md, data/README.md and
  examples/README.md are pages.
* Each module of the package has a page with its docstrings, in the order of
  docs/files.md.
* A link to another file of the repository leads to a page that shows it.
* build/try.html, a page that translates, is a page if `make docs` has made it.
* Formulas become MathML, which browsers draw without a script.

The site loads nothing from other servers; a page that does is an error.
"""

import glob
import os
import posixpath
import re

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
REPOSITORY_PAGES = {  # page of the site → file of the repository
    "index.md": "README.md",
    "index.zh.md": "README.zh.md",
    "contributing.md": "CONTRIBUTING.md",
    "data.md": "data/README.md",
    "examples.md": "examples/README.md",
}
TRY = "build/try.html"  # of scripts/page.py
LINK = re.compile(r"(\]\()(?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?(\))")
CODE = re.compile(r"(^```.*?^```[^\n]*$|`[^`\n]+`)", re.S | re.M)
EXTERNAL = re.compile(
    r"""<(?:script|link|img|iframe)[^>]*?(?:src|href)=["']?https?:[^>]*>"""
)


def on_config(config):
    """Make the navigation; the first heading of a page is its title."""
    guides = sorted(os.path.basename(path) for path in glob.glob(_path("docs/*.md")))
    config.nav = [
        {"Home": "index.md"},
        {"首页": "index.zh.md"},
        {"Walkthrough": _chapters("en")},
        {"中文导读": _chapters("zh")},
        {"Guides": [*guides, "data.md", "examples.md", "contributing.md"]},
        {"API": ["api/index.md", *[_page_of(path) for path in _modules()]]},
    ]
    if os.path.exists(_path(TRY)):
        config.nav.insert(2, {"Try it": os.path.basename(TRY)})
    return config


def on_files(files, config):
    """Add the pages that are not in docs/."""
    texts = {page: _read(path) for page, path in REPOSITORY_PAGES.items()}
    texts["api/index.md"] = (
        "# The package\n\n" + _read("docs/files.md").split("\n", 1)[1]
    )
    for path in _modules():
        name = path[: -len(".py")].replace("/", ".")
        texts[_page_of(path)] = f"# {name}\n\n::: {name}\n"
    doc_pages = {
        file.src_uri: file.content_string for file in files.documentation_pages()
    }
    for page, text in {**doc_pages, **texts}.items():
        for path in _find_linked_files(page, text):
            source = f"# {path}\n\n````python\n{_read(path)}\n````\n"
            texts.setdefault(_page_of(path), source)
    for page, text in texts.items():
        files.append(File.generated(config, page, content=text))
    if os.path.exists(_path(TRY)):
        name = os.path.basename(TRY)
        files.append(File.generated(config, name, abs_src_path=_path(TRY)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Point links to pages of the site, and render formulas."""
    if page.file.src_uri.startswith("source/"):
        return markdown

    def rewrite_link(match):
        begin, target, anchor, end = match.groups()
        path = _repository_path(page.file.src_uri, target)
        if not os.path.isfile(_path(path)):
            return match.group(0)  # MkDocs's strict mode reports it
        if anchor and re.fullmatch(r"#L\d+", anchor):
            anchor = ""  # lines have anchors on GitHub, not on the site
        folder = posixpath.dirname(page.file.src_uri)
        return begin + posixpath.relpath(_page_of(path), folder) + (anchor or "") + end

    parts = CODE.split(markdown)  # text, code, text, ...
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"\$\$(.*?)\$\$", _render_formula, parts[i], flags=re.S)
        parts[i] = LINK.sub(rewrite_link, parts[i])
    return "".join(parts)


def on_post_page(output, page, config):
    """Refuse a page that loads something from another server."""
    tags = [tag for tag in EXTERNAL.findall(output) if 'rel="canonical"' not in tag]
    if tags:
        raise PluginError(f"{page.file.src_uri}: loads from another server: {tags}")
    return output


def _render_formula(match):
    formula = convert(match.group(1).strip(), display="block")
    if "\\" in formula:
        raise PluginError(f"latex2mathml cannot convert {match.group(0)}")
    return "\n" + formula + "\n"


def _chapters(language):
    folder = f"walkthrough/{language}"
    paths = sorted(glob.glob(_path(f"docs/{folder}/[0-9]*.md")))
    return [f"{folder}/index.md", *[f"{folder}/{os.path.basename(p)}" for p in paths]]


def _modules():
    """Return the files of the package, in the order of docs/files.md."""
    return re.findall(r"^\| \[`(transformer/.*?\.py)`\]", _read("docs/files.md"), re.M)


def _find_linked_files(page, text):
    """Yield the paths of files that a page links to and that are not yet pages."""
    for _, target, _, _ in LINK.findall(text):
        path = _repository_path(page, target)
        if os.path.isfile(_path(path)) and _page_of(path).startswith("source/"):
            yield path


def _repository_path(page, target):
    """Return the path in the repository to which a link on a page points."""
    start = REPOSITORY_PAGES.get(
        page, "docs/files.md" if page == "api/index.md" else f"docs/{page}"
    )
    return posixpath.normpath(posixpath.join(posixpath.dirname(start), target))


def _page_of(path):
    """Return the site's page or picture for a file in the repository."""
    for page, source in REPOSITORY_PAGES.items():
        if path == source:
            return page
    if path.startswith("docs/") and not path.endswith(".py"):
        return path[len("docs/") :]
    if path in _modules():
        return f"api/{path[: -len('.py')]}.md"
    return f"source/{path}.md"


def _path(path):
    return os.path.join(ROOT, *path.split("/"))


def _read(path):
    with open(_path(path), encoding="utf-8") as file:
        return file.read()
