#!/usr/bin/python
"""Lists what jobs left on a target, with checksums."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.modak.hpc.plugins.module_utils.target.core.answer import answer
from ansible_collections.modak.hpc.plugins.module_utils.target.jobs.results import joules_of, results_of
from ansible_collections.modak.hpc.plugins.module_utils.target.core.workspace import Workspace

DOCUMENTATION = """
module: modak_results
short_description: Lists the results of deployments
description: Gives the metrics, the logs and the declared outputs of deployments, with sizes and checksums.
options:
  workspace: {type: str, required: true, description: The folder of images, datasets and deployments.}
  deployments:
    type: list
    elements: dict
    required: true
    description: The deployments, each with its name as deployment, and outputs, patterns below the folder of the code.
author: modak-ansible
"""


def main():
    module = AnsibleModule(
        argument_spec={
            "workspace": {"type": "str", "required": True},
            "deployments": {"type": "list", "elements": "dict", "required": True},
        },
        supports_check_mode=True,
    )
    answer(module, lambda: act(module.params))


def act(params):
    deployments = Workspace(params["workspace"]).deployments
    listed = {
        deployment["deployment"]: results_of(deployments / deployment["deployment"], deployment["outputs"])
        for deployment in params["deployments"]
    }
    for name, joules in joules_of(deployments, listed).items():
        listed[name]["joules"] = joules
    return {"changed": False, "folder": str(deployments), "listed": listed}


if __name__ == "__main__":
    main()
