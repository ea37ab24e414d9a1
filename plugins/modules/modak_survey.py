#!/usr/bin/python
"""Surveys a target: all that a person would look up before the first deployment."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.modak.hpc.plugins.module_utils.schedulers.registry import SCHEDULERS
from ansible_collections.modak.hpc.plugins.module_utils.target.core.answer import answer
from ansible_collections.modak.hpc.plugins.module_utils.target.survey.survey import survey

DOCUMENTATION = """
module: modak_survey
short_description: Surveys a target
description:
  - Looks at machine, scheduler, containers, folders and shell of a target; what is missing is told, and is no failure.
options:
  workspace: {type: str, required: true, description: The folder of images, datasets and deployments.}
  scheduler: {type: str, default: "", description: Who starts jobs there; empty for whichever is there.}
  container_runtime: {type: str, default: any, description: As the target has it.}
  modules: {type: list, elements: str, default: [], description: Environment modules that jobs load.}
  folders: {type: list, elements: str, default: [], description: Folders that are looked at besides.}
  hosts: {type: list, elements: str, default: [], description: Other hosts of the target, as this one's ssh knows them.}
  site: {type: dict, default: {}, description: The target's site settings.}
  node: {type: bool, default: false, description: Whether a compute node is asked by a job.}
  partition: {type: str, default: "", description: The job's partition.}
  account: {type: str, default: "", description: The job's account.}
  patience: {type: int, default: 120, description: Seconds to wait for the job.}
  directives: {type: str, default: "", description: Of a job of which it is asked when it would begin.}
author: modak-ansible
"""


def main():
    module = AnsibleModule(
        argument_spec={
            "workspace": {"type": "str", "required": True},
            "scheduler": {"type": "str", "default": "", "choices": ["", *SCHEDULERS]},
            "container_runtime": {"type": "str", "default": "any"},
            "modules": {"type": "list", "elements": "str", "default": []},
            "folders": {"type": "list", "elements": "str", "default": []},
            "hosts": {"type": "list", "elements": "str", "default": []},
            "site": {"type": "dict", "default": {}},
            "node": {"type": "bool", "default": False},
            "partition": {"type": "str", "default": ""},
            "account": {"type": "str", "default": ""},
            "patience": {"type": "int", "default": 120},
            "directives": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    answer(module, lambda: {"changed": False, "survey": survey(wanted(module))})


def wanted(module):
    """What is asked for; under --check no job is submitted."""
    return {**module.params, "node": module.params["node"] and not module.check_mode}


if __name__ == "__main__":
    main()
