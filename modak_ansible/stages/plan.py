"""From a blueprint to a plan file and a way to the target, for each of the three doors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ansible import constants
from ansible.errors import AnsibleActionFail

from modak_ansible.blueprint.reader import Inputs
from modak_ansible.blueprint.training_reader import inputs_as_text
from modak_ansible.connection import connect
from modak_ansible.errors import ModakError
from modak_ansible.planning import Planned, plan_blueprint, plan_node, planned_from_file
from modak_ansible.project import find_blueprint
from modak_ansible.stages.opera import find_opera_deployment


def plan_deployment(arguments: dict[str, Any], *, check: bool) -> dict[str, Any]:
    """What the plan role hands to the plays behind it.

    Args:
        arguments: ``file`` (a plan that was made already), or ``blueprint`` with ``inputs``, ``inputs_file`` and
            ``training``, or ``node`` for a node of the blueprint that opera deploys.
        check: whether nothing may be written but Ansible's own temporary files.
    """
    try:
        planned = _plan(arguments)
        if planned is None:
            return {"plan_file": "", "changed": False}
        folder = planned.folder
        if not check or not (folder / "plan.json").exists():
            folder = planned.save(Path(constants.DEFAULT_LOCAL_TMP) / "modak" if check else None)
        connection = connect(planned.plan.target, planned.testbed, planned.blueprint.parent, folder)
    except ModakError as error:
        raise AnsibleActionFail(str(error)) from error
    return {
        "changed": False,
        "msg": f"plan {planned.plan.digest[:12]} for {planned.plan.name}",
        "plan_file": str(folder / "plan.json"),
        "digest": planned.plan.digest,
        "connection": connection.ansible_variables(),
    }


def _plan(arguments: dict[str, Any]) -> Planned | None:
    if arguments.get("file"):
        return planned_from_file(Path(arguments["file"]))
    if arguments.get("blueprint"):
        inputs_file = Path(arguments["inputs_file"]).expanduser() if arguments.get("inputs_file") else None
        inputs = Inputs(inputs_file, inputs_as_text(_mapping(arguments.get("inputs"))))
        return plan_blueprint(find_blueprint(arguments["blueprint"]), inputs, arguments.get("training") or None)
    if arguments.get("node"):
        deployment = find_opera_deployment()
        return plan_node(deployment.blueprint, Inputs(None, inputs_as_text(deployment.inputs)), arguments["node"])
    raise ModakError("no blueprint is named", hint="-e blueprint=tosca/blueprints/mnist-pytorch-slurm")


def _mapping(value: Any) -> dict[str, Any]:
    """Inputs as Ansible's extra variables give them: a mapping, or its JSON."""
    if not value:
        return {}
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = None
    if not isinstance(value, dict):
        raise ModakError("inputs is not a mapping", hint='-e \'{"inputs": {"epochs": 4}}\'')
    return value
