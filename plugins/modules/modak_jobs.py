#!/usr/bin/python
"""Tells how the jobs of many deployments on a target are."""

from __future__ import annotations

import json

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.modak.hpc.plugins.module_utils.target.core.answer import answer
from ansible_collections.modak.hpc.plugins.module_utils.target.jobs.query import look_at_jobs
from ansible_collections.modak.hpc.plugins.module_utils.target.core.workspace import Workspace

DOCUMENTATION = """
module: modak_jobs
short_description: Tells how the jobs of many deployments are
description: >-
  Judges each job by the marker that it writes itself and by the scheduler's word; the scheduler is asked once for
  all of them. Changes nothing.
options:
  workspace: {type: str, required: true, description: The folder of images, datasets and deployments.}
  scheduler: {type: str, required: true, choices: [slurm, torque, none], description: Who starts jobs there.}
  deployments:
    type: str
    required: true
    description: The deployments' names, one a line; Ansible takes long over lists of a thousand.
author: modak-ansible
"""


def main():
    module = AnsibleModule(
        argument_spec={
            "workspace": {"type": "str", "required": True},
            "scheduler": {"type": "str", "required": True, "choices": ["slurm", "torque", "none"]},
            "deployments": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    answer(module, lambda: act(module.params))


def act(params):
    workspace = Workspace(params["workspace"])
    jobs = look_at_jobs(workspace, params["scheduler"], params["deployments"].split("\n"))
    return {"changed": False, "jobs": json.dumps(jobs)}


if __name__ == "__main__":
    main()
