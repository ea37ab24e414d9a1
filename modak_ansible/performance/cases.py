"""Records as the regressions see them: features, what was measured, and the round that it was measured in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import log
from statistics import median

from modak_ansible.model.record import Record, TrainingResult
from modak_ansible.model.work import Work
from modak_ansible.performance.features import Facts
from modak_ansible.performance.machines import machine_name, peak_for
from modak_ansible.performance.stock import recorded
from modak_ansible.performance.stored import Machine

_LEAST = 1e-3  # seconds: a first step is never faster than this over a steady one, whatever the noise says

Block = tuple[str, str, str, int]  # target, the suite's digest, group, round


@dataclass(frozen=True)
class Case:
    """A measured training.

    Attributes:
        answers: the logarithm that each part's regression is to give, where the record has it.
        step_seconds: of one steady step.
        samples_per_second: of a steady epoch.
        block: runs of one are compared with each other, whatever the machine does by itself.
    """

    facts: Facts
    answers: Mapping[str, float]
    step_seconds: float
    work: Work
    block: Block
    record: Record


def cases(records: Iterable[Record], works: Mapping[str, Work], machines: Iterable[Machine]) -> list[Case]:
    """Every training that was measured, on a machine whose peak is known, of a workload whose work is known.

    Args:
        records: of all outcomes; those that are not simply measured are left out.
        works: what a workload computes, by its name.
        machines: with their peaks.
    """
    known = {each.name: each for each in machines}
    found = (_case(each, works, known) for each in records if each.outcome == "measured" and each.training)
    return [each for each in found if each is not None]


def work_of(record: Record, works: Mapping[str, Work]) -> Work:
    """What a recorded training computed."""
    work = works.get(record.workload, Work(workload=record.workload))
    result = record.training
    if result is None:
        return work
    if result.network is not None:
        network = result.network
        work = Work(
            workload=f"{record.workload}/{network.name}",
            gflop_per_sample=network.gflop_per_image,
            sample_bytes=network.bytes_per_image,
            layers=network.layers,
        )
    return work.model_copy(
        update={
            "parameters": result.parameters,
            "samples": result.training_images,
            "epochs": len(result.epochs),
            "batch_size": result.batch_size,
        }
    )


def _case(record: Record, works: Mapping[str, Work], machines: Mapping[str, Machine]) -> Case | None:
    result, machine = record.training, machines.get(machine_name(record))
    if result is None or machine is None or not result.epochs:
        return None
    work = work_of(record, works)
    threads = record.allocation.threads or record.allocation.cores_per_process or 1
    peak = peak_for(machine, threads)
    if not work.gflop_per_sample or not peak:
        return None
    gflop = work.gflop_per_sample * result.batch_size
    facts = Facts(
        framework=record.framework,
        entry=record.entry,
        workload=work.workload,
        switches=recorded(record.framework, record.suite, record.settings),
        machine=machine.name,
        container=record.image is None or record.image.container,
        step_gflop=gflop,
        parameters=result.parameters,
        threads=threads,
    )
    step = _step_seconds(result)
    if step is None:
        return None
    block = (record.target.name, record.suite_digest, record.group, record.round)
    return Case(facts, _answers(result, step, peak / gflop), step, work, block, record)


def _step_seconds(result: TrainingResult) -> float | None:
    """Of one steady step; None where no epoch is free of the start."""
    epochs = [each.seconds for each in result.steady if each.seconds > 0]
    return median(epochs) / max(1.0, result.training_images / result.batch_size) if epochs else None


def _answers(result: TrainingResult, step: float, peak_of_step: float) -> dict[str, float]:
    seconds = result.seconds
    found = {"step": log(step * peak_of_step)}
    start = seconds.to_first_step - seconds.load_data - seconds.compile
    if start > 0:
        found["start"] = log(start)
    if seconds.first_step > 0:
        found["first_step"] = log(max(seconds.first_step + seconds.compile - step, _LEAST))
    evaluation = [each.evaluation_seconds for each in result.steady if each.evaluation_seconds > 0]
    if evaluation and result.test_images:
        found["evaluation"] = log(median(evaluation) / result.test_images / (step / result.batch_size))
    return found
