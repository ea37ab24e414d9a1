"""What is done to one deployment, and to all of a blueprint: one path, and each answers in its form."""

from __future__ import annotations

import json
import sys
from functools import partial

import pytest

from modak_ansible.commands import main
from modak_ansible.deployment import playbook
from modak_ansible.deployment.playbook import PlaybookError, PlaybookRun
from modak_ansible.errors import TargetUnreachable
from modak_ansible.planning.service import plan_all
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.stages.jobs.direct import RemoteFunction
from modak_ansible.store.record import DeploymentRecord
from modak_ansible.transport.ssh import Connection

ARGUMENTS = "          batch-size: 128\n"


@pytest.fixture
def modak(blueprint, monkeypatch, capsys):
    """Deploys one training or two; gives what runs a command line with a playbook that is none, and their folders."""

    def deployed(count):
        if count > 1:
            blueprint.replace(ARGUMENTS, f"{ARGUMENTS}        sweep: {{ epochs: [1, 2] }}\n")
        (blueprint.path / ".modak").mkdir()
        monkeypatch.chdir(blueprint.path)
        folders = [planned.save() for planned in plan_all(blueprint.service, Inputs())]
        for number, folder in enumerate(folders):
            DeploymentRecord(folder).update(job={"state": "RUNNING", "job_id": str(number)})
        assert len(folders) == count
        return folders

    def run(words, play):
        monkeypatch.setattr(playbook, "run_playbook", play)
        monkeypatch.setattr(sys, "argv", ["modak", *words])
        with pytest.raises(SystemExit) as ended:
            main.run()
        printed = capsys.readouterr()
        return ended.value.code or 0, printed.out, printed.err

    return deployed, run


def played(folders, **answer):
    def play(name, variables, _listener=None, **_more):
        given = variables.get("modak_plans") or [variables["modak_plan"]]
        assert given == [str(folder / "plan.json") for folder in folders]
        return PlaybookRun(**answer)

    return play


def unplayed(*_, **_more):
    raise AssertionError("a playbook was started")


@pytest.fixture
def target(monkeypatch):
    """Has a target answer what it is asked over ssh: by what is given, from what it is told of the deployments."""

    def answering(answer):
        def ask(_kept, parameters):
            return {"answer": json.dumps(answer(parameters, json.loads(parameters["deployments"])))}

        monkeypatch.setattr(RemoteFunction, "ask", ask)
        monkeypatch.setattr(Connection, "check", lambda _: None)

    return answering


def operated(parameters, deployments, state="CANCELLED", **more):
    assert parameters["action"] == "cancel"
    ids = {each["deployment"]: each.get("job_id", str(number)) for number, each in enumerate(deployments)}
    return {
        "jobs": [
            {"deployment": name, "situation": {"state": state, "job_id": job_id}, "changed": True, **more}
            for name, job_id in ids.items()
        ]
    }


@pytest.mark.parametrize("count", [1, 2])
def test_the_jobs_of_all_are_acted_on(modak, target, count):
    deployed, run = modak
    folders = deployed(count)
    target(operated)
    code, out, _ = run(["cancel", ".", "--json"], unplayed)
    answer = json.loads(out)
    rows = answer if count > 1 else [answer]
    assert [row["deployment"] for row in rows] == [folder.name for folder in folders]
    assert [row["message"] for row in rows] == [f"job {number} is cancelled" for number in range(count)]
    assert (code, {(row["state"], row["changed"]) for row in rows}) == (0, {("CANCELLED", True)})
    assert {DeploymentRecord(folder).read()["job"]["state"] for folder in folders} == {"CANCELLED"}
    out = run(["cancel", "."], unplayed)[1].splitlines()
    assert out[0].startswith("* job      2 of 2 jobs cancelled" if count > 1 else "* job      job 0 is cancelled")
    assert [line.split("  ")[-1] for line in out[1:]] == [row["message"] for row in rows if count > 1]


def test_what_a_job_does_not_permit_is_told(modak, target):
    deployed, run = modak
    deployed(1)
    target(
        partial(operated, state="COMPLETED", changed=False, problem="job 0 is completed", permitted=False, hint="no")
    )
    assert run(["cancel", "."], unplayed) == (1, "", "error: job 0 is completed\n  no\n")


@pytest.mark.parametrize("silent", [["frontend.example"], ["frontend.example", "other.example"]])
def test_of_several_targets_each_is_asked_though_one_does_not_answer(modak, target, monkeypatch, silent):
    deployed, run = modak
    folders = deployed(2)
    plan, origin = (json.loads((folders[1] / name).read_text()) for name in ("plan.json", "origin.json"))
    plan["target"]["address"] = origin["queue"] = "other.example"
    (folders[1] / "plan.json").write_text(json.dumps(plan))
    (folders[1] / "origin.json").write_text(json.dumps(origin))

    def check(connection):
        if connection.address in silent:
            raise TargetUnreachable(f"{connection.address} does not answer")

    target(operated)
    monkeypatch.setattr(Connection, "check", check)
    code, _, err = run(["cancel", "."], unplayed)
    assert (code, err) == (TargetUnreachable.exit_code, "error: frontend.example does not answer\n")
    states = [DeploymentRecord(folder).read()["job"]["state"] for folder in folders]
    assert states == ["RUNNING", "RUNNING" if len(silent) > 1 else "CANCELLED"]


@pytest.mark.parametrize("count", [1, 2])
def test_all_are_undeployed(modak, target, count):
    deployed, run = modak
    folders = deployed(count)

    def removed(parameters, deployments):
        assert (parameters["action"], bool(parameters["images"]), parameters["leave"]) == ("remove", True, False)
        names = [each["deployment"] for each in deployments]
        return {"cancelled": dict.fromkeys(names, "7"), "removed": names, "left": {}, "images": ["pytorch"]}

    target(removed)
    answer = json.loads(run(["undeploy", ".", "--json", "--remove-images"], unplayed)[1])
    rows = answer if count > 1 else [answer]
    assert [row["deployment"] for row in rows] == [folder.name for folder in folders]
    assert {row["changed"] for row in rows} == {True}
    words = "2 jobs cancelled, 2 folders removed" if count > 1 else "job 7 cancelled, its folder removed"
    assert {row["message"] for row in rows} == {f"{words}, removed pytorch"}
    assert all(DeploymentRecord(folder).read()["undeployed"] for folder in folders)
    if count == 1:  # nothing but an image was removed
        assert json.loads(run(["undeploy", ".", "--json", "--remove-images"], unplayed)[1])["changed"] is True


@pytest.mark.parametrize("count", [1, 2])
def test_all_are_resumed(modak, count):
    deployed, run = modak
    folders = deployed(count)
    code, out, _ = run(["resume", ".", "--json"], played(folders, changed=3))
    answer = json.loads(out)
    assert (code, answer["changed"]) == (0, True)
    rows = answer["trainings"] if count > 1 else [answer]
    assert [row["deployment"] for row in rows] == [folder.name for folder in folders]
    out = run(["resume", "."], played(folders, changed=0))[1]
    assert out.endswith("\nThere was nothing left to do.\n")
    assert ("RUNNING" in out) == (count > 1)

    def failing(*_, **_more):
        raise PlaybookError("no room", 5)

    code, out, err = run(["resume", "."], failing)
    assert (code, "no room" in err, out.count("RUNNING")) == (5, True, count if count > 1 else 0)
    for folder in folders:
        DeploymentRecord(folder).update(undeployed=1.0)
    code, _, err = run(["resume", "."], failing)
    assert (code, "undeployed" in err) == (1, True)
    assert "modak deploy creates it again" in err


def interrupted(*_, **_more):
    raise KeyboardInterrupt


@pytest.mark.parametrize("count", [1, 2])
def test_what_goes_on_after_an_interrupt_is_said(modak, count):
    deployed, run = modak
    folders = deployed(count)
    out = run(["resume", "."], interrupted)[1]
    assert (
        f"What runs on the target continues. To pick it up again: modak resume {'.' if count > 1 else folders[0].name}"
        in out
    )


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            OSError("libmpi.so.40: cannot open shared object file"),
            "error: libmpi.so.40: cannot open shared object file",
        ),
        (
            OSError(28, "No space left on device"),
            "error: the current folder or the output: No space left on device\n"
            "  make room there, and run the same command again",
        ),
        (OSError(13, "Permission denied", "there"), "error: there: Permission denied"),
    ],
)
def test_what_the_system_refuses_is_told_in_its_words(monkeypatch, capsys, error, words):
    def failing(_words):
        raise error

    monkeypatch.setattr(main, "application", failing)
    monkeypatch.setattr(sys, "argv", ["modak"])
    with pytest.raises(SystemExit):
        main.run()
    assert capsys.readouterr().err.strip() == words
