"""What is done to one deployment, and to all of a blueprint: one path, and each answers in its form."""

from __future__ import annotations

import json
import sys

import pytest

from modak_ansible.commands import main
from modak_ansible.deployment import playbook
from modak_ansible.deployment.playbook import PlaybookError, PlaybookRun
from modak_ansible.planning.service import plan_all
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.store.record import Record

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
            Record(folder).update(job={"state": "RUNNING", "job_id": str(number)})
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


@pytest.mark.parametrize("count", [1, 2])
def test_the_jobs_of_all_are_acted_on(modak, count):
    deployed, run = modak
    folders = deployed(count)
    jobs = {
        folder.name: {
            "training": f"one {number}",
            "deployment": folder.name,
            "job_id": str(number),
            "state": "CANCELLED",
            "changed": True,
            "message": f"job {number} is cancelled",
            "problem": "",
        }
        for number, folder in enumerate(folders)
    }
    code, out, _ = run(["cancel", ".", "--json"], played(folders, changed=1, jobs=jobs))
    assert (code, json.loads(out)) == (0, list(jobs.values()) if count > 1 else jobs[folders[0].name])
    code, out, _ = run(["cancel", "."], played(folders, changed=1, jobs=jobs))
    assert out.splitlines() == (["one 0  job 0 is cancelled", "one 1  job 1 is cancelled"] if count > 1 else [])


@pytest.mark.parametrize("count", [1, 2])
def test_all_are_undeployed(modak, count):
    deployed, run = modak
    folders = deployed(count)
    first, *others = folders

    def play(name, variables, *_, **_more):
        assert (name, variables["job_remove_images"], variables["job_leave"]) == ("undeploy", True, False)
        Record(first).update(undeployed=1.0)
        return PlaybookRun(1, job_messages=["on one", "on the other"][:count])

    out = run(["undeploy", ".", "--json", "--remove-images"], play)[1]
    answer = json.loads(out)
    rows = answer if count > 1 else [answer]
    assert [row["deployment"] for row in rows] == [folder.name for folder in folders]
    assert [row["changed"] for row in rows] == [True, *(False for _ in others)]
    assert {row["message"] for row in rows} == {"; ".join(["on one", "on the other"][:count])}
    if count == 1:  # nothing but an image was removed
        assert json.loads(run(["undeploy", ".", "--json", "--remove-images"], play)[1])["changed"] is True


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
        Record(folder).update(undeployed=1.0)
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


def test_of_several_targets_each_tells_its_jobs():
    watcher = playbook._Watcher(None)
    for name in ("a", "b"):
        result = {"changed": True, "msg": f"on {name}", "jobs": json.dumps([{"deployment": name, "state": "HELD"}])}
        watcher.event({"event": "runner_on_ok", "event_data": {"task_action": "modak.hpc.modak_job", "res": result}})
    assert watcher.run.jobs == {name: {"deployment": name, "state": "HELD"} for name in ("a", "b")}
    assert watcher.run.job_messages == ["on a", "on b"]
    assert watcher.run.results["modak_job"]["msg"] == "on b"


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
