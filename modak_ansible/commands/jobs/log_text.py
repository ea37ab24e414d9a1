"""The lines of a deployment's logs, from the target or from what came back."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from modak_ansible.commands.jobs.log_start import LogStart
from modak_ansible.errors import UsageError
from modak_ansible.store.deployment import DeploymentStore
from modak_ansible.store.logs import LogEntry, read_stage_log, size_before
from modak_ansible.target.core.files import as_shown
from modak_ansible.target.core.staging import RANKS
from modak_ansible.target.jobs.situation import UNKNOWN

Show = Callable[[str], None]


def of_job(
    store: DeploymentStore, log: str, since: LogStart, *, follow: bool, show: Show, rank: int | None = None
) -> list[str]:
    """What the job wrote; none are left where it was followed, and shown line by line.

    Args:
        rank: of a training that has several; without it all of them, each line with its rank, or the first to follow.

    Raises:
        ModakError: the target cannot be asked.
    """
    from modak_ansible.deployment.fetching import fetch_results
    from modak_ansible.stages.jobs.operations import follow_job
    from modak_ansible.stages.jobs.reached import reached
    from modak_ansible.target.jobs.actions import acted

    count = ranks_of(store.plan)
    if not follow:
        bring(store)
        ranks = range(count) if rank is None else [rank]
        width = len(str(count - 1))
        labels = {number: f"{number:>{width}}: " if len(ranks) > 1 else "" for number in ranks}
        return [f"{labels[number]}{line}" for number in ranks for line in _of_rank(store, log_of(log, number), since)]
    log = log_of(log, rank or 0)
    offset = 0
    if since != LogStart():
        fetch_results(store)
        offset = _offset(store, log, since) + _bytes_before(store.results / log, since)
    with reached([store.plan_file], acted, show) as (stage,):
        follow_job(stage, log, offset)
    return []


def ranks_of(plan: Mapping[str, Any]) -> int:
    """How many ranks a plan's training has; 1 for one process, and for those that are none."""
    strategy = next((choice["value"] for choice in plan.get("choices", ()) if choice["name"] == "strategy"), "none")
    return int(plan["job"]["nodes"] * plan["job"]["processes_per_node"]) if strategy != "none" else 1


def check_rank(store: DeploymentStore, rank: int) -> int:
    """Gives how many ranks a deployment's training has.

    Raises:
        UsageError: there is no such rank.
    """
    count = ranks_of(store.plan)
    if rank >= count:
        raise UsageError(f"{store.name} has no rank {rank}", hint=f"it has {count}, numbered from 0")
    return count


def log_of(log: str, rank: int) -> str:
    """The log of a rank, below the folder of a deployment or of its results."""
    return f"{RANKS}/{rank}/{log}" if rank else log


def _of_rank(store: DeploymentStore, log: str, since: LogStart) -> list[str]:
    return since.last(_read(store.results / log, _offset(store, log, since)))


def of_build(store: DeploymentStore, since: LogStart, *, follow: bool, show: Show) -> list[str]:
    """What the build of the image wrote on the target; none are left where it was followed.

    Raises:
        ModakError: the target cannot be asked, or has no such log.
    """
    from modak_ansible.stages.image import show_build_log
    from modak_ansible.stages.jobs.reached import reached
    from modak_ansible.target.images.actions import acted

    lines: list[str] = []
    within = None if since.moment is None else max(0.0, time.time() - since.moment)
    with reached([store.plan_file], acted, show if follow else lines.append) as (stage,):
        show_build_log(stage, follow=follow, last=since.lines, within=within)
    return lines


def of_stages(store: DeploymentStore, since: LogStart, *, follow: bool, show: Show) -> list[str]:
    """What the stages did and when; none are left where they were followed."""

    def log_lines() -> list[str]:
        entries = [entry for entry in read_stage_log(store.folder) if entry.time >= (since.moment or 0)]
        return [line for entry in entries for line in _entry_lines(entry)]

    lines = log_lines()
    if not follow:
        return since.last(lines)
    shown_count = len(lines) - len(since.last(lines))
    is_over = False
    while not is_over:
        is_over = _is_over(store)  # before the last look, which has all that was noted until then
        lines = log_lines()
        for line in lines[shown_count:]:
            show(line)
        shown_count = len(lines)
        if not is_over:
            time.sleep(0.5)
    return []


def state_of(store: DeploymentStore) -> str:
    """A deployment's training, and how its job is as far as is known here: ``train is queued``."""
    plan, job = store.plan, store.job
    state = job.get("state", UNKNOWN).lower()
    words = f"job {job['job_id']} is {state}" if job.get("job_id") else "no job was submitted"
    explanation = f" ({job['explanation']})" if job.get("explanation") else ""
    return f"{plan.get('training', store.name)}: {words}{explanation}"


def bring(store: DeploymentStore) -> None:
    """Brings what the job has written, unless all of it is here."""
    from modak_ansible.deployment.fetching import fetch_results

    is_here = store.is_brought or bool(store.record_now().get("undeployed"))
    if not is_here or not (store.results / "output.log").is_file():
        fetch_results(store)


def _offset(store: DeploymentStore, log: str, since: LogStart) -> int:
    """Where what was written since a moment begins, in bytes."""
    if since.moment is None:
        return 0
    return size_before(store.folder, str(store.job.get("job_id", "")), log, since.moment)


def _read(path: Path, offset: int) -> list[str]:
    if not path.is_file():
        return []
    with path.open("rb") as file:
        file.seek(offset)
        return as_shown(file.read().decode("utf-8", errors="replace"))


def _bytes_before(path: Path, since: LogStart) -> int:
    """How many bytes of a log are before its last lines."""
    if since.lines is None or not path.is_file():
        return 0
    with path.open("rb") as file:
        lines = file.readlines()
    return sum(map(len, lines)) - sum(map(len, since.last(lines)))


def _entry_lines(entry: LogEntry) -> list[str]:
    moment = datetime.fromtimestamp(entry.time).isoformat(sep=" ", timespec="seconds")
    first, *rest = entry.text.splitlines() or [""]
    return [f"{moment}  {entry.stage:<8} {first}", *(f"{'':<28} {line}" for line in rest)]


def _is_over(store: DeploymentStore) -> bool:
    """Whether the stages have come to their end: the last one failed, or the results are here."""
    record = store.record_now()
    last = record.get("stages", {}).get(record.get("stage", ""), {})
    return last.get("state") == "failed" or bool(record.get("undeployed")) or record.get("stage") == "report"
