"""The job stage: a job that is measured is left alone while it runs."""

from __future__ import annotations

from modak_ansible.stages.job import run_job


def test_a_job_that_is_measured_is_waited_for_and_not_read(make_stage):
    states = ["RUNNING", "RUNNING", "COMPLETED"]
    calls = []

    def call(name, action, **arguments):
        calls.append(action)
        situation = {"job_id": "7", "nodes": "node01", "explanation": "", "state": "QUEUED", "exit_code": None}
        if action == "await":
            situation["state"] = states.pop(0)
        return {"situation": situation, "staged": True, "there": True, "folder": "deployments"}

    stage, said = make_stage(call)
    stage.record.update()
    outcome = run_job(stage, quietly=True)
    assert outcome.data["situation"]["state"] == "COMPLETED"
    assert calls == ["look", "await", "await", "await"]
    assert said == ["job 7 is completed"]
    assert stage.record.read()["job"]["state"] == "COMPLETED"
