"""A tree that was kept is the tree that its file is parsed to."""

from __future__ import annotations

from pathlib import Path

import pytest

from modak_ansible.reading.blueprint.forms import kept_tree
from modak_ansible.reading.blueprint.forms.kept_tree import read_kept_yaml
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.yaml_files import read_yaml

TYPES = Path(__file__).resolve().parents[3] / "tosca" / "types"
SCALARS = (
    "a: [1, 1.0, .inf, true, ~, '1', 2026-11-24, '', \"\\u00e9\\U0001F600\"]\nb: {c: {}, d: []}\ne: |\n  two\n  lines\n"
)


@pytest.fixture(autouse=True)
def kept(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "modak" / "yaml"


@pytest.mark.parametrize("text", [SCALARS, "just text", "- 1", *(path.read_text() for path in sorted(TYPES.iterdir()))])
def test_a_kept_tree_is_the_parsed_one(tmp_path, monkeypatch, text):
    path, other = tmp_path / "one.yaml", tmp_path / "other.yaml"
    for each in (path, other):
        each.write_text(text)
    tree = read_yaml(path, Mistakes())
    assert read_kept_yaml(path, Mistakes()) == tree is not None
    monkeypatch.setattr(kept_tree, "parse_yaml", None)  # from here on it is known
    assert read_kept_yaml(path, Mistakes()) == tree
    again = read_kept_yaml(other, Mistakes())
    assert [item.location for item in again.walk()] == [item.location._replace(path=str(other)) for item in tree.walk()]


@pytest.mark.parametrize("text", ["a: 1\na: 2\n", "a: [", "", "a: !what 1\n", "a: {b: " * 400 + "1" + "}" * 400])
def test_what_is_wrong_is_said_each_time(tmp_path, kept, text):
    path = tmp_path / "one.yaml"
    path.write_text(text)
    first, second, usual = Mistakes(), Mistakes(), Mistakes()
    tree = read_yaml(path, usual)
    assert read_kept_yaml(path, first) == read_kept_yaml(path, second) == tree
    assert list(first) == list(second) == list(usual)
    assert not kept.exists()


@pytest.mark.parametrize(
    "text", ["password: hunter22\n", "a: [ --token s3same1 ]\n", "a: https://me:word@example.org/x\n"]
)
def test_what_may_hold_a_secret_is_not_kept(tmp_path, kept, text):
    path = tmp_path / "one.yaml"
    path.write_text(text)
    assert read_kept_yaml(path, Mistakes()) == read_yaml(path, Mistakes()) is not None
    assert not kept.exists()


def test_a_file_that_is_not_there(tmp_path):
    mistakes = Mistakes()
    assert read_kept_yaml(tmp_path / "none.yaml", mistakes) is None
    assert len(mistakes) == 1
