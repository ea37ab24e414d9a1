"""modak tensorboard: trainings in TensorBoard, while they go on."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from modak_ansible.commands.jobs.operate import Only, Several
from modak_ansible.commands.options import Port
from modak_ansible.errors import ModakError, UsageError, last_line

if TYPE_CHECKING:
    import subprocess

    from modak_ansible.deployment.exporting.tensorboard import LiveEvents

EXAMPLES = "Example: modak tensorboard mine"
# How long TensorBoard may take until it answers, and how often another port is tried, where one is taken meanwhile.
_PATIENCE, _TRIES = 60.0, 3


def command(
    deployments: Several,
    training: Only = None,
    every: Annotated[float, typer.Option(metavar="SECONDS", min=2, help="How often to fetch new numbers.")] = 10.0,
    port: Port = None,
) -> None:
    """Show trainings in TensorBoard while they run, until Ctrl-C.

    All numbers that a script writes are shown, in any format; new ones are fetched repeatedly as long as jobs run.
    TensorBoard listens only on this machine's own address.
    """
    import signal
    import tempfile

    from modak_ansible.deployment.exporting.tensorboard import LiveEvents
    from modak_ansible.model.quantities import counted
    from modak_ansible.store.deployments import find_all

    program = _program()
    for number in (signal.SIGTERM, signal.SIGHUP):  # however this command is ended, TensorBoard ends with it
        signal.signal(number, signal.default_int_handler)
    stores = find_all(deployments, training)
    with tempfile.TemporaryDirectory(prefix="modak-tensorboard-") as folder:
        process, address = _started(program, Path(folder), port)
        try:
            typer.echo(f"{counted(len(stores), 'training')} at {address}; Ctrl-C ends it")
            _show([store.folder for store in stores], LiveEvents(Path(folder)), process, every)
        finally:
            process.terminate()
            process.wait()


def _show(folders: list[Path], events: LiveEvents, process: subprocess.Popen[bytes], every: float) -> None:
    """Fetches and adds what is new until all have ended, and stays as long as TensorBoard does.

    Raises:
        ModakError: TensorBoard has ended.
    """
    import subprocess

    from modak_ansible.deployment.comparison import fetched
    from modak_ansible.deployment.fetching import fetch_results
    from modak_ansible.store.deployment import DeploymentStore

    last_remark, is_first, all_ended = "", True, False
    while process.poll() is None:
        if not all_ended:
            stores = [DeploymentStore(folder) for folder in folders]
            remarks = fetched(stores, fetch_results)
            count = events.add(stores)
            all_ended = all(store.is_brought for store in stores)
            if remarks and remarks != [last_remark]:
                last_remark = remarks[0]
                typer.echo(f"note: {last_remark}", err=True)
            if is_first and not count and not all_ended:
                typer.echo("no numbers yet; they are shown as they come")
            is_first = False
        with suppress(subprocess.TimeoutExpired):
            process.wait(every)
    raise ModakError(f"TensorBoard has ended with code {process.returncode}")


def _program() -> str:
    """
    Raises:
        UsageError: there is no TensorBoard.
    """
    import shutil
    import sys

    beside = Path(sys.executable).parent / "tensorboard"
    program = str(beside) if beside.exists() else shutil.which("tensorboard")
    if program is None:
        hint = "pip install tensorboard; or for one elsewhere: modak export DEPLOYMENT --tensorboard FOLDER"
        raise UsageError("tensorboard is not installed here", hint=hint)
    return program


def _started(program: str, folder: Path, port: int | None) -> tuple[subprocess.Popen[bytes], str]:
    """TensorBoard, once it answers, and its address.

    Raises:
        ModakError: it ends, or does not answer.
        UsageError: the port is taken.
    """
    import socket
    import subprocess
    import time

    from modak_ansible.transport.tunnel import free_port

    log_bytes = b""
    for _ in range(_TRIES):
        number = free_port(port)
        words = ["--logdir", str(folder), "--host", "127.0.0.1", "--port", str(number), "--reload_interval", "5"]
        log = folder.with_name(f"{folder.name}.log")
        with log.open("wb") as output:
            process = subprocess.Popen([program, *words], stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        deadline = time.monotonic() + _PATIENCE
        try:
            while process.poll() is None and time.monotonic() < deadline:
                with suppress(OSError), socket.create_connection(("127.0.0.1", number), 1):
                    return process, f"http://127.0.0.1:{number}/"
                time.sleep(0.2)
        except BaseException:
            process.terminate()
            raise
        finally:
            log_bytes = log.read_bytes()
            log.unlink()
        process.terminate()
        process.wait()
    why = last_line(log_bytes.decode(errors="replace"), "it says nothing")
    raise ModakError(f"TensorBoard did not start: {why}")
