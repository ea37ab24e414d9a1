"""What YAML reads as no value, names that no file system has, and numbers out of all range: told with their places."""

from __future__ import annotations

import pytest
from example_blueprint import SERVICE

from modak_ansible.planning.service import check_blueprint
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.yaml_files import parse_yaml
from modak_ansible.reading.blueprint.inputs import Inputs
from modak_ansible.reading.blueprint.reader import read_blueprint, read_targets

LONG = "a" * 300  # letters: a name may have 255


def told(text):
    mistakes = Mistakes()
    parse_yaml(text, "a.yaml", mistakes)
    return [str(each) for each in mistakes]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("!!bool maybe", "'maybe' cannot be read as bool"),
        ('!!int ""', "'' cannot be read as int"),
        ("!!int _", "'_' cannot be read as int"),
        ('!!float ""', "'' cannot be read as float"),
        (f"0x{'f' * 4000}", "cannot be read as int"),  # of more digits than Python writes
    ],
)
def test_a_value_that_is_none_of_its_tag_is_told_at_its_place(value, words):
    (mistake,) = told(f"a:\n  b: {value}\n")
    assert mistake.startswith("a.yaml:2:6: yaml-syntax: ")
    assert mistake.endswith(words)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("script: train/train.py", f"script: {LONG}.py", "file-not-found: there is no script aaa"),
        ("types/modak.yaml", f"types/{LONG}.yaml", "import-missing: the imported file types/aaa"),
        ("types/modak.yaml", '"types/\\0.yaml"', "import-form: an import must be a file's path"),
        ("username: alice", f"identity_file: {LONG}", "file-not-found: there is no identity file aaa"),
        ("numerics: same }", "numerics: same }\n        scale: { minimal_efficiency: .nan }",
         "out-of-range: minimal_efficiency must lie between 0.0 and 1.0, not nan"),
        ("epochs: { type: integer, default: 2 }", 'epochs: { type: string, default: x, constraints: [ { pattern: "a{99999999999}" } ] }',
         "constraint: pattern of epochs must be a regular expression"),
        ("{ name: long,", '{ name: "",', "unsafe-value: '' cannot be a name"),
    ],
)  # fmt: skip
def test_odd_values_of_a_blueprint_are_told(blueprint, old, new, words):
    assert old in SERVICE
    blueprint.service.write_text(SERVICE.replace(old, new, 1))
    mistakes = Mistakes()
    check_blueprint(blueprint.service, Inputs(), mistakes)
    assert any(words in str(mistake) for mistake in mistakes), list(map(str, mistakes))


def test_a_path_that_no_file_has_is_no_blueprint(tmp_path):
    mistakes = Mistakes()
    assert read_blueprint(tmp_path / LONG, Inputs(), mistakes) is None
    assert [mistake.rule for mistake in mistakes] == ["file-not-found"]


def test_an_import_that_links_to_itself_is_missing(blueprint):
    (blueprint.path / "round.yaml").symlink_to("round.yaml")
    blueprint.service.write_text(SERVICE.replace("types/modak.yaml", "round.yaml", 1))
    mistakes = Mistakes()
    check_blueprint(blueprint.service, Inputs(), mistakes)
    assert "the imported file round.yaml is not there" in str(next(iter(mistakes)))


@pytest.mark.parametrize("kind", ["[ slurm ]", "{ slurm: 1 }"])
def test_a_scheduler_that_is_no_word_is_told(tmp_path, kind):
    path = tmp_path / "site.yaml"
    path.write_text(f"frontend: login.example\nscheduler: {kind}\n")
    mistakes = Mistakes()
    assert read_targets(path, Inputs(), mistakes) == {}
    (mistake,) = mistakes  # and none of the shipped template, which would have no target then
    assert f"{path}:2:12: unknown-scheduler: " in str(mistake)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("type: modak.nodes.Slurm", "type: [ modak.nodes.Slurm ]", "wrong-type: the type of the node cluster must be a name"),
        ("get_input: epochs", "get_input: { epochs: 1 }", "there is no input {'epochs': 1}"),
        ("get_input: epochs", "get_input: [ [ epochs ] ]", "there is no input ['epochs']"),
        ("  node_templates:", "  outputs: { o: { value: { get_attribute: [ [ x ], state ] } } }\n  node_templates:",
         "there is no node ['x']"),
        ("get_input: epochs", "get_property: [ [ SELF ], script ]", "there is no node ['SELF']"),
        ("numerics: same }", "numerics: same }\n        search: { trials: 2, objective: loss, over: { epochs: { from: [ 1 ], to: 2 } } }",
         "from of epochs is not a number: [1]"),
    ],
)  # fmt: skip
def test_what_is_no_plain_value_is_shown_as_it_is_written(blueprint, old, new, words):
    blueprint.replace(old, new)
    mistakes = Mistakes()
    read_blueprint(blueprint.service, Inputs(), mistakes)
    told = list(map(str, mistakes))
    assert any(words in mistake for mistake in told), told
    assert not any("Item(" in mistake for mistake in told)
