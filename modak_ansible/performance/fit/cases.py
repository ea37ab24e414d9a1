"""Records as the regressions see them: features, what was measured, and the round that it was measured in."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from math import inf, log
from statistics import median
from typing import NamedTuple

from modak_ansible.model.measured.record import Record, TrainingResult
from modak_ansible.model.measured.work import Work
from modak_ansible.performance.features import Facts, configuration_words
from modak_ansible.performance.fit.machines import SINGLE, balance_of, day_of, machine_name, peak_for, rates_of
from modak_ansible.performance.stock import MEASURED_BY_USERS, recorded
from modak_ansible.performance.stored import Machine

_LEAST = 1e-3  # seconds: a first step is never faster than this over a steady one, whatever the noise says

Block = tuple[str, str, str, str, str, int]  # machine, target, the suite's digest, group, day, round


@dataclass(frozen=True)
class Case:
    """A measured training."""

    facts: Facts
    answers: Mapping[str, float]  # the logarithm that each part's regression is to give, where the record has it
    step_seconds: float  # of one steady step
    work: Work
    block: Block  # runs of one are compared with each other, whatever the machine does by itself
    record: Record

    @property
    def passing(self) -> dict[str, Hashable]:
        """What of its time is the moment's, by the groups of the fit: what it shares with runs beside it alone."""
        return {
            "round": self.block,
            "configuration that day": (configuration_words(self.facts), self.facts.day),
        }


def cases(records: Iterable[Record], works: Mapping[str, Work], machines: Iterable[Machine]) -> list[Case]:
    """Every training of one process that was measured, on a machine whose peak is known, of work that is known.

    What several processes wait for each other is no part of a step's compute: see ``series`` and ``data_parallel``.
    """
    known = {machine.name: machine for machine in machines}
    found = (
        _case(record, works, known)
        for record in records
        if record.outcome == "measured" and record.allocation.layout.processes == 1
    )
    return [each for each in found if each is not None]


def label_of(case: Case) -> str:
    """A configuration in words; of PyTorch's input only what is not the benchmarks' own."""
    switches = [f"{name}={value}" for name, value in case.facts.switches.items() if (name, value) != _BENCHMARKS_INPUT]
    if case.facts.framework == "pytorch" and "input" not in case.facts.switches:
        switches.append("input=loader")
    return " ".join([case.facts.entry, *switches, *([] if case.facts.container else ["native"])])


_BENCHMARKS_INPUT = ("input", "memory")


def configuration_of(case: Case) -> Hashable:
    return case.facts.workload, case.facts.machine, case.facts.threads, label_of(case)


def work_of(record: Record, works: Mapping[str, Work]) -> Work:
    """What a recorded training computed: as the record has it, and else as its workload does."""
    known = works.get(record.workload, Work(workload=record.workload))
    said = {name: value for name, value in record.work if value}
    result, steps = record.training, record.steps
    if result is not None and result.network is not None:
        network = result.network
        name = f"{record.workload}/{network.name}"
        known = works.get(name, Work()).model_copy(
            update={
                "workload": name,
                "gflop_per_sample": network.gflop_per_image,
                "sample_bytes": network.bytes_per_image,
                "layers": network.layers,
            }
        )
    measured: dict[str, int | None] = {}
    if result is not None:
        measured = {
            "parameters": result.parameters,
            "samples": result.training_images,
            "epochs": len(result.epochs),
            "batch_size": result.batch_size,
        }
    elif steps is not None:
        measured = {"parameters": steps.parameters, "samples": steps.samples, "batch_size": steps.batch_size}
    found = known.model_copy(update={**said, **{name: value for name, value in measured.items() if value}})
    return found if found.workload else found.model_copy(update={"workload": found.name})


def _case(record: Record, works: Mapping[str, Work], machines: Mapping[str, Machine]) -> Case | None:
    machine = machines.get(machine_name(record))
    times = _times(record)
    if machine is None or times is None:
        return None
    work = work_of(record, works)
    threads = record.allocation.layout.threads_of_process
    peak = peak_for(machine, threads)
    if not work.gflop_per_sample or not work.batch_size or not peak:
        return None
    gflop = work.gflop_per_sample * work.batch_size
    if not all(0 < each < inf for each in (gflop, peak, times.step)):  # a script's own metrics.json may say anything
        return None
    facts = Facts(
        framework=record.framework,
        entry=record.entry,
        workload=work.workload,
        switches=recorded(record.framework, record.suite, record.settings),
        machine=machine.name,
        container=record.image is None or record.image.container,
        threads=threads,
        balance=balance_of(machine, threads),
        version=record.version,
        day=day_of(record),
    ).of_work(
        work,
        work.batch_size,
        rates_of(machine, threads, record.settings.get("precision", SINGLE)),
        None if machine.is_accelerator else peak,
    )
    answers = {"step": log(times.step * peak / gflop)}
    answers.update({name: log(seconds) for name, seconds in times.parts.items() if seconds > 0})
    return Case(facts, answers, times.step, work, _block(record), record)


def _block(record: Record) -> Block:
    """Runs of users' own jobs stand alone: nobody interleaved them.

    Targets of the same name may be different machines: each testbed is called so.
    """
    machine, target, day = machine_name(record), record.target.name, day_of(record)
    if record.suite == MEASURED_BY_USERS:
        return machine, target, record.plan, f"{record.date} {record.allocation.job_id}", day, 0
    return machine, target, record.suite_digest, record.group, day, record.round


class _Times(NamedTuple):
    """Seconds of a steady step, and of the other parts where they were seen; evaluation in steps of training."""

    step: float
    parts: dict[str, float]


def _times(record: Record) -> _Times | None:
    if record.training is not None:
        return _of_metrics(record.training)
    steps = record.steps
    if steps is None or not steps.median_seconds:
        return None
    parts = {}
    if steps.first_seconds:
        parts["first_step"] = max(steps.first_seconds - steps.median_seconds, _LEAST)
        if steps.to_first_step_seconds:
            parts["start"] = steps.to_first_step_seconds - steps.first_seconds
    return _Times(steps.median_seconds, parts)


def _of_metrics(result: TrainingResult) -> _Times | None:
    step = _step_seconds(result) if result.batch_size > 0 else None
    if step is None:
        return None
    seconds = result.seconds
    parts = {"start": seconds.to_first_step - seconds.load_data - seconds.compile}
    if seconds.first_step > 0:
        parts["first_step"] = max(seconds.first_step + seconds.compile - step, _LEAST)
    evaluation = [epoch.evaluation_seconds for epoch in result.steady if epoch.evaluation_seconds > 0]
    if evaluation and result.test_images:
        parts["evaluation"] = median(evaluation) / result.test_images / (step / result.batch_size)
    return _Times(step, parts)


def _step_seconds(result: TrainingResult) -> float | None:
    """Of one steady step; None where no epoch is free of the start."""
    epochs = [epoch.seconds for epoch in result.steady if epoch.seconds > 0]
    return median(epochs) / max(1.0, result.training_images / result.batch_size) if epochs else None
