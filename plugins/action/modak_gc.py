"""Looks for what no deployment on a target uses, and removes it."""

from __future__ import annotations

from modak_ansible.stages.action import StageAction
from modak_ansible.stages.gc import collect, survey


class ActionModule(StageAction):
    """Looks at the target of the plan in ``plan_file``; the plan itself is of no interest."""

    stage_name = "gc"
    is_noted = False

    def perform(self, stage):
        arguments = self._task.args
        older_than = float(arguments.get("older_than", 86400))
        if arguments.get("state", "removed") == "queried":
            return survey(stage, older_than)
        return collect(stage, older_than, list(arguments.get("only") or []))
