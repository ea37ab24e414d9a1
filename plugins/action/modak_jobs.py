"""Asks a target for the jobs of many deployments, once or until all have ended."""

from __future__ import annotations

from pathlib import Path

from modak_ansible.stages.action import StageAction
from modak_ansible.stages.base import Outcome
from modak_ansible.stages.jobs.query import Asking, ask_for_jobs


class ActionModule(StageAction):
    """Asks for the jobs of ``deployments``, of the target of the plan in ``plan_file``; the answers go into a file."""

    stage_name = "jobs"
    is_noted = False
    pauses = ()  # whoever looks is told at once that a target is silent; it is asked again later

    def perform(self, stage):
        given = self._task.args
        asking = Asking(given["deployments"].split(), Path(given["answer"]), float(given.get("every") or 0))
        return Outcome(False, ask_for_jobs(stage, asking))
