#!/usr/bin/python
"""Makes the layers of a container image on a target, in the background."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.modak.hpc.plugins.module_utils.target.core.answer import answer
from ansible_collections.modak.hpc.plugins.module_utils.target.images.actions import ACTIONS, act

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
    answer(module, lambda: act(module.params, check=module.check_mode))


if __name__ == "__main__":
    main()
