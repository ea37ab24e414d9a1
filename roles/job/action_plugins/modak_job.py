"""The job stage of a deployment: submitted once and watched, asked for, followed, or cancelled and removed."""

from __future__ import annotations

from modak_ansible.stages.action import StageAction
from modak_ansible.stages.job import cancel_job, follow_job, query_job, run_job


class ActionModule(StageAction):
    """Runs the stage for the plan in ``plan_file``; ``state`` as the role's job_state."""

    stage_name = "job"

    def perform(self, stage):
        state = self._task.args.get("state", "present")
        if state == "present":
            return run_job(stage, wait=bool(self._task.args.get("wait", True)))
        return {"queried": query_job, "followed": follow_job, "absent": cancel_job}[state](stage)
