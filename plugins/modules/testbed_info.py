#!/usr/bin/python
"""What there is of a testbed on this machine, and the addresses that it has or can take."""

import errno
import hashlib
import json
import os
import shutil
import socket
from datetime import UTC, datetime
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: testbed_info
short_description: Tell what there is of a testbed
description:
  - Tells whether the box of a testbed runs, whether all its daemons listen, and which addresses and ports it has.
  - A testbed that does not run gets a network that follows from its name, and ports that are free in it. It is in
    127.0.0.0/8, or with links in 198.18.0.0/15, which is for measuring networks (RFC 2544).
options:
  name: {description: Name of the testbed., type: str, required: true}
  root: {description: Folder of the testbed's state., type: path, required: true}
  directory: {description: Folder with the user's way in., type: path, required: true}
  files: {description: Files that the directory of a running testbed holds., type: list, elements: str, required: true}
  nodes: {description: Number of compute nodes., type: int, required: true}
  network: {description: 'First three numbers of the network; chosen when empty.', type: str, default: ''}
  links: {description: Whether each node has a link of its own., type: bool, default: false}
  commands:
    description: Commands (or files) that the host needs, each with the package that brings it.
    type: dict
    default: {}
author: [MODAK]
"""

EXAMPLES = r"""
- name: Look at what there is
  modak.hpc.testbed_info:
    name: modak
    root: /var/lib/modak/testbed/modak
    directory: /home/me/project/.modak/testbed
    files: [state.json]
    nodes: 2
"""

RETURN = r"""
memory_cgroup: {description: Whether control groups of version 1 can limit memory., type: bool, returned: always}
up: {description: Whether everything runs and the user's way in is there., type: bool, returned: always}
pid: {description: 'Process 1 of the box, as the host numbers it; 0 when it does not run.', type: int, returned: always}
started: {description: When the box was started (ISO 8601)., type: str, returned: always}
silent: {description: 'Daemons that should listen and do not.', type: list, elements: str, returned: always}
missing: {description: Files missing from the directory., type: list, elements: str, returned: always}
packages: {description: Packages that the host lacks., type: list, elements: str, returned: always}
size: {description: 'Nodes, cores, memory and links of the running box.', type: dict, returned: always}
network: {description: 'Addresses (frontend, nodes) and ports (ssh and Slurm daemons).', type: dict, returned: always}
"""

PORTS = {"ssh": 2222, "slurmctld": 6817, "slurmd": 6818, "slurmdbd": 6819}
LISTEN = "0A"  # the state's number in /proc/net/tcp


def running_pid(name, root):
    """The box's process 1, known by its command line because a number may have passed to another process; or 0."""
    try:
        pid = int((root / "box.pid").read_text())
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return 0
    ours = {name.encode(), str(root).encode()} <= set(arguments)
    return pid if ours and Path(f"/proc/{pid}/root/run/testbed").is_dir() else 0


def sockets(network):
    """Name, address and port of everything that listens in a testbed."""
    frontend = network["frontend"]
    listeners = [(daemon, frontend, network[daemon]) for daemon in ("ssh", "slurmctld", "slurmdbd")]
    return listeners + [(f"slurmd on {name}", address, network["slurmd"]) for name, address in network["nodes"].items()]


def listening():
    """The (address, port) pairs that some process of this machine listens on."""
    found = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, _, state = line.split()[:4]
        if state == LISTEN:
            address, port = local.split(":")
            found.add((socket.inet_ntoa(bytes.fromhex(address)[::-1]), int(port, 16)))
    return found


def answers(address, port):
    """Whether somebody listens behind a link, where this machine's own table of sockets does not show it."""
    try:
        socket.create_connection((address, port), timeout=2).close()
    except OSError:
        return False
    return True


def is_free(address, port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise
    return True


def layout(prefix, nodes, offset):
    network = {daemon: port + offset for daemon, port in PORTS.items()}
    network["frontend"] = f"{prefix}.1"
    network["nodes"] = {f"node{number:02}": f"{prefix}.{10 + number}" for number in range(1, nodes + 1)}
    return network


def prefixes(name, links):
    """Networks for a name, the likeliest first: from 127.64 on, where nothing else is used to be."""
    number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
    first, start, count = (198, 18, 2) if links else (127, 64, 128)
    for step in range(16):
        second, third = divmod((number + step * 7919) % (count * 256), 256)
        yield f"{first}.{start + second}.{third}"


def is_known(prefix):
    """Whether this machine has a route to a network already."""
    wanted = bytes(reversed([*map(int, prefix.split(".")), 0])).hex().upper()
    return any(line.split()[1] == wanted for line in Path("/proc/net/route").read_text().splitlines()[1:])


def free_network(name, nodes, prefix, links):
    """The first layout whose ports are all free; OSError when the addresses are not this machine's or all are taken."""
    if links:
        for candidate in [prefix] if prefix else prefixes(name, links):
            if not is_known(candidate):
                return layout(candidate, nodes, 0)
        raise OSError(errno.EADDRINUSE, "every network that was tried is taken")
    for offset in range(0, 100, 10):
        for candidate in [prefix] if prefix else prefixes(name, links):
            network = layout(candidate, nodes, offset)
            if all(is_free(address, port) for _, address, port in sockets(network)):
                return network
    raise OSError(errno.EADDRINUSE, "every port that was tried is taken")


def look(parameters):
    root, directory = Path(parameters["root"]), Path(parameters["directory"])
    pid = running_pid(parameters["name"], root)
    missing = [name for name in parameters["files"] if not (directory / name).exists()]
    size = {}
    if pid:
        box = json.loads((root / "config/box.json").read_text())
        network, size = box["network"], box["size"]
        heard = listening()
        silent = [
            daemon
            for daemon, address, port in sockets(network)
            if (address, port) not in heard and (address.startswith("127.") or not answers(address, port))
        ]
        born = (root / "box.pid").stat().st_mtime
        started = datetime.fromtimestamp(born, UTC).isoformat(timespec="seconds")
    else:
        network = free_network(parameters["name"], parameters["nodes"], parameters["network"], parameters["links"])
        silent, started = [daemon for daemon, _, _ in sockets(network)], ""
    packages = {package for command, package in parameters["commands"].items() if not present(command)}
    return {
        "up": bool(pid) and not silent and not missing,
        "pid": pid,
        "started": started,
        "silent": silent,
        "missing": missing,
        "packages": sorted(packages),
        "size": size,
        "network": network,
        "memory_cgroup": os.access("/sys/fs/cgroup/memory/cgroup.procs", os.W_OK),
    }


def present(command):
    return Path(command).exists() if "/" in command else shutil.which(command) is not None


def main():
    module = AnsibleModule(
        supports_check_mode=True,
        argument_spec={
            "name": {"type": "str", "required": True},
            "root": {"type": "path", "required": True},
            "directory": {"type": "path", "required": True},
            "files": {"type": "list", "elements": "str", "required": True},
            "nodes": {"type": "int", "required": True},
            "network": {"type": "str", "default": ""},
            "links": {"type": "bool", "default": False},
            "commands": {"type": "dict", "default": {}},
        },
    )
    try:
        found = look(module.params)
    except OSError as error:
        where = module.params["network"] or ("198.18.0.0/15" if module.params["links"] else "127.0.0.0/8")
        module.fail_json(msg=f"no usable addresses for the testbed in {where}: {error}")
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
