"""The probe stage of a deployment: the target answers, and has what every deployment needs."""

from __future__ import annotations

from modak_ansible.stages.action import StageAction
from modak_ansible.stages.probe import probe_target


class ActionModule(StageAction):
    """Runs the stage for the plan in ``plan_file``."""

    stage_name = "target"

    def perform(self, stage):
        return probe_target(stage)
