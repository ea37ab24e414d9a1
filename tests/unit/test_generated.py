"""What is generated from declarations in the code is as they are today."""

from __future__ import annotations

import pytest

import generate
from generate import reference


@pytest.mark.parametrize("path", sorted(generate.generated_files()))
def test_it_follows_from_the_code(root, path):
    text = (root / path).read_text()
    assert generate.generated(text, generate.generated_files()[path]) == text, "make generate writes it anew"


def test_a_section_is_replaced_and_nothing_else():
    text = "a\n  # name: made\n  old\n\n  old\n  # /name\nb\n<!-- other -->\nold\n<!-- /other -->\n"
    assert generate.with_section(text, "name", "  new") == text.replace("  old\n\n  old\n", "  new\n")
    assert generate.with_section(text, "other", "new") == text.replace("-->\nold", "-->\nnew")
    with pytest.raises(ValueError, match="0 sections nobody"):
        generate.with_section(text, "nobody", "")


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("Asked for (`size: any` with `numerics: any`): twice. More.", "Asked for (`size: any` with `numerics: any`)"),
        ("One of two, such as `at_most: 64`. More.", "One of two, such as `at_most: 64`."),
        ("Neither of the two", "Neither of the two"),
    ],
)
def test_code_ends_no_sentence(text, first):
    assert reference._first(text) == first


def test_an_item_goes_on_in_the_next_line():
    said = "Results.\n\nRaises:\n    ModakError: there is no such\n        deployment."
    assert list(reference._paragraphs(said))[-1] == "- `ModakError`: there is no such\n    deployment."
