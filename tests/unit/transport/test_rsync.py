"""Files reach the place that is meant, whatever its name holds."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace

import pytest

from modak_ansible.errors import ModakError
from modak_ansible.transport.rsync import pull, push, push_below
from modak_ansible.transport.ssh import Connection

pytestmark = [
    pytest.mark.component,
    pytest.mark.skipif(shutil.which("rsync") is None, reason="there is no rsync"),
]


@pytest.fixture
def connection(tmp_path, monkeypatch):
    """A target that is this machine, entered by a program that does as ssh does: a shell there reads all words."""
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nshift 3\nexec sh -c "$*"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return Connection("host", tmp_path / "ssh_config")


def test_a_target_may_be_an_address_of_ipv6(tmp_path, connection):
    (tmp_path / "file").write_text("content")
    push(replace(connection, address="2001:db8::1"), [tmp_path / "file"], str(tmp_path / "there"), print)
    assert (tmp_path / "there" / "file").read_text() == "content"


@pytest.mark.parametrize("name", ["plain", "of a user", "josé", "it's", 'a"b', "$HOME", "a[1]*"])
def test_a_folder_of_the_target_may_have_any_name(tmp_path, connection, name):
    there, here = tmp_path / name, tmp_path / "here"
    there.mkdir()
    here.mkdir()
    (here / "of mine").write_text("content")
    push(connection, [here / "of mine"], str(there), print)
    push_below(connection, here, ["of mine"], f"{there}/below", print)
    assert (there / "below" / "of mine").read_text() == "content"
    pull(connection, str(there), ["of mine", "below/of mine"], tmp_path / "back", print)
    assert sorted(path.name for path in (tmp_path / "back").rglob("*")) == ["below", "of mine", "of mine"]


@pytest.mark.parametrize("is_local", [False, True])
@pytest.mark.parametrize(("name", "other"), [("a[1]", "a1"), ("a*", "ab"), ("a?", "ab")])
def test_a_name_that_is_a_pattern_is_not_taken_for_what_it_fits(tmp_path, connection, name, other, is_local):
    """On the target, which reads patterns in paths, and here."""
    target = Connection("") if is_local else connection
    there, here = tmp_path / "target", tmp_path / "here"
    for folder in (here, there / name, there / other):
        folder.mkdir(parents=True)
    (here / "file").write_text("from here")
    (there / other / "file").write_text(other)
    push(target, [here / "file"], str(there / name), print)
    push_below(target, here, ["file"], str(there / f"{name}.below"), print)
    pull(target, str(there / name), ["file"], tmp_path / "back", print)
    assert (there / name / "file").read_text() == "from here"
    assert (there / f"{name}.below" / "file").read_text() == "from here"
    assert (there / other / "file").read_text() == other
    assert (tmp_path / "back" / "file").read_text() == "from here"


def test_a_cd_of_the_users_own_that_writes_is_not_taken_for_rsync(tmp_path, connection):
    """Their ~/.bashrc has one, which bash reads in a session of ssh, too."""
    (tmp_path / "bin" / "ssh").write_text('#!/bin/bash\nshift 3\ncd() { builtin cd "$@" && ls -a; }\neval "$*"\n')
    (tmp_path / "file").touch()
    push(connection, [tmp_path / "file"], str(tmp_path / "there"), print)
    assert (tmp_path / "there" / "file").exists()


@pytest.mark.parametrize("lasts", ["0", "0.3"])
def test_a_folder_that_cannot_be_entered_is_no_broken_connection(tmp_path, connection, monkeypatch, lasts):
    """Rsync tells the code of ssh only where that has ended already, when nothing more comes from it."""
    monkeypatch.setattr("modak_ansible.transport.retry._PAUSES", ())
    (tmp_path / "bin" / "ssh").write_text(
        f'#!/bin/sh\nshift 3\necho "a greeting" >&2\nsh -c "$*"\ncode=$?\nexec >&- <&-\nsleep {lasts}\nexit "$code"\n'
    )
    (tmp_path / "file").touch()
    with pytest.raises(ModakError, match="the transfer did not start: .*none") as caught:
        pull(connection, str(tmp_path / "none"), ["file"], tmp_path / "back", print)
    assert not (tmp_path / "none").exists()
    assert caught.value.hint
    with pytest.raises(ModakError, match="the transfer did not start: .*file"):
        push(connection, [tmp_path / "file"], str(tmp_path / "file" / "below"), print)


def test_a_shell_that_greets_whoever_comes_is_told(tmp_path, connection):
    (tmp_path / "bin" / "ssh").write_text('#!/bin/sh\nshift 3\necho "Welcome to the cluster"\nexec sh -c "$*"\n')
    (tmp_path / "file").touch()
    with pytest.raises(ModakError, match="the shell on the target prints text of its own") as caught:
        push(connection, [tmp_path / "file"], str(tmp_path / "there"), print)
    assert "~/.bashrc" in caught.value.hint
