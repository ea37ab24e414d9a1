"""What of SFTP needs no server; the others are in tests/integration/test_sftp.py, with a real one."""

from __future__ import annotations

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.sources.base import SourceProblem
from modak_ansible.sources.sftp import Session, _Place, _place

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
        Session(io.BytesIO(), io.BytesIO(VERSION + denied), PLACE).about("/x")


@given(st.binary(max_size=80))
def test_what_is_no_protocol_ends(answer):
    with pytest.raises((EOFError, struct.error, SourceProblem)):
        Session(io.BytesIO(), io.BytesIO(VERSION + answer), PLACE).entries("/")
