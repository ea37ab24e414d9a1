#!/usr/bin/python
"""Keeps datasets on a target: whole, verified, one copy for all."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.modak.hpc.plugins.module_utils.target.core.answer import answer
from ansible_collections.modak.hpc.plugins.module_utils.target.datasets.dataset import DatasetStore
from ansible_collections.modak.hpc.plugins.module_utils.target.garbage.uses import Uses
from ansible_collections.modak.hpc.plugins.module_utils.target.core.workspace import Workspace

DOCUMENTATION = """
module: modak_dataset
short_description: Keeps a dataset on a target
description: Tells whether a dataset is there, downloads it, or verifies what was sent and makes it the dataset.
options:
  workspace: {type: str, required: true, description: The folder of images, datasets and deployments.}
  deployment: {type: str, required: true, description: The name of the deployment that needs it.}
  dataset: {type: dict, required: true, description: The dataset of a plan.}
  site: {type: dict, required: true, description: The site settings of the plan's target.}
  action:
    type: str
    required: true
    choices: [look, prepare, commit, download, wait]
    description: What to do; wait comes back when there is news of the download, or when its time is over.
  size: {type: int, description: Bytes that are going to be sent.}
  source: {type: dict, description: The source that the files come from.}
  seconds: {type: float, default: 0, description: How long to wait.}
  seen: {type: str, default: '', description: The step of the download that the caller knows.}
author: modak-ansible
"""


def main():
    module = AnsibleModule(
        argument_spec={
            "workspace": {"type": "str", "required": True},
            "deployment": {"type": "str", "required": True},
            "dataset": {"type": "dict", "required": True},
            "site": {"type": "dict", "required": True},
            "action": {"type": "str", "required": True, "choices": ["look", "prepare", "commit", "download", "wait"]},
            "size": {"type": "int"},
            "source": {"type": "dict"},
            "seconds": {"type": "float", "default": 0},
            "seen": {"type": "str", "default": ""},
        },
        required_if=[("action", "commit", ["source"]), ("action", "download", ["source"])],
        supports_check_mode=True,
    )
    store = DatasetStore(Workspace(module.params["workspace"]), module.params["dataset"])
    answer(module, lambda: act(store, module))


def act(store, module):
    action = "look" if module.check_mode else module.params["action"]
    changed = False
    if action == "look" and not module.check_mode:  # what is there then stays there
        workspace = Workspace(module.params["workspace"])
        Uses(workspace).reserve(module.params["deployment"], [module.params["dataset"]["path"]])
    if action == "prepare":
        store.prepare(module.params["size"])
    elif action == "commit":
        store.commit(module.params["source"])
        changed = True
    elif action == "download":
        changed = store.start_download(module.params["source"], module.params["site"])
    elif action == "wait":
        store.activity.wait_for_news("step", module.params["seen"], module.params["seconds"])
    return {
        "changed": changed,
        "dataset": store.description(),
        "damaged": store.damaged,
        "folder": str(store.partial),
        "status": store.activity.status(),
    }


if __name__ == "__main__":
    main()
