"""Entering a target, by an ssh that is only a script."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.discovery import surveying
from modak_ansible.discovery.aim import aim_at
from modak_ansible.discovery.surveying import Entrance, SurveyRequest, enter, read_pythons, version_numbers
from modak_ansible.errors import TargetUnreachable
from modak_ansible.reading.blueprint.inputs import Inputs
from modak_ansible.transport.ssh import Connection


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A host that runs what it is told on this machine, or what the script says."""

    def make(script: str = 'shift $(($# - 1)); exec sh -c "$1"') -> Connection:
        (tmp_path / "ssh").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "ssh").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        return Connection("front", tmp_path / "ssh_config")

    return make


@pytest.mark.component
def test_a_host(host):
    entrance = enter(host())
    assert entrance.seconds < 30
    assert abs(entrance.ahead) < 30
    assert entrance.python[0].startswith("/")


@pytest.mark.component
def test_a_host_that_cannot_be_entered(host):
    with pytest.raises(TargetUnreachable, match="has a host key that is not known"):
        enter(host("echo Host key verification failed. >&2; exit 255"))


def test_this_machine():
    entrance = enter(Connection(""))
    assert (entrance.seconds, entrance.ahead) == (None, None)
    assert entrance.python


@pytest.mark.component
def test_a_host_that_tells_nothing(host):
    entrance = enter(host("exit 0"))
    assert (entrance.ahead, entrance.pythons, entrance.python) == (None, (), None)


def test_the_first_python_that_is_new_enough():
    text = "Welcome!\n/usr/bin/python3 3.6.8\n/opt/bin/python3.11 3.11.4\n/opt/bin/python3.11 3.11.4\n/x oops\n"
    found = read_pythons(text)
    assert found == (("/usr/bin/python3", "3.6.8"), ("/opt/bin/python3.11", "3.11.4"))
    assert Entrance(pythons=found).python == ("/opt/bin/python3.11", "3.11.4")


@pytest.mark.parametrize(
    "options", ["queue: long, account: p-7, qos: debug", 'partition: "batch,long", account: p-7, qos: debug']
)
def test_a_node_is_asked_where_the_job_will_run(blueprint, options):
    blueprint.replace('walltime: "00:30:00"\n', f'walltime: "00:30:00"\n        job_options: {{ {options} }}\n')
    asked = surveying._options(aim_at(str(blueprint.path), Inputs()), SurveyRequest(node=True))
    assert (asked["partition"], asked["account"]) == (options.split(", ")[0].partition(": ")[2].strip('"'), "p-7")
    assert asked["qos"] == "debug"


@pytest.mark.parametrize(("text", "numbers"), [("3.11.2", (3, 11)), ("3.8", (3, 8)), ("3.13.0rc1", (3, 13)), ("", ())])
def test_versions(text, numbers):
    assert version_numbers(text) == numbers


@given(st.text(alphabet="/python3. 1\n", max_size=60))
def test_whatever_a_login_shell_prints(text):
    Entrance(pythons=read_pythons(text)).python  # noqa: B018
