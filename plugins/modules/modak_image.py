#!/usr/bin/python
"""Makes the layers of a container image on a target, in the background."""

from __future__ import annotations

import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.modak.hpc.plugins.module_utils.target.core.answer import answer
from ansible_collections.modak.hpc.plugins.module_utils.target.core.files import changed_at, read_on
from ansible_collections.modak.hpc.plugins.module_utils.target.images.image import ImageStore
from ansible_collections.modak.hpc.plugins.module_utils.target.images.publishing import PublishedImage
from ansible_collections.modak.hpc.plugins.module_utils.target.garbage.uses import Uses
from ansible_collections.modak.hpc.plugins.module_utils.target.core.workspace import Workspace

DOCUMENTATION = """
module: modak_image
short_description: Makes a container image on a target
description: >-
  Builds or pulls what is missing of an image, layer by layer, in a process that outlives the connection. A second
  start joins the first.
options:
  workspace: {type: str, required: true, description: The folder of images, datasets and deployments.}
  deployment: {type: str, required: true, description: The name of the deployment that needs it.}
  image: {type: dict, required: true, description: The image of a plan.}
  site: {type: dict, required: true, description: The plan's site settings, and what serves otherwise.}
  action:
    type: str
    required: true
    choices: [look, start, wait, log, inside, push, sign, verify]
    description: >-
      What to do; push puts it into place, sign and verify take a key; inside runs the image's Python, which tells
      what it holds; wait and log, which reads what the build writes, come back when there is news, or when their time
      is over.
  again: {type: bool, default: false, description: Whether a start makes what was refused before once more.}
  found_only: {type: bool, default: false, description: Whether a start only looks into image_sources.}
  place: {type: str, default: '', description: To push, and to wait for that; a registry's oras:// address or a folder.}
  tags: {type: list, elements: str, default: [], description: To push; names for people, in a registry.}
  key: {type: str, default: '', description: 'To sign, a private key on the target; to verify, a public one.'}
  seconds: {type: float, default: 0, description: How long to wait.}
  seen: {type: str, default: '', description: The last line of the log that the caller knows.}
  offset: {type: int, default: 0, description: How many bytes of the log the caller knows.}
  secrets:
    type: dict
    default: {}
    description: To start; logins of registries, and settings of pip whose addresses hold tokens.
author: modak-ansible
"""

ACTIONS = ("look", "start", "wait", "log", "inside", "push", "sign", "verify")


def main():
    module = AnsibleModule(
        argument_spec={
            "workspace": {"type": "str", "required": True},
            "deployment": {"type": "str", "required": True},
            "image": {"type": "dict", "required": True},
            "site": {"type": "dict", "required": True},
            "action": {"type": "str", "required": True, "choices": list(ACTIONS)},
            "again": {"type": "bool", "default": False},
            "found_only": {"type": "bool", "default": False},
            "place": {"type": "str", "default": ""},
            "tags": {"type": "list", "elements": "str", "default": []},
            "key": {"type": "str", "default": "", "no_log": False},
            "seconds": {"type": "float", "default": 0},
            "seen": {"type": "str", "default": ""},
            "offset": {"type": "int", "default": 0},
            "secrets": {"type": "dict", "default": {}, "no_log": True},
        },
        supports_check_mode=True,
    )
    answer(module, lambda: act(store_of(module.params), module))


def store_of(params):
    kind = PublishedImage if params["place"] or params["action"] in ("sign", "verify") else ImageStore
    return kind(Workspace(params["workspace"]), params["image"], params["site"], params["secrets"])


def act(store, module):
    if module.params["action"] == "log":
        return read_log(store, module.params["offset"], module.params["seconds"])
    if module.params["action"] == "inside":
        return {"changed": False, "inside": store.look_inside()}
    if module.params["action"] == "sign":
        is_signed = not module.check_mode and store.sign(module.params["key"])
        return {"changed": is_signed, "image": store.describe()}
    if module.params["action"] == "verify":
        store.verify(module.params["key"])
        return {"changed": False, "image": store.describe()}
    started = False
    if module.params["action"] == "push":
        started = store.start_push(module.params["place"], module.params["tags"])
    if module.params["action"] == "look" and not module.check_mode:
        reserve(module.params)
        store.check_given(keep=True)
    if module.params["action"] == "start":
        if module.params["again"] and not module.check_mode:
            store.forget_refusals()
        store.check()
        if store.missing() and not store.refusal() and not module.check_mode:
            started = store.start(found_only=module.params["found_only"])
    if module.params["action"] == "wait":
        store.activity.wait_for_news("line", module.params["seen"], module.params["seconds"])
    return {
        "changed": started,
        "started": started,
        "missing": [layer["name"] for layer in store.missing()],
        "altered": store.changed(),
        "refusal": store.refusal(),
        "status": store.activity.status(),
        "image": store.describe(),
    }


def reserve(params):
    """Before the first look: what is there then stays there."""
    paths = [layer["path"] for layer in params["image"]["layers"]]
    Uses(Workspace(params["workspace"])).reserve(params["deployment"], paths)


def read_log(store, offset, seconds):
    """What the log holds behind an offset; where that is nothing yet, it is waited for while the build goes on."""
    began = time.monotonic()
    while True:
        status = store.activity.status()
        is_over = status["state"] != "running"
        output, end = read_on(store.activity.log, offset, to_end=is_over)
        if output or is_over or time.monotonic() - began >= seconds:
            changed = changed_at(store.activity.log)
            age = None if changed is None else max(0.0, time.time() - changed)
            return {"changed": False, "output": output, "offset": end, "status": status, "age": age}
        time.sleep(0.5)


if __name__ == "__main__":
    main()
