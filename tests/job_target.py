"""A target with the job of one deployment, which answers as the module modak_job does."""

from __future__ import annotations

import json


def situation(state, job_id="7", **more):
    return {"job_id": job_id, "state": state, **more}


def answered(**answer):
    return {"answer": json.dumps(answer)}


class JobTarget:
    """The first job has ended in a state, or lives, and a second one completes.

    Attributes:
        actions: what the module was asked to do.
        forecast: when its scheduler expects a job to begin.
        given: of each the module's other arguments, and what was said of the deployment.
    """

    def __init__(self, state, job_id="7", *, is_quicker=False, states=("COMPLETED",)):
        self.situation = situation(state, job_id)
        self.is_quicker = is_quicker
        self.states = list(states)
        self.changed = self.there = True
        self.removed = {}
        self.actions, self.given = [], []
        self.forecast = None

    def __call__(self, name, action, deployments, **arguments):
        assert name == "modak_job"
        (wanted,) = json.loads(deployments)
        self.actions.append(action)
        self.given.append({**wanted, **arguments})
        deployment = wanted["deployment"]
        if action == "look":
            known = {
                "situation": self.situation,
                "there": self.there,
                "staged": True,
                "began": False,
                "skipped": False,
                "waited": {},
            }
            return answered(folder="deployments", known={deployment: known}, forecast=self.forecast)
        if action == "set_aside":
            assert wanted["ended"] == "7"
            self.situation = situation("RUNNING", "8") if self.is_quicker else situation("NONE", "")
            return answered(attempts={} if self.is_quicker else {deployment: 1})
        if action == "submit":
            self.situation = situation("RUNNING", "8")
            jobs = {deployment: {"situation": self.situation, "submitted": True}}
            return answered(jobs=jobs, refused=None)
        if action == "watch":
            news = {}
            if wanted["state"] in ("RUNNING", "QUEUED", "HELD", "ENDING", "UNKNOWN") and self.states:
                self.situation = situation(self.states.pop(0), self.situation["job_id"])
                news = {deployment: self.situation}
            return answered(situations=news, output="", offset=0)
        if action == "remove":
            return answered(**{"cancelled": {}, "removed": [deployment], "left": {}, "images": [], **self.removed})
        job = {
            "deployment": deployment, "situation": self.situation, "changed": self.changed, "problem": "", "hint": "",
            "permitted": True, "exit_code": 1,
        }  # fmt: skip
        return answered(jobs=[job])
