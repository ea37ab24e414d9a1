"""What a kubelet asks of a node's container runtime, done by Podman of a user without further rights.

The Pod's user is that user, and no other; a Pod has no network but its own loopback. No limit is kept where the user
has no control groups.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from collections.abc import Sequence
from typing import NamedTuple

# Of what a container that failed printed last: so much is its termination message where it left none.
_LINES, _BYTES = 80, 2048
_MESSAGE = "/dev/termination-log"
_ENDS = ("exited", "stopped")


class Volume(NamedTuple):
    """What a Pod mounts: a folder of the node's, memory, or what is made for it alone."""

    path: str  # in the Pod
    kind: str  # bind, tmpfs or volume
    source: str = ""  # of a folder
    read_only: bool = False

    @property
    def words(self) -> str:
        parts = [f"type={self.kind}", f"destination={self.path}", *([f"source={self.source}"] if self.source else [])]
        parts += ["tmpfs-mode=1777"] if self.kind == "tmpfs" else []
        return "--mount=" + ",".join([*parts, *(["ro=true"] if self.read_only else [])])


class Podman:
    """Podman of a node.

    Args:
        shell: the command that runs a line of shell there, which is its last word.
        certificates: a folder there with those of registries.
    """

    def __init__(self, shell: Sequence[str], certificates: str) -> None:
        self._shell = [*shell]
        self._certificates = certificates

    def pull(self, image: str, logins: str) -> str:
        """Has an image there, with the logins of a file of Docker's; what is in the way, else nothing."""
        pull = f"podman pull --quiet --authfile $file --cert-dir {self._certificates} {shlex.quote(image)}"
        keep = f"file=$(mktemp); cat > $file; {pull}; code=$?; rm $file; exit $code"
        done = self._run(f"podman image exists {shlex.quote(image)} || {{ {keep}; }}", logins or "{}")
        return _said(done) if done.returncode else ""

    def start(self, name: str, container: dict, told: dict[str, str], volumes: list[Volume], security: dict) -> str:
        """Begins a Pod's container; what is in the way, else nothing."""
        user, group = security.get("runAsUser", 0), security.get("runAsGroup", 0)
        words = [
            "podman", "create", "--name", name, "--pull=never", "--network=none", "--hostname", told["HOSTNAME"],
            "--userns=keep-id", f"--user={user}:{group}", "--http-proxy=false", "--log-driver=k8s-file",
            *[f"--group-add={each}" for each in security.get("supplementalGroups", [])],
            *[f"--env={variable}={value}" for variable, value in told.items()],
            *[volume.words for volume in volumes],
            *([f"--workdir={container['workingDir']}"] if "workingDir" in container else []),
            *([f"--entrypoint={json.dumps(container['command'])}"] if "command" in container else []),
            container["image"], *container.get("args", []),
        ]  # fmt: skip
        message = f"$HOME/.pods/{name}"
        make = f"mkdir -p ~/.pods && : > {message} && set -- --volume={message}:{_MESSAGE}"
        create = f'{shlex.join(words[:2])} "$@" {shlex.join(words[2:])} > /dev/null'
        done = self._run(f"{make} && {create} && podman start {name} > /dev/null")
        return _said(done) if done.returncode else ""

    def state(self, name: str) -> dict:
        """What is known of a container; nothing where there is none, or nobody answers."""
        done = self._run(f"podman container inspect --format '{{{{json .State}}}}' {name}")
        return dict(json.loads(done.stdout)) if done.returncode == 0 else {}

    def last_words(self, name: str) -> str:
        """What a container that failed left to say, else the end of what it printed."""
        told = self._run(f"cat ~/.pods/{name}").stdout
        return (told or self._run(f"podman logs --tail {_LINES} {name} 2>&1").stdout)[-_BYTES:]

    def stop(self, name: str, grace: int) -> None:
        """SIGTERM to its first process, and SIGKILL after so many seconds."""
        self._run(f"podman stop --time {grace} {name}")

    def remove(self, name: str) -> None:
        self._run(f"podman rm --force --time 0 --volumes {name}; rm -f ~/.pods/{name}")

    def kill(self, name: str) -> None:
        """As the kernel does to who takes too much."""
        done = self._run(f"podman kill --signal KILL {name}")
        assert done.returncode == 0, done.stderr

    def names(self) -> list[str]:
        """All containers that are there."""
        return self._run("podman ps --all --format '{{.Names}}'").stdout.split()

    def _run(self, line: str, given: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._shell, line], input=given, capture_output=True, text=True, timeout=600, check=False
        )


def has_ended(state: dict) -> bool:
    return state.get("Status") in _ENDS


def _said(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return lines[-1].removeprefix("Error: ") if lines else f"podman ended with {done.returncode}"


def moment(text: str = "") -> str:
    """A moment of Podman's, or now, as Kubernetes writes it."""
    at = text[:19] if text else time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
    return f"{at}Z"
