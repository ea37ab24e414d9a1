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
            arguments = self._task.args
            return run_job(stage, wait=bool(arguments.get("wait", True)), quietly=bool(arguments.get("quietly", False)))
        if state == "followed":
            return follow_job(stage, self._task.args.get("log", "output.log"))
        if state == "absent":
            return cancel_job(stage)
        outcome = query_job(stage)
        stage.say(outcome.message)
        return outcome
