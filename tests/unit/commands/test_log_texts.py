"""What modak logs and modak results show of what is here already."""

from __future__ import annotations

import hashlib
import json
import time

import pytest
from planned_once import planned_once

from modak_ansible.commands.jobs import log_text as log_texts
from modak_ansible.commands.jobs import logs, results
from modak_ansible.commands.jobs.log_start import LogStart
from modak_ansible.deployment import results as fetched
from modak_ansible.deployment.status import most_telling
from modak_ansible.errors import ModakError, UsageError
from modak_ansible.planning.service import plan_all
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.store import logs as looks
from modak_ansible.store.deployment import DeploymentStore
from modak_ansible.store.logs import note
from modak_ansible.store.project import COPIED
from modak_ansible.store.record import DeploymentRecord
from modak_ansible.target.core.files import write_json


@pytest.fixture
def folder(blueprint, monkeypatch):
    """The folder of a deployment whose job has ended, and whose results are here."""
    (blueprint.path / ".modak").mkdir()
    monkeypatch.chdir(blueprint.path)
    made = planned_once(blueprint.service).save()
    write_json(made / "state.json", {"job": {"state": "FAILED", "job_id": "7"}, "stage": "report"})
    (made / "results").mkdir()
    (made / "results" / "output.log").write_text("epoch 1\nepoch 2\nepoch 3\n")
    return made


def job_log(folder, since):
    return log_texts.of_job(DeploymentStore(folder), "output.log", since, follow=False, show=print)


def test_the_last_lines_of_a_job(folder):
    assert job_log(folder, LogStart()) == ["epoch 1", "epoch 2", "epoch 3"]
    assert job_log(folder, LogStart(lines=2)) == ["epoch 2", "epoch 3"]
    assert job_log(folder, LogStart(lines=0)) == []
    assert job_log(folder, LogStart(lines=9)) == ["epoch 1", "epoch 2", "epoch 3"]


def test_of_what_a_job_wrote_over_the_last_is_shown_and_counted_as_one_line(folder, monkeypatch):
    log = folder / "results" / "output.log"
    log.write_bytes(b"begins\n 10%\r 50%\r100%\r\na\x0bb\x0c\xe2\x80\xa8c\n\nends\r\n")
    assert job_log(folder, LogStart()) == ["begins", "100%", "a\x0bb\x0c\u2028c", "", "ends"]
    assert job_log(folder, LogStart(lines=4))[0] == "100%"
    assert log_texts._bytes_before(log, LogStart(lines=4)) == len(b"begins\n")


@pytest.fixture
def ranks(folder):
    """The same of a training in two processes."""
    plan = json.loads((folder / "plan.json").read_text())
    plan["job"] |= {"nodes": 2, "processes_per_node": 1}
    plan["choices"].append({"name": "strategy", "value": "ddp"})
    write_json(folder / "plan.json", plan)
    (folder / "results" / "ranks" / "1").mkdir(parents=True)
    (folder / "results" / "ranks" / "1" / "output.log").write_text("epoch 1 here\nepoch 2 here\n")
    return folder


def test_each_line_has_its_rank_where_there_are_several(ranks, capsys):
    assert job_log(ranks, LogStart(lines=1)) == ["0: epoch 3", "1: epoch 2 here"]
    logs.command(ranks.name, rank=1)
    assert capsys.readouterr().out == "epoch 1 here\nepoch 2 here\n"
    logs.command(ranks.name, rank=0, since="1")
    assert capsys.readouterr().out == "epoch 3\n"
    logs.command(ranks.name, which="scheduler")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("given", [{"rank": 2}, {"rank": 1, "which": "scheduler"}, {"rank": 0, "kind": "build"}])
def test_a_rank_that_is_not_there_is_refused(ranks, given):
    with pytest.raises(UsageError, match="rank"):
        logs.command(ranks.name, **given)


def test_one_process_has_no_other_rank(folder, capsys):
    logs.command(folder.name, rank=0, since="1")
    assert capsys.readouterr().out == "epoch 3\n"
    with pytest.raises(UsageError, match="has no rank 1"):
        logs.command(folder.name, rank=1)


def test_what_a_job_wrote_since_it_was_looked_at(folder, monkeypatch):
    monkeypatch.setattr(looks.time, "time", lambda: 1000.0)
    looks.note_look(folder, "7", "output.log", 8)
    assert job_log(folder, LogStart(moment=1000.0)) == ["epoch 2", "epoch 3"]
    assert job_log(folder, LogStart(moment=999.0)) == ["epoch 1", "epoch 2", "epoch 3"]


def test_a_log_that_is_not_there_is_empty(folder):
    assert log_texts.of_job(DeploymentStore(folder), "error.log", LogStart(lines=3), follow=False, show=print) == []


def test_the_stages_with_their_times(folder):
    note(folder, "image", "made")
    note(folder, "job", "failed: job 7 ended\n  | oh")
    image, job, more = log_texts.of_stages(DeploymentStore(folder), LogStart(), follow=False, show=print)
    assert image.endswith("  image    made")
    assert image.startswith(time.strftime("%Y-"))
    assert job.endswith("job      failed: job 7 ended")
    assert more.strip() == "| oh"
    assert log_texts.of_stages(DeploymentStore(folder), LogStart(lines=1), follow=False, show=print) == [more]
    assert (
        log_texts.of_stages(DeploymentStore(folder), LogStart(moment=time.time() + 60), follow=False, show=print) == []
    )


def test_stages_are_followed_to_their_end(folder):
    note(folder, "image", "made")
    note(folder, "job", "job 7 is failed")
    shown = []
    assert log_texts.of_stages(DeploymentStore(folder), LogStart(lines=1), follow=True, show=shown.append) == []
    assert [line.endswith("job      job 7 is failed") for line in shown] == [True]


def test_what_is_noted_before_the_end_is_followed_too(folder, monkeypatch):
    note(folder, "job", "job 7 is running")
    is_over = log_texts._is_over

    def last_words(store):
        if not is_over(store):
            DeploymentRecord(folder).note_stage("report", state="done", message="all is here")
            DeploymentRecord(folder).update(stage="report")
        return True

    monkeypatch.setattr(log_texts, "_is_over", last_words)
    DeploymentRecord(folder).update(stage="job", stages={})
    shown = []
    log_texts.of_stages(DeploymentStore(folder), LogStart(), follow=True, show=shown.append)
    assert [line.split("  ", 1)[1].strip() for line in shown] == ["job      job 7 is running", "report   all is here"]


CAMPAIGN = [
    {"training": name, "deployment": f"x-{name}", "job_id": job_id, "state": state, "explanation": words, "elapsed_seconds": ran}
    for name, job_id, state, words, ran in (
        ("a", "1", "COMPLETED", "", 5.0), ("b", "2", "FAILED", "", 5.0), ("c:seed=10", "3", "RUNNING", "", 5.0),
        ("c:seed=9", "4", "RUNNING", "", 5.0), ("d", "5", "QUEUED", "", None), ("e", "", "NONE", "", None),
        ("f", "6", "CANCELLED", "not run: b failed", None),
    )
]  # fmt: skip


@pytest.mark.parametrize(
    ("names", "meant", "followed"),
    [
        ("a b c:seed=10 d", "b", "c:seed=10"), ("c:seed=10 c:seed=9 a", "c:seed=9", "c:seed=9"), ("a d e f", "a", "d"),
        ("a e f", "a", "a"), ("f a b", "b", "b"), ("e f", "e", "e"),
    ],
)  # fmt: skip
def test_of_a_campaign_the_log_that_tells_most_is_shown(names, meant, followed):
    rows = [each for each in CAMPAIGN if each["training"] in names.split()]
    assert most_telling(rows, is_followed=False)["training"] == meant
    assert most_telling(rows, is_followed=True)["training"] == followed


def campaign(blueprint, monkeypatch):
    """The deployments of a sweep of two, of which the second has failed."""
    (blueprint.path / ".modak").mkdir(exist_ok=True)
    monkeypatch.chdir(blueprint.path)
    blueprint.replace("          batch-size: 128\n", "          batch-size: 128\n        sweep: { epochs: [ 1, 2 ] }\n")
    folders = [planned.save() for planned in plan_all(blueprint.service, Inputs())]
    for folder, state in zip(folders, ("COMPLETED", "FAILED"), strict=True):
        job = {"state": state, "job_id": "7", "explanation": "", "nodes": "n1"}
        write_json(folder / "state.json", {"job": job, "stage": "report"})
        (folder / "results").mkdir()
        (folder / "results" / "output.log").write_text(f"{state}\n")
    return folders


def test_logs_of_a_campaign_say_how_all_are_and_show_the_one_that_failed(blueprint, monkeypatch, capsys):
    folders = campaign(blueprint, monkeypatch)
    logs.command(str(blueprint.path))
    shown = capsys.readouterr()
    assert shown.out == "FAILED\n"
    assert all(folder.name in shown.err for folder in folders)
    assert f"the log of {folders[1].name}" in shown.err


def test_one_point_of_a_sweep_is_picked_by_its_name(blueprint, monkeypatch, capsys):
    campaign(blueprint, monkeypatch)
    logs.command(str(blueprint.path), training="training:epochs=1", as_json=True)
    assert json.loads(capsys.readouterr().out)["lines"] == ["COMPLETED"]
    with pytest.raises(UsageError, match="has no deployment of a training lr=9"):
        logs.command(str(blueprint.path), training="lr=9")
    with pytest.raises(UsageError, match="--training needs a blueprint"):
        logs.command(training="training")


def test_a_job_that_has_written_nothing_is_told_so(folder, capsys):
    logs.command(folder.name, which="error")
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "training: job 7 is failed: nothing is in error.log\n")


def manifest(folder):
    data = (folder / "results" / "output.log").read_bytes()
    files = [{"path": "output.log", "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}]
    write_json(folder / "results" / "manifest.json", {"files": files})


def test_results_are_copied_whole(folder, tmp_path, monkeypatch, capsys):
    manifest(folder)
    monkeypatch.setattr(fetched, "fetch_results", lambda store: None)
    results.command(folder.name, to=tmp_path / "copy", as_json=True)
    answer = json.loads(capsys.readouterr().out)
    assert (answer["state"], answer["folder"]) == ("FAILED", str(tmp_path / "copy"))
    assert {path.name for path in (tmp_path / "copy").iterdir()} == {"output.log", COPIED}
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "train.py").touch()
    results.command(folder.name, to=tmp_path / "mine", as_json=True)
    assert {path.name for path in (tmp_path / "mine").iterdir()} == {"output.log", "train.py"}
    capsys.readouterr()
    results.command(folder.name, to=None, as_json=False)
    assert "output.log" in capsys.readouterr().out


def test_results_that_were_changed_here_are_not_copied(folder, tmp_path, monkeypatch):
    manifest(folder)
    (folder / "results" / "output.log").write_text("tampered\n")
    monkeypatch.setattr(fetched, "fetch_results", lambda store: None)
    with pytest.raises(ModakError, match="has changed since it came from the target"):
        results.command(folder.name, to=tmp_path / "copy", as_json=False)
    assert not (tmp_path / "copy" / "output.log").exists()


def test_what_was_undeployed_is_listed_and_not_asked_for(folder, monkeypatch, capsys):
    manifest(folder)
    write_json(folder / "state.json", {"undeployed": 1.0, "job": {"state": "COMPLETED"}})
    monkeypatch.setattr(fetched, "fetch_results", lambda store: pytest.fail("the target was asked"))
    results.command(folder.name, to=None, as_json=True)
    assert json.loads(capsys.readouterr().out)["state"] == "UNDEPLOYED"


def test_what_was_brought_while_a_job_ran_is_brought_again_after_its_end(folder, monkeypatch):
    """What came while it ran, before somebody else learned that it has ended, is a part of its log."""
    asked = []
    monkeypatch.setattr("modak_ansible.deployment.fetching.fetch_results", asked.append)
    job = {"state": "COMPLETED", "job_id": "7"}
    for brought, times in (("", 1), ("6 1 1", 2), ("7 1 1", 2)):
        write_json(folder / "state.json", {"job": job, "brought": brought})
        log_texts.bring(DeploymentStore(folder))
        assert len(asked) == times
