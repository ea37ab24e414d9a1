"""The docs site is this repository's Markdown, each page at its own path: a link leads to the same on both.

mkdocs takes pages from one folder, and ours stand beside what they describe. Files that a page links to go with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
PAGES = (
    "README.md",
    "docs/**/*.md",
    "benchmarks/**/*.md",
    "modak_ansible/**/*.md",
    "roles/**/*.md",
    "tosca/blueprints/*/README.md",
)
_LOADED = re.compile(r"""<([a-z]+)\b[^>]*?\s(?:href|src)=["']?([^"'\s>]+)""")
_ROW, _CODE = re.compile(r"^\|.*$", re.MULTILINE), re.compile(r"`[^`]*`")
_LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The theme's own files, all pages of the repository, and what these show or link to."""
    of_theme = [file for file in files if not Path(file.abs_src_path or "").is_relative_to(config.docs_dir)]
    pages = sorted({path for pattern in PAGES for path in ROOT.glob(pattern)})
    linked = {path for page in pages for path in _linked(page)} - set(pages)
    paths = [*pages, *sorted(linked), *(ROOT / name for name in (*config.extra_css, *config.extra["polyfills"]))]
    ours = [File.generated(config, str(path.relative_to(ROOT)), abs_src_path=str(path)) for path in paths]
    return Files([*of_theme, *ours])


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """A bar in code in a table is escaped for GitHub; here it is shown as it stands."""
    return _ROW.sub(lambda row: _CODE.sub(lambda code: code[0].replace("\\|", "|"), row[0]), markdown)


def on_post_build(config: MkDocsConfig) -> None:
    """A page that shows or loads what is not in the site ends the build: it is read without a network, too."""
    site = Path(config.site_dir)
    for page in sorted(site.glob("**/*.html")):
        for tag, address in _LOADED.findall(page.read_text(encoding="utf-8")):
            path = address.partition("#")[0].partition("?")[0]
            if address.startswith(("http:", "https:", "//")):
                if tag != "a":
                    raise PluginError(f"{page.relative_to(site)} loads {address}, which is elsewhere")
            elif path and ":" not in path and page.name != "404.html" and not (page.parent / path).is_file():
                raise PluginError(f"{page.relative_to(site)} leads to {address}, which is not in the site")


def _linked(page: Path) -> Iterator[Path]:
    for link in _LINK.findall(page.read_text(encoding="utf-8")):
        path = (page.parent / link).resolve()
        if path.is_file() and path.is_relative_to(ROOT):
            yield path
