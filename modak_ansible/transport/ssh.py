"""How a target is entered: one SSH configuration for Ansible, rsync and people, with host keys checked."""

from __future__ import annotations

import hashlib
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypedDict, cast

from modak_ansible.errors import LoginRefused, ModakError, TargetUnreachable, last_line
from modak_ansible.store.machines import MachineStore, hosts_of
from modak_ansible.store.project import control_folder
from modak_ansible.store.testbeds import TESTBED, owner_of, running
from modak_ansible.target.core.files import expanded, read_json, read_text, write_whole
from modak_ansible.target.core.plan import Target as PlannedTarget

if TYPE_CHECKING:
    from modak_ansible.model.target import Target

_CONNECT_SECONDS = 15
_SSH_FAILED = 255
_PLAIN_PATH = r'"[^"\\$]+"'
# All that a testbed's ssh_config may say. A project's files come from anybody: no other option, and no other machine.
_TESTBED_OPTIONS = {
    "Host": re.escape(TESTBED),
    "HostName": r"(127\.\d{1,3}|198\.1[89])(\.\d{1,3}){2}",  # of this machine: loopback, or a testbed's own links
    "Port": r"\d{1,5}",
    "User": r"[a-z_][a-z0-9_-]*",
    "IdentityFile": _PLAIN_PATH,
    "IdentitiesOnly": "yes",
    "UserKnownHostsFile": _PLAIN_PATH,
    "StrictHostKeyChecking": "yes",
    "HostKeyAlias": r"[\w.:\[\]-]+",
}


@dataclass(frozen=True)
class Way:
    """What of a target says how it is entered; a Target has the same, and takes longer to be read."""

    address: str
    username: str | None
    port: int | None
    identity_file: str | None
    local: bool
    machines: int = 0  # that are made for it

    @classmethod
    def of(cls, target: PlannedTarget) -> Way:
        """That of a target in a plan's JSON.

        Raises:
            KeyError: it is none.
        """
        entry = target["address"], target["username"], target["port"], target["identity_file"]
        cloud = target.get("cloud")
        return cls(*entry, target["local"], 0 if cloud is None else cloud.get("machines") or 1)


class LoginNote(TypedDict, total=False):
    target: str  # how the user calls it
    since: float  # seconds since the epoch


@dataclass(frozen=True)
class Connection:
    address: str  # what ssh is given; empty for this machine
    config: Path | None = None  # the SSH configuration that it is read with
    testbed_is_known: bool = True  # whether that configuration can know the testbed, which no name server does
    key: str = ""  # what tells it from other ways, to this address and to others
    login_name: str = ""  # the target as modak login takes it, as far as an address and a user say it
    absent: bool = False  # whether it is a machine that has to be made first

    @property
    def is_local(self) -> bool:
        return self.config is None

    def ssh_command(self) -> list[str]:
        return ["ssh", "-F", str(self.config)]

    def ansible_variables(self) -> dict[str, object]:
        if self.is_local:
            return {
                "ansible_connection": "local",
                "ansible_python_interpreter": sys.executable,
                # Ansible looks for the home folder in the list of users, where a container's user may have none
                "ansible_remote_tmp": str(control_folder() / "ansible"),
            }
        return {
            "ansible_host": self.address,
            "ansible_connection": "ssh",
            "ansible_ssh_args": "",
            "ansible_ssh_common_args": shlex.join(["-F", str(self.config)]),
            "ansible_host_key_checking": True,
            "ansible_pipelining": True,
            "ansible_python_interpreter": "auto_silent",
        }

    @property
    def login_note(self) -> Path:
        """Where a login is noted that modak login has made, until it is ended or this machine is started anew."""
        return control_folder() / f"login-{self.key}.json"

    @property
    def login(self) -> LoginNote:
        """The login that was made; empty where there was none."""
        return cast(LoginNote, read_json(self.login_note) or {}) if self.key else {}

    def refused(self, output: str) -> LoginRefused | None:
        """The error for a target that lets nobody in who cannot be asked; None where it says something else.

        Args:
            output: of ssh, with the ways in which it would be entered.
        """
        ways = _REFUSED.search(output)
        if ways is None:
            return None
        note = self.login
        name = note.get("target") or self.login_name
        if note:
            login_time = time.strftime("%H:%M", time.localtime(note.get("since", 0.0)))
            hint = f"log in again: modak login {name}; then run the same command again: it continues"
            return LoginRefused(f"the login to {self.address} of {login_time} has ended", hint=hint)
        key = "check username and identity_file, and that the key is in the target's authorized_keys"
        login = f"modak login {name}, and all commands use that connection"
        if "keyboard-interactive" in ways.group(1) or "password" in ways.group(1):
            message = f"{self.address} refuses the login without a password or a code"
            return LoginRefused(message, hint=f"log in once: {login}; or use a key: {key}")
        hint = f"{key}: ssh {self.address}; if the key has a passphrase: {login}"
        return LoginRefused(f"{self.address} refuses the login", hint=hint)

    def check(self) -> None:
        """Enters the target once.

        Raises:
            TargetUnreachable: with the reason and what to do about it.
        """
        if self.is_local:
            return
        result = self.run("true", seconds=_CONNECT_SECONDS + 15)
        if result.returncode != 0:
            reason = last_line(result.stderr.decode(errors="replace"))
            raise TargetUnreachable(
                f"{self.address} accepts the login, but runs no commands: {reason}",
                hint=f"try it by hand: ssh {self.address} true",
            )

    def run(
        self, command: str, stdin: bytes = b"", *, seconds: float | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Runs a command of the target's shell, and gives what it wrote.

        Args:
            stdin: what it reads.
            seconds: how long it may take; None for as long as the connection lasts.

        Raises:
            TargetUnreachable: with the reason and what to do about it.
        """
        if self.is_local:
            return subprocess.run(self._words(command), input=stdin, capture_output=True, check=False)
        try:
            result = subprocess.run(
                self._words(command), input=stdin, capture_output=True, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired:
            raise self._unreachable("", "timed out") from None
        except FileNotFoundError:
            raise _no_ssh() from None
        self.check_end(result.returncode, result.stderr)
        return result

    def start(self, command: str, errors: IO[bytes]) -> subprocess.Popen[bytes]:
        """Begins a command of the target's shell, which is asked and answers through pipes.

        Args:
            errors: a file that what it says of its own goes into.

        Raises:
            TargetUnreachable: with the reason and what to do about it.
        """
        try:
            return subprocess.Popen(self._words(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        except FileNotFoundError:
            raise _no_ssh() from None

    def check_end(self, code: int, errors: bytes) -> None:
        """Looks at how a command ended.

        Raises:
            TargetUnreachable: it was the connection that did, with the reason and what to do about it.
        """
        if not self.is_local and (code == _SSH_FAILED or code < 0):
            output = errors.decode(errors="replace")
            raise self._unreachable(output, output)

    def _words(self, command: str) -> list[str]:
        """What runs a command of the target's shell.

        Raises:
            TargetUnreachable: there is no way to it.
        """
        if self.is_local:
            return ["/bin/sh", "-c", command]
        if self.absent:
            hint = "modak deploy makes it; modak gc shows what there is"
            raise TargetUnreachable(f"the machine {self.address} is not there", hint=hint)
        if self.address == TESTBED and not self.testbed_is_known:
            if several := running():
                use = f"modak testbed use {owner_of(several[0])}"
                if len(several) == 1:  # which would be taken, had the project none of its own
                    message = "this project's testbed is down, and another one runs"
                    raise TargetUnreachable(message, hint=f"start it with modak testbed up, or take the other: {use}")
                hint = f"say which: {use}, or another that modak testbed status shows"
                raise TargetUnreachable("several testbeds run, and none is this project's", hint=hint)
            raise self._unreachable("", "Could not resolve hostname testbed")
        return [*self.ssh_command(), self.address, command]

    def _unreachable(self, output: str, text: str) -> TargetUnreachable:
        if refusal := self.refused(text):
            return refusal
        for pattern, words, hint in _REASONS:
            if re.search(pattern, text, re.IGNORECASE):
                return TargetUnreachable(f"{self.address} {words}", hint=hint.replace("HOST", self.address))
        hint = f"try it by hand: ssh -t -F {self.config} {self.address}"
        return TargetUnreachable(f"{self.address}: the login failed: {last_line(output)}", hint=hint)


def _no_ssh() -> TargetUnreachable:
    return TargetUnreachable("ssh is not installed on this machine", hint="install openssh-client")


# An option of ssh's configuration; OpenSSH before 7.6 does not know it.
_REMOTE_COMMAND = re.compile(r"^[ \t]*RemoteCommand[ \t=]", re.IGNORECASE | re.MULTILINE)
# The ways that a host offers to whom it does not let in.
_REFUSED = re.compile(r"Permission denied \(([a-z][\w,@.-]+)\)")
_REASONS = (
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED",
        "has a different host key from the one that is known: it may be another machine",
        "if the change is expected, forget the old key: ssh-keygen -R HOST",
    ),
    (
        r"Host key verification failed",
        "has a host key that is not known",
        "log in once by hand and compare the key: ssh HOST",
    ),
    (
        r"Permission denied|Too many authentication failures|no such identity",
        "refuses the login",
        "check username and identity_file, and that the key is in the target's authorized_keys: ssh HOST",
    ),
    (r"Connection refused", "refuses the connection", "check the address and the port, and that sshd runs there"),
    # Of a host whose logins failed (PerSourcePenalties, since OpenSSH 9.8; fail2ban), or with too many (MaxStartups).
    (
        r"kex_exchange_identification: (Connection closed|read: Connection reset)",
        "closes connections before the login",
        "after logins that failed, or with too many at once, an sshd does so for a while: try again in a minute",
    ),
    (
        r"timed out|timeout",
        f"does not answer within {_CONNECT_SECONDS} s",
        "check the address, the network and the firewall",
    ),
    (
        r"Could not resolve hostname testbed\b",
        "is not up",
        "start it with: modak testbed up; or point the blueprint at a cluster of your own with -i inputs.yaml",
    ),
    (
        r"Could not resolve hostname",
        "is not the name of a host",
        "check public_address, or give it a Host entry in ~/.ssh/config",
    ),
    (
        r"No route to host|Network is unreachable",
        "cannot be reached over the network",
        "check the address and the network",
    ),
    (
        r"Bad configuration|Bad owner or permissions",
        "cannot be logged in to: the SSH configuration is wrong",
        "ssh HOST says where",
    ),
)


def connect(
    target: Target | Way, testbed: Path, blueprint_folder: Path, folder: Path, state: Path | None = None
) -> Connection:
    """The way to a target; writes the SSH configuration for it.

    Args:
        testbed: the testbed's folder.
        blueprint_folder: where a relative identity file is looked for.
        folder: where the configuration is written.
        state: the state folder of the project that may have made the target; None where none has.

    Raises:
        ModakError: a path, or what stands in the testbed's folder, cannot be taken into it.
    """
    if target.local:
        return Connection("")
    path = folder / "ssh_config"
    hosts = hosts_of(state, target.address, target.machines) if state else []
    machines = [host for host in hosts if host.note]
    text, key = _configuration(target, testbed, blueprint_folder, machines)
    if read_text(path) != text.strip():
        write_whole(path, text)
    user = f"{target.username}@" if target.username else ""
    is_plain = not (target.port or target.identity_file)  # of which an address says nothing
    login_name = f"{user}{target.address}" if is_plain else "TARGET (its name, or the blueprint)"
    is_absent = bool(target.machines) and not (hosts and hosts[0].note)
    knows_testbed = (testbed / "ssh_config").exists() or TESTBED in _own_configuration()
    return Connection(target.address, path, knows_testbed, key, login_name, is_absent)


def _own_configuration() -> str:
    """What the user's own file says; what that includes is not looked at."""
    return read_text(expanded("~/.ssh/config"))


def _host_lines(target: Target | Way, blueprint_folder: Path, machine: MachineStore | None) -> list[str]:
    """How a target is entered, or one of the machines that were made for it."""
    lines = [f"Host {machine.name if machine else target.address}"]
    if machine and (note := machine.note):
        lines += [
            f"    # {note['id']}",
            f"    HostName {note['address']}",
            f"    HostKeyAlias {machine.name}",
            f"    UserKnownHostsFile {_quoted(machine.known_hosts, tokens=True)}",
            "    GlobalKnownHostsFile none",
        ]
    if target.username:
        lines.append(f"    User {target.username}")
    if target.port:
        lines.append(f"    Port {target.port}")
    if target.identity_file:
        key = blueprint_folder.resolve() / expanded(target.identity_file)
        lines += [f"    IdentityFile {_quoted(key, tokens=True)}", "    IdentitiesOnly yes"]
    return lines


def _configuration(
    target: Target | Way, testbed: Path, blueprint_folder: Path, machines: Sequence[MachineStore]
) -> tuple[str, str]:
    """The text, and what tells this way from others.

    Args:
        machines: those that are there of what is made for it.
    """
    hosts: Sequence[MachineStore | None] = machines or [None]
    lines = [line for host in hosts for line in _host_lines(target, blueprint_folder, host)]
    lines += [
        "Match all",
        # whatever the user's own configuration says: a key that nobody compared may be anybody's
        "    StrictHostKeyChecking yes",
        "    BatchMode yes",
        # what the user has run there by hand, such as tmux, would come in place of our commands
        "    RequestTTY no",
        *(["    RemoteCommand none"] if _REMOTE_COMMAND.search(_own_configuration()) else []),  # OpenSSH 7.6 or later
        f"    ConnectTimeout {_CONNECT_SECONDS}",
        "    ServerAliveInterval 15",
        "    ServerAliveCountMax 4",
    ]
    includes = _testbed_lines(testbed / "ssh_config") if target.address == TESTBED else []
    includes += [f"Include {_quoted(path)}" for path in (expanded("~/.ssh/config"), Path("/etc/ssh/ssh_config"))]
    # a connection is shared only by those who would have made the same one, with the same keys to compare
    digest = hashlib.sha256("\n".join([*lines, *includes]).encode()).hexdigest()[:12]
    sharing = ["    ControlMaster auto", "    ControlPersist 60", f'    ControlPath "{control_folder()}/{digest}-%C"']
    if target.address == TESTBED:
        return "\n".join([*lines, *sharing, *includes, ""]), digest
    # where the user's own configuration says how connections are shared, theirs is used, and nobody logs in twice
    return "\n".join([*lines, *includes, "Match all", *sharing, ""]), digest


def configuration_for_testbed(folder: Path) -> str:
    """An SSH configuration that knows the testbed of a folder, and nothing else that stands there.

    Raises:
        ModakError: it says more than a testbed's does.
    """
    return "\n".join([*_testbed_lines(folder / "ssh_config"), ""])


def _testbed_lines(path: Path) -> list[str]:
    """What a testbed says of the way to it; nothing where it is not up.

    Raises:
        ModakError: it says more than that.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    for number, line in enumerate(lines, 1):
        name, _, value = line.strip().partition(" ")
        is_known = name in _TESTBED_OPTIONS and re.fullmatch(_TESTBED_OPTIONS[name], value, re.ASCII)
        if not is_known or not line.isprintable() or (name == "Host") != (number == 1):
            raise ModakError(
                f"{path}:{number}: this line does not belong to a testbed",
                hint="modak testbed up writes that file again",
            )
    return [*lines, "Match all"] if lines else []


def _quoted(path: Path, *, tokens: bool = False) -> str:
    """A path as a word of an SSH configuration.

    Args:
        tokens: whether the option replaces what begins with a percent sign.

    Raises:
        ModakError: it holds what cannot be written there, such as a line's end with another option behind.
    """
    text = str(path)
    if not text.isprintable() or any(character in text for character in '"\\$'):
        raise ModakError(
            f"{text!r} cannot be used in a configuration of SSH", hint="give the file and its folders plain names"
        )
    return f'"{text.replace("%", "%%") if tokens else text}"'
