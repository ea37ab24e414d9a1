"""What of SFTP needs no server; the others are in tests/integration/test_sftp.py, with a real one."""

from __future__ import annotations

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.sources.base import SourceProblem, Unreached
from modak_ansible.sources.sftp import Session, _ended, _Place, _place

PLACE = _Place("alice@store.example", "2222", "/")
VERSION = struct.pack(">IBI", 5, 2, 3)


def packet(kind, number, body=b""):
    return struct.pack(">IBI", len(body) + 5, kind, number) + body


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("sftp://store/data/x", ("store", "", "/data/x")),
        ("sftp://alice@store.example:2222/~/a%20b", ("alice@store.example", "2222", "/~/a b")),
        ("sftp://[::1]/", ("::1", "", "/")),
        ("sftp://store", ("store", "", "/")),
    ],
)
def test_a_place(text, place):
    assert _place(text) == place


@pytest.mark.parametrize(
    "text", ["sftp://", "sftp:///x", "sftp://-oProxyCommand=x/y", "sftp://a@-b/c", "sftp://h/../x"]
)
def test_no_place(text):
    with pytest.raises(SourceProblem):
        _place(text)


def test_a_password_in_an_address_is_not_repeated():
    with pytest.raises(SourceProblem, match="^the address holds a password$"):
        _place("sftp://alice:hunter2@store.example/x")


CHANGED = """\
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
Offending ED25519 key in /home/alice/.ssh/known_hosts:7
  remove with:
  ssh-keygen -f "/home/alice/.ssh/known_hosts" -R "[store.example]:2222"
Host key verification failed.
"""
DENIED = "alice@store.example: Permission denied ({}).\r\n"


@pytest.mark.parametrize(
    ("said", "reason", "hint"),
    [
        (
            CHANGED,
            "a different host key from the one in /home/alice/.ssh/known_hosts:7",
            '-R "[store.example]:2222"; then',
        ),
        ("Host key verification failed.\n", "has a host key that is not known here", "compare the key: sftp -P 2222"),
        (DENIED.format("publickey,password"), "accepts none of the keys that ssh has here for alice@", "ssh-add"),
        (
            f"no such identity: /x/key: No such file\r\n{DENIED.format('publickey')}",
            "none",
            "no such identity: /x/key;",
        ),
        ("Received disconnect: Too many authentication failures\n", "accepts none of the keys", "IdentityFile"),
        (DENIED.format("password,keyboard-interactive"), "accepts no keys for alice@", "ControlMaster"),
    ],
)
def test_a_login_that_is_refused_names_what_was_wrong(said, reason, hint):
    """As OpenSSH 9.2 words it, and never taken for a network that is down: old lists are no help then."""
    found = _ended(PLACE, said)
    assert reason in found.reason
    assert hint in found.hint
    assert not isinstance(found, Unreached)


def test_a_server_out_of_reach_says_so():
    found = _ended(PLACE, "ssh: connect to host store.example port 2222: Connection refused\r\n")
    assert isinstance(found, Unreached)
    assert found.reason.endswith("Connection refused")
    said = "kex_exchange_identification: Connection closed by remote host\r\nConnection closed by 10.0.0.2 port 22\r\n"
    shut_out = _ended(PLACE, said)
    assert isinstance(shut_out, Unreached)
    assert shut_out.reason.endswith("closes connections before the login")
    assert "in a minute" in shut_out.hint


@given(st.text(max_size=30))
def test_no_host_is_an_option(text):
    try:
        place = _place(f"sftp://{text}")
    except SourceProblem:
        return
    assert not place.destination.startswith("-")
    assert place.destination.isascii() or place.destination.isprintable()
    assert ".." not in place.path.split("/")


def test_answers_in_any_order_and_short_ones_are_put_together():
    content = bytes(range(256)) * 256
    half = len(content) // 2

    def data(number, part):
        return packet(103, number, struct.pack(">I", len(part)) + part)

    answers = packet(102, 1, struct.pack(">I1s", 1, b"h"))
    answers += data(3, content[half:]) + data(2, content[:100]) + data(4, content[100:half]) + packet(101, 5)
    written = io.BytesIO()
    Session(io.BytesIO(), io.BytesIO(VERSION + answers), PLACE).read("/x", 0, len(content), written.write)
    assert written.getvalue() == content


def test_a_refusal_is_said_with_its_place():
    denied = packet(101, 1, struct.pack(">I", 3))
    with pytest.raises(SourceProblem, match="^sftp://alice@store.example:2222/x: permission denied$"):
        Session(io.BytesIO(), io.BytesIO(VERSION + denied), PLACE).attributes_of("/x")


@given(st.binary(max_size=80))
def test_what_is_no_protocol_ends(answer):
    with pytest.raises((EOFError, struct.error, SourceProblem)):
        Session(io.BytesIO(), io.BytesIO(VERSION + answer), PLACE).entries("/")
