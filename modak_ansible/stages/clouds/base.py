"""What a provider of machines is asked, and what it answers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from modak_ansible.errors import ModakError, TargetUnreachable
from modak_ansible.model.target import Cloud

# What of a machine's tags says whose it is, and what its host key is: they are with the machine from its first moment.
TAG = "modak"
KEY_TAG = "modak-host-key"
# What a provider's client is asked with, and what it answers: it has no types for them.
Parameters = dict[str, Any]
Answer = dict[str, Any]
GIB = 1024**3
LOOK = 2.0  # seconds between two questions
_GONE_WITHIN = 300.0  # seconds
OF_THE_SERVER = 500  # the HTTP status from which on nobody knows whether it was done
# What may always be done about a provider that refuses, or does not answer.
ANY = "deploy again once that is fixed: nothing is made twice"


@dataclass(frozen=True)
class Instance:
    """A machine that a provider has, and that costs."""

    id: str
    tag: str  # whose it is, as ``owner/name``
    host_key: str  # public; empty where its tags do not say it
    address: str  # empty as long as it has none
    flavor: str
    since: float  # when it was started, in seconds since the epoch
    state: str  # in the provider's words
    runs: bool
    is_off: bool = False  # it shut itself down, and is still there
    is_broken: bool = False  # it never runs again, and is still there

    @property
    def name(self) -> str:
        """That of the machine, without its owner's."""
        return self.tag.partition("/")[2]


@dataclass(frozen=True)
class MachineRequest:
    """The machine that is to be there."""

    cloud: Cloud
    name: str
    tag: str
    ssh_from: tuple[str, ...]
    port: int
    most_per_hour: float | None  # what it may cost, where that goes up and down
    host_key: str  # public
    user_data: str


class Provider(Protocol):
    """One provider in one region. All raise ModakError, in its words and with what to do."""

    title: str

    def find(self, tag: str) -> list[Instance]:
        """The machines with a tag, which may end with ``*``, the first that was started first; none that are gone."""

    def prepare(self, request: MachineRequest) -> Parameters:
        """What is to be asked for, as JSON; whatever goes with the machine and costs nothing is there then."""

    def create(self, parameters: Parameters, token: str) -> Instance | None:
        """Asks for the machine; with a token that was used before for that one, which may be gone: None."""

    def admit(self, request: MachineRequest) -> None:
        """Of a machine that is there: lets in whom the target names now, and nobody else."""

    def settle(self, instance: Instance) -> None:
        """Brings a machine nearer to running with an address, where it does not get there by itself."""

    def remove(self, instances: Sequence[Instance]) -> None:
        """Ends machines and waits until nothing of them costs, or for some minutes.

        What went with each goes, too, and what went with all hosts of a cluster when none is left.
        """

    def clear(self, tag: str) -> None:
        """Removes what was made for a machine that is not there, as after a refusal; nothing of it costs."""


def client(name: str, title: str) -> Any:
    """A provider's own client.

    Raises:
        ModakError: it is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        hint = "pip install 'modak-ansible[cloud]', where modak is installed"
        raise ModakError(f"{name}, which asks {title} for machines, is not installed", hint=hint) from error


def wait_until_gone(provider: Provider, instances: Sequence[Instance]) -> float:
    """Waits for the end of machines that were asked to end; gives until when what went with them may take, too."""
    deadline = time.monotonic() + _GONE_WITHIN
    for instance in instances:
        while any(living.id == instance.id for living in provider.find(instance.tag)) and time.monotonic() < deadline:
            time.sleep(LOOK)
    return deadline


def hosts_left(provider: Provider, cluster: str) -> bool:
    """Whether there is a host of what has a tag: a cluster, or a machine by itself."""
    return bool(provider.find(cluster) or provider.find(f"{cluster}.*"))


def does_not_answer(title: str, error: Exception) -> TargetUnreachable:
    return TargetUnreachable(f"{title} does not answer: {error}", hint="deploy again: nothing is made twice")


def out_of_order(title: str, words: str) -> TargetUnreachable:
    return TargetUnreachable(f"{title} is unavailable: {words}", hint=ANY)


class NoCredentials(ModakError):
    """Nobody said as whom the provider is asked."""


def smallest(candidates: list[tuple[str, int, int]], cloud: Cloud, title: str) -> str:
    """The name of the flavor with the fewest cores, and of those with the least memory, that has what is asked for.

    Args:
        candidates: names, cores and bytes of memory.

    Raises:
        ModakError: there is none.
    """
    shape = cloud.shape
    flavors = [
        (cpus, memory, name)
        for name, cpus, memory in candidates
        if cpus >= (shape.cpus or 0) and memory >= (shape.memory or 0)
    ]
    if not flavors:
        largest = max(candidates, key=lambda candidate: candidate[1:], default=None)
        hint = f"the largest is {largest[0]} with {largest[1]} cores" if largest else "name one: flavor"
        raise ModakError(f"{title} has no machine with what the capability host asks for", hint=hint)
    return min(flavors)[2]
