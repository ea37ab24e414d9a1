import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.yaml_files import parse_yaml, read_yaml


def parse(text):
    mistakes = Mistakes()
    return parse_yaml(text, "a.yaml", mistakes), [str(mistake) for mistake in mistakes]


def test_values_and_keys_know_their_places():
    tree, mistakes = parse("a: 1\nb:\n  - x\n  - {c: true}\n")
    assert not mistakes
    assert tree.plain() == {"a": 1, "b": ["x", {"c": True}]}
    assert str(tree.get("b").elements[1].get("c").location) == "a.yaml:4:9"
    assert str(tree.key_location("b")) == "a.yaml:2:1"


def test_scalars_keep_how_they_were_written():
    tree, _ = parse("walltime: 12:00:00\nversion: 2.10\nday: 2026-11-21\nsign: =\n")
    assert tree.get("walltime").value == 43200
    assert tree.get("walltime").text == "12:00:00"
    assert tree.get("version").text == "2.10"
    assert tree.get("day").value == "2026-11-21"
    assert tree.get("sign").value == "="


def test_each_kind_of_broken_yaml_has_its_place():
    assert parse("a: [1, 2\n")[1][0].startswith("a.yaml:2:1: yaml-syntax: not YAML")
    assert "a.yaml:1:1" in parse("\ta: 1\n")[1][0]
    assert parse("")[1] == ["a.yaml: yaml-syntax: the file is empty"]
    assert parse("a: 1\na: 2\n")[1] == ["a.yaml:2:1: duplicate-key: a is given twice, first in line 1"]
    assert "merge keys" in parse("x: &x {a: 1}\ny: {<<: *x}\n")[1][0]
    assert "!!python" in parse("a: !!python/object/apply:os.system [ls]\n")[1][0].replace("tag:yaml.org,2002:", "!!")
    assert "a name must be plain text" in parse("? [1]\n: 2\n")[1][0]


TAB = "yaml-syntax: YAML does not allow tabs for indentation: use spaces"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a:\n\tb: 1\n", "2:1"),
        ("a: 1\n\tb: 2\n", "2:1"),
        ("\u00e9:\n \tb: 1\n", "2:2"),
        ("a:\n  - x\n  -\ty\n", "3:4"),
        ("x: 1\na:\n  b:\n    - c\n   \t - d\n", "5:4"),
    ],
)
def test_a_tab_in_the_indentation_is_named_as_the_cause(text, place):
    assert parse(text) == (None, [f"a.yaml:{place}: {TAB}"])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: 1\n---\nb: 2\n", "2:1: yaml-syntax: not YAML: but found another document (a file holds one document"),
        ("a: 1\nb: c: d\n", "2:5: yaml-syntax: not YAML: mapping values are not allowed in this context (quote a text"),
        ("a: @b\n", "1:4: yaml-syntax: not YAML: found character that cannot start any token (quote a text"),
        ("a: 1\nb: c\x07d\n", "2:5: yaml-syntax: not YAML: '\\x07' is not a character of a text (take it out)"),
    ],
)
def test_what_is_no_yaml_is_told_with_place_and_cure(text, told):
    (line,) = parse(text)[1]
    assert line.startswith(f"a.yaml:{told}")


@pytest.mark.parametrize(
    ("content", "place"),
    [(b"a: 1\nb: caf\xe9\n", "2:7"), ("a: \u00e9".encode("utf-16"), "1:1"), (b"\xef\xbb\xbfa: \xff", "1:4")],
)
def test_a_file_in_another_encoding_is_told_with_its_place(tmp_path, content, place):
    path, mistakes = tmp_path / "a.yaml", Mistakes()
    path.write_bytes(content)
    assert read_yaml(path, mistakes) is None
    (line,) = [str(mistake) for mistake in mistakes]
    assert line.startswith(f"{path}:{place}: yaml-syntax: not UTF-8 text at byte ")
    assert line.endswith(" (save the file as UTF-8)")


def test_a_tab_that_breaks_nothing_is_not_blamed():
    assert parse("a:\t1\n") == parse("a: 1\n")
    for text in ("a: [1,\n\t2]\nb: }\n", "a: '\n\tx'\nb: }\n", "a: 1\tb\nb: @x\n"):
        assert "not YAML" in parse(text)[1][0]


@given(st.text(st.sampled_from("ab: \t\n-[]{}|#'"), max_size=30))
def test_any_text_is_read_or_has_a_mistake_with_its_place(text):
    tree, mistakes = parse(text)
    assert (tree is None) <= bool(mistakes)
    if any("tabs" in mistake for mistake in mistakes):
        (mistake,) = mistakes
        line, column = map(int, mistake.split(":")[1:3])
        assert text.split("\n")[line - 1][column - 1] == "\t"


def test_aliases_cannot_explode_or_turn_in_circles():
    bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 10)}]\n" for i in range(8)
    )
    assert "without end" in parse(bomb)[1][0]
    assert "without end" in parse("a: &a [*a]\n")[1][0]


def test_unreadable_files(tmp_path):
    mistakes = Mistakes()
    assert read_yaml(tmp_path / "none.yaml", mistakes) is None
    (tmp_path / "latin.yaml").write_bytes(b"a: \xff\n")
    assert read_yaml(tmp_path / "latin.yaml", mistakes) is None
    assert ["No such file" in str(mistake) or "not UTF-8" in str(mistake) for mistake in mistakes] == [True, True]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(values)
def test_what_yaml_writes_is_read_back(value):
    tree, mistakes = parse(yaml.safe_dump(value))
    assert not mistakes
    assert tree.plain() == value


@given(st.text())
def test_any_text_is_a_tree_or_a_mistake(text):
    tree, mistakes = parse(text)
    assert tree is not None or mistakes
