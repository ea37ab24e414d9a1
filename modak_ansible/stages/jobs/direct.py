"""What only looks at a target, done over the connection itself, without a playbook around it.

Ansible takes a second to start, whatever is asked.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any, cast

from modak_ansible.errors import LoginRefused, ModakError, TargetUnreachable
from modak_ansible.stages.base import Answer, module_error
from modak_ansible.target.core.sending import READER, WORD, answer_in, call_of, opening, question
from modak_ansible.transport.ssh import Connection

# In the order in which Ansible looks for them.
_PYTHONS = (*(f"python3.{minor}" for minor in range(14, 7, -1)), "/usr/bin/python3", "python3")
_NO_PYTHON = 127
# How long what is asked nothing any more may take to end by itself, in seconds.
_ENDS_WITHIN = 2.0


def ask(
    connection: Connection, function: Callable[[Any], Any], argument: Any, *, seconds: float | None = None
) -> Answer:
    """What a function of the target side answers there.

    Args:
        function: one that gives what ``answered`` does.
        argument: what it is called with; JSON can hold it.
        seconds: how long it may take; None for as long as the connection lasts.

    Raises:
        TargetUnreachable: with the reason and what to do about it.
        ModakError: the function fails there.
    """
    process = connection.run(_command(connection), call_of(function, argument), seconds=seconds)
    return _checked(function, answer_in(process.stdout), process.returncode, process.stderr)


class RemoteFunction:
    """A function of the target side that is kept ready there: it is sent once, however often it is asked.

    Args:
        connection: to the target.
        function: one that gives what ``answered`` does.
    """

    def __init__(self, connection: Connection, function: Callable[[Any], Any]) -> None:
        self._connection, self.function = connection, function
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, argument: Any) -> Answer:
        """What it answers; it is sent anew where the connection broke.

        Args:
            argument: what it is called with; JSON can hold it.

        Raises:
            TargetUnreachable: with the reason and what to do about it.
            ModakError: the function fails there.
        """
        message = question(argument)
        if self._process is None:
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
            self._process = self._connection.start(_command(self._connection), self._errors)
            message = opening(self.function) + message
        stdin, stdout = cast("IO[bytes]", self._process.stdin), cast("IO[bytes]", self._process.stdout)
        try:
            with suppress(BrokenPipeError):  # why it has ended is known below
                stdin.write(message)
                stdin.flush()
            answer = next((value for line in stdout if (value := answer_in(line)) is not None), None)
        except BaseException:  # such as Ctrl-C: what it answers yet is for nobody, and for no other question
            self._process.terminate()
            self.close()
            raise
        code, errors = (0, b"") if answer is not None else self._end()
        return _checked(self.function, answer, code, errors)

    def attempt(self, argument: Any, broken: type[Exception]) -> Answer:
        """As :meth:`ask`; a connection that broke raises the exception that means to try again, with the reason."""
        try:
            return self.ask(argument)
        except LoginRefused:
            raise
        except TargetUnreachable as error:
            raise broken(error.message) from error

    def _end(self) -> tuple[int, bytes]:
        """The exit code of what has ended by itself, and what it wrote of its errors."""
        process, errors = cast("subprocess.Popen[bytes]", self._process), self._errors
        code = process.wait()
        errors.seek(0)
        told_errors = errors.read()
        self.close()
        self._connection.check_end(code, told_errors)
        return code, told_errors

    def close(self) -> None:
        """Ends what is kept ready: by itself, so that its host has room for another session once this is done."""
        if self._process is None:
            return
        process, self._process = self._process, None
        with self._errors, process:
            with suppress(BrokenPipeError):
                cast("IO[bytes]", process.stdin).close()
            with suppress(subprocess.TimeoutExpired):
                process.wait(_ENDS_WITHIN)
            process.terminate()


def _checked(function: Callable[[Any], Any], answer: Answer | None, code: int, errors: bytes) -> Answer:
    """What a function answered, where it did.

    Raises:
        ModakError: it failed.
    """
    if answer is None and code == _NO_PYTHON:
        raise ModakError("there is no Python 3 on the target", hint="the target needs Python 3.8 or later")
    if answer is None:
        answer = {"failed": True, "module_stderr": errors.decode(errors="replace")}
    if answer.get("failed"):
        raise module_error(function.__module__, answer)
    return answer


def _command(connection: Connection) -> str:
    words = f'-c "{READER}" {WORD}'
    if connection.is_local:
        return f"exec {shlex.quote(sys.executable)} {words}"
    look = f"for each in {' '.join(_PYTHONS)}; do command -v $each > /dev/null 2>&1 && exec $each {words}; done"
    return f"exec /bin/sh -c {shlex.quote(f'{look}; exit {_NO_PYTHON}')}"
