"""A tunnel: opened through ssh, closed with whoever opened it, and what is said where it cannot be opened."""

from __future__ import annotations

import os
import socket
import sys

import pytest

from modak_ansible.errors import TargetUnreachable, UsageError
from modak_ansible.transport.ssh import Connection
from modak_ansible.transport.tunnel import NoTunnel, Tunnel, free_port

# Stands for ssh: notes its words, says what its file says, and stays until its input ends.
SSH = """\
import pathlib, sys
here = pathlib.Path(sys.argv[0]).parent
with open(here / "words", "a") as file:
    print(*sys.argv[1:], file=file)
if "-O" in sys.argv:
    sys.exit()
refusal = here / "refusal"
if refusal.exists():
    sys.exit(refusal.read_text())
print("Welcome to the front end\\nopen", flush=True)
if not (here / "lost").exists():
    sys.stdin.read()
"""


@pytest.fixture
def bin_(tmp_path, monkeypatch):
    (tmp_path / "ssh").write_text(f"#!{sys.executable}\n{SSH}")
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def tunnel(bin_, port=None):
    return Tunnel(Connection("there", bin_ / "config", login_name="me@there"), port, ("node01", 8888))


def test_a_port_is_free_or_that_is_said():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        with pytest.raises(UsageError, match="Address already in use"):
            free_port(taken.getsockname()[1])
        assert free_port() != taken.getsockname()[1]


@pytest.mark.component
def test_it_is_open_until_it_is_closed_and_its_port_stays(bin_):
    made = tunnel(bin_)
    assert made.is_lost(0)
    made.open()
    assert not made.is_lost(0.2)
    made.open()
    made.close()
    assert made.is_lost(0)
    way = f"-L 127.0.0.1:{made.port}:node01:8888"
    words = (bin_ / "words").read_text().splitlines()
    assert [way in line for line in words] == [True] * 4
    assert ["-O cancel" in line for line in words] == [False, True, False, True]


@pytest.mark.component
def test_one_that_is_lost_is_seen_and_opened_again(bin_):
    (bin_ / "lost").touch()
    made = tunnel(bin_)
    made.open()
    assert made.is_lost(10)
    (bin_ / "lost").unlink()
    made.open()
    assert not made.is_lost(0.2)
    made.close()


@pytest.mark.component
@pytest.mark.parametrize(
    ("said", "kind", "message"),
    [
        ("noise\nmux_client_forward: forwarding request failed: Port forwarding failed", NoTunnel, "Port forwarding failed"),
        ("kex_exchange_identification: Connection closed by remote host", NoTunnel, "node01: kex_exchange"),
        ("me@there: Permission denied (publickey,keyboard-interactive).", TargetUnreachable, "without a password or a code"),
    ],
)  # fmt: skip
def test_why_it_cannot_be_opened_is_said(bin_, said, kind, message):
    (bin_ / "refusal").write_text(said)
    made = tunnel(bin_)
    with pytest.raises(kind, match=message):
        made.open()
    assert made.is_lost(0)
