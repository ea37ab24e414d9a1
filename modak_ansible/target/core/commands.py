"""Runs programs so that the caller always comes back."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from ...schedulers.base import CommandResult, CommandRunner

_REST_SECONDS = 3.0
# Schedulers are often installed in folders of their own, which login shells alone have in PATH.
SYSTEM_PATHS = (
    "/usr/local/bin", "/usr/local/sbin", "/usr/sbin", "/sbin", "/opt/slurm/bin", "/usr/local/slurm/bin",
    "/cm/local/apps/slurm/current/bin", "/cm/shared/apps/slurm/current/bin", "/opt/pbs/bin", "/opt/torque/bin",
    "/usr/local/torque/bin",
)  # fmt: skip
# What a profile may have squeue leave out: such a job would seem to be unknown. And SBATCH_EXPORT=NONE, which some
# sites set on their front ends, goes on to each srun of a job: its ranks have nothing of what the script prepares. And
# SLURM_TIME_FORMAT, by which no time is one that can be read.
_UNWANTED = {
    "SBATCH_EXPORT",
    "SLURM_TIME_FORMAT",
    *(f"SQUEUE_{name}" for name in ("ACCOUNT", "LICENSES", "NAMES", "PARTITION", "PRIORITY", "QOS", "USERS")),
}
# Where this runs in a job of Slurm itself, such as a notebook's: sbatch would hand all the words of that job on to the
# one that it submits, and each srun there refuses those that are not its own. These are the site's or the user's.
_OF_NO_JOB = ("SLURM_CLUSTERS", "SLURM_CONF", "SLURM_JWT", "SLURM_MPI_TYPE")


def user_name() -> str:
    """The user's name; the number where no list of users has it, as in a container that was started with another."""
    import pwd  # noqa: PLC0415

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def full_environment() -> dict[str, str]:
    """This process's environment, without what has Slurm do otherwise than it is asked to, and with the system's
    folders at the end of PATH: debootstrap lives in /usr/sbin.
    """
    environment = {name: value for name, value in os.environ.items() if name not in _UNWANTED}
    folders = environment.get("PATH", os.defpath).split(os.pathsep)
    environment["PATH"] = os.pathsep.join(
        [*folders, *(system_path for system_path in SYSTEM_PATHS if system_path not in folders)]
    )
    return environment


def _outside_of_jobs(environment: dict[str, str]) -> dict[str, str]:
    """An environment without what Slurm has put there for the job that this process is of, if it is of one."""
    if "SLURM_JOB_ID" not in environment:
        return environment
    return {
        name: value
        for name, value in environment.items()
        if name in _OF_NO_JOB or not name.startswith(("SLURM_", "SRUN_"))
    }


def find_program(*names: str) -> str | None:
    """The path of the first of some programs that is there."""
    path = full_environment()["PATH"]
    return next((program for program in (shutil.which(name, path=path) for name in names) if program), None)


class TimedRun(CommandRunner):
    """Runs commands in a folder, each within a time limit: a scheduler whose node has died can hang for ever.

    With ``keep_locks`` a command that outlives this process keeps the locks that it holds.
    """

    def __init__(self, folder: Path | None = None, timeout: float = 60.0, *, keep_locks: bool = False) -> None:
        self._folder = folder
        self._timeout = timeout
        self._keep_locks = keep_locks

    def __call__(self, argv: list[str]) -> CommandResult:
        environment = {**full_environment(), "LC_ALL": "C"}
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=self._folder,
                env=_outside_of_jobs(environment) if argv[0] == "sbatch" else environment,
                start_new_session=True,
                close_fds=not self._keep_locks,
            )
        except FileNotFoundError:
            return CommandResult(127, err=f"{argv[0]}: command not found", missing=True)
        except OSError as error:
            return CommandResult(126, err=f"{argv[0]}: {error.strerror}", missing=True)
        try:
            out, err = process.communicate(timeout=self._timeout)
        except subprocess.TimeoutExpired:
            code = process.poll()
            if code is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            out, err = _rest(process)
            if code is None:
                words = f"{argv[0]} did not answer within {self._timeout:.0f} s"
                return CommandResult(124, err=words, timed_out=True)
        return CommandResult(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))


def _rest(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """What a process has written, though something that it has started may keep its output open for ever."""
    try:
        return process.communicate(timeout=_REST_SECONDS)
    except subprocess.TimeoutExpired as error:
        for pipe in (process.stdout, process.stderr):
            if pipe:
                pipe.close()
        return error.output or b"", error.stderr or b""
