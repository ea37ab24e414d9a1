#!/usr/bin/python
"""Several small text files in one folder, written in one step."""

import os
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: testbed_tree
short_description: Write several text files below a folder
description:
  - Writes each file that is missing or differs, whole or not at all, in the order given.
options:
  path: {description: The folder., type: path, required: true}
  files: {description: 'Text of each file, by its path below the folder.', type: dict, required: true}
  mode: {description: Permissions of the files (octal)., type: str, default: '0644'}
  uid: {description: Owner of what is written., type: int, default: 0}
  gid: {description: Group of what is written., type: int, default: 0}
author: [MODAK]
"""

EXAMPLES = r"""
- name: Write the configuration
  modak.hpc.testbed_tree:
    path: /var/lib/modak/testbed/modak/config
    files:
      etc/hosts: "127.80.3.1 frontend\n"
"""

RETURN = r"""
written: {description: Files that were missing or differed., type: list, elements: str, returned: always}
"""


def read(path):
    try:
        return path.read_text()
    except FileNotFoundError:
        return None


def make_folder(folder, uid, gid):
    if not folder.is_dir():
        make_folder(folder.parent, uid, gid)
        folder.mkdir()
        folder.chmod(0o755)  # whatever the umask
        os.chown(folder, uid, gid)


def write(path, text, mode, uid, gid):
    make_folder(path.parent, uid, gid)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text)
    partial.chmod(mode)
    os.chown(partial, uid, gid)
    partial.replace(path)


def main():
    module = AnsibleModule(
        supports_check_mode=True,
        argument_spec={
            "path": {"type": "path", "required": True},
            "files": {"type": "dict", "required": True, "no_log": True},  # an index's address may hold a password
            "mode": {"type": "str", "default": "0644"},
            "uid": {"type": "int", "default": 0},
            "gid": {"type": "int", "default": 0},
        },
    )
    folder, mode = Path(module.params["path"]), int(module.params["mode"], 8)
    before = {name: read(folder / name) for name in module.params["files"]}
    differing = {name: text for name, text in module.params["files"].items() if before[name] != text}
    if not module.check_mode:
        for name, text in differing.items():
            write(folder / name, text, mode, module.params["uid"], module.params["gid"])
    module.exit_json(changed=bool(differing), written=list(differing))


if __name__ == "__main__":
    main()
