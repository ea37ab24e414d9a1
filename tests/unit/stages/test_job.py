"""The job stage: a job that is measured is left alone while it runs."""

from __future__ import annotations

from modak_ansible.stages.jobs.job import cancel_job, run_job


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


def test_a_job_is_looked_at_once_before_it_is_submitted_and_watched(make_stage):
    calls = []

    def call(name, action, **arguments):
        calls.append(action)
        job_id, state = ("", "NONE") if action == "look" else ("7", "QUEUED")
        situation = {"job_id": job_id, "nodes": "", "explanation": "", "state": state, "exit_code": None}
        return {"situation": situation, "staged": True, "folder": "deployments", "submitted": action == "submit"}

    stage, said = make_stage(call)
    outcome = run_job(stage, wait=False)
    assert calls == ["look", "submit"]
    assert (outcome.changed, said) == (True, ["job 7 submitted"])
    assert stage.record.read()["job"]["job_id"] == "7"


def removal(plan_images, gone):
    def call(name, action, images=None, **arguments):
        assert action == "remove"
        assert images == plan_images
        return {"removed": True, "cancelled": False, "job_id": "7", "images": gone}

    return call


def test_images_go_with_a_deployment_only_where_that_is_wanted(make_stage):
    stage, _ = make_stage(removal([], []))
    assert cancel_job(stage).message == "its folder removed"
    images = [layer["path"] for layer in stage.plan["image"]["layers"]]
    stage.call = removal(images, ["pytorch-2.13-cpu (0123456789ab)"])
    assert (
        cancel_job(stage, remove_images=True).message == "its folder removed, removed pytorch-2.13-cpu (0123456789ab)"
    )
    stage.call = removal(images, [])
    assert cancel_job(stage, remove_images=True).message.endswith("no image removed: others use them, or they are gone")


def test_an_image_that_somebody_else_put_there_stays(make_stage):
    stage, _ = make_stage(removal([], []))
    stage.plan["image"]["layers"] = [{"kind": "file", "path": "/shared/images/ours.sif"}]
    assert cancel_job(stage, remove_images=True).message == "its folder removed"
