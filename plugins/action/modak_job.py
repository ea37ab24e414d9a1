"""The job stage: jobs submitted once and watched, asked for, acted on, or cancelled and removed."""

from __future__ import annotations

from ansible.module_utils.parsing.convert_bool import boolean

from modak_ansible.stages.action import StageAction
from modak_ansible.stages.jobs import operations
from modak_ansible.target.jobs.actions import acted
from modak_ansible.target.jobs.results import listed_by


class ActionModule(StageAction):
    """Runs the stage for the plan in ``plan_file``, or those in ``plan_files``; ``state`` as the role's job_state."""

    stage_name = "job"
    looks = {
        **{("modak_job", action): acted for action in ("look", "submit", "watch")},
        ("modak_results", ""): listed_by,
    }

    def run(self, tmp=None, task_vars=None):
        self.is_noted = self._task.args.get("state") not in operations.OPERATIONS  # these note what they do
        return super().run(tmp, task_vars)

    def perform_all(self, stages):
        given = self._task.args
        state = given.get("state", "present")
        if state in ("present", "resumed"):
            perform = operations.run_jobs if state == "present" else operations.resume_jobs
            return perform(stages, wait=boolean(given.get("wait", True)), quietly=boolean(given.get("quietly", False)))
        if state == "absent":
            wanted = {"remove_images": given.get("remove_images", False), "leave": given.get("leave_job", False)}
            return operations.remove_jobs(stages, **{name: boolean(value) for name, value in wanted.items()})
        if state in operations.OPERATIONS:
            return operations.operate(stages, state)
        outcome = operations.query_jobs(stages)
        if len(stages) == 1:
            self._say(outcome.message)
        return outcome
