"""Targets under names: found, refused with the nearest, and written where XDG says."""

from __future__ import annotations

import pytest
from example_blueprint import ROOT

from modak_ansible.discovery.aim import aim_at
from modak_ansible.errors import InvalidBlueprint, UsageError
from modak_ansible.planning.service import plan_blueprint
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.inputs import Inputs
from modak_ansible.reading.blueprint.reader import read_blueprint
from modak_ansible.store.targets import built_in_targets, known_targets, new_target, target_file, targets_folder

SHIPPED = ROOT / "tosca" / "blueprints"
SITE = """\
scheduler: torque
frontend: login.cluster.example
username: bob
identity_file: keys/id
partitions:
  - { name: batch, nodes: 64, cores: 128, memory: 256 GB, walltime: "1-00:00:00" }
"""


@pytest.fixture
def hpc():
    path = new_target("hpc")
    (path.parent / "keys").mkdir(parents=True)
    (path.parent / "keys" / "id").touch()
    path.write_text(SITE)
    return path


def read(path, inputs):
    mistakes = Mistakes()
    blueprint = read_blueprint(path, inputs, mistakes)
    return blueprint, [str(mistake) for mistake in mistakes]


def test_names_are_found_in_the_users_settings(hpc, state_home):
    assert hpc == state_home / "config" / "modak" / "targets" / "hpc.yaml"
    assert target_file("hpc") == hpc
    assert target_file(str(hpc)) == hpc
    assert list(known_targets()) == ["hpc", "local", "testbed"]


def test_without_the_variable_they_lie_below_the_home(monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert targets_folder() == tmp_path / ".config" / "modak" / "targets"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hpx", ("there is no target hpx", "did you mean hpc?", "modak discover USER@HOST --save hpx")),
        ("no/such.yaml", ("there is no target file no/such.yaml", "modak targets")),
        ("alice@login.example", ("is a host", "modak discover alice@login.example --save NAME")),
    ],
)
def test_what_is_not_there_is_told_with_what_to_do(hpc, text, words):
    with pytest.raises(UsageError) as caught:
        target_file(text)
    assert all(each in str(caught.value) for each in words)


@pytest.mark.parametrize("name", ["", "testbed", "local", "../x", ".x", "-x", "a b", "a@b", "a\nb"])
def test_names_that_cannot_be(name):
    with pytest.raises(UsageError):
        new_target(name)


@pytest.mark.parametrize("name", [path.name for path in sorted(SHIPPED.iterdir())])
@pytest.mark.parametrize("target", ["local", "testbed", "hpc"])
def test_every_shipped_blueprint_goes_to_every_target(hpc, name, target):
    """Whatever inputs it has for a machine of its own."""
    blueprint, mistakes = read(SHIPPED / name / "service.yaml", Inputs(targets=target_file(target)))
    assert mistakes == []
    (found,) = blueprint.targets.values()
    facts = found.scheduler.value, found.local, found.address, found.username, [each.name for each in found.partitions]
    assert (
        facts
        == {
            "local": ("none", True, "localhost", None, []),
            "testbed": ("slurm", False, "testbed", None, ["debug"]),
            "hpc": ("torque", False, "login.cluster.example", "bob", ["batch"]),
        }[target]
    )
    if target == "hpc":  # beside the target file, not beside the blueprint
        assert found.identity_file == str(hpc.parent / "keys" / "id")


@pytest.mark.parametrize("target", ["local", "testbed", "hpc"])
def test_a_request_goes_there_whatever_target_it_names(hpc, target):
    request = ROOT / "docs" / "example" / "request.json"
    plan = plan_blueprint(request, Inputs(targets=target_file(target))).plan
    assert plan.target.name == target
    assert plan.target.local == (target == "local")


def test_a_value_that_is_given_goes_before_the_file(hpc):
    path = SHIPPED / "mnist-pytorch-slurm" / "service.yaml"
    given = (("username", "carol"), ("port", "2222"), ("scratch", "/local"))
    blueprint, mistakes = read(path, Inputs(None, given, hpc))
    (target,) = blueprint.targets.values()
    assert mistakes == []
    assert (target.address, target.username, target.port) == ("login.cluster.example", "carol", 2222)
    assert target.scratch.path == "/local"
    assert [each.name for each in target.partitions] == ["batch"]


def test_a_training_keeps_its_own_input_of_a_words_name(blueprint, hpc):
    """A training's scheduler may be that of its learning rate."""
    import yaml

    data = yaml.safe_load(blueprint.service.read_text())
    data["topology_template"].setdefault("inputs", {})["scheduler"] = {"type": "string", "default": "cosine"}
    training = data["topology_template"]["node_templates"]["training"]
    training["properties"]["arguments"]["lr"] = {"get_input": "scheduler"}
    blueprint.service.write_text(yaml.safe_dump(data, sort_keys=False))
    found, mistakes = read(blueprint.service, Inputs(targets=hpc))
    assert mistakes == []
    assert found.targets["cluster"].scheduler.value == "torque"
    assert "cosine" in str(found.requests[0].application)


def test_a_blueprint_names_its_target(blueprint, hpc, tmp_path):
    blueprint.replace("metadata:\n", "metadata:\n  target: hpc\n")
    found, mistakes = read(blueprint.service, Inputs())
    assert mistakes == []
    assert found.targets["cluster"].address == "login.cluster.example"
    found, _ = read(blueprint.service, Inputs(targets=target_file("testbed")))
    assert found.targets["cluster"].address == "testbed"
    site = tmp_path / "site.yaml"
    site.write_text("scheduler: slurm\nfrontend: other.example\n")
    found, mistakes = read(blueprint.service, Inputs(site))
    assert (found.targets["cluster"].address, found.targets["cluster"].partitions) == ("other.example", ())
    hpc.unlink()
    _, (mistake,) = read(blueprint.service, Inputs())
    assert "service.yaml:" in mistake
    assert "unknown-target: there is no target hpc" in mistake


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("scheduler: slurm\nfrontend: [a\n", ":3:1: ", "not YAML"),
        ("scheduler: oar\nfrontend: a\n", ":1:12: ", "oar is not a known scheduler"),
        ("scheduler: slurm\nfrontend: a\nusernam: b\n", ":3:1: ", "a target has no usernam (did you mean username?)"),
        (
            "scheduler: slurm\nfrontend: a\nmodules: [ cuda ]\n",
            ":3:1: ",
            "a target has no modules (site: { modules: ... })",
        ),
        ("", "hpc.yaml: ", "the file is empty"),
        ("partition: x\n", ":1:1: ", "does not describe"),
    ],
)
def test_a_broken_file_is_told_with_its_place(blueprint, hpc, text, place, words):
    hpc.write_text(text)
    with pytest.raises(InvalidBlueprint) as caught:
        plan_blueprint(blueprint.service, Inputs(targets=hpc))
    assert place in str(caught.value)
    assert words in str(caught.value)


def test_a_named_target_is_looked_at_without_a_blueprint(hpc):
    for aim in (aim_at("hpc", Inputs()), aim_at(None, Inputs(targets=hpc))):
        assert aim.is_described
        assert (aim.target.name, aim.target.address, aim.request) == ("hpc", "login.cluster.example", None)
    with pytest.raises(UsageError, match="by itself"):
        aim_at("hpc", Inputs(targets=hpc))
    assert list(built_in_targets()) == ["local", "testbed"]
