"""What tosca-parser is asked of a blueprint."""

from __future__ import annotations

import shutil
import sys
from collections import Counter

import pytest
from example_blueprint import ROOT

from modak_ansible.planning.service import check_blueprint
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.inputs import Inputs
from modak_ansible.reading.blueprint.types import parser_check
from modak_ansible.reading.blueprint.types.definitions import normative_types
from modak_ansible.reading.blueprint.types.parser_check import _import_tosca_parser, check_with_tosca_parser
from modak_ansible.store.project import find_blueprint

_import_tosca_parser()
from toscaparser import imports  # noqa: E402 - as the project imports it
from toscaparser.elements.entity_type import EntityType  # noqa: E402
from toscaparser.utils.yamlparser import load_yaml  # noqa: E402

TYPES_FOLDER = ROOT / "tosca" / "types"
TYPES = """tosca_definitions_version: tosca_simple_yaml_1_3
{imports}
node_types:
  {name}:
    derived_from: {parent}
"""


def counted(monkeypatch):
    read, count = imports.YAML_LOADER, Counter()

    def load(path, a_file=True):
        count[path] += 1
        return read(path, a_file)

    monkeypatch.setattr(imports, "YAML_LOADER", load)
    return count, load


def test_a_file_of_types_is_read_once_however_many_import_it(monkeypatch, blueprint):
    """Those that are built in, in a copy: as a user has types of their own."""
    (blueprint.path / "types").unlink()
    shutil.copytree(TYPES_FOLDER, blueprint.path / "types")
    count, load = counted(monkeypatch)
    mistakes = Mistakes()
    check_with_tosca_parser(blueprint.service, {}, mistakes)
    assert not mistakes
    assert len(count) > 1
    assert set(count.values()) == {1}
    assert imports.YAML_LOADER is load  # it is tosca-parser's own again


def test_the_types_that_are_built_in_are_what_tosca_parser_would_read(monkeypatch):
    files = {path: load_yaml(str(path)) for path in TYPES_FOLDER.glob("*.yaml")}
    assert {path: parser_check._built_in_types(path) for path in files} == files
    assert normative_types() == load_yaml(EntityType.TOSCA_DEF_FILE)
    count, _ = counted(monkeypatch)
    mistakes = Mistakes()
    check_with_tosca_parser(find_blueprint("mnist-pytorch-slurm"), {}, mistakes)
    assert not mistakes
    assert not count


def test_what_tosca_parser_seldom_needs_is_imported_when_it_does(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "dateutil"]:
        monkeypatch.delitem(sys.modules, name)
    made = parser_check._stand_ins()
    assert made["dateutil"].parser.parse("2026-11-27").year == 2026
    assert not {"dateutil", "dateutil.parser"} & set(parser_check._stand_ins())


@pytest.mark.parametrize(("value", "problems"), [("900", 0), ("-3", 1), ("0.5", 0), ("lots", 1)])
def test_a_whole_number_is_a_float_to_tosca(blueprint, value, problems):
    text = blueprint.service.read_text()
    written = text.replace("architecture: skylake_avx512", f"architecture: skylake_avx512, peak_gflops: {value}")
    assert written != text
    blueprint.service.write_text(written)
    mistakes = Mistakes()
    check_with_tosca_parser(blueprint.service, {}, mistakes)
    assert len(mistakes) == problems


def test_a_file_that_changed_is_read_again(tmp_path):
    service = tmp_path / "service.yaml"
    head = "tosca_definitions_version: tosca_simple_yaml_1_3\nimports:\n  - a.yaml\n  - b.yaml\n"
    service.write_text(f"{head}topology_template:\n  node_templates:\n    one:\n      type: of.B\n")
    (tmp_path / "a.yaml").write_text(TYPES.format(imports="", name="of.A", parent="tosca.nodes.Root"))
    other = tmp_path / "b.yaml"
    other.write_text(TYPES.format(imports="imports:\n  - a.yaml\n", name="of.B", parent="of.A"))
    good, bad = Mistakes(), Mistakes()
    check_with_tosca_parser(service, {}, good)
    other.write_text(TYPES.format(imports="imports:\n  - a.yaml\n", name="of.C", parent="of.A"))
    check_with_tosca_parser(service, {}, bad)
    assert not good
    assert "of.B" in next(iter(bad)).message


@pytest.mark.parametrize(
    "named", ["types/modak.yaml", "{ file: types/modak.yaml }", "modak: { file: types/modak.yaml }"]
)
def test_types_of_ones_own_may_import_those_that_are_built_in(tmp_path, named):
    service = tmp_path / "service.yaml"
    head = "tosca_definitions_version: tosca_simple_yaml_1_3\nimports: [ lib/mine.yaml ]\n"
    service.write_text(f"{head}topology_template:\n  node_templates:\n    one:\n      type: of.Mine\n")
    (tmp_path / "lib").mkdir()
    own = TYPES.format(imports=f"imports: [ {named} ]", name="of.Mine", parent="modak.nodes.Local")
    (tmp_path / "lib" / "mine.yaml").write_text(own)
    mistakes = Mistakes()
    check_with_tosca_parser(service, {}, mistakes)
    assert list(map(str, mistakes)) == []


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """The templates that tosca-parser is asked about; nothing is kept of other tests."""
    found = []

    def check(path, inputs, mistakes, used=None):
        found.append(path)
        check_with_tosca_parser(path, inputs, mistakes)

    monkeypatch.setattr(parser_check, "check_with_tosca_parser", check)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return found


def mistakes_of(blueprint, **values):
    mistakes = Mistakes()
    check_blueprint(blueprint.service, Inputs(values=tuple(values.items())), mistakes)
    return list(map(str, mistakes))


def test_what_tosca_parser_had_nothing_against_it_is_not_asked_again(blueprint, asked):
    assert [mistakes_of(blueprint) for _ in range(3)] == [[]] * 3
    assert len(asked) == 1
    blueprint.service.write_text(blueprint.service.read_text() + "# another\n")
    assert [mistakes_of(blueprint) for _ in range(2)] == [[]] * 2
    assert len(asked) == 2


def test_what_it_found_it_finds_each_time(blueprint, asked):
    assert mistakes_of(blueprint) == []
    blueprint.replace(
        "type: modak.nodes.Dataset",
        "type: modak.nodes.Dataset\n      interfaces: { Standard: { operations: { creat: x } } }",
    )
    first, second = mistakes_of(blueprint), mistakes_of(blueprint)
    assert first == second
    assert any("tosca-parser: " in line for line in first)
    assert len(asked) == 3


def test_a_file_of_types_counts_as_well(tmp_path, asked, monkeypatch):
    service = tmp_path / "service.yaml"
    service.write_text("tosca_definitions_version: tosca_simple_yaml_1_3\nimports:\n  - a.yaml\n")
    types = tmp_path / "a.yaml"
    types.write_text(TYPES.format(imports="", name="of.A", parent="tosca.nodes.Root"))

    def ask(**inputs):
        before = len(asked)
        parser_check.note_what_tosca_parser_finds(service, inputs, [("a.yaml", types)], Mistakes())
        return len(asked) > before

    assert [ask(), ask(), ask(n=1), ask(n=1), ask(n="1")] == [True, False, True, False, True]
    types.write_text(TYPES.format(imports="", name="of.B", parent="tosca.nodes.Root"))
    assert [ask(), ask()] == [True, False]
    monkeypatch.setattr(parser_check, "version_of", lambda *_: "another")
    assert [ask(), ask()] == [True, False]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert not ask()
    (elsewhere / "a.yaml").write_text("")  # which tosca-parser takes
    assert [ask(), ask()] == [True, True]
    monkeypatch.chdir(tmp_path)
    types.write_text(types.read_text() + "repositories:\n  far: https://localhost/\n")
    assert [ask(), ask()] == [True, True]


def test_a_file_that_changes_while_it_is_judged_is_judged_again(blueprint, asked, monkeypatch):
    check = parser_check.check_with_tosca_parser

    def changes(path, inputs, mistakes, used=None):
        check(path, inputs, mistakes)
        if len(asked) == 1:
            path.write_text(path.read_text() + "# another\n")

    before = blueprint.service.read_text()
    monkeypatch.setattr(parser_check, "check_with_tosca_parser", changes)
    mistakes_of(blueprint)
    blueprint.service.write_text(before)
    mistakes_of(blueprint)
    assert len(asked) == 2
