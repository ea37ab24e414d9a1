"""A target file serves every blueprint and request: with inputs of its own or none, with one target or several."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from example_blueprint import ROOT
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.commands.plan.packaging import package
from modak_ansible.discovery.aim import target_of_file
from modak_ansible.errors import InvalidBlueprint, Location
from modak_ansible.planning.service import plan_blueprint
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.yaml_tree import item_from
from modak_ansible.reading.blueprint.inputs import Inputs
from modak_ansible.reading.blueprint.reader import read_blueprint
from modak_ansible.reading.blueprint.target_words import TYPES, WORDS, type_of, with_targets
from modak_ansible.reading.blueprint.types.definitions import load_definitions
from modak_ansible.store.csar import unpack

SHIPPED = ROOT / "tosca" / "blueprints"
SITE = """\
scheduler: torque
frontend: login.cluster.example
username: bob
account: project-42
partitions:
  - { name: batch, nodes: 64, cores: 128, memory: 256 GB, walltime: "1-00:00:00" }
scratch: $TMPDIR
image_base: docker
architecture: zen4
processor: "AMD EPYC 9654"
accelerator: { vendor: nvidia, count: 4 }
"""
SECOND = """\
    gpus:
      type: modak.nodes.Slurm
      attributes: { public_address: gpus.example }
"""
REQUEST = {"job": {"job_options": {"job_name": "x"}, "application": {"executable": "train.py", "app_type": "python"}}}


@pytest.fixture
def site(tmp_path):
    path = tmp_path / "site.yaml"
    path.write_text(SITE)
    return path


def read(path, inputs):
    mistakes = Mistakes()
    blueprint = read_blueprint(path, inputs, mistakes)
    return blueprint, [str(mistake) for mistake in mistakes]


def facts(target):
    return (
        target.scheduler.value, target.address, target.username, target.site.account, target.partitions[0].name,
        target.scratch.path, target.image_base, target.processor.architecture, target.processor.model,
        target.accelerator.vendor, target.accelerator.count,
    )  # fmt: skip


FACTS = (
    "torque", "login.cluster.example", "bob", "project-42", "batch", "$TMPDIR", "docker", "zen4", "AMD EPYC 9654",
    "nvidia", 4,
)  # fmt: skip


@pytest.mark.parametrize("name", [path.name for path in sorted(SHIPPED.iterdir())])
def test_every_shipped_blueprint_takes_it(site, name):
    blueprint, mistakes = read(SHIPPED / name / "service.yaml", Inputs(site))
    assert mistakes == []
    (target,) = blueprint.targets.values()
    assert facts(target) == FACTS


@pytest.mark.parametrize("name", [path.name for path in sorted(SHIPPED.iterdir())])
def test_a_word_that_says_more_than_the_input_of_its_name_describes_the_target(site, name):
    """As modak discover writes of a plain host; the shipped blueprints' input has the processor's model alone."""
    processor = "processor: { architecture: zen4, model: AMD EPYC 9654, cores: 192 }"
    site.write_text(SITE.replace("architecture: zen4\n", "").replace('processor: "AMD EPYC 9654"', processor))
    blueprint, mistakes = read(SHIPPED / name / "service.yaml", Inputs(site))
    assert mistakes == []
    (target,) = blueprint.targets.values()
    assert facts(target) == FACTS
    assert target.processor.cores == 192


@pytest.mark.parametrize(
    ("scheduler", "directives"),
    [("slurm", ["#SBATCH --account=project-42", "#SBATCH --partition=batch"]), ("torque", ["#PBS -A project-42", "#PBS -q batch"]),
     ("pbspro", ["#PBS -A project-42", "#PBS -l place=pack"]), ("lsf", ["#BSUB -P project-42", "#BSUB -q batch", "#BSUB -W 0:30"])],
)  # fmt: skip
def test_a_blueprint_moves_from_scheduler_to_scheduler_by_one_word(site, scheduler, directives):
    site.write_text(SITE.replace("scheduler: torque", f"scheduler: {scheduler}"))
    plan = plan_blueprint(SHIPPED / "mnist-pytorch-slurm" / "service.yaml", Inputs(site)).plan
    assert plan.target.scheduler.value == scheduler
    assert [line for line in directives if f"\n{line}\n" not in plan.job.script] == []


@pytest.mark.parametrize("door", ["inputs", "target"])
def test_a_blueprint_without_such_inputs_takes_it(blueprint, site, door):
    given = Inputs(site) if door == "inputs" else Inputs(targets=site)
    found, mistakes = read(blueprint.service, given)
    assert mistakes == []
    assert facts(found.targets["cluster"]) == FACTS


def test_a_blueprints_own_input_of_the_same_name_is_its_own(blueprint, site):
    """A training's scheduler may be that of its learning rate."""
    data = yaml.safe_load(blueprint.service.read_text())
    template = data["topology_template"]
    template.setdefault("inputs", {})["scheduler"] = {"type": "string", "default": "cosine"}
    template["node_templates"]["training"]["properties"]["arguments"]["lr"] = {"get_input": "scheduler"}
    blueprint.service.write_text(yaml.safe_dump(data, sort_keys=False))
    found, mistakes = read(blueprint.service, Inputs(None, (("scheduler", "linear"),)))
    assert mistakes == []
    assert found.targets["cluster"].scheduler.value == "slurm"
    assert "linear" in str(found.requests[0].application)


def test_of_several_targets_each_is_described_under_its_name(blueprint, tmp_path):
    blueprint.replace("  node_templates:\n", f"  node_templates:\n{SECOND}")
    path = tmp_path / "sites.yaml"
    path.write_text(
        "gpus: { frontend: new.example }\ncluster:\n" + "".join(f"  {line}\n" for line in SITE.splitlines())
    )
    found, mistakes = read(blueprint.service, Inputs(path))
    assert mistakes == []
    assert facts(found.targets["cluster"]) == FACTS
    assert (found.targets["gpus"].address, found.targets["gpus"].scheduler.value) == ("new.example", "slurm")


def test_what_is_said_of_none_of_several_targets_is_refused(blueprint, site):
    blueprint.replace("  node_templates:\n", f"  node_templates:\n{SECOND}")
    _, (mistake,) = read(blueprint.service, Inputs(site))
    assert mistake.startswith(
        f"{site}:1:1: several-targets: the blueprint has several targets, gpus, cluster, and scheduler"
    )
    assert "gpus: { scheduler: ... }" in mistake


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("frontend: a b\n", ":1:11:", "a b is not a host's name"),
        ("scheduler: sge\n", ":1:12:", "scheduler: one of slurm, torque, pbspro, lsf, none, local"),
        ("scheduler: SLURM\n", ":1:12:", "SLURM is not a known scheduler (did you mean slurm?)"),
        ("scheduler: pbs-pro\n", ":1:12:", "did you mean pbspro?"),
        ("cluster: { frontent: x }\n", ":1:12:", "a target has no frontent"),
        ("partitions: [ { nodes: 1 } ]\n", ":1:1", "name"),
        ("accelerator: { vendors: nvidia }\n", ":1:16:", "has no property vendors"),
        ("nothing: 1\n", ":1:1:", "the blueprint has no input nothing"),
    ],
)
def test_a_mistake_is_told_with_its_place_in_the_target_file(blueprint, tmp_path, text, place, words):
    path = tmp_path / "site.yaml"
    path.write_text(text)
    _, mistakes = read(blueprint.service, Inputs(path))
    assert any(f"{path}{place}" in mistake and words in mistake for mistake in mistakes), mistakes


def test_nothing_of_another_machine_is_left_over(blueprint, tmp_path):
    path = tmp_path / "site.yaml"
    path.write_text("scheduler: slurm\nfrontend: other.example\n")
    blueprint.replace("        username: alice\n", "        username: alice\n        workspace: mine\n")
    found, mistakes = read(blueprint.service, Inputs(path))
    target = found.targets["cluster"]
    assert mistakes == []
    assert (target.address, target.username, target.partitions, target.scratch) == ("other.example", None, (), None)
    assert (target.processor.architecture, target.workspace) == ("x86_64", "mine")
    path.write_text("account: project-42\n")
    target = read(blueprint.service, Inputs(path))[0].targets["cluster"]
    assert (target.username, target.partitions[0].name, target.site.account) == ("alice", "batch", "project-42")


def test_this_machine_is_not_taken_for_another_one(tmp_path):
    path = tmp_path / "site.yaml"
    path.write_text("frontend: login.example\n")
    _, (mistake,) = read(SHIPPED / "mnist-pytorch-local" / "service.yaml", Inputs(path))
    assert "the blueprint's target is this machine" in mistake


def test_the_plan_is_that_of_a_blueprint_that_says_the_same(blueprint, site):
    meant = plan_blueprint(blueprint.service, Inputs(site)).plan
    assert plan_blueprint(blueprint.service, Inputs(site)).plan.digest == meant.digest
    data = yaml.safe_load(blueprint.service.read_text())
    values = yaml.safe_load(SITE)
    data["topology_template"]["node_templates"]["cluster"] = {
        "type": "modak.nodes.Torque",
        "attributes": {"public_address": values["frontend"]},
        "properties": {name: values[name] for name in ("username", "partitions", "image_base")},
        "capabilities": {
            "processor": {"properties": {"architecture": "zen4", "model": values["processor"]}},
            "scratch": {"properties": {"path": "$TMPDIR"}},
            "site": {"properties": {"account": "project-42"}},
            "accelerator": {"properties": values["accelerator"]},
        },
    }
    blueprint.service.write_text(yaml.safe_dump(data, sort_keys=False))
    assert plan_blueprint(blueprint.service, Inputs()).plan.digest == meant.digest


def test_what_was_measured_of_its_network_goes_with_it(blueprint, site):
    assert plan_blueprint(blueprint.service, Inputs(site)).plan.target.network is None
    site.write_text(f"{SITE}network: {{ latency: 270, bandwidth: 0.118 }}\n")
    network = plan_blueprint(blueprint.service, Inputs(site)).plan.target.network
    assert (network.latency, network.bandwidth) == (270, 0.118)


def test_a_package_holds_the_target_that_was_given(blueprint, site, tmp_path, monkeypatch):
    """opera takes no inputs that a template does not declare."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    meant = plan_blueprint(blueprint.service, Inputs(site)).plan
    path = tmp_path / "mine.csar"
    path.write_bytes(package(blueprint.service, Inputs(site), "modak")[0])
    assert plan_blueprint(unpack(path), Inputs()).plan.digest == meant.digest


@pytest.fixture
def request_for(tmp_path):
    """A request for a target of a name; None for none."""

    def make(name=None):
        (tmp_path / "train.py").write_text("print('x')\n")
        training = {"app_type": "ai_training", "app_type-ai_training": {"config": {"ai_framework": "pytorch"}}}
        job = {"application": {"executable": "train.py"}, "optimisation": training}
        path = tmp_path / "request.json"
        path.write_text(json.dumps({"job": {**job, **({"target": {"name": name}} if name else {})}}))
        return path

    return make


@pytest.mark.parametrize("door", ["inputs", "target"])
@pytest.mark.parametrize("name", [None, "hlrs"])
def test_a_request_takes_it(request_for, site, door, name):
    plan = plan_blueprint(request_for(name), Inputs(site) if door == "inputs" else Inputs(targets=site)).plan
    assert plan.target.name == ("site" if door == "target" else name or "torque")  # it goes before what is named
    assert facts(plan.target) == FACTS


def test_a_request_picks_one_of_several(request_for, tmp_path):
    several = "a: { scheduler: slurm, frontend: a.example }\nb: { scheduler: none, frontend: b.example }\n"
    (tmp_path / "targets.yaml").write_text(several)
    assert plan_blueprint(request_for("b"), Inputs()).plan.target.address == "b.example"


def test_values_for_the_description_beside_a_request_stay_its_own(request_for, tmp_path):
    path = request_for("cluster")
    (tmp_path / "types").symlink_to(ROOT / "tosca" / "types")
    (tmp_path / "targets.yaml").write_text(
        "tosca_definitions_version: tosca_simple_yaml_1_3\nimports: [ types/modak.yaml ]\n"
        "topology_template:\n  inputs: { frontend: { type: string } }\n  node_templates:\n    cluster:\n"
        "      type: modak.nodes.Torque\n      attributes: { public_address: { get_input: frontend } }\n"
    )
    inputs = tmp_path / "inputs.yaml"
    inputs.write_text("frontend: a.example\n")
    target = plan_blueprint(path, Inputs(inputs)).plan.target
    assert (target.scheduler.value, target.address) == ("torque", "a.example")


def test_a_request_whose_target_has_no_kind_is_refused(request_for, tmp_path):
    site = tmp_path / "site.yaml"
    site.write_text("frontend: a.example\n")
    with pytest.raises(InvalidBlueprint, match="no scheduler is named"):
        plan_blueprint(request_for(), Inputs(site))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["path", "name", "cluster"]), inner),
    max_leaves=4,
)
ROOT_ITEM = item_from(
    yaml.safe_load((SHIPPED / "mnist-pytorch-slurm" / "service.yaml").read_text()), Location("service.yaml")
)
DEFINITIONS = load_definitions(ROOT_ITEM, SHIPPED / "mnist-pytorch-slurm", Mistakes())


@given(st.dictionaries(st.sampled_from([*WORDS, "cluster", "epochs", "other"]), VALUES))
def test_whatever_is_given_the_template_stays_one(values):
    before = ROOT_ITEM.plain()
    root, left = with_targets(ROOT_ITEM, item_from(values, Location("site.yaml")), DEFINITIONS, Mistakes())
    assert ROOT_ITEM.plain() == before
    assert set(left.entries) <= set(values)
    assert set(root.plain()["topology_template"]["node_templates"]) == set(
        before["topology_template"]["node_templates"]
    )
    assert Path(root.location.path).name == "service.yaml"


@pytest.mark.parametrize(
    ("node", "inputs", "account", "cores", "bundle"),
    [
        ("", Inputs(), "project-42", 128, None),
        ("capabilities: { site: { properties: { account: mine, certificate_bundle: /etc/ca.pem } } }", Inputs(), "mine", 128, "/etc/ca.pem"),
        ("capabilities: { site: { properties: { account: mine } } }", Inputs(targets=Path("named")), "project-42", 128, None),
        ("attributes: { public_address: else.example }, capabilities: { site: { properties: { account: mine } } }",
         Inputs(), "project-42", 128, None),
        ("properties: { partitions: [ { name: batch, nodes: 1, cores: 8 } ] }", Inputs(), "project-42", 8, None),
    ],
)  # fmt: skip
def test_what_a_blueprint_says_beside_the_target_that_it_names(
    tmp_path, monkeypatch, site, node, inputs, account, cores, bundle
):
    """It was forgotten without a word: modak init names the target, and the user adds to the node."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "modak/targets").mkdir(parents=True)
    named = site.rename(tmp_path / "modak/targets/mine.yaml")
    (tmp_path / "train.py").write_text("print(1)")
    (tmp_path / "service.yaml").write_text(f"""\
tosca_definitions_version: tosca_simple_yaml_1_3
metadata: {{ template_name: train, target: mine }}
imports: [ types/modak.yaml ]
topology_template:
  node_templates:
    cluster: {{ type: modak.nodes.Torque, {node} }}
    training:
      type: modak.nodes.Training
      properties: {{ framework: python, script: train.py }}
      requirements: [ {{ host: cluster }} ]
""")
    blueprint, mistakes = read(tmp_path, Inputs(targets=named) if inputs.targets else inputs)
    assert not mistakes
    (request,) = blueprint.requests
    target = request.target
    assert (target.address, target.site.account) == ("login.cluster.example", account)
    assert (target.partitions[0].cores, target.site.certificate_bundle) == (cores, bundle)


@pytest.mark.parametrize("word", TYPES)
def test_the_type_of_a_target_is_that_of_its_word(tmp_path, word):
    """What modak init writes for --on; a machine of a cloud was a plain host there."""
    file = tmp_path / "there.yaml"
    more = "provider: aws\nusername: admin\nflavor: t3.micro\nimage: ami-1\nssh_from: [ 203.0.113.7/32 ]\nidentity_file: id\n"
    (tmp_path / "id").touch()
    (tmp_path / "id.pub").touch()
    own = {
        "cloud": more,
        "cloud-cluster": f"{more}machines: 3",
        "kubernetes": "workspace: /shared/modak\nmount_path: /shared\nhost_path: /shared",
    }
    file.write_text(f"scheduler: {word}\n{own.get(word, 'frontend: there.example')}\n")
    assert type_of(target_of_file(file)) == TYPES[word]


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("scheduler: slurm\n", ["1:1: missing-address"]),
        ("# mine\nscheduler: kubernetes\nfrontend: a.example\nhost_path: /volume\n", ["2:1: missing-property"]),
        ("scheduler: kubernetes\nfrontend: a.example\nmount_path: /v\nhost_path: [ /v ]\nworkspace: /v/m\n", ["4:12: wrong-type"]),
    ],
)  # fmt: skip
def test_what_a_target_file_does_not_say_is_missing_there(blueprint, tmp_path, text, places):
    path = tmp_path / "site.yaml"
    path.write_text(text)
    _, told = read(blueprint.service, Inputs(None, (), path))
    assert [line.removeprefix(f"{path}:")[: len(place)] for line, place in zip(told, places, strict=True)] == places


def test_a_port_behind_a_front_end_is_told(blueprint, tmp_path):
    path = tmp_path / "site.yaml"
    path.write_text("scheduler: slurm\nfrontend: a.example:2222\n")
    _, (told,) = read(blueprint.service, Inputs(None, (), path))
    assert told.startswith(f"{path}:2:11: unsafe-value: a.example:2222 is more than a host: write a.example here")


@pytest.mark.parametrize("script", [False, True])
def test_of_a_file_of_several_targets_none_is_taken(blueprint, tmp_path, script):
    path = tmp_path / "two.yaml"
    path.write_text("a: { scheduler: slurm, frontend: a.example }\nb: { scheduler: slurm, frontend: b.example }\n")
    asked = blueprint.path / "train" / "train.py" if script else blueprint.service
    with pytest.raises(InvalidBlueprint) as refused:
        plan_blueprint(asked, Inputs(None, (), path))
    (mistake,) = refused.value.mistakes
    assert str(mistake.location) == f"{path}:1:1"
    assert mistake.message == "a and b are described here, and the blueprint has cluster"
