"""Steps of a training that are timed on its target: a short job of its own makes a few, and ends."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from modak_ansible.allocation.allocate import allocate
from modak_ansible.errors import CannotPlan, ModakError
from modak_ansible.model.measured.timed_steps import TimedSteps
from modak_ansible.model.request import Request
from modak_ansible.planning.tracing import short_job
from modak_ansible.store.lists.kept_list import KeptList

if TYPE_CHECKING:
    from collections.abc import Mapping

    from modak_ansible.model.measured.record import Record
    from modak_ansible.model.plan import Plan

_WHEN = "MODAK_TIMED_AT"
STEPS, SECONDS = 300, 240  # whichever is over first; the latter from the start of the process on


def timing_alone(request: Request) -> Request:
    """A request for nothing but some steps of another one's training, by one process, as a deployment of its own.

    Whoever asks again wants them to be made again, so that each such job is another one.
    """
    cores = request.resources.layout.cores
    with suppress(CannotPlan):  # which is told where it is planned
        cores = allocate(request).layout.cores  # each of several processes has no more
    alone = short_job(
        request, ("MODAK_TRIAL_STEPS", str(STEPS)), ("MODAK_TRIAL_SECONDS", str(SECONDS)), (_WHEN, f"{time.time():.0f}")
    )
    layout = alone.resources.layout._replace(cores=cores)
    return alone.model_copy(update={"resources": alone.resources.with_layout(layout)})


def timed_from(record: Record, report: Mapping[str, Any] | None, key: str, plan: Plan) -> TimedSteps | None:
    """What a job says that made some steps; None where it made too few of them to time one.

    Args:
        record: of the job: what it ran in, and with which settings.
        report: of the runtime in its process.
        key: of the request, before it was changed.
        plan: of the job.
    """
    steps = report.get("steps") if report else None
    if not report or not isinstance(steps, dict):
        return None
    of = {"seconds": "mean", "low": "p10", "high": "p90", "start": "to_first_step"}
    counted = ("count", "batch_size", "samples", "parameters", "foreign_cores")
    about = {
        **{name: steps.get(f"{field}_seconds") for name, field in of.items()},
        **{name: steps.get(name) for name in counted},
        "date": record.date,
        "entry": plan.image.entry,
        "version": record.version,
        # as they were planned: what the runtime did not apply, it does not apply in the next job either
        "settings": plan.chosen.settings if plan.chosen else {},
        "partition": plan.job.partition,
        "key": key,
        "target": plan.target.name,
        "address": plan.target.address,
        "training": plan.training,
        "memory": report.get("peak_memory_bytes"),
        "epochs": None if plan.application.work.epochs else steps.get("epochs"),  # said, it is no default
        "container": record.image is None or record.image.container,
        "threads": record.allocation.layout.threads_of_process,
    }
    try:
        return TimedSteps.model_validate(about)
    except ValidationError:  # there are no two steps
        return None


# --- what is kept: .modak/steps.json

_TIMES = KeptList(
    TimedSteps,
    "steps",
    lambda timed: (timed.key, timed.address),
    lambda path: ModakError(
        f"{path}, the record of timed steps, cannot be read",
        hint="remove it: modak trace --steps creates it again",
    ),
)


def known_steps(state: Path) -> dict[tuple[str, str], TimedSteps]:
    """What was timed before, by its key and its target's address.

    Raises:
        ModakError: the file is damaged.
    """
    return {(timed.key, timed.address): timed for timed in _TIMES.read(state)}


def note_steps(state: Path, timed: TimedSteps) -> None:
    """Remembers what was timed in the place of an earlier one of the same training there.

    Raises:
        ModakError: the file is damaged.
    """
    _TIMES.put(state, timed)
