"""modak testbed: a real Slurm cluster in a box on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from pathlib import Path
from typing import Annotated, Any

import typer

from modak_ansible.commands.options import Json

_LONG_SECONDS = 4

app = typer.Typer(
    name="testbed", help="A real Slurm cluster in a box on this machine.", no_args_is_help=True, rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip


@app.command(epilog="Example: modak testbed up --nodes 2")
def up(
    nodes: Annotated[int, typer.Option(min=2, max=50, help="Compute nodes.")] = 2,
    cores: Annotated[int, typer.Option(min=1, help="Cores of a node, as Slurm counts them.")] = 1,
    memory: Annotated[int, typer.Option(min=500, help="Memory of a node in MB.")] = 4000,
    as_json: Json = False,
) -> None:
    """Start the testbed; from nothing it takes about a minute, afterwards seconds. Needs root or sudo."""
    _require_root()
    _run("up", testbed_nodes=nodes, testbed_cores=cores, testbed_memory_mb=memory)
    _show(as_json)


@app.command(epilog="Example: modak testbed status --json")
def status(as_json: Json = False) -> None:
    """Tell whether the testbed is up, and how it is entered."""
    _show(as_json)


@app.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog="Example: modak testbed ssh sinfo",
)
def ssh(command: Annotated[list[str] | None, typer.Argument(help="A command to run there.")] = None) -> None:
    """Enter the testbed's front end, or run a command there."""
    from modak_ansible.errors import ModakError

    config = _folder() / "ssh_config"
    if not _is_up():
        raise ModakError("the testbed is not up", hint="start it with: modak testbed up")
    os.execvp("ssh", ["ssh", "-F", str(config), "testbed", *(command or [])])  # noqa: S606


@app.command(epilog="Example: modak testbed down --purge")
def down(
    purge: Annotated[bool, typer.Option("--purge", help="Remove its homes, images and accounting too.")] = False,
) -> None:
    """Stop the testbed; its homes, images and accounting stay for the next start."""
    if not _folder().exists() and not purge:
        typer.echo("the testbed is not up")
        return
    _require_root()
    _run("purged" if purge else "down")
    typer.echo("the testbed is gone" if purge else "the testbed is down")


def _folder() -> Path:
    from modak_ansible.project import state_folder

    return state_folder(Path.cwd()) / "testbed"


def _name(folder: Path) -> str:
    """A name of its own for every checkout."""
    import hashlib

    return "testbed-" + hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:8]


def _require_root() -> None:
    from modak_ansible.errors import ModakError

    if os.geteuid() == 0:
        return
    try:
        free = subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        free = False
    if not free:
        raise ModakError(
            "the testbed needs root, or sudo without a password",
            hint="without either, train on this machine: modak deploy mnist-pytorch-local",
        )


def _run(state: str, **variables: Any) -> None:
    from rich.console import Console

    from modak_ansible.deployment import run_playbook

    folder = _folder()
    folder.parent.mkdir(parents=True, exist_ok=True)
    names = {"testbed_state": state, "testbed_name": _name(folder), "testbed_directory": str(folder.resolve())}
    console = Console(stderr=True, highlight=False)
    with _TaskDisplay(console) as display:
        run_playbook("testbed", {**names, **variables}, display)


def _is_up() -> bool:
    from modak_ansible.target.files import read_json

    state = read_json(_folder() / "state.json")
    return bool(state) and Path(f"/proc/{(state or {}).get('pid')}").exists()


def _show(as_json: bool) -> None:
    from modak_ansible.target.files import read_json

    state = read_json(_folder() / "state.json") or {}
    is_up = _is_up()
    if as_json:
        typer.echo(json.dumps({"up": is_up, **(state if is_up else {})}, indent=2))
    elif is_up:
        nodes = ", ".join(state["nodes"])
        typer.echo(f"the testbed is up: {state['user']}@{state['address']} port {state['port']}, nodes {nodes}")
        typer.echo("enter it with: modak testbed ssh")
    else:
        typer.echo("the testbed is down; start it with: modak testbed up")


class _TaskDisplay:
    """Shows which step of the testbed is being done; where no line can move, only those that take a while."""

    def __init__(self, console: Any) -> None:
        self._console = console
        self._status = console.status("testbed") if console.is_terminal else None
        self._patience: threading.Timer | None = None

    def __enter__(self) -> _TaskDisplay:
        if self._status:
            self._status.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._status:
            self._status.stop()
        if self._patience:
            self._patience.cancel()

    def progress(self, stage: str, text: str) -> None:
        self.task(f"{stage}: {text}")

    def task(self, name: str) -> None:
        text = f"testbed: {name.rsplit(' : ', maxsplit=1)[-1]}"
        if self._status:
            self._status.update(text)
            return
        if self._patience:
            self._patience.cancel()
        self._patience = threading.Timer(_LONG_SECONDS, self._console.print, [text])
        self._patience.daemon = True
        self._patience.start()

    def finished(self, action: str, result: dict[str, Any]) -> None:
        """The end of a step is the beginning of the next."""
