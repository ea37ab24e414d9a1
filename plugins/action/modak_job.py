"""The job stage: a job submitted once and watched, asked for, followed, acted on, or cancelled and removed."""

from __future__ import annotations

from ansible.module_utils.parsing.convert_bool import boolean

from modak_ansible.errors import ModakError
from modak_ansible.stages.action import StageAction
from modak_ansible.stages.jobs.campaign import query_all, remove_all, run_campaign
from modak_ansible.stages.jobs.job import cancel_job, follow_job, query_job, run_job
from modak_ansible.stages.jobs.verbs import DEEDS, act_on_job, act_on_jobs, resume_job, resume_jobs


class ActionModule(StageAction):
    """Runs the stage for the plan in ``plan_file``, or those in ``plan_files``; ``state`` as the role's job_state."""

    stage_name = "job"

    def perform(self, stage):
        arguments = self._task.args
        state = arguments.get("state", "present")
        if state == "present":
            return self._run(stage)
        if state == "resumed":
            return resume_job(stage, self._run)
        if state == "followed":
            return follow_job(stage, arguments.get("log", "output.log"), int(arguments.get("offset", 0)))
        if state == "absent":
            return cancel_job(stage, **self._removal())
        if state in DEEDS:
            return act_on_job(stage, state)
        outcome = query_job(stage)
        stage.say(outcome.message)
        return outcome

    def _run(self, stage):
        arguments = self._task.args
        submitted = False
        if stage.plan.get("after"):
            # where nobody else keeps the order, what comes before is waited for here
            outcome = run_campaign([stage], wait=stage.plan["job"]["scheduler"] == "none")
            if stage.check or outcome.data["not_run"]:
                return outcome
            submitted = outcome.changed
        ran = run_job(stage, wait=bool(arguments.get("wait", True)), quietly=bool(arguments.get("quietly", False)))
        ran.changed = ran.changed or submitted
        return ran

    def _removal(self):
        wanted = {"remove_images": "remove_images", "leave": "leave_job"}
        return {name: boolean(self._task.args.get(given, False)) for name, given in wanted.items()}

    def perform_all(self, stages):
        arguments = self._task.args
        state = arguments.get("state", "present")
        if state == "present":
            return run_campaign(stages, wait=bool(arguments.get("wait", True)))
        if state == "resumed":
            return resume_jobs(stages, wait=bool(arguments.get("wait", True)))
        if state == "absent":
            return remove_all(stages, **self._removal())
        if state in DEEDS:
            return act_on_jobs(stages, state)
        if state == "queried":
            return query_all(stages)
        raise ModakError("several trainings are not followed at once", hint="say which one: -e training=NAME")
