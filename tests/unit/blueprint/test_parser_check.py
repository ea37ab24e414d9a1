"""What tosca-parser is asked of a blueprint."""

from __future__ import annotations

from collections import Counter

from modak_ansible.blueprint.forms.mistakes import Mistakes
from modak_ansible.blueprint.types.parser_check import _import_tosca_parser, check_with_tosca_parser
from modak_ansible.store.project import find_blueprint

_import_tosca_parser()
from toscaparser import imports  # noqa: E402 - as the project imports it

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


def test_a_file_of_types_is_read_once_however_many_import_it(monkeypatch):
    count, load = counted(monkeypatch)
    mistakes = Mistakes()
    check_with_tosca_parser(find_blueprint("mnist-pytorch-slurm"), {}, mistakes)
    assert not mistakes
    assert len(count) > 1
    assert set(count.values()) == {1}
    assert imports.YAML_LOADER is load  # it is tosca-parser's own again


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
