"""A testbed whose nodes have links of their own: ranks meet over a network that has a rate and can be cut."""

from __future__ import annotations

import shlex
import time

import pytest
from cluster import Testbed

pytestmark = [pytest.mark.testbed, pytest.mark.thorough]

RECEIVES = "import socket; s = socket.create_server(('', 5001)); c = s.accept()[0]\nwhile c.recv(65536): pass"
SENDS = """\
import socket, time
s = socket.create_connection(("node01", 5001))
began = time.monotonic()
s.sendall(bytes(6_000_000))
s.shutdown(socket.SHUT_WR)
assert s.recv(1) == b""
print(6_000_000 * 8 / (time.monotonic() - began) / 1e6)
"""


def link(testbed: Testbed, node: str, what: str) -> None:
    testbed.root(f"bash /usr/local/libexec/testbed/link {node} {what}")


def megabits(testbed: Testbed) -> float:
    """How fast node02 sends to node01."""
    listens = f"timeout 30 srun --overlap -N1 -n1 -w node01 python3 -c {shlex.quote(RECEIVES)}"
    sends = f"timeout 30 srun --overlap -N1 -n1 -w node02 python3 -c {shlex.quote(SENDS)}"
    return float(testbed.ssh(f"salloc -N2 bash -c {shlex.quote(f'{listens} & sleep 1; {sends}; wait')} 2> /dev/null"))


def test_each_node_has_an_address_and_a_loopback_of_its_own(linked):
    shown = linked.ssh("srun -N2 sh -c 'ip -o -4 addr show eth0; ip -o -4 addr show lo'").splitlines()
    addresses = {line.split()[3] for line in shown if "eth0" in line}
    assert len(addresses) == 2
    assert all(address.startswith("198.1") for address in addresses)
    assert all("127.0.0.1/8" in line for line in shown if " lo " in line)
    state = linked.state
    assert state["nodes"] == ["node01", "node02"]
    assert linked.ssh(f"timeout 5 bash -c 'head -c 4 < /dev/tcp/node02/{state['port']}'") == "SSH-"


def test_a_link_has_the_rate_that_it_is_given(linked):
    assert megabits(linked) > 200
    link(linked, "node02", "50mbit")
    assert 35 < megabits(linked) < 60
    link(linked, "node02", "none")
    assert megabits(linked) > 200


def test_a_link_is_cut_and_joined(linked):
    reaches = "srun -N1 -w node02 timeout 3 bash -c ': < /dev/tcp/node01/6818' && echo yes || echo no"
    assert linked.ssh(reaches) == "yes"
    job = linked.ssh("sbatch --parsable -N2 --wrap 'srun sleep 12'")
    time.sleep(3)
    link(linked, "node02", "cut")
    time.sleep(5)
    link(linked, "node02", "join")
    time.sleep(8)
    assert linked.ssh(reaches) == "yes"
    assert "COMPLETED" in linked.ssh(f"sacct -n -X -j {job} -o state")
