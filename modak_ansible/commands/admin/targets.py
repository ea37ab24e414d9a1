"""modak targets: those that have names, for --on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from modak_ansible.commands import completion as completing
from modak_ansible.commands.options import Json, check_place, group, print_json
from modak_ansible.errors import ModakError, UsageError, harmless, nearest
from modak_ansible.store.project import known_testbed, state_folder

if TYPE_CHECKING:
    from modak_ansible.model.target import Target

app = group("targets", "Named targets, which --on accepts.")


class Described(TypedDict):
    """A target of a file, with the state of the login to it."""

    login: str
    name: str
    scheduler: str
    address: str
    username: str
    partitions: list[str]


class NamedTargets(TypedDict):
    """The targets of a name, or why its file cannot be read."""

    name: str
    own: bool
    file: str
    targets: list[Described]
    problem: str


@app.callback(invoke_without_command=True)
def root(context: typer.Context, as_json: Json = False) -> None:
    """Named targets, which --on accepts; without a command they are listed."""
    check_place(context)
    if context.invoked_subcommand is None:
        listed(as_json)


@app.command("list", epilog="Example: modak targets list --json")
def listed(as_json: Json = False) -> None:
    """List the named targets: your own, and those that are always available."""
    from modak_ansible.commands.tables import print_table
    from modak_ansible.discovery.aim import targets_of_file
    from modak_ansible.store.targets import known_targets, own_targets, targets_folder

    own = own_targets()
    rows: list[NamedTargets] = []
    for name, path in known_targets().items():
        row: NamedTargets = {"name": name, "own": name in own, "file": str(path), "targets": [], "problem": ""}
        try:
            row["targets"] = [_facts(target, path) for target in targets_of_file(path)]
        except ModakError as error:
            row["problem"] = str(error)
        rows.append(row)
    if as_json:
        print_json(rows)
        return
    print_table(("target", "is", "login", "partitions"), [_cells(row) for row in rows], wraps={1, 3})
    if not own:
        typer.echo(f"\nYour own are in {targets_folder()}: modak discover USER@HOST --save NAME writes one")


@app.command(epilog="Example: modak targets show testbed")
def show(
    name: Annotated[str, typer.Argument(metavar="TARGET", autocompletion=completing.targets, help="Its name.")],
    as_json: Json = False,
) -> None:
    """Print a target's file, with its path."""
    from modak_ansible.store.targets import target_file

    path = target_file(name)
    text = path.read_text(encoding="utf-8", errors="replace")
    if as_json:
        print_json({"name": name, "file": str(path), "text": text})
    else:
        typer.echo(harmless(f"# {path}\n{text}"), nl=False)


@app.command(epilog="Example: modak targets remove oldcluster")
def remove(
    name: Annotated[str, typer.Argument(metavar="TARGET", autocompletion=completing.own_targets, help="Its name.")],
) -> None:
    """Remove the file of one of your targets; what is on the target itself stays there."""
    from modak_ansible.store.targets import built_in_targets, own_targets

    own = own_targets()
    if name in own:
        own[name].unlink()
        typer.echo(f"removed {own[name]}")
        return
    if name in built_in_targets():
        raise UsageError(f"{name} is built in and cannot be removed")
    raise UsageError(f"there is no target {name} of yours", hint=nearest(name, own))


def _facts(target: Target, path: Path) -> Described:
    from modak_ansible.discovery.aim import Aim
    from modak_ansible.transport.login import state_of

    state = state_folder(Path.cwd())
    aim = Aim(target, None, path.parent, known_testbed(state), is_described=True, state=state)
    with aim.entered() as connection:
        login = state_of(connection)
    return {
        "login": login,
        "name": target.name,
        "scheduler": target.scheduler.value,
        "address": "" if target.local else target.address,
        "username": target.username or "",
        "partitions": [partition.name for partition in target.partitions],
    }


def _cells(row: NamedTargets) -> tuple[str, str, str, str]:
    if row["problem"]:
        return row["name"], f"broken: {row['problem']}", "", ""
    targets = row["targets"]
    words = [_place(target) if len(targets) == 1 else f"{target['name']}: {_place(target)}" for target in targets]
    login = ", ".join(target["login"] for target in targets if target["login"])
    return (
        row["name"],
        "; ".join(words),
        login,
        ", ".join(partition for target in targets for partition in target["partitions"]),
    )


def _place(facts: Described) -> str:
    if not facts["address"]:
        return "this machine"
    who = f"{facts['username']}@" if facts["username"] else ""
    kind = "a host" if facts["scheduler"] == "none" else facts["scheduler"]
    return f"{kind} at {who}{facts['address']}"
