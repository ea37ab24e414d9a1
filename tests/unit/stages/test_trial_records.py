"""Each trial of a tuning becomes a record of its project, once."""

from __future__ import annotations

import json

import pytest

from modak_ansible.measuring.records import read_records
from modak_ansible.model.measured.work import Work
from modak_ansible.performance import load_model
from modak_ansible.performance.fit.cases import cases
from modak_ansible.planning.plan import make_plan
from modak_ansible.planning.service import request_of
from modak_ansible.planning.tuning.tuning import tuning_alone
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.stages.jobs.record import record_job
from modak_ansible.stages.jobs.trial_records import record_trials, trial_records
from modak_ansible.stages.jobs.tuned import read_report

JOB = {"job_id": "7", "state": "COMPLETED", "explanation": "", "started": 1.7e9, "nodes": "n1"}
SAID = {
    "hostname": "n1", "processor": {"model": "AMD EPYC", "architecture": "x86_64"}, "accelerator": "",
    "frameworks": {"torch": {"version": "2.13.0+cpu", "import_seconds": 1.5}}, "choices": {},
    "peak_memory_bytes": 10**9,
}  # fmt: skip


def steps(median, foreign=0.0):
    return {
        "count": 20, "median_seconds": median, "first_seconds": 1.0, "to_first_step_seconds": 4.0, "p10_seconds": median,
        "p90_seconds": median, "batch_size": 128, "samples": 6000, "foreign_cores": foreign, "trial": True,
    }  # fmt: skip


@pytest.fixture
def request_(blueprint):
    request = request_of(blueprint.service, Inputs())
    preferences = request.optimisation.model_copy(update={"autotuning": True, "numerics": "reassociation"})
    return request.model_copy(update={"optimisation": preferences})


@pytest.fixture
def report(tmp_path):
    def write(plan, best="c2"):
        trials = [
            {"candidate": "c0", "rung": 1, "position": 1, "asked": 20, "seconds": 5.0, "steps": steps(0.2), "score": 0.2,
             "report": SAID},
            {"candidate": "c1", "rung": 1, "position": 2, "asked": 20, "seconds": 1.0, "reason": "it ended with exit code 1"},
            {"candidate": "c2", "rung": 1, "position": 3, "asked": 20, "seconds": 5.0, "steps": steps(0.1, 0.9),
             "score": 0.1, "report": SAID},
        ]  # fmt: skip
        known = {
            candidate["name"]: {"title": candidate["title"], "settings": candidate["settings"], "outcome": "measured"}
            for candidate in plan["tuning"]["candidates"]
        }
        content = {
            "schema": "modak.tuning/1", "state": "finished", "reason": "", "date": "2026-01-01T00:00:00Z", "hostname": "n1",
            "budget": 300, "spent": 11, "best": best, "candidates": known, "trials": trials,
        }  # fmt: skip
        (tmp_path / "results").mkdir(exist_ok=True)
        (tmp_path / "results" / "tuning.json").write_text(json.dumps(content))
        return read_report(tmp_path / "results")

    return write


def test_a_record_says_what_was_tried_and_how_fast_it_was(request_, report):
    plan = make_plan(request_).model_dump(mode="json")
    records = trial_records(plan, JOB, report(plan))
    assert [record.outcome for record in records] == ["measured", "failed", "disturbed"]
    first, lost, last = records
    assert (first.suite, first.round, first.position, first.plan) == ("tuning", 1, 1, plan["digest"])
    assert first.steps.median_seconds == 0.2
    assert (first.target.processor, first.entry) == ("AMD EPYC", "pytorch-2.13-cpu")
    assert first.settings == plan["tuning"]["candidates"][0]["settings"]
    assert lost.reason == "it ended with exit code 1"
    assert last.settings == plan["tuning"]["candidates"][2]["settings"]
    assert last.variant == plan["tuning"]["candidates"][2]["title"]
    assert "others kept 0.90 cores busy" in last.reason
    assert len({record.suite_digest + record.group for record in records}) == 1


def test_the_model_learns_from_them(request_, report):
    work = Work(workload="mnist_cnn", gflop_per_sample=0.07, batch_size=128)
    application = request_.application.model_copy(update={"work": work})
    # As the machine of the records, for which a peak was measured: a processor's name alone is not one machine.
    processor = request_.target.processor.model_copy(update={"architecture": "x86_64_v4"})
    target = request_.target.model_copy(update={"processor": processor})
    request = request_.model_copy(update={"application": application, "target": target})
    plan = make_plan(request).model_dump(mode="json")
    records = trial_records(plan, JOB, report(plan))
    [learnt] = cases(records, {}, load_model().stored.machines)
    assert learnt.step_seconds == 0.2
    assert learnt.facts.switches == {}
    assert set(learnt.answers) == {"step", "first_step", "start"}


@pytest.fixture
def deployed(make_stage, request_, report, tmp_path):
    """A stage of a deployment that is over."""

    def make(request=None):
        plan = make_plan(request or request_).model_dump(mode="json")
        stage, _ = make_stage(lambda name, **arguments: {})
        stage.plan = plan
        stage.folder = tmp_path / ".modak" / "deployments" / "one"
        (stage.folder / "results").mkdir(parents=True)
        (stage.folder / "origin.json").write_text(json.dumps({"state": str(tmp_path / ".modak")}))
        report(plan)
        (tmp_path / "results" / "tuning.json").rename(stage.folder / "results" / "tuning.json")
        (stage.folder / "results" / "applied.json").write_text(
            json.dumps({**SAID, "schema": "modak.applied/1", "steps": {**steps(0.1), "trial": False}})
        )
        stage.record.update(job=JOB)
        return stage

    return make


def test_they_are_added_once(deployed, tmp_path):
    stage = deployed()
    assert record_trials(stage) == 3
    assert record_trials(stage) == 0
    assert len(read_records(tmp_path / ".modak" / "records" / "tuning.jsonl")) == 3


def test_the_jobs_own_record_has_what_trained(deployed, tmp_path):
    stage = deployed()
    winner = stage.plan["tuning"]["candidates"][2]
    assert record_job(stage)
    [record] = read_records(tmp_path / ".modak" / "records" / "jobs.jsonl")
    in_code = {choice["name"] for choice in stage.plan["choices"] if choice["reaches"] == "code"}
    assert record.settings == {name: value for name, value in winner["settings"].items() if name not in in_code}


def test_a_job_that_only_tuned_has_no_record_of_a_training(deployed, request_, tmp_path):
    stage = deployed(tuning_alone(request_, 100))
    assert not record_job(stage)
    assert record_trials(stage) == 3
    assert not (tmp_path / ".modak" / "records" / "jobs.jsonl").exists()
