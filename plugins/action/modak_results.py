"""The results stage of a deployment: metrics, logs and outputs come back."""

from __future__ import annotations

from modak_ansible.stages.action import StageAction
from modak_ansible.stages.jobs.results import keep_all_results
from modak_ansible.stages.results import fetch_results
from modak_ansible.target.jobs.results import listed_by


class ActionModule(StageAction):
    """Runs the stage for the plan in ``plan_file``, or those in ``plan_files``."""

    stage_name = "results"
    looks = {("modak_results", ""): listed_by}

    def perform(self, stage):
        return fetch_results(stage)

    def perform_all(self, stages):
        return keep_all_results(stages)
