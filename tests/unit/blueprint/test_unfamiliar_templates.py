"""What is written in other ways than ours, as public templates have it: read, or told once, with its cause and place."""

from __future__ import annotations

import pytest

from modak_ansible.model.request import GivenImage
from modak_ansible.planning.service import check_blueprint
from modak_ansible.reading.blueprint.forms import text_rules
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.inputs import Inputs
from modak_ansible.reading.blueprint.reader import read_blueprint
from modak_ansible.reading.blueprint.types.parser_check import check_with_tosca_parser

HOST = "        - host: cluster\n        - dataset: digits\n"
INPUT = "{ get_input: epochs }"


def checked(blueprint, inputs=None):
    mistakes = Mistakes()
    check_blueprint(blueprint.service, Inputs(inputs), mistakes)
    return [str(each).replace(str(blueprint.service), "service.yaml") for each in mistakes]


def epochs(blueprint):
    mistakes = Mistakes()
    read = read_blueprint(blueprint.service, Inputs(), mistakes)
    assert not list(mistakes)
    return dict(read.requests[0].application.arguments)["epochs"]


@pytest.mark.parametrize(
    "function",
    [
        "{ token: [ run_12_b, _, 1 ] }",
        "{ concat: [ 1, { token: [ run.2, ., 1 ] } ] }",
        "{ get_input: [ several, 0, long ] }",
        "{ get_property: [ cluster, partitions, 1, nodes ] }",
        "{ get_property: [ SELF, host, partitions, 1, nodes ] }",
        "{ get_property: [ HOST, partitions, 1, nodes ] }",
    ],
)
def test_a_function_has_its_value_wherever_it_leads(blueprint, function):
    blueprint.replace("  inputs:\n", "  inputs:\n    several: { type: list, default: [ { long: 12 } ] }\n")
    blueprint.replace("nodes: 2, cores: 8", "nodes: 12, cores: 8")
    blueprint.replace(INPUT, function)
    assert str(epochs(blueprint)) == "12"


def test_a_list_that_an_input_gives_is_looked_into(blueprint):
    text = blueprint.service.read_text()
    start, end = text.index("        partitions:\n"), text.index("      capabilities:\n")
    given = text[start:end].replace("        partitions:\n", "      default:\n").replace("          - ", "        - ")
    blueprint.replace(text[start:end], "        partitions: { get_input: parts }\n")
    blueprint.replace("  inputs:\n", f"  inputs:\n    parts:\n      type: list\n{given}")
    blueprint.replace(INPUT, "{ get_property: [ cluster, partitions, 1, nodes ] }")
    assert str(epochs(blueprint)) == "2"


@pytest.mark.parametrize(
    ("function", "told"),
    [
        ("{ get_input: [ epochs, long ] }", "function: the input epochs has no long"),
        ("{ get_input: [ several, 1, long ] }", "function: the input several has no 1.long"),
        ("{ get_input: [ named, lonf ] }", "function: the input named has no lonf (did you mean long?)"),
    ],
)
def test_an_input_is_told_that_has_not_what_is_asked_of_it(blueprint, function, told):
    inputs = "several: { type: list, default: [ { long: 12 } ] }\n    named: { type: map, default: { long: 12 } }"
    blueprint.replace("  inputs:\n", f"  inputs:\n    {inputs}\n")
    blueprint.replace(INPUT, function)
    (line,) = checked(blueprint)
    assert told in line


ONCE = [
    (HOST, "        host: cluster\n        dataset: digits\n", "requirements must be a list (- host: the target's name)"),
    (HOST, "        - host: cluster\n        - dataset\n", "a requirement of training must be a mapping (- dataset: NODE)"),
    (HOST, "        - host\n        - dataset: digits\n", "a requirement of training must be a mapping (- host: NODE)"),
    (HOST, "        - host: cluster\n        - datasets: digits\n", "has no requirement datasets (did you mean dataset?)"),
    (HOST, "        - host: cluster\n        - dataset: digit\n", "there is no node digit (did you mean digits?)"),
    (HOST, "        - host: cluster\n        - dataset: { node_filter: {} }\n", "dataset must name a node"),
    ("modak.nodes.Training", "modak.nodes.Trainin", "there is no node type modak.nodes.Trainin (did you mean"),
    ("username: alice", "username: !vault secretly", "the tag !vault is not allowed"),
    ("  outputs:\n", "  policies:\n    p: { type: tosca.policies.Scaling }\n  outputs:\n", "policies must be a list"),
    ("  outputs:\n", "  policies: [ scaling ]\n  outputs:\n", "policies must be a list of mappings"),
    ("  outputs:\n", "  policies: [ { p: scaling } ]\n  outputs:\n", "policies must be a list of mappings"),
    # over which tosca-parser breaks without a place
    ("  outputs:\n", "  policies: [ p: { type: my.policies.Scale } ]\n  outputs:\n",
     "service.yaml:49:26: unknown-type: there is no type my.policies.Scale of policies (did you mean tosca.policies.Scaling?)"),
    ("  outputs:\n", "  policies: [ p: { targets: [ training ] } ]\n  outputs:\n", "p in policies has no type"),
    ("  outputs:\n", "  policies: [ p: { type: tosca.policies.Scaling, targets: training } ]\n  outputs:\n",
     "the targets of p must be a list (targets: [ NODE ])"),
    ("  outputs:\n", "  groups: { g: { type: my.groups.X, members: [ training ] } }\n  outputs:\n",
     "there is no type my.groups.X of groups (did you mean tosca.groups.Root?)"),
    ("  outputs:\n", "  relationship_templates: { r: { type: my.Rel } }\n  outputs:\n", "there is no type my.Rel of relationship_templates"),
    ("  outputs:\n", "  relationship_templates: { r: }\n  outputs:\n", "r in relationship_templates has no type"),
    ("    epochs: { type: integer, default: 2 }", "    - epochs: { type: integer, default: 2 }", "the inputs must be a mapping"),
    ("{ get_attribute: [ training, job_id ] }", "{ concat: [ a, { get_attribute: [ trainin, job_id ] } ] }",
     "there is no node trainin (did you mean training?)"),
    ("{ get_attribute: [ training, job_id ] }", "{ get_property: [ trainin, script ] }", "there is no node trainin"),
    ("framework: pytorch", "framework: pytorch\n        requirements_txt: |\n          six\n          einops",
     "requirements_txt must be a list ([ six, einops ])"),
    ("    digits:\n      type: modak.nodes.Dataset\n", "    digits:\n      <<: { type: modak.nodes.Dataset }\n",
     "merge keys (<<) are not TOSCA"),
    ("topology_template:", "topology_template: []\ndsl_definitions:", "topology_template must be a mapping"),
    ("  node_templates:\n", "  node_templates: []\n  description:\n", "node_templates must be a mapping"),
    ("  - types/modak.yaml", "  - modak.yaml", "modak.yaml is not there (did you mean types/modak.yaml?)"),
    ("default: 2 }", 'default: "2" }', "epochs must be a whole number (write 2 without quotes)"),
    ("        name: mnist\n        source: [ digits ]", "        name: own\n        source: rows.csv",
     "source must be a list ([ rows.csv ])"),
    ("default: 2 }", "default: 1e3 }", "epochs must be a whole number (write 1000)"),
    ("default: 2 }", "default: 8.0 }", "epochs must be a whole number (write 8)"),
    ("default: 2 }", "default: 8.5 }", "epochs must be a whole number"),
    ("type: integer, default: 2 }", "type: float, default: 1e-3 }", "epochs must be a number (write 0.001: YAML reads 1e-3 as text)"),
    ("type: integer, default: 2 }", "type: float, default: 2.5e9 }", "epochs must be a number (write 2500000000.0: YAML reads 2.5e9 as text)"),
    ("type: integer, default: 2 }", "type: float, default: 1e-7 }", "epochs must be a number (write 1.0e-07: YAML reads 1e-7 as text)"),
    ("type: integer, default: 2 }", "type: float, default: 1e999 }", "epochs must be a number"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "told"), ONCE, ids=[str(number) for number in range(len(ONCE))])
def test_one_mistake_is_told_once(blueprint, old, new, told):
    blueprint.replace(old, new)
    (line,) = checked(blueprint)
    assert told in line


def test_a_type_that_is_derived_of_none_is_told_and_nothing_that_follows_of_it(blueprint):
    blueprint.replace(
        "topology_template:\n",
        "node_types:\n  my.Training:\n    derived_from: modak.nodes.Trainin\n\ntopology_template:\n",
    )
    blueprint.replace("type: modak.nodes.Training", "type: my.Training")
    (line,) = checked(blueprint)
    assert "unknown-type: there is no node type modak.nodes.Trainin, of which my.Training is derived" in line
    assert "(did you mean modak.nodes.Training?)" in line


def test_types_that_are_derived_of_each_other_are_told(blueprint):
    """tosca-parser hangs over them."""
    types = "node_types:\n  my.A: { derived_from: my.B }\n  my.B: { derived_from: my.A }\ntopology_template:\n"
    blueprint.replace("topology_template:\n", types)
    blueprint.replace("  node_templates:\n", "  node_templates:\n    mine: { type: my.A }\n")
    (line,) = checked(blueprint)
    assert "unknown-type: my.A is derived from itself" in line


def test_policies_may_be_none(blueprint):
    assert checked(blueprint.replace("  outputs:\n", "  policies: {}\n  outputs:\n")) == []


@pytest.mark.parametrize(("quoted", "cure"), [("4", " (write 4 without quotes)"), ("010", "")])
def test_a_number_in_quotes_is_told_without_them_where_it_stays_the_same(blueprint, quoted, cure):
    (line,) = checked(blueprint.replace("cores_per_process: 4", f'cores_per_process: "{quoted}"'))
    assert line.endswith(f"cores_per_process must be a whole number{cure}")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("cores_per_process: 4", "cores_per_process: { get_input: epochs }"),
        ("numerics: same", "numerics: { get_input: numerics }"),
        ("numerics: same", "numerics: { concat: [ { get_input: numerics } ] }"),
        ("cores_per_process: 4", "cores_per_process: { get_property: [ cluster, partitions, 0, nodes ] }"),
    ],
)
def test_what_a_function_gives_a_member_of_a_property_is_judged_by_its_value(blueprint, old, new):
    """tosca-parser holds the function itself against what limits the member."""
    blueprint.replace("  inputs:\n", "  inputs:\n    numerics: { type: string, default: any }\n")
    blueprint.replace(old, new)
    assert checked(blueprint) == []
    for good, bad in (("default: any", "default: eny"), ("default: 2", "default: 0"), ("nodes: 4", "nodes: 0")):
        blueprint.replace(good, bad)
    assert any("not-allowed-value" in line or "out-of-range" in line for line in checked(blueprint))


@pytest.mark.parametrize(("importing", "path"), [("../b/b.yaml", "own/b/b.yaml"), ("b.yaml", "own/a/b.yaml")])
def test_files_of_types_import_each_other_beside_ours(blueprint, importing, path):
    head = "tosca_definitions_version: tosca_simple_yaml_1_3\n"
    for name, text in (
        ("own/a/a.yaml", f"imports: [ {importing} ]\nnode_types: {{ my.A: {{ derived_from: my.B }} }}\n"),
        (path, "node_types: { my.B: { derived_from: tosca.nodes.Root } }\n"),
    ):
        file = blueprint.service.parent / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(head + text)
    blueprint.replace("  - types/modak.yaml\n", "  - types/modak.yaml\n  - own/a/a.yaml\n")
    blueprint.replace("  node_templates:\n", "  node_templates:\n    mine: { type: my.A }\n")
    assert checked(blueprint) == []


def test_what_tosca_parser_finds_has_the_place_of_what_it_names(blueprint):
    blueprint.replace("username: alice", 'username: ""')
    blueprint.replace(
        "  outputs:\n", "  groups:\n    g: { type: tosca.groups.Root, members: [ nobody ] }\n  outputs:\n"
    )
    mistakes = Mistakes()
    check_with_tosca_parser(blueprint.service, {}, mistakes)
    (mistake,) = mistakes
    line = blueprint.service.read_text().splitlines()[mistake.location.line - 1]
    assert line[mistake.location.column - 1 :].startswith("nobody")


def test_what_is_not_indented_is_told_where_it_belongs(blueprint):
    text = blueprint.service.read_text()
    top, below = text.split("topology_template:\n")
    outdented = "\n".join(line.removeprefix("  ") for line in below.splitlines())
    blueprint.service.write_text(f"{top}{outdented}\n")
    told = checked(blueprint)
    assert {line.split(": ", 1)[1] for line in told} == {
        f"unknown-key: a service template has no {name} (put it below topology_template)"
        for name in ("inputs", "node_templates", "outputs")
    }


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("queue: none", "cluster has no partition none"),
        ("node_count: 9", "9 nodes are asked for"),
        ("core_count_per_process: 9", "9 cores a node are asked for"),
        ("memory_limit: 900 GB", "900 GB a node are asked for"),
        ("request_gpus: 2", "2 accelerators a node are asked for"),
    ],
)
def test_what_the_target_has_not_is_told_at_the_option_that_asks_for_it(blueprint, option, told):
    blueprint.replace("        resources: { cores_per_process: 4 }\n", f"        job_options: {{ {option} }}\n")
    (line,) = [line for line in checked(blueprint) if told in line]
    assert line.startswith(
        f"service.yaml:42:{len('        job_options: { ' + option.split(':')[0] + ': ') + 1}: cannot-plan"
    )


DIGEST = f"@sha256:{'0a' * 32}"


@pytest.mark.parametrize(
    "name",
    ["python", "nvcr.io/nvidia/pytorch:24.01-py3", "a/b__c-d", "localhost:5000/a/b:C", f"Reg.example:5000/a.b{DIGEST}"],
)
def test_an_image_of_a_hub_is_named_as_hubs_do(name):
    assert text_rules.image_problem(f"docker://{name}") == ""


@pytest.mark.parametrize(
    "name", ["PyTorch/pytorch", "ghcr.io/Owner/a:1", "a/b:", "a/b@sha256:12", "a//b", "a/b:1:2", "a/b@md5:12"]
)
def test_what_no_hub_can_have_is_told(name):
    assert "is not an image of a hub: a name in small letters" in text_rules.image_problem(f"docker://{name}")


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ("nvcr.io/nvidia/pytorch:24.01-py3", "docker://nvcr.io/nvidia/pytorch:24.01-py3"),
        ("nvcr.io#nvidia/pytorch:24.01-py3", "docker://nvcr.io/nvidia/pytorch:24.01-py3"),
        ("docker:pytorch/pytorch", "docker://pytorch/pytorch"),
        ("Dockerfile", ""),
        ("/images/mine", ""),
    ],
)
def test_an_image_without_where_it_is_is_told_how_it_is_written(text, cure):
    told = text_rules.image_problem(text)
    assert told.startswith(f"{text} is neither an address nor a .sif")
    assert told.endswith(f": an image of a hub is {cure}" if cure else " file")


@pytest.mark.parametrize("host", ["", "reg.example:5000/"])
def test_a_digest_alone_names_the_image(host):
    assert GivenImage(source=f"docker://{host}a/b:2.3{DIGEST}").source == f"docker://{host}a/b{DIGEST}"
    for source in (f"docker://{host}a/b{DIGEST}", f"docker://{host}a/b:2.3", "/images/a:b.sif"):
        assert GivenImage(source=source).source == source
