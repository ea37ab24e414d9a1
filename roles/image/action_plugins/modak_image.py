"""The image stage of a deployment."""

from __future__ import annotations

from ansible.module_utils.parsing.convert_bool import boolean

from modak_ansible.stages.action import StageAction
from modak_ansible.stages.image import ensure_image


class ActionModule(StageAction):
    """Runs the stage for the plan in ``plan_file``."""

    stage_name = "image"

    def perform(self, stage):
        return ensure_image(stage, again=boolean(self._task.args.get("again", False)))

    def subject(self, plan):
        return plan["image"]["digest"] if plan["image"]["layers"] else ""
