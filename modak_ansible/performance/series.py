"""Which records say how a program scales: the same work in the same configuration, by several numbers of processes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from modak_ansible.model.request import Request
from modak_ansible.performance.fit.machines import called, machine_name
from modak_ansible.performance.scaling import ScalingRun
from modak_ansible.performance.stored import Series

if TYPE_CHECKING:  # planning reads no records, and what they are made of takes a moment
    from modak_ansible.model.measured.record import Record

RUN = "run"  # the measure of a program's whole time
PROGRAM = "program"  # by which such a measure tells what ran; earlier versions did not say it

_Key = tuple[str, str, str, str, tuple[tuple[str, str], ...]]


def series(records: Iterable[Record]) -> tuple[Series, ...]:
    """Of every program that was measured with more than one number of processes, or of threads."""
    by_program: dict[_Key, list[tuple[int, float]]] = {}
    for record in records:
        if record.outcome != "measured":
            continue
        key = (
            record.workload or record.group,
            _program(record),
            machine_name(record),
            record.entry,
            tuple(sorted(record.settings.items())),
        )
        by_program.setdefault(key, []).extend(_runs(record))
    return tuple(
        Series(
            name=name,
            program=program,
            machine=machine,
            entry=entry,
            settings=dict(settings),
            runs=tuple(sorted(runs)),
        )
        for (name, program, machine, entry, settings), runs in sorted(by_program.items())
        if len({processes for processes, _ in runs}) > 1
    )


def runs_for(request: Request, all_series: Sequence[Series]) -> tuple[ScalingRun, ...]:
    """The runs that say most of how a request's program scales: those with the most numbers of processes."""
    application, processor = request.application, request.target.processor
    this_machine = processor.model and called(processor.model, processor.architecture)
    name = application.name if application.hpc else application.work.workload or request.training
    matches = [series for series in all_series if series.name == name and series.program in ("", application.program)]
    matches = [series for series in matches if series.program] or matches
    machines = {one_series.machine for one_series in matches}
    if this_machine or len(machines) > 1:
        matches = [one_series for one_series in matches if one_series.machine == this_machine]
    richest = max(matches, key=lambda one_series: len({processes for processes, _ in one_series.runs}), default=None)
    return tuple(ScalingRun(*run) for run in richest.runs) if richest else ()


def _program(record: Record) -> str:
    return next((str(measure.about[PROGRAM]) for measure in record.measures if PROGRAM in measure.about), "")


def _runs(record: Record) -> list[tuple[int, float]]:
    """Processes and seconds: of a program its whole run, of a training the time of a sample in all of its processes."""
    processes = record.allocation.layout.processes
    if record.training is not None:
        epochs = [epoch.seconds for epoch in record.training.steady]
        images = record.training.training_images
        return [(processes, seconds / images) for seconds in epochs if seconds > 0 and images > 0]
    if record.steps is not None and record.steps.median_seconds and record.steps.batch_size:
        return [(processes, record.steps.median_seconds / (record.steps.batch_size * processes))]
    runs = []
    for measure in record.measures:
        if measure.name == RUN and measure.unit == "s":
            count = int(measure.about.get("processes", 1))
            threads = int(measure.about.get("threads", 1))
            runs += [(count if count > 1 else threads, seconds) for seconds in measure.samples if seconds > 0]
    return runs
