#!/usr/bin/python
"""Keeps datasets on a target: whole, verified, one copy for all."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.modak.hpc.plugins.module_utils.target.core.answer import answer
from ansible_collections.modak.hpc.plugins.module_utils.target.datasets.dataset import DatasetStore
from ansible_collections.modak.hpc.plugins.module_utils.target.datasets.present import PresentData
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
  access: {type: dict, default: {}, description: What a server wants to see; kept nowhere.}
  seconds: {type: float, default: 0, description: How long to wait.}
  seen: {type: str, default: '', description: The step of the download that the caller knows.}
author: modak-ansible
"""


# How long a beginning waits for its end, which spares another look at what is over soon.
FIRST_SECONDS = 3.0


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
            "access": {"type": "dict", "default": {}, "no_log": True},
            "seconds": {"type": "float", "default": 0},
            "seen": {"type": "str", "default": ""},
        },
        required_if=[("action", "commit", ["source"]), ("action", "download", ["source"])],
        supports_check_mode=True,
    )
    answer(module, lambda: perform(module))


def perform(module):
    workspace, dataset = Workspace(module.params["workspace"]), module.params["dataset"]
    if dataset["sources"][0]["kind"] == "on_target":
        return look(PresentData(workspace, dataset), module, workspace)
    return act(DatasetStore(workspace, dataset), module, workspace)


def look(data, module, workspace):
    if not module.check_mode:
        reserve(module, workspace)
    found = data.look(keep=not module.check_mode)
    label = module.params["dataset"]["sources"][0]["label"]
    return {
        "changed": False,
        "dataset": {**found, "label": label},
        "damaged": found["path"] if found["changed"] else "",
    }


def reserve(module, workspace):
    """What is there then stays there."""
    Uses(workspace).reserve(module.params["deployment"], [module.params["dataset"]["path"]])


def act(store, module, workspace):
    action = "look" if module.check_mode else module.params["action"]
    changed, taken = False, 0
    if action == "look" and not module.check_mode:
        reserve(module, workspace)
    if action == "prepare":
        taken = store.prepare(module.params["size"])
    elif action in ("commit", "download"):
        if action == "commit":
            changed = store.start_commit(module.params["source"])
        else:
            changed = store.start_download(module.params["source"], module.params["site"], module.params["access"])
        store.activity.wait_for_news("state", "running", FIRST_SECONDS)
    elif action == "wait":
        store.activity.wait_for_news("step", module.params["seen"], module.params["seconds"])
    status = store.activity.status()
    is_going_on = action not in ("look", "prepare") and status["state"] == "running"
    return {
        "changed": changed,
        "dataset": None if is_going_on else store.description(),
        "damaged": store.damaged,
        "folder": str(store.partial),
        "wanted": str(store.wanted),
        "taken": taken,
        "status": status,
    }


if __name__ == "__main__":
    main()
