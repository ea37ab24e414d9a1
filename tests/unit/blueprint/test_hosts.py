"""Several plain hosts as one target: what is read of them, what is refused, and what is planned."""

from __future__ import annotations

import pytest
from example_blueprint import BlueprintFolder

from modak_ansible.errors import InvalidBlueprint
from modak_ansible.planning.service import plan_blueprint
from modak_ansible.reading.blueprint.reader import Inputs

HOSTS = """\
    cluster:
      type: modak.nodes.Host
      attributes: { public_address: one.example }
      properties: { hosts: [ two.example, three ] }
      capabilities:
        processor: { properties: { cores: 8, memory: 16 GB, architecture: skylake_avx512 } }
        scratch: { properties: { path: /scratch } }

"""


@pytest.fixture
def blueprint(tmp_path):
    made = BlueprintFolder(tmp_path / "hosts")
    text = made.service.read_text()
    begin, end = text.index("    cluster:\n"), text.index("    digits:\n")
    made.service.write_text(text[:begin] + HOSTS + text[end:])
    return made.replace("cores_per_process: 4 }", "nodes: 2 }\n        distributed_training: true")


def plan_of(blueprint):
    return plan_blueprint(blueprint.service, Inputs()).plan


def test_the_first_host_starts_ranks_on_as_many_others_as_are_asked_for(blueprint):
    made = plan_of(blueprint)
    assert made.target.hosts == ("two.example", "three")
    assert "hosts=(two.example)" in made.job.script
    assert any(choice.name == "launcher" and choice.value == "ssh" for choice in made.choices)
    blueprint.replace("nodes: 2 }", "nodes: 3, processes_per_node: 2 }")
    assert "hosts=(two.example three)" in plan_of(blueprint).job.script


def test_data_are_read_where_they_were_brought(blueprint):
    assert next(choice.value for choice in plan_of(blueprint).choices if choice.name == "staging") == "shared"


def test_one_process_knows_nothing_of_other_hosts(blueprint):
    blueprint.replace("nodes: 2 }\n        distributed_training: true", "nodes: 1 }")
    assert "two.example" not in plan_of(blueprint).job.script


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("nodes: 2 }", "nodes: 4 }", "has 3 hosts, and 4 nodes are asked for"),
        (
            "distributed_training: true",
            "distributed: { strategy: none }",
            "only PyTorch's ranks can be started on them",
        ),
        ("[ two.example, three ]", "[ two.example, -oProxyCommand=x ]", "is not a host's name or address"),
        ("[ two.example, three ]", "[ two.example, bob@three ]", "is more than a host"),
        ("[ two.example, three ]", "[ two.example, two.example ]", "two.example is given twice"),
        ("modak.nodes.Host", "modak.nodes.ContainerHost", "is one machine, and 2 more hosts are named"),
        ("modak.nodes.Host", "modak.nodes.Slurm", "hosts"),
        ("three ] }", "three ], container_runtime: charliecloud }", "need containers of Apptainer"),
    ],
)
def test_what_does_not_go_together_is_refused_with_its_place(blueprint, old, new, said):
    blueprint.replace(old, new)
    with pytest.raises(InvalidBlueprint, match=said.replace("(", r"\(")):
        plan_of(blueprint)


def test_a_type_of_ones_own_that_is_a_host_may_have_them(blueprint):
    blueprint.replace("type: modak.nodes.Host", "type: acme.nodes.Boxes")
    blueprint.replace(
        "topology_template:\n",
        "node_types: { acme.nodes.Boxes: { derived_from: modak.nodes.Host } }\ntopology_template:\n",
    )
    assert plan_of(blueprint).target.hosts == ("two.example", "three")


def test_a_target_file_may_name_them(blueprint, tmp_path):
    file = tmp_path / "boxes.yaml"
    file.write_text("frontend: first.example\nscheduler: none\nhosts: [ other.example ]\n")
    made = plan_blueprint(blueprint.service, Inputs(targets=file)).plan
    assert (made.target.address, made.target.hosts) == ("first.example", ("other.example",))
