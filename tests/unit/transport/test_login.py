"""A login that somebody made by hand: what is said where there is none, and where it has ended."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from modak_ansible.commands.admin import login
from modak_ansible.errors import UsageError
from modak_ansible.model.target import Scheduler, Target
from modak_ansible.transport.login import ENDED, NONE, state_of
from modak_ansible.transport.ssh import connect

needs_ssh = pytest.mark.skipif(shutil.which("ssh") is None, reason="ssh is not installed")
WANTS_A_CODE = "alice@host: Permission denied (publickey,keyboard-interactive)."


@pytest.fixture
def way(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "home" / ".ssh").mkdir(parents=True)

    def made(**changes):
        target = Target(**{"name": "cluster", "scheduler": Scheduler.SLURM, "address": "host.example", **changes})
        return connect(target, tmp_path / "testbed", tmp_path, tmp_path)

    return made


@pytest.mark.parametrize(
    ("said", "message", "hint"),
    [
        (
            WANTS_A_CODE,
            "host.example refuses the login without a password or a code",
            "log in once: modak login alice@",
        ),
        ("Permission denied (publickey).", "host.example refuses the login", "authorized_keys: ssh host.example"),
        ("Permission denied (publickey,password).", "without a password or a code", "modak login alice@host.example"),
    ],
)
def test_who_is_not_let_in_hears_of_the_login(way, said, message, hint):
    error = way(username="alice").refused(said)
    assert message in error.message
    assert hint in error.hint
    assert "modak login" in error.hint


@pytest.mark.parametrize("said", ["rsync: x: Permission denied (13)", "mkdir: Permission denied", "timed out", ""])
def test_what_is_refused_on_the_target_is_no_matter_of_the_login(way, said):
    assert way().refused(said) is None


def test_a_login_that_has_ended_is_told_with_its_time_and_name(way):
    connection = way(username="alice", port=2222)
    connection.login_note.write_text(json.dumps({"target": "night", "since": 0.0}))
    error = connection.refused(WANTS_A_CODE)
    assert error.message.startswith("the login to host.example of ")
    assert error.message.endswith("has ended")
    assert "modak login night" in error.hint
    assert way(username="bob").login == {}, "which is another way"


def test_where_an_address_does_not_say_it_the_target_is_to_be_named(way):
    assert "modak login TARGET" in way(port=2222).refused(WANTS_A_CODE).hint


@pytest.mark.component
@needs_ssh
def test_its_state_is_known_without_asking_the_target(way):
    connection = way()
    assert state_of(connection) == NONE
    connection.login_note.write_text(json.dumps({"target": "night", "since": 0.0}))
    assert state_of(connection) == ENDED
    assert state_of(way(local=True)) == NONE


@pytest.mark.component
@needs_ssh
@pytest.mark.parametrize(
    ("own", "path"),
    [
        ("", "/modak-"),
        ("Host host.example\n  ControlPath ~/.ssh/own-%h\n  ControlMaster auto\n", "/.ssh/own-host.example"),
        ("Host other.example\n  ControlPath ~/.ssh/own-%h\n", "/modak-"),
    ],
)
def test_a_connection_that_the_user_shares_is_used(way, tmp_path, own, path):
    (tmp_path / "home" / ".ssh" / "config").write_text(own)
    connection = way()
    said = subprocess.run(
        [*connection.ssh_command(), "-G", "host.example"], capture_output=True, text=True, check=True
    ).stdout
    settings = dict(line.partition(" ")[::2] for line in said.splitlines())
    assert path in settings["controlpath"]
    assert settings["controlmaster"] == "auto"
    assert settings["batchmode"] == "yes"
    assert settings["controlpersist"] == "60"


@pytest.mark.parametrize("keep", ["0s", "0.5s", "0h"])
def test_no_time_at_all_is_not_for_ever(keep):
    """ControlPersist=0 keeps a connection until the machine goes down."""
    with pytest.raises(UsageError, match=f"--keep {keep} is less than a second"):
        login.command("host.example", keep=keep)
