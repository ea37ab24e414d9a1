"""The probe stage of a deployment: the target answers, and has what every deployment needs."""

from __future__ import annotations

from pathlib import Path

from modak_ansible.stages.action import StageAction
from modak_ansible.stages.probe import probe_target
from modak_ansible.target.core.probe import looked


class ActionModule(StageAction):
    """Runs the stage for the plan in ``plan_file``, or for those in ``plan_files``."""

    stage_name = "target"
    looks = {("modak_probe", ""): looked}

    def perform(self, stage):
        files = self._task.args.get("plan_files") or [self._task.args["plan_file"]]
        return probe_target(stage, [Path(file).parent.name for file in files])
