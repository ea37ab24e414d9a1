"""A machine with Podman of a user without further rights, behind an sshd of its own.

It is the box with Podman installed, in a name space where control groups are of version 1 alone: crun starts
nothing where both versions are, as on many machines that tests run on.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Project, Testbed, wait_for

PORT = 2319
CONFIG = "/run/container-host"
# The user's own limits cannot be raised here, and no control group is there to be had.
CONFIGURATION = """\
[containers]
cgroups = "disabled"
pids_limit = 0
default_ulimits = ["nofile=1024:4096", "nproc=4096:4096"]
"""
PODMAN = ("podman", "crun", "catatonit")
# The name space ends with its first process, and with it all that runs on the host.
HOST = f"""
umount -l /sys/fs/cgroup/unified 2> /dev/null
mount --make-rshared /
mkdir -p /dev/mqueue && mount -t mqueue mqueue /dev/mqueue
mount -t tmpfs -o mode=1777 tmpfs /tmp
sed -e '/^ListenAddress/s/:[0-9]*$/:{PORT}/' /etc/ssh/sshd_config > {CONFIG}
exec /usr/sbin/sshd -D -f {CONFIG} -o PidFile={CONFIG}.pid
"""


class ContainerHost(Project):
    """A project whose target is that host."""

    def __init__(self, path: Path, host: Testbed) -> None:
        super().__init__(path, host)
        self.target = {
            "type": "modak.nodes.ContainerHost",
            "attributes": {"public_address": "testbed"},
            "properties": {"workspace": "on-a-container-host"},
            "capabilities": {"processor": {"properties": {"cores": 1}}},
        }

    def podman(self, words: str) -> str:
        return self.testbed.ssh(f"podman {words} 2> /dev/null")

    def containers(self) -> list[str]:
        return self.podman("ps --all --quiet").split()

    def image_files(self) -> list[str]:
        name = self.target["properties"].get("workspace", "modak")
        return self.testbed.ssh(f"ls {name}/images/*.tar").split()


def install(testbed: Testbed, *packages: str) -> None:
    """Has packages of Debian in the box, which keeps them until it is started anew."""
    names = " ".join(packages)
    get = f"DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends {names}"
    testbed.root(f"dpkg --status {names} > /dev/null 2>&1 || {{ {get} || {{ apt-get update -qq && {get}; }}; }} >&2")


@pytest.fixture(scope="module")
def host(testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    """The testbed, as it is reached by the host's sshd."""
    install(testbed, *PODMAN)
    testbed.root(
        f"mkdir -p /etc/containers/containers.conf.d; cat > /etc/containers/containers.conf.d/tests.conf <<'E'\n{CONFIGURATION}E"
    )
    sshd = testbed.root_process(
        f"exec unshare --mount --pid --fork --kill-child --mount-proc bash -c '{HOST.replace(chr(39), chr(34))}'"
    )
    folder = tmp_path_factory.mktemp("host") / "testbed"
    shutil.copytree(testbed.folder, folder)
    state, config = testbed.state, (folder / "ssh_config").read_text()
    config = config.replace(f"Port {state['port']}", f"Port {PORT}")
    (folder / "ssh_config").write_text(f"{config}  HostKeyAlias [{state['address']}]:{state['port']}\n")
    container_host = Testbed(folder)
    try:
        wait_for(lambda: is_reachable(container_host))
        yield container_host
    finally:
        # no signal to who entered the box reaches it: what it left would be found by the next module's tests
        testbed.root(f"pkill -KILL -f '^sshd: /usr/sbin/sshd -D -f {CONFIG} ' || true")
        sshd.wait()


def is_reachable(testbed: Testbed) -> bool:
    try:
        return testbed.ssh("echo there") == "there"
    except AssertionError:
        return False
