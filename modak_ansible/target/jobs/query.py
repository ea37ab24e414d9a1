"""How jobs are now, with how long they run, when they start and how far they are: what modak status asks for."""

from __future__ import annotations

import inspect
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Dict, Iterable, List, Mapping, TypedDict, cast

from ...schedulers.base import ActionRefused, JobRecord, JobState, SchedulerSilent
from ..core.answer import answered
from ..core.commands import TimedRun
from ..core.files import clock_of, read_json
from ..core.staging import PLAN
from ..core.workspace import Workspace
from ..survey import usage
from .campaign import Campaign
from .job import Deployment
from .judgement import Ask
from .progress import progress_of
from .situation import LIVING, PENDING, Forecast, Progress, Situation, forecast


class Usage(TypedDict, total=False):
    """What processes of a job use, as ``survey.usage`` says it; of the processor 100 % is one core."""

    rank: int
    processes: int
    cpu_percent: float
    memory_bytes: int
    read_bytes_per_second: int
    written_bytes_per_second: int
    gpus: List[Dict[str, Any]]


class NodeUsage(Usage, total=False):
    """What all of a job's processes on a node use, or the problem that it cannot be seen for."""

    node: str
    problem: str
    cores: int
    cgroup_memory_bytes: int | None
    memory_limit_bytes: int | None
    time: float
    seconds: float
    ranks: List[Usage]


class Way(TypedDict, total=False):
    """Commands that enter a job's container, with a terminal and without; or why there are none."""

    plain: List[str]
    terminal: List[str]
    problem: str


# What damaged files of a deployment make of reading them.
_DAMAGED = (KeyError, TypeError, ValueError, OSError)
# Over how many seconds is measured what a job uses, and how long its nodes may take to answer.
_MEASURED, _PATIENCE = 1.0, 30.0
# Of how many jobs one is asked by itself when it begins, and how long the answer may take.
_ASKED, _BRIEF = 8, 10.0


class JobsQuestion(TypedDict):
    """What is asked of a target."""

    workspace: str
    scheduler: str  # slurm, torque, pbspro, lsf, kubernetes or none
    deployments: List[str]  # their names
    job_ids: Dict[str, str]  # of those of their jobs that live as far as the caller knows
    # whether those that run are measured (usage), or it is told how they are entered (way; way=3 into rank 3)
    inside: str


@dataclass
class QueriedJob:
    deployment: str
    there: bool  # whether the deployment's folder is
    situation: Situation
    elapsed: float | None  # seconds that the job has run; None where nobody knows
    # position, starts: as the scheduler's record has them
    position: int | None
    starts: str
    progress: Progress  # what the training says of itself
    forecast: Forecast | None = None  # of one that waits, where its scheduler says when it may begin
    # where it was asked for, what the job uses of each of its nodes, as :mod:`usage` has it; and of one that does not
    # answer the ``node`` and the ``problem``
    usage: List[NodeUsage] = field(default_factory=list)
    # where it was asked for, the commands that enter the running job, with a ``terminal`` and without (``plain``), each
    # to be followed by what is run, as usage.main has it; or the ``problem``. With ``way=3`` into that of rank 3
    way: Way = field(default_factory=Way)


def queried(question: JobsQuestion) -> Mapping[str, Any]:
    """Of deployments ``jobs``; or what ``answered`` makes of an error."""
    return answered(lambda: {"jobs": jobs_of(question)})


def jobs_of(question: JobsQuestion) -> list[dict[str, Any]]:
    """The jobs of deployments, as QueriedJob has them."""
    workspace = Workspace(question["workspace"])
    campaign = Campaign(workspace, question["scheduler"], job_ids=question["job_ids"])
    return [asdict(job) for job in query(workspace, campaign, question["deployments"], inside=question["inside"])]


def query(workspace: Workspace, campaign: Campaign, names: Iterable[str], *, inside: str = "") -> list[QueriedJob]:
    """How the jobs of some deployments are, in their order; a damaged one hides no other.

    A job whose own marker says that it succeeded needs no scheduler; for the others it is asked together.
    """
    deployments = [campaign.deployment(name) for name in names]
    lost = campaign.lost(deployment.path.name for deployment in deployments)  # nothing is written here
    ask = campaign.scheduler_records(
        sorted({_known_job(deployment) for deployment in deployments if deployment.finished() != 0} - {""}), placed=True
    )
    now = clock_of(workspace.deployments)
    jobs = [_query(deployment, ask, now, lost.get(deployment.path.name), inside=inside) for deployment in deployments]
    _forecast(campaign, jobs)
    return jobs


def _known_job(deployment: Deployment) -> str:
    try:
        return deployment.known_job()
    except _DAMAGED:  # which _query says
        return ""


def _query(deployment: Deployment, ask: Ask, now: float, lost_job: Situation | None, *, inside: str) -> QueriedJob:
    inside, _, rank = inside.partition("=")
    exists = deployment.path.is_dir()
    try:
        situation = lost_job or deployment.situation(ask)
        if not situation.job_id and (deployment.state / "submitted.json").exists():
            words = "submitted.json on the target holds no job id; deploy again, and modak looks for the job"
            situation = Situation("DAMAGED", explanation=words)
    except _DAMAGED as error:
        words = f"its files on the target cannot be read: {type(error).__name__}: {error}"
        situation = Situation("DAMAGED", explanation=words)
    started = situation.started
    # one whose end is not dated ran for nobody knows how long
    until = situation.ended or (now if situation.state in LIVING else None)
    record = _noted(ask, situation.job_id)
    is_running = situation.state == JobState.RUNNING
    if record and not record.nodes:  # the job itself has noted where it runs
        record = replace(record, nodes=situation.nodes)
    return QueriedJob(
        deployment.path.name,
        exists,
        situation,
        # what waits may have run before, and be queued again
        elapsed=max(0.0, until - started) if started and until and situation.state not in PENDING else None,
        position=record.position if record else None,
        starts=record.starts if record else "",
        progress=progress_of(deployment.path) if started else {},
        usage=_usage(deployment, record) if inside == "usage" and is_running else [],
        way=_way(deployment, record, rank) if inside == "way" and is_running else {},
    )


def _forecast(campaign: Campaign, jobs: list[QueriedJob]) -> None:
    """Notes when those begin that wait; the first of those of which that is not known are asked for one by one."""
    questions = 0
    for job in jobs:
        if job.situation.state != JobState.QUEUED:
            continue
        if not job.starts and questions < _ASKED:
            scheduler = campaign.deployment(job.deployment).scheduler
            job.starts = scheduler.start_of(TimedRun(timeout=_BRIEF), job.situation.job_id)
            questions = questions + 1 if job.starts else _ASKED  # who does not say it of one says it of none
        job.forecast = forecast(job.starts)


def _noted(ask: Ask, job_id: str) -> JobRecord | None:
    """What the scheduler said of a job, if anything."""
    try:
        return ask(job_id)
    except SchedulerSilent:
        return None


def _commands(
    deployment: Deployment,
    job: JobRecord | None,
    nodes: int,
    words: Iterable[str],
    *,
    first: int = 0,
    terminal: bool = False,
) -> list[list[str]]:
    """Those that run :mod:`usage` on nodes of a running job, from the first of them on.

    Raises:
        ActionRefused: there is no way in.
    """
    scheduler = deployment.scheduler
    if job is None:
        raise ActionRefused(f"{scheduler.title} does not know the job")
    python = sys.executable if scheduler.name == "none" else "python3"
    program = [python, "-c", inspect.getsource(usage), *words, *scheduler.marks(job.job_id)]
    run = TimedRun(deployment.path, timeout=_PATIENCE)
    return scheduler.enter(run, job, nodes, program, first=first, terminal=terminal)


def _way(deployment: Deployment, job: JobRecord | None, rank: str) -> Way:
    """Into the container of a rank, or of the first there is where none is meant."""
    per_node = (read_json(deployment.path / PLAN) or {}).get("job", {}).get("processes_per_node", 1)
    node, words = int(rank or 0) // per_node, [f"enter={rank}"] if rank else ["enter"]
    try:
        plain, asking = (
            _commands(deployment, job, 1, words, first=node, terminal=terminal)[0] for terminal in (False, True)
        )
    except ActionRefused as error:
        return {"problem": str(error)}
    return {"plain": plain, "terminal": asking}


def _usage(deployment: Deployment, job: JobRecord | None) -> list[NodeUsage]:
    nodes = (read_json(deployment.path / PLAN) or {}).get("job", {}).get("nodes", 1)
    run = TimedRun(deployment.path, timeout=_PATIENCE)
    try:
        commands = _commands(deployment, job, nodes, [str(_MEASURED)])
    except ActionRefused as error:
        return [{"node": job.nodes if job else "", "problem": str(error)}]
    names = job.nodes.split(",") if job else []
    names = names if len(names) == len(commands) else [job.nodes if job else ""] * len(commands)
    usages: list[NodeUsage] = []
    with ThreadPoolExecutor(len(commands)) as pool:  # at the same time, as they compute
        for node, command, result in zip(names, commands, pool.map(run, commands)):
            rows = [*filter(None, map(_row, result.out.splitlines()))]
            usages += rows
            if result.code != 0 or not rows:
                usages.append({"node": node, "problem": result.said_by(command[0])})
    return sorted(usages, key=lambda row: ([rank["rank"] for rank in row.get("ranks", ())], str(row["node"])))


def _row(line: str) -> NodeUsage | None:
    """What a node says of the job; None for what else is written there, such as a site's greetings."""
    with suppress(ValueError):
        row = json.loads(line)
        return cast("NodeUsage", row) if isinstance(row, dict) and "node" in row else None
    return None
