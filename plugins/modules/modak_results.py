#!/usr/bin/python
"""Lists what a job left on a target, with checksums."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.modak.hpc.plugins.module_utils.target.core.answer import answer
from ansible_collections.modak.hpc.plugins.module_utils.target.jobs.results import (
    list_results,
    missing_outputs,
    unnamed_outputs,
)
from ansible_collections.modak.hpc.plugins.module_utils.target.core.workspace import Workspace

DOCUMENTATION = """
module: modak_results
short_description: Lists the results of a deployment
description: Gives the metrics, the logs and the declared outputs of a deployment, with sizes and checksums.
options:
  workspace: {type: str, required: true, description: The folder of images, datasets and deployments.}
  deployment: {type: str, description: The deployment's name.}
  outputs: {type: list, elements: str, default: [], description: Patterns below the folder of the user's code.}
  deployments:
    type: list
    elements: dict
    description: Several deployments in place of one, each with deployment and outputs.
author: modak-ansible
"""


def main():
    module = AnsibleModule(
        argument_spec={
            "workspace": {"type": "str", "required": True},
            "deployment": {"type": "str"},
            "outputs": {"type": "list", "elements": "str", "default": []},
            "deployments": {"type": "list", "elements": "dict"},
        },
        required_one_of=[("deployment", "deployments")],
        mutually_exclusive=[("deployment", "deployments")],
        supports_check_mode=True,
    )
    answer(module, lambda: act(module.params))


def act(params):
    deployments = Workspace(params["workspace"]).deployments
    if params["deployments"] is None:
        return {"changed": False, **listed(deployments / params["deployment"], params["outputs"])}
    several = {
        deployment["deployment"]: listed(deployments / deployment["deployment"], deployment["outputs"])
        for deployment in params["deployments"]
    }
    return {"changed": False, "folder": str(deployments), "listed": several}


def listed(folder, outputs):
    return {
        "folder": str(folder),
        "files": list_results(folder, outputs),
        "missing": missing_outputs(folder, outputs),
        "unnamed": unnamed_outputs(folder, outputs),
    }


if __name__ == "__main__":
    main()
