"""Tuning on the testbed: candidates run in the job, in the chosen image, and the best of them trains."""

from __future__ import annotations

import json

import pytest
from cluster import ROOT, Project, modak

from modak_ansible.measuring.records import read_records

pytestmark = pytest.mark.testbed


@pytest.fixture
def mnist_project(project: Project) -> Project:
    """The MNIST-CNN with drawn digits; the records leave some of its matters open."""
    for path in (ROOT / "benchmarks" / "mnist_cnn").iterdir():
        if path.is_file():
            (project.path / "train" / path.name).write_bytes(path.read_bytes())
    project.dataset = {"name": "mnist", "format": "idx", "source": ["digits"]}
    project.training.update(
        script="train/pytorch.py",
        arguments={"epochs": 1, "batch-size": 128},
        walltime="00:10:00",
        optimisation={"autotuning": True, "tuning_budget": 45, "numerics": "reassociation", "input": "memory"},
    )
    return project


def test_the_job_tunes_and_trains(mnist_project: Project) -> None:
    done = mnist_project.deploy("--json", timeout=1800)
    assert done.returncode == 0, done.stderr
    results = mnist_project.folder / "results"
    plan = mnist_project.plan()
    assert plan["tuning"], "the records tell all apart by now: leave more open here"
    tuning = json.loads((results / "tuning.json").read_text())
    assert tuning["state"] == "finished"
    assert tuning["best"] in tuning["candidates"]
    assert tuning["spent"] <= 50  # a trial that does not end is given three seconds
    measured = [trial for trial in tuning["trials"] if trial.get("score")]
    assert {each["candidate"] for each in measured} >= {"c0", "c1"}
    output = (results / "output.log").read_text()
    assert output.count("tuning: trial ") == len(tuning["trials"])
    assert "epoch 1/1" in output

    metrics = json.loads((results / "metrics.json").read_text())
    assert (metrics["finished"], len(metrics["epochs"])) == (True, 1)
    applied = json.loads((results / "applied.json").read_text())
    assert applied["steps"]["trial"] is False
    winner = next(candidate for candidate in plan["tuning"]["candidates"] if candidate["name"] == tuning["best"])
    [record] = read_records(mnist_project.path / ".modak" / "records" / "jobs.jsonl")
    for name in ("allocator", "huge_pages", "memory_format"):
        assert record.settings.get(name) == winner["settings"].get(name)
    trials = read_records(mnist_project.path / ".modak" / "records" / "tuning.jsonl")
    assert [trial.position for trial in trials] == [trial["position"] for trial in tuning["trials"]]
    assert mnist_project.testbed.ssh(f"ls -d {mnist_project.remote}/trial-* 2> /dev/null || true") == ""
    assert any(title == "tuning" for title, _ in mnist_project.record["tuning"])

    only = modak("tune", mnist_project.path, "--budget", "20", "--json", cwd=mnist_project.path, timeout=900)
    assert only.returncode == 0, only.stderr
    found = json.loads(only.stdout)
    assert found["best"]
    assert found["deployment"].startswith(f"{mnist_project.name}-tune-")
    folder = mnist_project.path / ".modak" / "deployments" / found["deployment"]
    assert not (folder / "results" / "metrics.json").exists()
    assert len(read_records(mnist_project.path / ".modak" / "records" / "jobs.jsonl")) == 1
    assert len(read_records(mnist_project.path / ".modak" / "records" / "tuning.jsonl")) > len(trials)
    assert modak("undeploy", found["deployment"], cwd=mnist_project.path).returncode == 0


def test_steps_are_timed_and_plans_go_by_them(mnist_project: Project) -> None:
    mnist_project.training.update(optimisation={"input": "memory"})
    mnist_project.write()
    done = modak("trace", mnist_project.path, "--steps", "--json", cwd=mnist_project.path, timeout=900)
    assert done.returncode == 0, done.stderr
    timed = json.loads(done.stdout)
    assert 0 < timed["low"] <= timed["high"] < 60 < timed["memory"]
    assert timed["low"] < timed["seconds"]
    assert timed["batch_size"] in (128, None)  # the script cuts batches out of what it has in memory
    done = modak("plan", mnist_project.path, "--json", cwd=mnist_project.path)
    assert done.returncode == 0, done.stderr
    chosen = next(each for each in json.loads(done.stdout)["candidates"] if each["chosen"])["prediction"]
    assert chosen["known"]
    assert chosen["doubts"][0].startswith(f"by {timed['count']} steps of it, timed on ")
    assert chosen["parts"]["start"]["middle"] == pytest.approx(timed["start"] - timed["seconds"], rel=0.01)
