"""The results stage of a deployment: metrics, logs and outputs come back."""

from __future__ import annotations

from modak_ansible.stages.action import StageAction
from modak_ansible.stages.results import fetch_results


class ActionModule(StageAction):
    """Runs the stage for the plan in ``plan_file``."""

    stage_name = "results"

    def perform(self, stage):
        return fetch_results(stage)
