#!/usr/bin/python
"""Looks at a target: what it is, and whether it has what every deployment needs."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.modak.hpc.plugins.module_utils.schedulers.registry import SCHEDULERS
from ansible_collections.modak.hpc.plugins.module_utils.target.core.answer import answer
from ansible_collections.modak.hpc.plugins.module_utils.target.core.probe import look

DOCUMENTATION = """
module: modak_probe
short_description: Looks at a target
description: Gives facts about a target, and fails where its scheduler is missing or its disk is full.
options:
  workspace: {type: str, required: true, description: The folder of images, datasets and deployments.}
  scheduler:
    type: str
    required: true
    choices: [slurm, torque, pbspro, lsf, kubernetes, none]
    description: Who starts jobs there.
  container_runtime: {type: str, required: true, description: As the target has it.}
  deployments:
    type: str
    default: ""
    description: Names of deployments, one a line; those whose job has completed are told as completed.
author: modak-ansible
"""


def main():
    module = AnsibleModule(
        argument_spec={
            "workspace": {"type": "str", "required": True},
            "scheduler": {"type": "str", "required": True, "choices": list(SCHEDULERS)},
            "container_runtime": {"type": "str", "required": True},
            "deployments": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    answer(module, lambda: look(module.params, create=not module.check_mode))


if __name__ == "__main__":
    main()
