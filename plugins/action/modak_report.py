"""The end of a deployment: how the training ended; a job without success fails here, with its own words."""

from __future__ import annotations

from modak_ansible.stages.action import StageAction
from modak_ansible.stages.jobs.campaign import report_all
from modak_ansible.stages.results import report


class ActionModule(StageAction):
    """Reports on the plan in ``plan_file``."""

    stage_name = "report"

    def perform(self, stage):
        return report(stage)

    def perform_all(self, stages):
        return report_all(stages)
