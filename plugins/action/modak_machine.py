"""The machines of a cloud that a target is: made for what is deployed to it, and ended with the last of that."""

from __future__ import annotations

from modak_ansible.stages.action import StageAction
from modak_ansible.stages.clouds import machines


class ActionModule(StageAction):
    """Has the machines of the plan in ``plan_file``, or of those in ``plan_files``, be present or absent; ``state`` as
    the role's machine_state.

    Its answer says whether it is ``there``: what is not cannot be entered.
    """

    stage_name = "target"

    def run(self, tmp=None, task_vars=None):
        self.is_noted = self._task.args.get("state", "present") == "present"
        return super().run(tmp, task_vars)

    def perform_all(self, stages):
        state, all_of_it = self._task.args.get("state", "present"), machines.machines_of(stages[0])
        if state == "present":
            return machines.have_machines(all_of_it, stages)
        if state == "absent":
            return machines.remove_machines(all_of_it, stages)
        only = list(self._task.args.get("only") or [])
        return machines.look_at_machines(all_of_it[0], sweep=state == "swept", only=only)
