"""The dataset stage of a deployment."""

from __future__ import annotations

from modak_ansible.stages.action import StageAction
from modak_ansible.stages.dataset import data_of, ensure_dataset


class ActionModule(StageAction):
    """Runs the stage for the plan in ``plan_file``."""

    stage_name = "dataset"

    def perform(self, stage):
        return ensure_dataset(stage)

    def subject(self, plan):
        return data_of(plan)
