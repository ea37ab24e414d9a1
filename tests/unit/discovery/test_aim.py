"""Which target a user means."""

from __future__ import annotations

import pytest

from modak_ansible.discovery.aim import aim_at, likely_blueprint
from modak_ansible.errors import InvalidBlueprint, UsageError
from modak_ansible.reading.blueprint.inputs import Inputs


def test_without_a_name_it_is_the_testbed(tmp_path, monkeypatch):
    (tmp_path / ".modak" / "testbed").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    aim = aim_at(None, Inputs())
    assert (aim.target.address, aim.is_described) == ("testbed", False)
    assert aim.testbed == tmp_path / ".modak" / "testbed"


@pytest.mark.parametrize(
    ("text", "address", "user"),
    [("login.example", "login.example", None), ("alice@login.example", "login.example", "alice"), ("cluster", "cluster", None),
     ("alice@10.0.0.1", "10.0.0.1", "alice"), ("alice@site.example@login", "login", "alice@site.example")],
)  # fmt: skip
def test_a_host(text, address, user):
    target = aim_at(text, Inputs()).target
    assert (target.address, target.username, target.local) == (address, user, False)


def test_this_machine():
    assert aim_at("local", Inputs()).target.local


@pytest.mark.parametrize("text", ["-oProxyCommand=x", "a b", "alice@", "al;ice@host", "$(id)", "host\n"])
def test_what_ssh_could_take_for_something_else(text):
    with pytest.raises(UsageError, match="is not a target"):
        aim_at(text, Inputs())


def test_a_blueprint(blueprint):
    aim = aim_at(str(blueprint.path), Inputs())
    assert (aim.target.name, aim.target.address, aim.is_described) == ("cluster", "frontend.example", True)
    assert aim.folder == blueprint.path.resolve()
    assert aim.request.training == "training"


def test_a_target_of_the_blueprint_here(blueprint, monkeypatch):
    monkeypatch.chdir(blueprint.path)
    aim = aim_at("cluster", Inputs(values=(("epochs", "3"),)))
    assert (aim.target.name, aim.target.address, aim.is_described) == ("cluster", "frontend.example", True)
    assert not aim_at("frontend.example", Inputs()).is_described
    with pytest.raises(UsageError, match="has no target training that trains") as caught:
        aim_at("training", Inputs())
    assert caught.value.hint == "valid: cluster"


def test_a_target_of_a_blueprint_with_a_mistake(blueprint, monkeypatch):
    blueprint.replace("modak.nodes.Slurm", "modak.nodes.Slrm")
    monkeypatch.chdir(blueprint.path)
    with pytest.raises(InvalidBlueprint):
        aim_at("cluster", Inputs())
    blueprint.replace("topology_template:", "topology_template: [")
    assert not aim_at("cluster", Inputs()).is_described


def test_a_target_of_a_blueprint_with_what_looks_like_a_date(blueprint, monkeypatch):
    blueprint.replace("metadata:", "description: 2026-13-45\nmetadata:")
    monkeypatch.chdir(blueprint.path)
    assert aim_at("cluster", Inputs()).is_described


def test_a_shipped_blueprint_with_inputs():
    aim = aim_at("mnist-pytorch-torque", Inputs(values=(("frontend", "head.example"),)))
    assert (aim.target.address, aim.target.scheduler.value) == ("head.example", "torque")


def test_a_blueprint_with_a_mistake(blueprint):
    blueprint.replace("modak.nodes.Slurm", "modak.nodes.Slrm")
    with pytest.raises(InvalidBlueprint):
        aim_at(str(blueprint.path), Inputs())


def test_a_path_that_is_not_there():
    with pytest.raises(UsageError, match="there is no blueprint"):
        aim_at("nosuch/folder", Inputs())


def test_inputs_are_a_blueprints():
    with pytest.raises(UsageError, match="name the blueprint|only a blueprint has inputs"):
        aim_at("login.example", Inputs(values=(("a", "b"),)))


def test_a_slip_of_the_pen():
    assert likely_blueprint("mnist-pytorch-slrm") == "did you mean mnist-pytorch-slurm?"
    assert likely_blueprint("frontend") == ""
