"""Looks at a target: by ssh for what Ansible itself needs, then by the survey role for everything else."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass

from modak_ansible.deployment.playbook import PlaybookError, run_playbook
from modak_ansible.discovery.aim import Aim
from modak_ansible.errors import TARGET_UNREACHABLE, ModakError, TargetUnreachable
from modak_ansible.schedulers.cluster import ClusterFacts, cluster_from_json
from modak_ansible.store.forecasts import directives_of
from modak_ansible.target.survey.survey import SurveyFacts, SurveyOptions
from modak_ansible.transport.ssh import Connection

OLDEST_PYTHON = (3, 8)
_SECONDS = 60
_INTERPRETERS = (*(f"python3.{minor}" for minor in range(15, 5, -1)), "python3", "/usr/libexec/platform-python")
_PYTHONS = (
    f"for name in {' '.join(_INTERPRETERS)}; do path=$(command -v $name) && "
    'echo "$path $($path -c "import platform; print(platform.python_version())")"; done; exit 0'
)


@dataclass(frozen=True)
class Entrance:
    """How a target is entered, before anything of ours runs there."""

    seconds: float | None = None  # to connect anew, and to log in; None for this machine
    ahead: float | None = None  # seconds that the target's clock is ahead of this one; None where it does not tell
    pythons: tuple[tuple[str, str], ...] = ()  # paths and versions, the one that Ansible takes first

    @property
    def python(self) -> tuple[str, str] | None:
        """The first that is new enough; None where there is none."""
        return next((python for python in self.pythons if version_numbers(python[1]) >= OLDEST_PYTHON), None)


@dataclass(frozen=True)
class SurveyRequest:
    scheduler: str = ""  # slurm, torque, pbspro, lsf, kubernetes or none; empty for whichever is there
    node: bool = False  # whether a compute node is asked by a job
    patience: int = 120  # seconds to wait for it


@dataclass(frozen=True)
class Survey:
    entrance: Entrance  # how it is entered
    facts: SurveyFacts | None = None  # of the survey role; None where no Python could look

    @property
    def cluster(self) -> ClusterFacts | None:
        cluster = self.facts["cluster"] if self.facts else None
        return cluster_from_json(cluster) if cluster else None


def survey_target(aim: Aim, request: SurveyRequest) -> Survey:
    """Looks at a target and changes nothing; a job, if one is asked for, is gone afterwards.

    Raises:
        TargetUnreachable: it cannot be entered.
        ModakError: the survey broke on the target.
    """
    with aim.entered() as connection:
        entrance = enter(connection)
        if entrance.python is None:
            return Survey(entrance)
        variables = {"survey_connection": connection.ansible_variables(), "survey_wanted": _options(aim, request)}
        try:
            facts: SurveyFacts = run_playbook("survey", variables).results["modak_survey"]["survey"]
        except PlaybookError as error:
            if error.exit_code == TARGET_UNREACHABLE:
                raise TargetUnreachable(error.message) from error
            raise
        except KeyError:
            raise ModakError("the survey of the target came to no result", hint="try again") from None
    return Survey(entrance, facts)


def enter(connection: Connection) -> Entrance:
    """Enters a target by ssh.

    Raises:
        TargetUnreachable: with the reason and what to do about it.
    """
    connection.check()
    if connection.is_local:
        version = ".".join(map(str, sys.version_info[:3]))
        return Entrance(pythons=((sys.executable, version),))
    # a login that was made with a code is not made again for a measurement
    anew = [] if connection.login else ["-o", "ControlPath=none", "-o", "ControlMaster=no"]
    began = time.monotonic()
    _ssh(connection, "true", anew)
    seconds = time.monotonic() - began
    return Entrance(round(seconds, 2), _ahead(connection), read_pythons(_ssh(connection, _PYTHONS)))


def read_pythons(text: str) -> tuple[tuple[str, str], ...]:
    """Paths and versions, each path once, from lines like ``/usr/bin/python3 3.11.2``."""
    return tuple(dict(re.findall(r"(?m)^(/\S+) (\d+\.\d+\S*)\s*$", text)).items())


def version_numbers(text: str) -> tuple[int, ...]:
    """``(3, 11)`` of 3.11.2 and the like."""
    return tuple(int(number) for number in re.findall(r"\d{1,9}", text)[:2])


def _ahead(connection: Connection) -> float | None:
    """How far the target's clock is ahead, taken in the middle of asking for it."""
    before = time.time()
    clock = re.search(r"(?m)^\d{9,12}(\.\d{1,9})?$", _ssh(connection, "date +%s.%N"))
    after = time.time()
    return round(float(clock.group(0)) - (before + after) / 2, 2) if clock else None


def _ssh(connection: Connection, command: str, options: list[str] | None = None) -> str:
    """What a command prints on the target; nothing where it cannot be run."""
    words = [*connection.ssh_command(), *(options or []), connection.address, f"sh -c {shlex.quote(command)}"]
    try:
        process = subprocess.run(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            errors="replace", timeout=_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise TargetUnreachable(
            f"{connection.address} accepts the login, but does not answer within {_SECONDS} s",
            hint="its file systems may hang: look at it by hand",
        ) from None
    return process.stdout


def _options(aim: Aim, request: SurveyRequest) -> SurveyOptions:
    target = aim.target
    described = target.partition(aim.request.resources.partition if aim.request else None)
    partition, account = described.name if described else None, target.site.account
    if aim.plan:
        partition, account = aim.plan["job"]["partition"], aim.plan["job"]["account"]
    return {
        "workspace": target.workspace,
        "scheduler": request.scheduler or (target.scheduler.value if aim.is_described else ""),
        "container_runtime": target.container_runtime,
        "modules": list(target.site.modules),
        "folders": [target.scratch.path] if target.scratch else [],
        "hosts": list(target.hosts),
        "site": target.site.model_dump(mode="json"),
        "node": request.node,
        "partition": partition or "",
        "account": account or "",
        "qos": (aim.plan["job"]["options"].get("qos") if aim.plan else "") or "",
        "patience": request.patience,
        "directives": directives_of(aim.plan["job"]["script"]) if aim.plan else "",
    }
