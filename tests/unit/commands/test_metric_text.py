"""modak logs DEPLOYMENT metrics."""

from __future__ import annotations

import json

import pytest

from modak_ansible.commands.jobs import log_text
from modak_ansible.commands.jobs.log_start import LogStart
from modak_ansible.commands.jobs.metric_text import of_metrics
from modak_ansible.deployment import status_query
from modak_ansible.store.deployment import DeploymentStore


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(log_text, "bring", lambda store: None)
    write(tmp_path, [{"step": 1, "loss": 2.0, "time": 100}, {"step": 2, "loss": 1.5, "lr": 0.1, "time": 200}])
    (tmp_path / "plan.json").write_text('{"training": "t"}')
    return tmp_path


def write(folder, points, rest=""):
    (folder / "results").mkdir(exist_ok=True)
    (folder / "results/metrics.jsonl").write_text("".join(json.dumps(each) + "\n" for each in points) + rest)
    (folder / "results/manifest.json").write_text('{"files": [{"path": "metrics.jsonl", "size": 1, "sha256": ""}]}')


def test_a_line_for_each_moment(folder, capsys):
    assert of_metrics(DeploymentStore(folder), LogStart(), follow=False, show=print) == [
        "step 1  loss 2",
        "step 2  loss 1.5  lr 0.1",
    ]
    assert of_metrics(DeploymentStore(folder), LogStart(lines=1), follow=False, show=print) == [
        "step 2  loss 1.5  lr 0.1"
    ]
    assert of_metrics(DeploymentStore(folder), LogStart(moment=150.0), follow=False, show=print) == [
        "step 2  loss 1.5  lr 0.1"
    ]
    write(folder, [{"step": 1, "loss": 2.0}], "oops\n")
    of_metrics(DeploymentStore(folder), LogStart(), follow=False, show=print)
    assert capsys.readouterr().err == "note: metrics.jsonl:2: is not a JSON object\n"


def test_numbers_stand_below_their_like(folder):
    write(folder, [{"step": 9, "loss": 2.25, "lr": 0.1}, {"step": 10, "loss": 1}, {"step": 11, "loss": 1.5, "lr": 0.2}])
    assert of_metrics(DeploymentStore(folder), LogStart(), follow=False, show=print) == [
        "step 9   loss 2.25  lr 0.1",
        "step 10  loss 1",
        "step 11  loss 1.5   lr 0.2",
    ]


def test_followed_it_ends_with_what_came_between_two_looks(folder, monkeypatch):
    (folder / "state.json").write_text('{"job": {"state": "RUNNING", "job_id": "7"}}')

    def ask(entries, every, heard):
        for progress in ({"step": 3, "numbers": {"loss": 1.0}}, {"step": 3, "numbers": {"loss": 1.0}}, {}):
            entries[0].answer = {"progress": progress}
            heard()
        write(folder, [{"step": 2, "loss": 1.5}, {"step": 3, "loss": 1.0}, {"step": 4, "loss": 0.5}])

    monkeypatch.setattr(status_query, "ask_targets", ask)
    shown = []
    assert of_metrics(DeploymentStore(folder), LogStart(lines=1), follow=True, show=shown.append) == []
    assert shown == ["step 2  loss 1.5  lr 0.1", "now: step 3  loss 1", "step 3  loss 1", "step 4  loss 0.5"]


@pytest.mark.parametrize("lines", [2, 3, 100])
def test_more_lines_than_there_are_is_all_of_them(folder, lines):
    assert len(of_metrics(DeploymentStore(folder), LogStart(lines=lines), follow=False, show=print)) == 2
