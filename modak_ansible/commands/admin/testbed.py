"""modak testbed: a real Slurm cluster in a box on this machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modak_ansible.commands.options import Json, group, print_json
from modak_ansible.errors import ModakError, UsageError
from modak_ansible.store.project import control_folder, state_folder
from modak_ansible.store.testbeds import chosen, name_of, note, owner_of, running, state_of, usual
from modak_ansible.target.core.files import write_whole

if TYPE_CHECKING:
    from modak_ansible.store.testbeds import Testbed

Of = Annotated[
    Path | None,
    typer.Option("--of", metavar="FOLDER", help="The project whose testbed to use. Default: this one."),
]

app = group("testbed", "A real Slurm cluster in a sandbox on this machine.", no_args_is_help=True)


@app.command(epilog="Example: modak testbed up --nodes 2")
def up(
    nodes: Annotated[int, typer.Option(min=2, max=50, help="Compute nodes.")] = 2,
    cores: Annotated[int, typer.Option(min=1, help="Cores per node, as Slurm counts them.")] = 1,
    memory: Annotated[int, typer.Option(min=500, help="Memory per node in MB.")] = 4000,
    links: Annotated[
        bool,
        typer.Option("--links", help="Give each node its own address and link, which can have a rate limit or be cut."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Start the testbed; the first start takes about a minute, later ones seconds. Needs root or sudo."""
    _require_root()
    _run("up", _own(), testbed_nodes=nodes, testbed_cores=cores, testbed_memory_mb=memory, testbed_links=links)
    note(_own())
    _show(as_json)


@app.command(epilog="Example: modak testbed status --json")
def status(as_json: Json = False) -> None:
    """Show whether the testbed is up, which project it belongs to, and how to enter it.

    A project without a testbed of its own uses the only one of yours that is running.
    """
    _show(as_json)


@app.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog="Example: modak testbed ssh sinfo",
)
def ssh(
    command: Annotated[list[str] | None, typer.Argument(help="A command to run there.")] = None, of: Of = None
) -> None:
    """Enter the testbed's front end, or run a command there."""
    from modak_ansible.transport.ssh import configuration_for_testbed

    folder = chosen(_own(), of)
    if not state_of(folder):
        raise ModakError("the testbed is not up", hint="start it with: modak testbed up")
    config = control_folder() / name_of(folder)
    write_whole(config, configuration_for_testbed(folder))  # a project's files come from anybody
    os.execvp("ssh", ["ssh", "-F", str(config), "testbed", *(command or [])])  # noqa: S606


@app.command(epilog="Example: modak testbed use ~/src/modak-ansible")
def use(
    project: Annotated[Path, typer.Argument(metavar="FOLDER", help="The project that the testbed belongs to.")],
    as_json: Json = False,
) -> None:
    """Send this project's testbed deployments to the testbed of another project."""
    own, folder = _own(), chosen(_own(), project).resolve()
    if own.exists() and not own.is_symlink() and own.resolve() != folder:
        raise UsageError(f"{owner_of(own)} has a testbed of its own", hint="modak testbed down --purge removes it")
    if own.resolve() != folder:
        own.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        own.unlink(missing_ok=True)
        own.symlink_to(folder)
    _show(as_json=as_json)


@app.command(epilog="Example: modak testbed down --purge")
def down(
    purge: Annotated[bool, typer.Option("--purge", help="Also remove its homes, images and accounting.")] = False,
    of: Of = None,
) -> None:
    """Stop the testbed; its homes, images and accounting stay for the next start.

    --of stops that of another project.
    """
    folder = chosen(_own(), of) if of else _own()
    if not of and folder.is_symlink():  # of modak testbed use: what is another project's stays
        hint = f"modak testbed down --of {owner_of(folder)} stops it"
        folder.unlink()
        typer.echo(f"the testbed belongs to another project, and is no longer used here; {hint}")
        return
    if not folder.exists() and not purge:
        if other_testbeds := running():
            hint = " or ".join(f"modak testbed down --of {owner_of(other)}" for other in other_testbeds)
            raise ModakError("the running testbed belongs to another project", hint=hint)
        typer.echo("the testbed is not up")
        return
    _require_root()
    _run("purged" if purge else "down", folder)
    typer.echo("the testbed is gone" if purge else "the testbed is down")


def _own() -> Path:
    """The folder of this project's testbed, where it has one."""
    return state_folder(Path.cwd()) / "testbed"


def _require_root() -> None:
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


def _run(state: str, folder: Path, **variables: Any) -> None:
    from rich.console import Console

    from modak_ansible.commands.deploy.progress import TaskDisplay
    from modak_ansible.deployment.playbook import run_playbook

    folder.parent.mkdir(parents=True, exist_ok=True)
    names = {"testbed_state": state, "testbed_name": name_of(folder), "testbed_directory": str(folder.resolve())}
    console = Console(stderr=True, highlight=False)
    with TaskDisplay(console, "testbed") as display:
        run_playbook("testbed", {**names, **variables}, display)


def _show(as_json: bool) -> None:
    own = _own()
    used = usual(own)
    state = state_of(used)
    if state.get("name") == name_of(used):
        note(used)  # one that was started before notes were taken, or whose note is gone
    other_testbeds = [path for path in running() if path.resolve() != used.resolve()]
    if as_json:
        facts = {"owner": str(owner_of(used)), **state} if state else {}
        other_facts = (
            {"others": [{"owner": str(owner_of(other)), **state_of(other)} for other in other_testbeds]}
            if other_testbeds
            else {}
        )
        print_json({"up": bool(state), **facts, **other_facts})
        return
    if state:
        whose = "the testbed" if owner_of(used) == own.parent.parent else f"the testbed of {owner_of(used)}"
        typer.echo(f"{whose} is up: {_way(state)}")
        typer.echo("log in with: modak testbed ssh")
    else:
        typer.echo("the testbed is down; start it with: modak testbed up")
    for other in other_testbeds:
        typer.echo(f"the testbed of {owner_of(other)} is up, too: {_way(state_of(other))}")
    if other_testbeds:
        typer.echo(
            "to use another one from here: modak testbed use FOLDER; to log in to it: modak testbed ssh --of FOLDER"
        )


def _way(state: Testbed) -> str:
    return f"{state['user']}@{state['address']} port {state['port']}, nodes {', '.join(state['nodes'])}"
