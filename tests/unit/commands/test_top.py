"""modak top: what is shown of a job that runs, and what is said of one that does not."""

from __future__ import annotations

import json
import re
import sys

import pytest
from planned_once import planned_once

from modak_ansible.commands import main
from modak_ansible.commands.jobs.top import table
from modak_ansible.deployment import status_query
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.store import deployments
from modak_ansible.store.deployment import DeploymentStore
from modak_ansible.store.record import DeploymentRecord

PART = {
    "processes": 3, "cpu_percent": 96.4, "memory_bytes": 1_200_000_000, "read_bytes_per_second": 0,
    "written_bytes_per_second": 12_000, "gpus": [],
}  # fmt: skip
NODE = {**PART, "node": "node01", "cores": 2, "memory_limit_bytes": 4_000_000_000, "ranks": []}
GPU = {"gpu": "0", "percent": 97.0, "memory_bytes": 40_000_000_000, "watts": None}


@pytest.fixture
def top(blueprint, monkeypatch, capsys):
    """Runs the command about a deployment whose target gives some answers; gives its code and what it printed."""
    (blueprint.path / ".modak").mkdir()
    monkeypatch.chdir(blueprint.path)
    folder = planned_once(blueprint.service).save()

    def run(*words, answers=(), job=None, **more):
        DeploymentRecord(folder).update(job={"state": "RUNNING", "job_id": "7", **(job or {})}, **more)

        def ask(entries, every=0.0, heard=None, *, inside):
            assert inside == "usage"
            for answer in answers:
                (entry,) = entries
                entry.problem = answer if isinstance(answer, str) else ""
                if not entry.problem:
                    state, usage = answer
                    situation = {"state": state, "job_id": "7", "nodes": "node01"}
                    entry.answer = {"situation": situation, "elapsed": 5.0, "usage": usage}
                if heard:
                    heard()

        monkeypatch.setattr(status_query, "ask_targets", ask)
        monkeypatch.setattr(sys, "argv", ["modak", "top", *words])
        with pytest.raises(SystemExit) as ended:
            main.run()
        printed = capsys.readouterr()
        return ended.value.code, printed.out, printed.err

    return run


def test_once(top):
    code, out, err = top("--once", answers=[("RUNNING", [NODE])])
    assert (code, err) == (0, "")
    state, titles, row = out.splitlines()
    assert state.endswith("job 7 is running on node01")
    assert titles.split() == ["node", "cpu", "cores", "memory", "of", "processes", "reads", "writes"]
    assert row.split("  ")[0] == "node01"
    assert row.split()[1:] == ["96%", "2", "1.2", "GB", "4.0", "GB", "3", "0", "B/s", "12", "kB/s"]


def test_of_several_deployments_the_one_whose_job_may_run_is_meant(top, blueprint, monkeypatch):
    """Of a sweep all but one of whose points had ended, and of a training whose sweep was taken away, none was."""
    folders = [planned_once(blueprint.service, Inputs(None, (("epochs", each),))).save() for each in ("3", "4")]
    monkeypatch.setattr(deployments, "find_trainings", lambda *_: [DeploymentStore(folder) for folder in folders])
    for folder, state in zip(folders, ("COMPLETED", "RUNNING"), strict=True):
        DeploymentRecord(folder).update(job={"state": state, "job_id": "7"})
    code, out, err = top(".", "--once", answers=[("RUNNING", [NODE])])
    assert (code, err, out.startswith(folders[1].name)) == (0, "", True)
    DeploymentRecord(folders[0]).update(job={"state": "RUNNING", "job_id": "6"})
    code, _, err = top(".", "--once")
    assert (code, folders[0].name in err, "only one can be shown" in err) == (2, True, True)


def test_json_is_one_object_or_one_a_line(top):
    code, out, _ = top("--once", "--json", answers=[("RUNNING", [NODE])])
    found = json.loads(out)
    assert (code, found["job_id"], found["state"], found["nodes"]) == (0, "7", "RUNNING", [NODE])
    code, out, err = top("--json", answers=[("RUNNING", [NODE]), "no route", ("RUNNING", [NODE]), ("COMPLETED", [])])
    assert [json.loads(line)["nodes"] for line in out.splitlines()] == [[NODE]] * 2
    assert (code, "note: no route" in err, "job 7 is completed" in err) == (0, True, True)


@pytest.mark.parametrize(
    ("state", "words", "hint"),
    [
        ("QUEUED", "job 7 is queued", "says when it starts"), ("HELD", "job 7 is held", "modak release"),
        ("SUSPENDED", "job 7 is suspended", "until it goes on"), ("FAILED", "job 7 is failed", "modak results"),
        ("UNKNOWN", "job 7 is unknown", "when the scheduler answers"), ("ENDING", "job 7 is ending", "modak results"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("once", [True, False])
def test_a_job_that_does_not_run(top, state, words, hint, once):
    code, out, err = top(*["--once"] * once, answers=[(state, [])])
    assert (code, out.strip()) == (1, "")
    assert words in err
    assert hint in err


def test_what_is_known_here_needs_no_target(top):
    code, _, err = top(job={"state": "COMPLETED"})
    assert (code, "job 7 is completed" in err, "modak results" in err) == (1, True, True)
    code, _, err = top(job={"state": "NONE", "job_id": ""})  # modak deploy takes a blueprint, and no such name
    assert (code, "no job was submitted" in err) == (1, True)
    assert re.search(r"modak resume example-\w+ submits it", err)
    code, _, err = top(undeployed="2026-01-01T00:00:00Z")
    assert (code, "was undeployed" in err) == (1, True)
    code, _, err = top("--training", "other")
    assert (code, "--training needs a blueprint" in err) == (2, True)


def test_a_target_or_a_node_that_says_nothing(top):
    code, _, err = top("--once", answers=["frontend does not answer"])
    assert (code, "frontend does not answer" in err) == (4, True)
    code, _, err = top("--once", answers=[("RUNNING", [{"node": "n1", "problem": "ssh: Permission denied"}])])
    assert (code, "cannot be seen: ssh: Permission denied" in err) == (1, True)


def test_a_row_for_each_rank_and_a_note_for_each_node_that_is_silent():
    ranks = [{**PART, "rank": 0, "gpus": [GPU]}, {**PART, "rank": 1, "cpu_percent": 5.0}]
    silent = {"node": "node02", "problem": "timed out"}
    titles, first, second, note = table([{**NODE, "ranks": ranks, "node": "no\x1bde"}, silent])
    assert titles.split()[-4:] == ["writes", "gpu", "gpu", "memory"]
    assert first.split()[:5] == ["no", "de", "0", "96%", "2"]
    assert first.endswith("97%       40 GB")
    assert second.split()[:4] == ["no", "de", "1", "5%"]
    assert len(first) == len(titles)
    assert note == "note: node02: timed out"
    assert table([]) == []
