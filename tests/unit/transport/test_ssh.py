"""Entering a target: one message for each way in which that fails."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from threading import Thread

import pytest

from modak_ansible.errors import TARGET_UNREACHABLE, ModakError, TargetUnreachable, UsageError
from modak_ansible.model.target import Scheduler, Target
from modak_ansible.store.project import control_folder
from modak_ansible.transport import ssh as connection_module
from modak_ansible.transport.ssh import Connection, configuration_for_testbed, connect


def target(**changes):
    return Target(**{"name": "cluster", "scheduler": Scheduler.SLURM, "address": "127.0.0.1", **changes})


needs_ssh = pytest.mark.skipif(shutil.which("ssh") is None, reason="ssh is not installed")


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(connection_module, "_CONNECT_SECONDS", 2)


def test_this_machine_needs_no_connection(tmp_path):
    local = connect(target(local=True), tmp_path / "testbed", tmp_path, tmp_path)
    local.check()
    assert local.is_local
    assert local.ansible_variables()["ansible_connection"] == "local"
    assert not (tmp_path / "ssh_config").exists()


def test_the_configuration_says_what_the_blueprint_says(tmp_path):
    made = connect(
        target(username="alice", port=2222, identity_file="keys/id"), tmp_path / "testbed", tmp_path, tmp_path
    )
    text = made.config.read_text()
    assert "Host 127.0.0.1\n    User alice\n    Port 2222\n" in text
    assert f'IdentityFile "{tmp_path}/keys/id"' in text
    assert "BatchMode yes" in text
    assert "    StrictHostKeyChecking yes\n" in text, "before what the user's own configuration says"
    assert text.index("StrictHostKeyChecking") < text.index("Include")
    assert "testbed" not in text


def test_a_configuration_that_is_damaged_is_written_anew(tmp_path):
    (tmp_path / "ssh_config").write_bytes(b"\xff")
    made = connect(target(), tmp_path / "testbed", tmp_path, tmp_path)
    assert made.config.read_text().startswith("Host 127.0.0.1\n")


def as_testbed(tmp_path, more=""):
    made = tmp_path / "testbed"
    made.mkdir()
    (made / "ssh_config").write_text(
        f'Host testbed\n  HostName 127.1.2.3\n  Port 2222\n  User modak\n  IdentityFile "{made}/id 1"\n'
        f'  UserKnownHostsFile "{made}/known_hosts"\n  StrictHostKeyChecking yes\n{more}'
    )
    return connect(target(address="testbed"), made, tmp_path, tmp_path)


def test_a_testbed_whose_nodes_have_links_is_one(tmp_path):
    made = tmp_path / "testbed"
    made.mkdir()
    (made / "ssh_config").write_text("Host testbed\n  HostName 198.19.7.1\n")
    assert "HostName 198.19.7.1" in configuration_for_testbed(made)
    (made / "ssh_config").write_text("Host testbed\n  HostName 198.51.7.1\n")
    with pytest.raises(ModakError, match="does not belong to a testbed"):
        configuration_for_testbed(made)


@pytest.mark.component
@needs_ssh
def test_the_testbed_says_how_it_is_entered(tmp_path):
    made = as_testbed(tmp_path, "  HostKeyAlias [127.1.2.3]:22\n")
    said = subprocess.run(
        ["ssh", "-G", "-F", made.config, "testbed"], capture_output=True, text=True, check=True
    ).stdout
    for line in ("hostname 127.1.2.3", "port 2222", "user modak", f"identityfile {tmp_path}/testbed/id 1"):
        assert f"{line}\n" in said


@pytest.mark.parametrize(
    "more",
    [
        '  ProxyCommand sh -c "touch canary"\n', "Host *\n  User root\n", 'Match exec "touch canary"\n', "Include other\n",
        "  HostName login.example\n", "  StrictHostKeyChecking no\n", '  IdentityFile "$HOME/x"\n', "  user root\n", "\n",
    ],
)  # fmt: skip
def test_nothing_else_of_a_projects_files_configures_ssh(tmp_path, more):
    """Whoever wrote the blueprint may have written them, too."""
    with pytest.raises(ModakError, match=r"ssh_config:\d+: this line does not belong to a testbed"):
        as_testbed(tmp_path, more)
    assert not (tmp_path / "ssh_config").exists()
    made = connect(target(), tmp_path / "testbed", tmp_path, tmp_path)
    assert "ProxyCommand" not in made.config.read_text()


@pytest.mark.component
@needs_ssh
def test_a_host_that_refuses(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(TargetUnreachable, match=r"127.0.0.1 refuses the connection") as caught:
        connect(target(port=port), tmp_path / "testbed", tmp_path, tmp_path).check()
    assert "check the address and the port" in caught.value.hint
    assert caught.value.exit_code == TARGET_UNREACHABLE


@pytest.mark.component
@needs_ssh
def test_a_host_that_does_not_answer(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        made = connect(target(port=server.getsockname()[1]), tmp_path / "testbed", tmp_path, tmp_path)
        with pytest.raises(TargetUnreachable, match="does not answer"):
            made.check()


@pytest.mark.component
@needs_ssh
def test_a_host_that_keeps_this_one_out(tmp_path):
    """As an sshd does for a while after logins that failed: it ends the connection and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def shut_out():
            server.accept()[0].close()

        Thread(target=shut_out, daemon=True).start()
        made = connect(target(port=server.getsockname()[1]), tmp_path / "testbed", tmp_path, tmp_path)
        with pytest.raises(TargetUnreachable, match="closes connections before the login") as caught:
            made.check()
    assert "try again in a minute" in caught.value.hint


SAID = [
    ("@@@@\n@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.", "has a different host key", "ssh-keygen -R front"),
    ("No ED25519 host key is known for front and you have requested strict checking.\nHost key verification failed.",
     "has a host key that is not known", "ssh front"),
    ("alice@front: Permission denied (publickey).", "refuses the login", "identity_file"),
    ("ssh: Could not resolve hostname front: Name or service not known", "is not the name of a host", "public_address"),
    ("ssh: Could not resolve hostname testbed: Name or service not known", "is not up", "modak testbed up"),
    ("ssh: connect to host front port 22: No route to host", "cannot be reached over the network", "network"),
    ("kex_exchange_identification: something new", "the login failed: kex_exchange_identification", "try it by hand"),
    ("", "no reason given", "try it by hand"),
]  # fmt: skip


@pytest.mark.component
@pytest.mark.parametrize(("said", "words", "hint"), SAID)
def test_what_ssh_says_is_put_in_words(tmp_path, monkeypatch, said, words, hint):
    program = tmp_path / "ssh"
    program.write_text(f"#!/bin/sh\ncat >&2 << 'END'\n{said}\nEND\nexit 255\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(TargetUnreachable) as caught:
        Connection("front", tmp_path / "ssh_config").check()
    assert words in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.component
def test_without_ssh(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TargetUnreachable, match="ssh is not installed"):
        Connection("front", tmp_path / "ssh_config").check()


def connected(tmp_path, own):
    """A connection of a user whose own configuration says this."""
    path = tmp_path / "home" / ".ssh" / "config"
    path.parent.mkdir(parents=True)
    path.write_text(own)
    return connect(target(), tmp_path / "testbed", tmp_path, tmp_path)


def options_of(made):
    """What ssh takes for a connection."""
    return subprocess.run(
        ["ssh", "-G", "-F", made.config, "127.0.0.1"], capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.component
@needs_ssh
def test_host_keys_are_checked_even_where_the_users_own_configuration_says_no(tmp_path):
    made = connected(tmp_path, "Host *\n    StrictHostKeyChecking no\n    UserKnownHostsFile /dev/null\n")
    assert "stricthostkeychecking true" in options_of(made)
    assert made.ansible_variables()["ansible_host_key_checking"] is True


@pytest.mark.component
@needs_ssh
def test_what_the_user_runs_there_by_hand_is_not_run(tmp_path):
    asked = options_of(connected(tmp_path, "Host *\n    RemoteCommand tmux attach\n    RequestTTY force\n"))
    assert "tmux" not in asked
    assert "requesttty false" in asked


def test_an_option_that_old_clients_do_not_know_is_written_where_it_is_needed_alone(tmp_path):
    made = connected(tmp_path, "# RemoteCommand tmux attach\nHost *\n    Port 22\n")
    assert "RemoteCommand" not in Path(made.config).read_text()


@pytest.mark.parametrize(
    "name", ['k"\nProxyCommand touch canary\n#', "k\nProxyCommand touch canary", "${HOME}", "a\\b"]
)
def test_a_key_whose_name_holds_options_is_refused(tmp_path, name):
    with pytest.raises(ModakError, match="cannot be used in a configuration of SSH"):
        connect(target(identity_file=f"keys/{name}"), tmp_path / "testbed", tmp_path, tmp_path)
    assert not (tmp_path / "ssh_config").exists()


@pytest.mark.component
@needs_ssh
def test_a_key_with_a_percent_sign_is_that_key(tmp_path):
    made = connect(target(identity_file="keys/%h 1"), tmp_path / "testbed", tmp_path, tmp_path)
    asked = subprocess.run(["ssh", "-G", "-F", made.config, "127.0.0.1"], capture_output=True, text=True, check=True)
    assert f"identityfile {tmp_path}/keys/%%h 1" in asked.stdout


@pytest.mark.parametrize("length", range(20, 45))
def test_a_socket_of_ssh_s_has_a_path_that_the_kernel_takes(monkeypatch, length):
    """unix(7) has room for 107 bytes; ssh makes each under a name with 17 letters more."""
    with tempfile.TemporaryDirectory(prefix="m", dir="/tmp") as folder:
        place = Path(folder) / ("x" * (length - len(folder) - 1))
        place.mkdir()
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
        assert len(f"{control_folder()}/{'0' * 12}-{'0' * 40}.{'0' * 16}") <= 107


def test_a_folder_of_sockets_is_no_link(monkeypatch):
    with tempfile.TemporaryDirectory(prefix="m", dir="/tmp") as short:
        monkeypatch.setenv("XDG_RUNTIME_DIR", short)
        (Path(short) / "private").mkdir(mode=0o700)
        (Path(short) / f"modak-{os.getuid()}").symlink_to(Path(short) / "private")
        with pytest.raises(UsageError, match="is not private to you"):
            control_folder()


def test_a_runtime_folder_that_is_gone_is_not_used(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "gone"))
    assert control_folder().parent == Path(tempfile.gettempdir())
