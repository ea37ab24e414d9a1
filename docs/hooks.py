"""The docs site is this repository's Markdown, each page at its own path: a link leads to the same on both.

mkdocs takes pages from one folder, and ours stand beside what they describe. Files that a page links to go with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PAGES = (
    "README.md",
    "docs/**/*.md",
    "benchmarks/**/*.md",
    "modak_ansible/**/*.md",
    "roles/**/*.md",
    "tosca/blueprints/*/README.md",
)
_LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The theme's own files, all pages of the repository, and what these show or link to."""
    found = [file for file in files if file.inclusion.is_excluded() or not file.abs_src_path]
    pages = sorted({path for pattern in PAGES for path in ROOT.glob(pattern)})
    linked = {path for page in pages for path in _linked(page)} - set(pages)
    paths = [*pages, *sorted(linked), ROOT / "docs" / "site.css"]
    ours = [File.generated(config, str(path.relative_to(ROOT)), abs_src_path=str(path)) for path in paths]
    return Files([*found, *ours])


def _linked(page: Path) -> Iterator[Path]:
    for link in _LINK.findall(page.read_text(encoding="utf-8")):
        path = (page.parent / link).resolve()
        if path.is_file() and path.is_relative_to(ROOT):
            yield path
