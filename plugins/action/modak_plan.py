"""Makes the plan of a blueprint on the controller; the roles behind it only carry it out."""

from __future__ import annotations

import sys
from typing import Any

from ansible import context
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

try:
    from modak_ansible.stages.plan import left_out, plan_deployment
except ImportError:
    plan_deployment = None


class ActionModule(ActionBase):
    """Gives ``plan_file`` and how the target is entered (``connection``)."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        if plan_deployment is None:
            raise AnsibleActionFail(
                f"the Python that runs ansible-playbook ({sys.executable}) has no modak_ansible: "
                "run .venv/bin/ansible-playbook, or pip install modak-ansible there"
            )
        variables = task_vars or {}
        if left_out(self._task.tags, variables, context.CLIARGS.get("args") or ()):
            return {**result, "skipped": True, "targets": []}
        result.update(plan_deployment(self._task.args, check=self._task.check_mode, variables=variables))
        return result
