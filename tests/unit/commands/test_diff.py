"""What a deployment would change, told before it is made."""

from __future__ import annotations

import json

import pytest
import typer

from modak_ansible.commands.plan.diff import command
from modak_ansible.commands.plan.differences import difference_lines, differences, lines_again
from modak_ansible.planning.service import plan_all, plan_blueprint
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.store.record import DeploymentRecord


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


def test_another_preference_another_file_and_their_script(deployed, capsys):
    deployed.replace("numerics: same", "threads: 2")
    (deployed.path / "train" / "train.py").write_text("import more\n")
    (deployed.path / "train" / "more.py").write_text("")
    code, shown = diff(deployed, capsys)
    assert code == 1
    assert "  threads: 4 -> 2" in shown
    assert "  file changed: train.py" in shown
    assert "  file added: more.py" in shown
    assert "--- job.sh as deployed" in shown
    assert "-    OMP_NUM_THREADS=4" in shown
    assert "+    OMP_NUM_THREADS=2" in shown


def test_parts_that_nobody_looks_at_are_named():
    assert list(difference_lines(differences({"target": {"name": "a"}}, {"target": {"name": "b"}}))) == [
        "  changed, too: target"
    ]


def test_what_changes_beside_a_script_runs_nothing_again(deployed, capsys):
    (deployed.path / "train" / "evaluate.py").write_text("x = 1\n")
    code, shown = diff(deployed, capsys)
    assert code == 0
    assert "  evaluate.py changed beside train.py, which does not depend on it: nothing runs again" in shown
    assert lines_again(plan_all(deployed.service, Inputs())) == []


def test_several_trainings_are_told_together(deployed, capsys):
    deployed.replace("script: train/train.py", "script: train/train.py\n        sweep: { epochs: [ 1, 2, 3 ] }")
    for each in plan_all(deployed.service, Inputs()):
        each.save()
        DeploymentRecord(each.folder).update(job={"job_id": "7", "state": "COMPLETED"})
    assert diff(deployed, capsys) == (0, "3 of 3 trainings are deployed as they are planned\n")
    with (deployed.path / "train" / "train.py").open("a") as script:
        script.write("# more\n")
    code, shown = diff(deployed, capsys)
    assert code == 1
    first, second = shown.splitlines()
    assert first == "3 trainings run again, because train.py changed"
    assert second == "0 of 3 trainings are deployed as they are planned"
    assert not json.loads(diff(deployed, capsys, as_json=True)[1])["same"]


def test_what_runs_again_is_said_with_its_reason(deployed):
    deployed.replace("script: train/train.py", "script: train/train.py\n        sweep: { epochs: [ 1, 2, 3 ] }")
    planned = plan_all(deployed.service, Inputs())
    assert lines_again(planned) == [], "nothing of it ran before"
    for each in planned:
        each.save()
        DeploymentRecord(each.folder).update(job={"job_id": "7", "state": "COMPLETED"})
    assert lines_again(planned) == []
    (deployed.path / "train" / "train.py").write_text("import evaluate\n")
    (deployed.path / "train" / "evaluate.py").write_text("")
    expected = "3 trainings run again, because train.py changed and evaluate.py came along"
    assert lines_again(plan_all(deployed.service, Inputs())) == [expected]
    deployed.replace("epochs: [ 1, 2, 3 ]", "epochs: [ 3 ]").replace("batch-size: 128", "batch-size: 64")
    (line,) = lines_again(plan_all(deployed.service, Inputs()))
    assert line.startswith("training:epochs=3 runs again, because ")
    assert "its arguments changed" in line


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
