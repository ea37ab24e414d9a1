"""modak notebook: JupyterLab where a training would run, in a browser here."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated

import typer

from modak_ansible.commands.options import PlanOptions, Port, seconds_in, show_warnings, takes
from modak_ansible.errors import JobFailed, ModakError, TargetUnreachable, UsageError
from modak_ansible.store.project import find_blueprint

if TYPE_CHECKING:
    from modak_ansible.deployment.notebooks import Listening
    from modak_ansible.deployment.status import StatusEntry
    from modak_ansible.planning.service import Planned
    from modak_ansible.store.deployment import DeploymentStore
    from modak_ansible.transport.ssh import Connection
    from modak_ansible.transport.tunnel import Tunnel

EXAMPLES = "Example: modak notebook mnist-pytorch-slurm --idle 1h"
# In seconds: the shortest idle time; how long JupyterLab may take until it listens, and then until it answers; how
# often it is looked at; how long a lost tunnel is opened again and again, and the longest pause between two tries.
_SHORTEST, _STARTS, _ANSWERS, _EVERY = 60, 300.0, 60.0, 5.0
_REOPENS, _PAUSE = 600.0, 15.0


class _LeftAlone(Exception):
    """This command is ended from outside, and not by its user: what runs is left running."""


@takes("blueprint", "words", "inputs", "value", "training", "on")
def command(
    asked: PlanOptions,
    idle: Annotated[
        str,
        typer.Option(metavar="TIME", help="End it when nobody has worked with it for this long, such as 30m or 2h."),
    ] = "30m",
    port: Port = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the job running after Ctrl-C, without asking.")] = False,
) -> None:
    """Open JupyterLab in a job on the target. It runs in the training's image, with its data and files.

    You reach it through a tunnel in the connection to the target, with a token that appears in no process list. The job
    has the training's options and wall time, and one process. Ctrl-C closes the tunnel, and ends the job unless you
    keep it. The same command returns to a running one, and to what was saved in one that has ended. Notebooks (*.ipynb)
    are brought here when it ends.
    """
    from modak_ansible.deployment.status import StatusEntry
    from modak_ansible.deployment.status_query import connection_of
    from modak_ansible.transport.tunnel import Tunnel, free_port

    seconds = _seconds(idle)
    if port is not None:
        free_port(port)  # which is told before a job is submitted
    planned = _planned(asked, seconds)
    reopen, name = f"modak notebook {asked.restated}", planned.plan.deployment
    try:
        store = _submitted(planned)
        name, connection = store.name, connection_of(store)
        server = _ready(StatusEntry(store), connection)
    except KeyboardInterrupt:
        typer.echo(f"What has begun continues. To open it: {reopen}\nTo end its job: modak cancel {name}", err=True)
        raise
    if connection.is_local and port not in (None, server.port):
        typer.echo(f"note: it runs on this machine, and listens on a port of its own: {server.port}", err=True)
    tunnel = None if connection.is_local else Tunnel(connection, port, (server.address, server.port))
    how_to_return = (
        f"The notebook keeps running until it is idle for {idle}. To open it: {reopen}\nTo end it: modak cancel {name}"
    )
    try:
        with _ended_from_outside():
            _open(store, connection, tunnel, server)
            _hold(store, tunnel, server, how_to_return)
    except _LeftAlone:
        typer.echo(how_to_return, err=True)
        raise KeyboardInterrupt from None
    except KeyboardInterrupt:
        if tunnel:
            tunnel.close()
        if keep or not _ends():
            typer.echo(how_to_return)
        else:
            _end(store)
        return
    finally:
        if tunnel:
            tunnel.close()
    _tell_end(store)


def _seconds(idle: str) -> int:
    """
    Raises:
        UsageError: it is no duration, or too short a one.
    """
    seconds = int(seconds_in("--idle", idle))
    if seconds < _SHORTEST:
        raise UsageError(f"--idle {idle} is less than a minute", hint="such as 30m")
    return seconds


def _planned(asked: PlanOptions, idle: int) -> Planned:
    """
    Raises:
        InvalidBlueprint: with every mistake and its place.
        UsageError: there are several trainings, or none that a notebook can be of.
    """
    from rich.console import Console

    from modak_ansible.catalogue import load_catalogue
    from modak_ansible.commands.deploy.progress import StageDisplay
    from modak_ansible.deployment.looking import look_first, unseen
    from modak_ansible.planning.notebook import check_python, notebook_for
    from modak_ansible.planning.service import plan_trainings, those_named

    path = find_blueprint(asked.blueprint)

    def plan() -> list[Planned]:
        planned = plan_trainings(path, asked.all_inputs, asked.training, lambda request: notebook_for(request, idle))
        named = those_named(path, planned, asked.training)
        # points of a sweep differ in their arguments, which a notebook has none of
        return list({training.node or training.plan.training: training for training in named}.values())

    trainings = plan()
    if len(trainings) > 1:
        names = [training.node or training.plan.training for training in trainings]
        raise UsageError(f"{path} has several trainings: {', '.join(names)}", hint=f"say which: --training {names[0]}")
    check_python(trainings[0].plan, load_catalogue())
    if unseen(trainings):
        with StageDisplay(Console(highlight=False)) as display:
            trainings = look_first(trainings, plan, display)
    show_warnings(trainings[0].warnings)
    (planned,) = trainings
    return planned


def _submitted(planned: Planned) -> DeploymentStore:
    """What this machine keeps of the notebook: of one that lives, else of this one, whose job is submitted.

    Raises:
        TargetUnreachable: the target does not say whether one lives.
        PlaybookError: a stage failed.
    """
    from rich.console import Console

    from modak_ansible.commands.deploy.progress import StageDisplay, whose_testbed
    from modak_ansible.deployment.notebooks import living
    from modak_ansible.deployment.playbook import run_playbook
    from modak_ansible.deployment.run import plans_of
    from modak_ansible.store.deployment import DeploymentStore

    entry = living(planned)
    if entry is not None:
        if entry.problem:
            raise TargetUnreachable(entry.problem)
        typer.echo(f"back to {entry.name}")
        if entry.name != planned.plan.deployment:
            typer.echo(f"note: it belongs to an earlier plan; modak cancel {entry.name} ends it", err=True)
        return entry.store
    plan = planned.plan
    typer.echo(f"{plan.name} on {plan.target.name}{whose_testbed(planned)}")
    store = DeploymentStore(planned.save())
    record = store.record_now()
    ran = record.get("job") and not record.get("undeployed")
    with StageDisplay(Console(highlight=False)) as display:
        run_playbook("resume" if ran else "deploy", {**plans_of([store]), "job_wait": False}, display)
    return DeploymentStore(store.folder)


def _ready(entry: StatusEntry, connection: Connection) -> Listening:
    """Waits for the job to run, and for its JupyterLab to listen.

    Raises:
        JobFailed: the job ended before that.
        ModakError: it does not listen in time.
    """
    from modak_ansible.deployment.notebooks import listening
    from modak_ansible.deployment.playbook import Enough
    from modak_ansible.deployment.status_query import ask_targets

    shown_lines: set[str] = set()

    def heard() -> None:
        if entry.problem:
            line = f"note: {entry.problem}"
        else:
            situation = entry.job
            why = f" ({situation['reason']})" if situation.get("reason") else ""
            where = f" on {situation['nodes']}" if situation.get("nodes") else ""
            line = f"job {situation['job_id']} is {entry.state.lower()}{where}{why}"
        if line not in shown_lines:
            shown_lines.add(line)
            typer.echo(line, err=bool(entry.problem))
        if entry.state == "RUNNING":
            raise Enough

    deadline = float("inf")
    while time.monotonic() < deadline:
        with suppress(Enough):
            ask_targets([entry], 2.0, heard)
        if entry.state != "RUNNING":
            _raise_ended(entry.store)
        deadline = min(deadline, time.monotonic() + _STARTS)
        until = time.monotonic() + 10
        while time.monotonic() < until:
            if server := listening(entry.store, connection):
                return server
            time.sleep(1)
    raise ModakError(
        f"JupyterLab was not listening after {_STARTS:.0f} s",
        hint=f"modak logs {entry.name} shows what it wrote; modak cancel {entry.name} ends it",
    )


def _raise_ended(store: DeploymentStore) -> None:
    """
    Raises:
        JobFailed: with what is known of the end.
    """
    job = store.job
    words = f"job {job.get('job_id', '')} ended before JupyterLab was ready: {job.get('state', 'LOST').lower()}"
    tail = [line for line in job.get("error_tail") or () if line.strip()]
    details = [job.get("explanation", ""), tail[-1] if tail else ""]
    raise JobFailed(", ".join(filter(None, [words, *details])), hint=f"modak logs {store.name} shows what it wrote")


@contextmanager
def _ended_from_outside() -> Iterator[None]:
    """Tells a terminal that is closed, or a machine that goes down, from Ctrl-C."""
    import signal

    from modak_ansible.transport.lifeline import own_signals

    def end(*_: object) -> None:
        raise _LeftAlone

    with own_signals():
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, end)
        yield


def _address(tunnel: Tunnel | None, server: Listening) -> str:
    return f"http://127.0.0.1:{tunnel.port}/" if tunnel else f"http://{server.address}:{server.port}/"


def _open(store: DeploymentStore, connection: Connection, tunnel: Tunnel | None, server: Listening) -> None:
    """Opens the tunnel, and says where the notebook is.

    Raises:
        ModakError: it cannot be opened, or nothing answers through it.
    """
    from modak_ansible.deployment.notebooks import answers

    if tunnel:
        tunnel.open()
    address = _address(tunnel, server)
    deadline = time.monotonic() + _ANSWERS
    while not answers(address, server.token):
        if time.monotonic() > deadline or (tunnel and tunnel.is_lost(0)):
            through = f" through {connection.address}" if tunnel else ""
            raise ModakError(
                f"JupyterLab listens on port {server.port} of {server.address}, and does not answer{through}",
                hint="the front end may forbid tunnels (AllowTcpForwarding), or not reach that port of its nodes; "
                f"modak shell {store.name} enters the job, modak cancel {store.name} ends it",
            )
        time.sleep(0.5)
    typer.echo(f"{address}lab?token={server.token}\nCtrl-C closes it")


def _hold(store: DeploymentStore, tunnel: Tunnel | None, server: Listening, how_to_return: str) -> None:
    """Stays until the notebook has ended; a tunnel that is lost is opened again.

    Raises:
        TargetUnreachable: it cannot be.
    """
    from modak_ansible.deployment.notebooks import answers
    from modak_ansible.deployment.status import StatusEntry
    from modak_ansible.deployment.status_query import ask_targets

    is_silent = False
    while True:
        if tunnel is None:
            time.sleep(_EVERY)
        elif tunnel.is_lost(_EVERY):
            _reopen(tunnel, how_to_return)
        if answers(_address(tunnel, server), server.token):
            if is_silent:
                typer.echo("it answers again", err=True)
            is_silent = False
            continue
        entry = StatusEntry(store)
        ask_targets([entry])
        if entry.answer and not entry.problem and entry.state != "RUNNING":
            return
        if not is_silent:
            typer.echo(f"note: it does not answer{f': {entry.problem}' if entry.problem else ''}", err=True)
        is_silent = True


def _reopen(tunnel: Tunnel, how_to_return: str) -> None:
    """
    Raises:
        TargetUnreachable: it cannot be opened any more.
    """
    from modak_ansible.transport.tunnel import NoTunnel

    typer.echo("the tunnel was lost; reopening it", err=True)
    deadline, pause = time.monotonic() + _REOPENS, 1.0
    while True:
        try:
            tunnel.open()
        except NoTunnel as error:
            if time.monotonic() > deadline:
                raise TargetUnreachable(error.message, hint=how_to_return.replace("\n", "\n  ")) from error
        else:
            typer.echo("the tunnel is open again", err=True)
            return
        time.sleep(pause)
        pause = min(_PAUSE, 2 * pause)


def _ends() -> bool:
    """Whether the job is ended with the tunnel; on a terminal its user says so, and Ctrl-C there leaves it running."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return True
    try:
        return typer.confirm("\nEnd the notebook's job, too?", default=True)
    except typer.Abort:
        return False


def _end(store: DeploymentStore) -> None:
    from modak_ansible.commands.jobs.operate import stage_display
    from modak_ansible.deployment.job_control import act

    with stage_display(as_json=False) as display:
        act([store], "cancelled", display)
    _bring(store)


def _tell_end(store: DeploymentStore) -> None:
    """Says how the notebook ended, and brings what was saved in it.

    Raises:
        JobFailed: it did not end as notebooks do: by itself, by its user, or with its wall time.
    """
    job = store.job
    state, why = job.get("state", "LOST"), job.get("explanation", "")
    words = f"the notebook has ended: {state.lower()}{f', {why}' if why else ''}"
    _bring(store)
    if state not in ("CANCELLED", "TIMEOUT", "COMPLETED"):
        raise JobFailed(words, hint=f"modak logs {store.name} shows what it wrote")
    typer.echo(words)


def _bring(store: DeploymentStore) -> None:
    from modak_ansible.deployment.fetching import fetch_results
    from modak_ansible.model.quantities import counted

    try:
        fetch_results(store)
    except ModakError as error:
        typer.echo(f"note: what was saved stays on the target: {error.message}", err=True)
        return
    count = sum(file.path.endswith(".ipynb") and "/." not in file.path for file in store.files)
    if count:
        typer.echo(f"{counted(count, 'notebook')} in {store.results / 'code'}")
