"""A network on one machine: a namespace a node, all on one bridge, each node's link with a rate of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator

from arguments import give_up

INTERFACE = "eth0"
BURST = "128kb"  # that a link lets through at once; it is why small messages cost nearly nothing


def address(node: int) -> str:
    """Returns the address of a node, as the others see it."""
    return f"10.231.0.{node + 1}"


class Network:
    """Nodes that are there as long as :func:`network` says."""

    def __init__(self, name: str, nodes: int) -> None:
        self.name, self.nodes = name, nodes

    def enter(self, node: int) -> list[str]:
        """Returns the words that start a command on a node."""
        return ["ip", "netns", "exec", f"{self.name}-{node}"]

    def shape(self, rate: str, burst: str = BURST) -> None:
        """Gives every node's link a rate in both directions, in tc's words such as 100mbit; none takes it away."""
        for node in range(self.nodes):
            enter = [*self.enter(node), "tc", "qdisc"]
            subprocess.run([*enter, "del", "dev", INTERFACE, "root"], capture_output=True, check=False)
            if rate != "none":
                told([*enter, "add", "dev", INTERFACE, "root", "tbf", "rate", rate, "burst", burst, "latency", "100ms"])


@contextlib.contextmanager
def network(nodes: int) -> Iterator[Network]:
    """So many nodes; they are gone afterwards, whatever happens."""
    if os.geteuid() != 0:
        give_up(2, "namespaces of a network are made by root alone: run it as root")
    made = Network(f"modak-{os.getpid()}", nodes)
    switch = f"{made.name}-switch"
    try:
        told(["ip", "netns", "add", switch])
        told(["ip", "-n", switch, "link", "add", "bridge", "type", "bridge"])
        told(["ip", "-n", switch, "link", "set", "bridge", "up"])
        for node in range(nodes):
            name = f"{made.name}-{node}"
            told(["ip", "netns", "add", name])
            pair = ["link", "add", INTERFACE, "netns", name, "type", "veth", "peer", "name", f"p{node}"]
            told(["ip", *pair, "netns", switch])
            told(["ip", "-n", switch, "link", "set", f"p{node}", "master", "bridge", "up"])
            told(["ip", "-n", name, "addr", "add", f"{address(node)}/24", "dev", INTERFACE])
            for each in (INTERFACE, "lo"):
                told(["ip", "-n", name, "link", "set", each, "up"])
        yield made
    finally:
        for name in (*(f"{made.name}-{node}" for node in range(nodes)), switch):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def told(words: list[str]) -> None:
    """Runs a command of iproute2's; the script ends where it fails, such as on a kernel without the scheduler tbf."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError as error:
        give_up(2, f"{words[0]}: {error.strerror}: iproute2 is needed")
    if done.returncode:
        give_up(2, f"{' '.join(words)}: {done.stderr.strip() or done.returncode}")
