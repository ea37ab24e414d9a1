"""One login for everything: a connection that somebody opened by hand, as with a code, and that all commands use."""

from __future__ import annotations

import signal
import subprocess
import time

from modak_ansible.errors import ModakError, TargetUnreachable
from modak_ansible.target.core.files import write_json
from modak_ansible.transport.ssh import Connection

OPEN, ENDED, NONE = "open", "ended", ""
_CHECK_SECONDS = 5


def log_in(connection: Connection, target: str, keep: int) -> bool:
    """Opens the connection, at whose prompts the user answers; whether it was not open before.

    Args:
        target: how the user calls it.
        keep: seconds for which it stays open while nothing uses it.

    Raises:
        ModakError: the user's own configuration has no connection shared.
        TargetUnreachable: ssh did not get in; it has said why.
    """
    if state_of(connection) == OPEN:
        _write_note(connection, target)
        return False
    if connection.config is None:
        return False
    path = connection.config.with_name("ssh_login_config")
    # of the host and of those on the way to it alike: somebody is there to be asked, and to compare a key
    replacements = [("BatchMode yes", "BatchMode no"), ("StrictHostKeyChecking yes", "StrictHostKeyChecking ask")]
    text = connection.config.read_text(encoding="utf-8")
    for silent, loud in replacements:
        text = text.replace(f"    {silent}\n", f"    {loud}\n", 1)
    # what leads to the target by way of another host is not shared: it would end with the terminal
    host_only = f"Match originalhost {connection.address}\n    ControlMaster auto\n"
    text = text.replace("Match all\n    ControlMaster auto\n", host_only, 1)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    if _setting(connection, "controlpath") in ("", "none"):
        raise ModakError(
            f"~/.ssh/config turns off connection sharing for {connection.address}",
            hint="remove ControlPath none there",
        )
    options = ["-o", "ControlMaster=auto", "-o", f"ControlPersist={keep}"]
    # what a jump goes through is a process of the terminal's still, and is not to end with it
    handler = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        result = subprocess.run(["ssh", "-F", str(path), *options, connection.address, "true"], check=False)
    except FileNotFoundError:
        raise TargetUnreachable("ssh is not installed on this machine", hint="install openssh-client") from None
    finally:
        signal.signal(signal.SIGHUP, handler)
    if result.returncode == 255 or state_of(connection) != OPEN:
        raise TargetUnreachable(f"the login to {connection.address} failed", hint="ssh has said why")
    _write_note(connection, target)
    return True


def log_out(connection: Connection) -> bool:
    """Ends the connection, and with it all that goes through it; whether there was one."""
    was_open = state_of(connection) == OPEN
    if was_open:
        _control(connection, "exit")
    connection.login_note.unlink(missing_ok=True)
    return was_open


def state_of(connection: Connection) -> str:
    """Whether a connection is open, was opened by a login that has ended, or neither; the target is asked nothing."""
    if connection.is_local:
        return NONE
    if _control(connection, "check"):
        return OPEN
    return ENDED if connection.login else NONE


def _control(connection: Connection, word: str) -> bool:
    """Asks the connection that is shared, which answers here; whether there is one."""
    command = [*connection.ssh_command(), "-O", word, connection.address]
    try:
        result = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            timeout=_CHECK_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return False
    return result.returncode == 0


def _setting(connection: Connection, name: str) -> str:
    """What ssh makes of an option for the target, with the user's own configuration."""
    command = [*connection.ssh_command(), "-G", connection.address]
    output = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False).stdout
    return next((line.partition(" ")[2] for line in output.splitlines() if line.partition(" ")[0] == name), "")


def _write_note(connection: Connection, target: str) -> None:
    write_json(connection.login_note, {"target": target, "since": time.time()})
