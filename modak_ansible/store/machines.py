"""The machines of clouds that a project has, as far as this machine knows: the truth of them is with their provider.

Each has a folder below the project's state, named as its target's address is; of a cluster's hosts all but the first
have a number behind it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict, cast

from modak_ansible.store.deployments import known_deployments
from modak_ansible.store.shapes import read_whole
from modak_ansible.target.core.files import Lock, make_private, read_json, read_text, write_json, write_whole

FOLDER = "machines"


def host_name(cluster: str, number: int) -> str:
    """The name of a host of a cluster; the first has the cluster's, as its target's address is."""
    return cluster if number == 1 else f"{cluster}.{number}"


def cluster_of(name: str) -> str:
    """The name of what a host is part of, which holds no dot; that of a machine by itself is its own. Tags as well."""
    return name.partition(".")[0]


class MachineNote(TypedDict):
    """A machine that was found; the address is where it is entered, the key that by which it is known."""

    provider: str
    region: str
    id: str
    address: str
    host_key: str  # public, as a line of a known_hosts file has it
    flavor: str
    since: float  # when it was started, in seconds since the epoch
    price_per_hour: float | None
    currency: str


class Intent(TypedDict):
    """What was asked for, or is about to be: asked once more with the same token, a provider makes no second one."""

    token: str
    host_key: str
    parameters: dict[str, Any]  # of the provider's own call


class MachineStore:
    """What is known here of one machine.

    Args:
        state: the state folder of its project.
        name: of it, which is its target's address in a plan, or that of a host of its target.
    """

    def __init__(self, state: Path, name: str) -> None:
        self._state, self.name = state, name
        self._folder = state / FOLDER / name

    @property
    def note(self) -> MachineNote | None:
        """None where none was made, or it is gone."""
        return read_whole(self._folder / "machine.json", MachineNote)

    @property
    def intent(self) -> Intent | None:
        return cast("Intent | None", read_json(self._folder / "intent.json"))

    @property
    def known_hosts(self) -> Path:
        return self._folder / "known_hosts"

    def lock(self) -> Lock:
        """Held by whoever makes or removes it, or another host of its cluster."""
        return Lock(self._folder.with_name(cluster_of(self.name)) / ".lock")

    def plan(self, intent: Intent) -> None:
        """Keeps what is to be asked for before it is; it holds the machine's private key."""
        make_private(self._folder)
        write_json(self._folder / "intent.json", intent)

    def keep(self, note: MachineNote) -> None:
        """Keeps what was found; what was asked for is needed no more, and its private key goes."""
        make_private(self._folder)
        write_whole(self.known_hosts, f"{self.name} {note['host_key']}\n")
        if self.note != note:
            write_json(self._folder / "machine.json", note)
        self.forget_intent()

    def forget_intent(self) -> None:
        (self._folder / "intent.json").unlink(missing_ok=True)

    def forget(self) -> None:
        """There is no such machine any more."""
        for name in ("machine.json", "known_hosts"):
            (self._folder / name).unlink(missing_ok=True)

    @property
    def deployments(self) -> list[str]:
        """The names of what was deployed to it, or was begun to be, and was not undeployed."""
        return [
            store.name
            for store in known_deployments(self._state)
            if store.plan.get("target", {}).get("address") == cluster_of(self.name)
            and store.has_record
            and not store.record.get("undeployed")
        ]


def hosts_of(state: Path, address: str, count: int) -> list[MachineStore]:
    """What is known here of each of the machines that are made for a target, which has that address in a plan."""
    return [MachineStore(state, host_name(address, number)) for number in range(1, count + 1)]


def cost_so_far(since: Sequence[float], price_per_hour: float | None, currency: str) -> str:
    """Since when machines cost, and how much that is of all of them, for people.

    Args:
        since: when each was started, in seconds since the epoch.
        price_per_hour: of one.
    """
    began = time.strftime("%Y-%m-%d %H:%M", time.localtime(min(since)))
    if price_per_hour is None:
        return f"since {began}"
    cost = sum(max(0.0, time.time() - start) for start in since) / 3600 * price_per_hour
    return f"since {began}, {cost:.2f} {currency}".rstrip() + f" at {price_per_hour * len(since):g} an hour"


def owner_of(state: Path) -> str:
    """What tells the machines of a project from those of others at one provider; made up once, and kept."""
    path = state / FOLDER / "owner"
    with Lock(path.with_name(".owner.lock")):
        if not path.exists():
            write_whole(path, f"{secrets.token_hex(8)}\n")
        return read_text(path).strip()
