"""A tunnel to a port that a target reaches, through the connection to it that all commands share."""

from __future__ import annotations

import select
import socket
import subprocess
import tempfile
from contextlib import suppress

from modak_ansible.errors import TargetUnreachable, UsageError, last_line
from modak_ansible.transport.ssh import Connection

HERE = "127.0.0.1"
_OPEN = b"open\n"
_PATIENCE = 45.0  # seconds until it is open, or was refused
_CANCEL_SECONDS = 5


class NoTunnel(TargetUnreachable):
    """A tunnel could not be opened now, and may be later."""


def free_port(port: int | None = None) -> int:
    """A port of this machine's own address on which nobody listens.

    Raises:
        UsageError: it is the one that is wanted, and is taken.
    """
    with socket.socket() as probe:
        # one whose last user has just gone is free
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HERE, port or 0))
        except OSError as error:
            raise UsageError(f"port {port}: {error.strerror}", hint="leave --port out for a free one") from error
        return int(probe.getsockname()[1])


class Tunnel:
    """Leads from a port here to one there, for as long as it is open.

    Args:
        connection: the way to the target.
        port: here; None for a free one, which stays the same however often it is opened.
        remote: an address and a port as the target knows them.

    Raises:
        UsageError: the port is taken.
    """

    def __init__(self, connection: Connection, port: int | None, remote: tuple[str, int]) -> None:
        self._connection = connection
        self.port = free_port(port)
        self.remote = remote
        self._process: subprocess.Popen[bytes] | None = None

    def open(self) -> None:
        """Opens it, anew where it was lost.

        Raises:
            NoTunnel: that failed, and may not the next time.
            TargetUnreachable: the target lets nobody in any more who cannot be asked.
        """
        self.close()
        # The session keeps it open, and ends with this process, however that ends.
        words = ["-o", "ExitOnForwardFailure=yes", "-o", "LogLevel=ERROR", "-L", self._forward]
        command = [*self._connection.ssh_command(), *words, self._connection.address, "echo open; exec cat"]
        with tempfile.TemporaryFile() as errors:
            # Ctrl-C is for whoever opened it, who closes it then
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
            )
            output = self._process.stdout
            assert output is not None  # noqa: S101 - it is a pipe
            is_ready, _, _ = select.select([output], [], [], _PATIENCE)
            if is_ready and _OPEN in iter(output.readline, b""):  # behind what a login says there
                return
            self.close()
            errors.seek(0)
            text = errors.read().decode(errors="replace")
        if refusal := self._connection.refused(text):
            raise refusal
        reason = last_line(text, "") or f"{self._connection.address} does not answer"
        address = self.remote[0]
        raise NoTunnel(f"there is no tunnel to {address}: {reason}", hint="try again: what runs there continues")

    def is_lost(self, seconds: float) -> bool:
        """Whether it has ended, or does within some seconds."""
        if self._process is None:
            return True
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self._process.poll() is not None

    def close(self) -> None:
        """Closes it; one that is not open stays as it is."""
        process, self._process = self._process, None
        if process is None:
            return
        # what is shared keeps it open for others, and there are none
        cancel = ["-O", "cancel", "-L", self._forward, self._connection.address]
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                [*self._connection.ssh_command(), *cancel], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, timeout=_CANCEL_SECONDS, check=False,
            )  # fmt: skip
        process.terminate()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe:
                with suppress(OSError):
                    pipe.close()

    @property
    def _forward(self) -> str:
        address, port = self.remote
        return f"{HERE}:{self.port}:{address}:{port}"
