"""A front end that wants a one-time code: an sshd of its own in the testbed, which asks by PAM and takes no key."""

from __future__ import annotations

import secrets
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster import Testbed

_CHECK = """\
#!/bin/bash
# pam_exec hands the answer over, ended by a null
read -r -d '' code
[ -n "$code" ] && grep -qxF -- "$code" {folder}/codes && sed -i "/^$code\\$/d" {folder}/codes && exit 0
exit 1
"""
_PAM = """\
auth requisite pam_exec.so expose_authtok quiet {folder}/check
auth required pam_permit.so
account required pam_permit.so
session required pam_permit.so
"""
_ASKS = """\
UsePAM yes
PAMServiceName {name}
KbdInteractiveAuthentication yes
PasswordAuthentication no
PubkeyAuthentication no
AuthenticationMethods keyboard-interactive
PidFile {folder}/pid
"""


class Otp:
    """The front end.

    Attributes:
        address: of its sshd.
        port: likewise.
    """

    def __init__(self, testbed: Testbed) -> None:
        self._testbed = testbed
        self.name = f"modak-otp-{uuid.uuid4().hex[:8]}"
        self._folder = f"/etc/testbed/{self.name}"
        self.address = testbed.state["address"]
        with socket.create_server((self.address, 0)) as server:
            self.port = server.getsockname()[1]

    def start(self) -> None:
        folder = self._folder
        config = self._testbed.root("cat /etc/ssh/sshd_config")
        lines = [
            line
            for line in config.splitlines()
            if line.split(" ")[0] in ("HostKey", "Subsystem", "SetEnv", "AcceptEnv")
        ]
        asks = _ASKS.format(folder=folder, name=self.name)
        self._write(f"{folder}/sshd_config", "\n".join([f"ListenAddress {self.address}:{self.port}", *lines, asks]))
        self._write(f"{folder}/check", _CHECK.format(folder=folder))
        self._write(f"/etc/pam.d/{self.name}", _PAM.format(folder=folder))
        self._testbed.root(
            f"chmod 755 {folder} {folder}/check; touch {folder}/codes; /usr/sbin/sshd -f {folder}/sshd_config"
        )

    def _write(self, path: str, text: str) -> None:
        self._testbed.root(f"mkdir -p $(dirname {path}); cat > {path} <<'END-OF-FILE'\n{text}\nEND-OF-FILE")

    def code(self) -> str:
        """A code that is good once."""
        code = secrets.token_hex(4)
        self._testbed.root(f"echo {code} >> {self._folder}/codes")
        return code

    def end_sessions(self) -> None:
        """As a site does at night: everybody is out, and has to log in again."""
        self._testbed.root(f"pkill -P $(<{self._folder}/pid); true")

    def stop(self) -> None:
        self._testbed.root(
            f"[ -e {self._folder}/pid ] && {{ pkill -P $(<{self._folder}/pid); kill $(<{self._folder}/pid); }}; "
            f"rm -rf {self._folder} /etc/pam.d/{self.name}"
        )


@contextmanager
def front_end(testbed: Testbed, home: Path) -> Iterator[Otp]:
    """One that runs, and a home in which its host key is known; ``otp`` is its name in the configuration of SSH."""
    otp = Otp(testbed)
    ssh = home / ".ssh"
    ssh.mkdir(parents=True, mode=0o700)
    host_key = (testbed.folder / "known_hosts").read_text().split()
    (ssh / "known_hosts").write_text(f"[{otp.address}]:{otp.port} {host_key[1]} {host_key[2]}\n")
    (ssh / "config").write_text(
        f"Host otp\n  HostName {otp.address}\n  Port {otp.port}\n  User {testbed.state['user']}\n"
        f"  UserKnownHostsFile {ssh}/known_hosts\n"
    )
    (ssh / "config").chmod(0o600)
    try:
        otp.start()
        yield otp
    finally:
        otp.stop()
