"""Whatever stands in any field of a blueprint: mistakes with places, or a plan; never anything else."""

from __future__ import annotations

import copy
from functools import cache
from itertools import pairwise

import pytest
import yaml
from example_blueprint import ROOT, SERVICE, BlueprintFolder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modak_ansible.planning.service import check_blueprint
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.yaml_files import read_yaml
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.reading.blueprint.types.definitions import load_definitions

EXAMPLE = yaml.safe_load(SERVICE)
NODES = {
    "cluster": "modak.nodes.Slurm",
    "digits": "modak.nodes.Dataset",
    "training": "modak.nodes.Training",
    "image": "modak.nodes.Image",
}
ODD = st.one_of(
    st.sampled_from([None, True, 0, -1, 7, 1.5, "", "wibble", "4 GB", "1:00:00", [], {}, ["wibble"], [[]], [{}], {"a": 1}]),
    st.text(max_size=10),
    st.integers(),
)  # fmt: skip


@cache
def fields():
    """The path of every field of the types that users write, with the words that it may hold."""
    types = ROOT / "tosca" / "types"
    root = read_yaml(types / "modak.yaml", Mistakes())
    definitions = load_definitions(root, types, Mistakes())

    def below(members, path):
        for name, schema in members.items():
            here = (*path, name)
            inner = str(schema.get("type").value)
            entry = schema.get("entry_schema", "type")
            yield here, words(schema), False
            if inner == "list" and entry is not None:
                yield here, words(schema.get("entry_schema")), True
                if str(entry.value) in definitions.types["data_types"]:
                    yield from below(definitions.members("data_types", str(entry.value), "properties"), (*here, 0))
            if inner in definitions.types["data_types"] and inner.startswith("modak."):
                yield from below(definitions.members("data_types", inner, "properties"), here)

    def words(schema):
        given = [element.get("valid_values") for element in (schema.get("constraints") or schema).elements]
        return tuple(str(element.value) for every in given if every for element in every.elements)

    found = []
    for node, kind in NODES.items():
        found += below(definitions.members("node_types", kind, "properties"), (node, "properties"))
        for name, capability in definitions.members("node_types", kind, "capabilities").items():
            kind_of = str((capability.get("type") or capability).value)
            if kind_of.startswith("modak."):
                members = definitions.members("capability_types", kind_of, "properties")
                found += below(members, (node, "capabilities", name, "properties"))
    return found


ENUMERATED = [(path, words, listed) for path, words, listed in fields() if words]


def written(path, value):
    """The example with a value at a path; what a record on the way needs besides is left out."""
    content = copy.deepcopy(EXAMPLE)
    nodes = content["topology_template"]["node_templates"]
    if path[0] == "image":
        nodes["image"] = {
            "type": NODES["image"],
            "properties": {"source": "docker://a/b:1"},
            "requirements": [{"host": "cluster"}],
        }
        nodes["training"]["requirements"].append({"image": "image"})
    owner = nodes
    for name, following in pairwise(path):
        if name == 0:
            owner = owner[0]
        else:
            fresh = [{}] if following == 0 else {}
            held = owner.get(name)
            owner[name] = owner = held if type(held) is type(fresh) else fresh
    owner[path[-1]] = value
    return yaml.safe_dump(content, sort_keys=False)


def check(folder, text):
    folder.service.write_text(text)
    mistakes = Mistakes()
    plans = check_blueprint(folder.service, Inputs(), mistakes)
    return plans, list(mistakes)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return BlueprintFolder(tmp_path_factory.mktemp("any") / "example")


def test_the_enumerations_are_found():
    assert {"format", "numerics", "sharing", "vendor", "app_type", "class"} <= {path[-1] for path, _, _ in ENUMERATED}


@pytest.mark.parametrize(
    ("path", "words", "listed"),
    ENUMERATED,
    ids=lambda each: "/".join(map(str, each)) if isinstance(each, tuple) else "",
)
def test_an_unknown_word_has_its_place_and_the_known_ones(folder, path, words, listed):
    text = written(path, ["wibble"] if listed else "wibble")
    line = next(number for number, each in enumerate(text.splitlines(), 1) if "wibble" in each)
    _, mistakes = check(folder, text)
    (mistake,) = [mistake for mistake in mistakes if mistake.rule == "not-allowed-value"]
    assert (mistake.location.path, mistake.location.line) == (str(folder.service), line)
    assert all(word in mistake.hint for word in words)


@settings(suppress_health_check=list(HealthCheck))
@given(field=st.sampled_from(fields()), value=ODD)
def test_any_value_in_any_field(folder, field, value):
    plans, mistakes = check(folder, written(field[0], [value] if field[2] else value))
    assert plans or mistakes
    assert all(mistake.location.path and mistake.message for mistake in mistakes)
