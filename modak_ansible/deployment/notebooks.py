"""Notebooks as they run: which one lives, where its JupyterLab listens, and whether it answers."""

from __future__ import annotations

import json
import shlex
import subprocess
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from modak_ansible.deployment.status import StatusEntry, may_live
from modak_ansible.deployment.status_query import ask_targets
from modak_ansible.planning.service import Planned
from modak_ansible.store.deployment import DeploymentStore
from modak_ansible.store.deployments import deployments_of
from modak_ansible.target.core.files import read_text
from modak_ansible.target.jobs.situation import LIVING
from modak_ansible.transport.ssh import Connection

# Below a deployment's folder on its target; its owner's alone.
_CONNECTION = "jupyter/connection.json"
_SECONDS = 20  # that the target may take to show it


class Listening(NamedTuple):
    """Where a JupyterLab listens, as its front end knows it, and the token that it wants."""

    address: str
    port: int
    token: str


def living(planned: Planned) -> StatusEntry | None:
    """The newest notebook of the same training whose job waits or runs, be it of an earlier plan.

    A target that does not answer is noted in it.
    """
    plan = planned.plan
    entries = [
        StatusEntry(store)
        for store in deployments_of(planned.blueprint, aside=True)
        if (store.plan.get("name"), store.plan.get("training")) == (plan.name, plan.training) and may_live(store)
    ]
    ask_targets(entries)
    return next((entry for entry in reversed(entries) if entry.problem or entry.state in LIVING), None)


def listening(store: DeploymentStore, connection: Connection) -> Listening | None:
    """Where the JupyterLab of a running job listens; None as long as it does not say so.

    The token comes through the pipe of a command, and stands in none. Shells may say other things when they start.
    """
    facts = store.record_now().get("target")
    path = Path(facts["workspace"] if facts else "") / "deployments" / store.name / _CONNECTION
    if connection.is_local:
        text = read_text(path)
    else:
        command = [*connection.ssh_command(), connection.address, f"cat -- {shlex.quote(str(path))}"]
        try:
            text = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                errors="replace", timeout=_SECONDS, check=False,
            ).stdout  # fmt: skip
        except subprocess.TimeoutExpired:
            return None
    with suppress(ValueError, KeyError, TypeError):
        connection_file = json.loads(text[max(0, text.rfind("{")) :])
        return Listening(str(connection_file["address"]), int(connection_file["port"]), str(connection_file["token"]))
    return None


def answers(address: str, token: str) -> bool:
    """Whether a JupyterLab answers at an address of this machine, and takes the token; whoever asks is no work."""
    request = urllib.request.Request(f"{address}api/status", headers={"Authorization": f"token {token}"})  # noqa: S310
    # what leads to the world outside does not lead here
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with suppress(OSError, ValueError), opener.open(request, timeout=10) as response:
        return bool(response.status == 200 and "kernels" in json.load(response))
    return False
