"""The end of a deployment: how the trainings ended; a job without success fails here, with its own words."""

from __future__ import annotations

from modak_ansible.stages.action import StageAction
from modak_ansible.stages.report import report


class ActionModule(StageAction):
    """Reports on the plan in ``plan_file``, or those in ``plan_files``."""

    stage_name = "report"

    def perform_all(self, stages):
        return report(stages)
