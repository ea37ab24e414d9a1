#!/usr/bin/python
"""Packs a dataset on a target into one image."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.modak.hpc.plugins.module_utils.target.core.answer import answer
from ansible_collections.modak.hpc.plugins.module_utils.target.core.workspace import Workspace
from ansible_collections.modak.hpc.plugins.module_utils.target.datasets.pack import ENDING, PackedData
from ansible_collections.modak.hpc.plugins.module_utils.target.garbage.uses import Uses

DOCUMENTATION = """
module: modak_pack
short_description: Keeps a dataset on a target as one squashfs image
description: Tells whether the image of a dataset is there, makes it of the dataset's folder, and removes the folder.
options:
  workspace: {type: str, required: true, description: The folder of images, datasets and deployments.}
  deployment: {type: str, required: true, description: The name of the deployment that needs it.}
  dataset: {type: dict, required: true, description: The dataset of a plan.}
  action:
    type: str
    required: true
    choices: [look, pack, wait, tidy]
    description: >-
      What to do; wait comes back when there is news of the packing, or when its time is over; tidy removes the folder
      where the image is whole and no other deployment uses the folder.
  seconds: {type: float, default: 0, description: How long to wait.}
  seen: {type: str, default: '', description: The step of the packing that the caller knows.}
author: modak-ansible
"""


def main():
    module = AnsibleModule(
        argument_spec={
            "workspace": {"type": "str", "required": True},
            "deployment": {"type": "str", "required": True},
            "dataset": {"type": "dict", "required": True},
            "action": {"type": "str", "required": True, "choices": ["look", "pack", "wait", "tidy"]},
            "seconds": {"type": "float", "default": 0},
            "seen": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    answer(module, lambda: act(module))


def act(module):
    action = "look" if module.check_mode else module.params["action"]
    workspace = Workspace(module.params["workspace"])
    store, uses = PackedData(workspace, module.params["dataset"]), Uses(workspace)
    changed = False
    if action == "look" and not module.check_mode:  # what is there then stays there
        uses.reserve(module.params["deployment"], [f"{module.params['dataset']['path']}{ENDING}"])
    if action == "pack":
        changed = store.start()
    elif action == "wait":
        store.activity.wait_for_news("step", module.params["seen"], module.params["seconds"])
    elif action == "tidy":
        with uses.lock():
            others = set(uses.users().get(store.folder, [])) - {module.params["deployment"]}
            changed = not others and store.drop_folder()
    return {"changed": changed, "packed": store.description(), "status": store.activity.status()}


if __name__ == "__main__":
    main()
