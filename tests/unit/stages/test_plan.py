"""What the plan role hands over, for each way to say what is to be deployed."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible.errors import AnsibleActionFail
from example_blueprint import ROOT
from example_request import TRAINING, RequestFolder

import modak_ansible as modak
from modak_ansible.errors import ModakError
from modak_ansible.planning.service import plan_blueprint
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.stages.plan import plan_deployment
from modak_ansible.stages.targets import inventory_of


def test_a_request_is_deployed_by_ansible_as_by_the_command(tmp_path):
    training = RequestFolder(tmp_path / "training", TRAINING)
    training.set("target", {"name": "local"}).set("job_options", {"wall_time_limit": "0:10:00"})
    found = plan_deployment({"blueprint": str(training.file)}, check=False)
    assert found["digest"] == plan_blueprint(training.file, Inputs()).plan.digest
    assert json.loads(Path(found["plan_file"]).read_text())["training"] == "mnist-training"
    assert Path(found["plan_file"]).is_relative_to(training.path / ".modak")


def test_a_full_disk_is_told_with_what_to_do(tmp_path, monkeypatch):
    training = RequestFolder(tmp_path / "training", TRAINING)
    training.set("target", {"name": "local"}).set("job_options", {"wall_time_limit": "0:10:00"})

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "plan.json"))

    monkeypatch.setattr("modak_ansible.stages.plan.Planned.save", full)
    with pytest.raises(AnsibleActionFail) as found:
        plan_deployment({"blueprint": str(training.file)}, check=False)
    assert f"on this machine, {tmp_path}/plan.json: No space left on device\n  make room there" in str(found.value)


@pytest.mark.component
def test_a_wrong_request_is_told_with_its_place(tmp_path):
    training = RequestFolder(tmp_path / "training", TRAINING).set("job_options/nodes", 1)
    with pytest.raises(
        AnsibleActionFail, match=r"request.json:\d+:7: unknown-field: job.job_options has no field nodes"
    ):
        plan_deployment({"blueprint": str(training.file)}, check=False)


@pytest.mark.component
@pytest.mark.parametrize(
    ("word", "told"),
    [("true", "is refused: no external tuner is run"), ("maybe", "The value 'maybe' is not a valid boolean")],
)
def test_a_playbook_is_strict_where_it_is_told_so(tmp_path, word, told):
    training = RequestFolder(tmp_path / "training", TRAINING).set("optimisation/autotuning", {"tuner": "cresta"})
    command = Path(sys.executable).with_name("ansible-playbook")
    variables = json.dumps({"blueprint": str(training.file), "strict": word})
    done = subprocess.run(
        [command, ROOT / "playbooks" / "probe.yml", "-e", variables], capture_output=True, text=True, check=False,
        env={**os.environ, "HOME": str(tmp_path), "ANSIBLE_NOCOLOR": "1"},
    )  # fmt: skip
    assert done.returncode == 2
    assert told in done.stdout + done.stderr


@pytest.mark.component
def test_a_damaged_plan_is_told_once_and_without_what_it_came_from(tmp_path):
    (tmp_path / "plan.json").write_text('{"digest": "d"}')
    with pytest.raises(AnsibleActionFail, match="is not a plan that can be carried out\n  plan again$") as refused:
        plan_deployment({"file": str(tmp_path / "plan.json")}, check=False)
    assert refused.value.__cause__ is None  # which Ansible would show, too


def test_plans_that_were_made_are_an_inventory_of_their_targets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folders = [
        planned.save() for name in ("mnist-pytorch-slurm", "mnist-pytorch-local") for planned in modak.plan(name)
    ]
    files = [str(folder / "plan.json") for folder in folders]
    found = inventory_of([*files, files[0]])["all"]
    targets = {"hosts": {"modak_target": None, "modak_target_2": None}}
    assert found["children"] == {"modak_planned": {}, "modak": targets}
    slurm, local = found["hosts"]["modak_target"], found["hosts"]["modak_target_2"]
    assert (slurm["modak_plan_file"], slurm["modak_plan_files"]) == (files[0], [files[0], files[0]])
    assert (slurm["ansible_connection"], slurm["ansible_host"]) == ("ssh", "testbed")
    assert (local["ansible_connection"], local["modak_cloud"]) == ("local", False)
    damaged = json.loads(Path(files[0]).read_text()) | {"name": "other"}
    Path(files[0]).write_text(json.dumps(damaged))
    with pytest.raises(ModakError, match="was changed after it was planned"):
        inventory_of(files)


@pytest.mark.parametrize("name", ["blueprint", "inputs_file", "target", "training"])
@pytest.mark.parametrize("value", [["a"], {"a": "b"}])
def test_a_variable_that_is_no_name_is_told(tmp_path, name, value):
    training = RequestFolder(tmp_path / "training", TRAINING)
    arguments = {"blueprint": str(training.file), name: value}
    with pytest.raises(AnsibleActionFail, match=f"{name} must be one name or path, not "):
        plan_deployment(arguments, check=False)


def test_numbers_are_names_and_one_file_is_one_plan(tmp_path):
    with pytest.raises(AnsibleActionFail, match="there is no blueprint 5"):
        plan_deployment({"blueprint": 5}, check=False)
    with pytest.raises(AnsibleActionFail, match="plan.json is not a plan"):
        plan_deployment({"files": str(tmp_path / "plan.json")}, check=False)
