#!/usr/bin/python
"""Finds and removes what nobody uses on a target."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.modak.hpc.plugins.module_utils.target.core.answer import answer
from ansible_collections.modak.hpc.plugins.module_utils.target.garbage.garbage import Garbage
from ansible_collections.modak.hpc.plugins.module_utils.target.garbage.hosts import collect
from ansible_collections.modak.hpc.plugins.module_utils.target.core.workspace import Workspace

DOCUMENTATION = """
module: modak_gc
short_description: Removes what no deployment uses
description: >-
  Finds images, datasets, left-over temporary files, old builds' logs and dead locks that no deployment in a workspace
  uses, and removes them.
options:
  workspace: {type: str, required: true, description: The folder of images, datasets and deployments.}
  older_than: {type: float, required: true, description: What was used within so many seconds stays.}
  action: {type: str, required: true, choices: [look, remove], description: What to do.}
  only:
    type: list
    elements: str
    default: []
    description: The paths of what may go, of another host's with that host and a colon before; without any, all.
  hosts: {type: list, elements: str, default: [], description: Other hosts of the target, as this one's ssh knows them.}
author: modak-ansible
"""


def main():
    module = AnsibleModule(
        argument_spec={
            "workspace": {"type": "str", "required": True},
            "older_than": {"type": "float", "required": True},
            "action": {"type": "str", "required": True, "choices": ["look", "remove"]},
            "only": {"type": "list", "elements": "str", "default": []},
            "hosts": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    answer(module, lambda: act(module))


def act(module):
    workspace = Workspace(module.params["workspace"])
    remove, only = module.params["action"] == "remove" and not module.check_mode, module.params["only"] or None
    here = Garbage(workspace, module.params["older_than"]).collect(remove=remove, only=only)
    there = collect(workspace, module.params["hosts"], module.params["older_than"], remove=remove, only=only)
    return {
        "changed": bool(here["removed"] + there.removed),
        "workspace": str(workspace.path),
        "removed": here["removed"] + there.removed,
        "garbage": here["garbage"] + there.garbage,
        "kept": here["kept"] + there.kept,
        "problems": there.problems,
    }


if __name__ == "__main__":
    main()
