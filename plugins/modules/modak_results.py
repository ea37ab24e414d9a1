#!/usr/bin/python
"""Lists what jobs left on a target, with checksums."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.modak.hpc.plugins.module_utils.target.core.answer import answer
from ansible_collections.modak.hpc.plugins.module_utils.target.jobs.results import list_results

DOCUMENTATION = """
module: modak_results
short_description: Lists the results of deployments
description: Gives the metrics, the logs and the declared outputs of deployments, with sizes and checksums.
options:
  workspace: {type: str, required: true, description: The folder of images, datasets and deployments.}
  outputs:
    type: dict
    required: true
    description: By the deployments' names lists of patterns below the folder of the code.
author: modak-ansible
"""


def main():
    module = AnsibleModule(
        argument_spec={
            "workspace": {"type": "str", "required": True},
            "outputs": {"type": "dict", "required": True},
        },
        supports_check_mode=True,
    )
    answer(module, lambda: list_results(module.params["workspace"], module.params["outputs"]))


if __name__ == "__main__":
    main()
