"""What a deployment would change, told before it is made."""

from __future__ import annotations

import json

import pytest
import typer

from modak_ansible.blueprint.reader import Inputs
from modak_ansible.commands.plan.diff import command
from modak_ansible.commands.plan.differences import difference_lines, differences
from modak_ansible.planning.service import plan_blueprint


@pytest.fixture
def deployed(blueprint, monkeypatch):
    """The example, deployed as it is."""
    (blueprint.path / ".modak").mkdir()
    monkeypatch.chdir(blueprint.path)
    plan_blueprint(blueprint.service, Inputs()).save()
    return blueprint


def diff(blueprint, capsys, **options):
    code = 0
    try:
        command(str(blueprint.path), **options)
    except typer.Exit as error:
        code = error.exit_code
    return code, capsys.readouterr().out


def test_what_is_deployed_as_planned_is_the_same(deployed, capsys):
    code, shown = diff(deployed, capsys)
    assert code == 0
    assert "is what is planned" in shown


def test_nothing_is_deployed_yet(blueprint, monkeypatch, capsys):
    monkeypatch.chdir(blueprint.path)
    code, shown = diff(blueprint, capsys)
    assert code == 1
    assert "nothing of it is deployed" in shown


def test_another_wish_another_file_and_their_script(deployed, capsys):
    deployed.replace("numerics: same", "threads: 2")
    (deployed.path / "train" / "train.py").write_text("print('other')\n")
    (deployed.path / "train" / "more.py").write_text("")
    code, shown = diff(deployed, capsys)
    assert code == 1
    assert "  threads: 4 -> 2" in shown
    assert "  file changed: train.py" in shown
    assert "  file added: more.py" in shown
    assert "--- job.sh as deployed" in shown
    assert "-    OMP_NUM_THREADS=4" in shown
    assert "+    OMP_NUM_THREADS=2" in shown


def test_as_json(deployed, capsys):
    deployed.replace("framework: pytorch", "framework: tensorflow")
    code, shown = diff(deployed, capsys, as_json=True)
    found = json.loads(shown)
    assert code == 1
    assert found["same"] is False
    assert found["image"]["after"].startswith("tensorflow-2.21-cpu ")
    assert {"name": "image", "before": "pytorch-2.13-cpu", "after": "tensorflow-2.21-cpu"} in found["choices"]


def test_a_plan_of_an_earlier_version_can_be_compared():
    found = differences({"digest": "1", "choices": []}, {"digest": "2", "choices": [{"name": "threads", "value": "2"}]})
    assert found == {"choices": [{"name": "threads", "before": "", "after": "2"}]}
    assert list(difference_lines(found)) == ["  threads: not there -> 2"]


def test_the_same_plan_has_no_differences(deployed):
    plan = plan_blueprint(deployed.service, Inputs()).plan.model_dump(mode="json")
    assert differences(plan, plan) == {}
