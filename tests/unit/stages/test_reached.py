"""A job is followed over a connection that may break, and is made again."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from modak_ansible.errors import LoginRefused, TargetUnreachable
from modak_ansible.stages.jobs import reached
from modak_ansible.stages.jobs.direct import RemoteFunction
from modak_ansible.target.jobs.actions import acted
from modak_ansible.transport import retry
from modak_ansible.transport.ssh import Connection


@pytest.fixture
def looks(monkeypatch):
    """Looks, by what they answer or raise in turn; gives what is said, and what was asked."""
    monkeypatch.setattr(retry.time, "sleep", lambda _: None)

    def look(*answers):
        said, asked, left = [], [], [*answers]

        def ask(kept, parameters):
            assert kept.function is acted
            asked.append(parameters)
            answer = left.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(RemoteFunction, "ask", ask)
        call = reached._caller(Connection("front"), acted, said.append, ExitStack())
        return call, said, asked

    return look


def test_a_connection_that_breaks_is_made_again(looks):
    call, said, asked = looks({"answer": "1"}, TargetUnreachable("front timed out"), {"answer": "2"})
    assert [call("modak_job", action="watch", seconds=each)["answer"] for each in (0, 15)] == ["1", "2"]
    assert said == ["the connection broke; trying again in 1 s"]
    assert [each["seconds"] for each in asked] == [0, 15, 15]


def test_one_that_was_never_made_is_told_at_once(looks, monkeypatch):
    def check(_):
        raise TargetUnreachable("front refuses the connection", hint="look at the port")

    monkeypatch.setattr(Connection, "check", check)
    call, said, asked = looks()
    with pytest.raises(TargetUnreachable, match="front refuses the connection") as caught:
        call("modak_job", action="look")
    assert (caught.value.hint, said, asked) == ("look at the port", [], [])


def test_a_login_that_has_ended_is_not_tried_again(looks):
    call, said, _ = looks(
        {"answer": "1"}, LoginRefused("the login to front of 10:00 has ended", hint="modak login front")
    )
    call("modak_job", action="look")
    with pytest.raises(LoginRefused, match="has ended"):
        call("modak_job", action="watch")
    assert said == []


def test_one_that_stays_broken_is_told(looks):
    broken = [TargetUnreachable("front timed out")] * 9
    call, said, _ = looks({"answer": "1"}, *broken)
    call("modak_job", action="look")
    with pytest.raises(TargetUnreachable, match="does not answer any more: front timed out"):
        call("modak_job", action="watch")
    assert len(said) == 7
