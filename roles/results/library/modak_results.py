#!/usr/bin/python
"""Lists what a job left on a target, with checksums."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.modak.target.answer import answer
from ansible.module_utils.modak.target.results import list_results, missing_outputs
from ansible.module_utils.modak.target.workspace import Workspace

DOCUMENTATION = """
module: modak_results
short_description: Lists the results of a deployment
description: Gives the metrics, the logs and the declared outputs of a deployment, with sizes and checksums.
options:
  workspace: {type: str, required: true, description: The folder of images, datasets and deployments.}
  deployment: {type: str, required: true, description: The deployment's name.}
  outputs: {type: list, elements: str, default: [], description: Patterns below the folder of the user's code.}
author: modak-ansible
"""


def main():
    module = AnsibleModule(
        argument_spec={
            "workspace": {"type": "str", "required": True},
            "deployment": {"type": "str", "required": True},
            "outputs": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    answer(module, lambda: listed(module.params))


def listed(params):
    folder = Workspace(params["workspace"]).deployments / params["deployment"]
    return {
        "changed": False,
        "folder": str(folder),
        "files": list_results(folder, params["outputs"]),
        "missing": missing_outputs(folder, params["outputs"]),
    }


if __name__ == "__main__":
    main()
