"""Links of the pages lead somewhere, and the pages that the code names are there."""

from __future__ import annotations

import re

import pytest
from documented import Page, pages
from example_blueprint import ROOT

PAGES = {page.name: page for page in pages()}


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_to_files_and_to_headings_in_them(name):
    page, lost = PAGES[name], []
    for link in page.links:
        path, _, anchor = link.partition("#")
        file = (page.path.parent / path).resolve() if path else page.path
        if not file.is_file():
            lost.append(f"{link}: there is no such file")
        elif anchor and anchor not in Page(file).anchors:
            lost.append(f"{link}: there is no such heading")
    assert not lost


def test_every_page_is_in_the_navigation():
    words = (ROOT / "mkdocs.yml").read_text()
    navigation = re.findall(r"^ +- (?:.*: )?(\S+\.md)$", words, re.MULTILINE)
    assert sorted(navigation) == sorted(PAGES)


def test_pages_that_messages_and_comments_name_are_there():
    lost = []
    for path in [*(ROOT / "modak_ansible").rglob("*.py"), *(ROOT / "playbooks").glob("*.yml")]:
        for name in re.findall(r"(?:docs|benchmarks)/[\w/-]+\.md", path.read_text(encoding="utf-8")):
            if not (ROOT / name).is_file():
                lost.append(f"{path.relative_to(ROOT)} names {name}")
    assert not lost


def test_the_readme_is_short_and_starts_with_the_readers_training():
    page = PAGES["README.md"]
    assert 400 <= len(page.text.split()) <= 600
    assert re.findall(r"^## (.*)$", page.text, re.MULTILINE)[0] == "Your training"


def test_a_page_is_read_as_it_is_shown(tmp_path):
    page = Page.__new__(Page)
    page.text = "# A `b`'s c\n\n    modak x\n\n- a list\n\n    its text [l](a.md#b)\n\n```yaml\n# no: heading\n```\n`in\nline`\n"
    assert [(block.line, block.language, block.text) for block in page.blocks] == [
        (10, "yaml", "# no: heading\n"),
        (3, "", "modak x\n"),
    ]
    assert (page.anchors, page.links, page.inline) == ({"a-bs-c"}, ["a.md#b"], ["b", "in line"])
