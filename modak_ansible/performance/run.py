"""A question as the model sees it: its features, its work, and the machine that it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import NamedTuple

from archspec.cpu import TARGETS

from modak_ansible.model.measured.prediction import Question
from modak_ansible.model.measured.timed_steps import TimedSteps
from modak_ansible.model.measured.work import Rates, Work
from modak_ansible.performance.features import Facts
from modak_ansible.performance.fit.machines import SINGLE, balance_of, called, peak_for, rates_of
from modak_ansible.performance.stock import switched
from modak_ansible.performance.stored import Machine

# Between peaks of a core as they are measured at different hours and with others beside them.
_ALIKE_PEAKS = 1.5
_OF_USERS = ("given", "")  # origins of images that the user gives: what was timed in one is about that one
# What a work of one name has in common.
_OF_WORKLOAD = (
    "gflop_per_sample",
    "operators",
    "calls",
    "kernel_seconds",
    "bf16_seconds",
    "onednn_seconds",
    "pooling_seconds",
    "norm_seconds",
    "parameters",
    "layers",
    "sample_bytes",
    "batch_size",
)


class Run(NamedTuple):
    facts: Facts
    work: Work
    peak: float | None  # GFLOP/s of one process; None where nobody knows it
    peak_of: str  # where that comes from, when it is not the very machine's
    steps: float | None  # of the whole run, the first included; None where nobody says how long it trains
    machine: Machine | None  # that of the records; None where the question's is none of them
    batch: int | None = None  # samples of a step of one process
    reference: Reference | None = None  # where steps of the same training were timed on the target


class Reference(NamedTuple):
    """A run of which some steps were timed: what else it is predicted from has only to say how another one differs."""

    timed: TimedSteps
    question: Question
    run: Run


class Runs:
    """Makes runs of questions, with what the records know of workloads and machines."""

    def __init__(self, workloads: Mapping[str, Work], machines: tuple[Machine, ...]) -> None:
        self._workloads = workloads
        self._machines = {machine.name: machine for machine in machines}

    def of(self, question: Question) -> Run:
        settings = question.settings
        work = self._work(question)
        machine, peak_of = self._machine(question)
        threads = whole_number(settings.get("threads")) or question.threads or question.cores
        processes = question.nodes * question.processes_per_node
        batch = work.batch_size
        if batch and question.shares_batch:
            batch = ceil(batch / processes)
        peak = _peak(question, machine, threads)
        facts = Facts(
            framework=question.framework,
            entry=question.entry,
            workload=work.workload,
            switches=switched(question.framework, settings),
            machine=machine.name if machine and not peak_of else self._stranger(question),
            container=question.container and settings.get("container") != "native",
            threads=threads,
            balance=_balance(question, machine, threads),
            version=question.version,
            has_own_speeds=not peak_of,
            day=machine.day if machine and not peak_of else "",
        ).of_work(work, batch, _rates(question, machine, threads), None if question.accelerator else peak)
        steps = None
        if work.epochs and work.samples and batch:
            sharing = 1 if question.split else processes  # who split layers have the same batches
            # the last of a batch that is shared out may have fewer samples, or none
            size = work.batch_size if question.shares_batch else batch * sharing
            batches = work.samples / (size or batch)
            # what is evaluated each process sees, and it is the forward pass, a third of a step's computing
            evaluated = 0.0 if _timed_with_all(question, batches) else (work.evaluated or 0) / (3 * batch)
            steps = work.epochs * (max(1.0, batches if sharing == 1 else ceil(batches)) + evaluated)
        return Run(facts, work, peak, peak_of, steps, machine, batch, self._reference(question))

    def _reference(self, question: Question) -> Reference | None:
        """The run of one process whose steps were timed."""
        timed = question.timed
        if timed is None:
            return None
        alone = {"nodes": 1, "processes_per_node": 1, "shares_batch": False, "gathers": False, "copies": 1}
        details = timed.model_dump(include={"settings", "container", "threads"})
        if question.origin not in _OF_USERS and timed.entry != question.entry:
            details |= {"entry": timed.entry, "version": timed.version}
        work = question.work.model_copy(update={"batch_size": timed.batch_size or question.work.batch_size})
        reference = question.model_copy(update={**alone, **details, "split": None, "work": work, "timed": None})
        return Reference(timed, reference, self.of(reference))

    def _work(self, question: Question) -> Work:
        """The question's own facts, and those of the workload of the same name for what it leaves open."""
        work = question.work
        workload = self._workloads.get(work.name) if work.name else None
        changes: dict[str, object] = {} if work.name == work.workload else {"workload": work.name}
        if workload is not None:
            for name in _OF_WORKLOAD:
                if not getattr(work, name) and getattr(workload, name):
                    changes[name] = getattr(workload, name)
        batch = whole_number(question.settings.get("batch_size"))
        if batch:
            changes["batch_size"] = batch
        return work.model_copy(update=changes) if changes else work

    def _machine(self, question: Question) -> tuple[Machine | None, str]:
        """The machine of the records that is meant, and its name where nobody can tell whether it is the same."""
        if question.accelerator:  # a target may know its vendor alone
            word = question.accelerator.lower()
            called = [
                accelerator
                for accelerator in self._machines.values()
                if accelerator.is_accelerator and word in accelerator.name.lower()
            ]
            return (called[0], "") if len(called) == 1 else (None, "")
        processors = [machine for machine in self._machines.values() if not machine.is_accelerator]
        matches = [machine for machine in processors if _may_be_called(machine, question)]
        same = {machine.name: is_same(machine, question) for machine in matches}
        for machine in sorted(matches, key=lambda candidate: _difference(candidate, question)):
            if same[machine.name]:
                return machine, ""
        maybe = [machine for machine in matches if same[machine.name] is None]
        if maybe:
            return maybe[0], maybe[0].name
        if question.processor:
            return None, ""
        like = [machine for machine in processors if machine.architecture == question.architecture]
        return (like[0], like[0].name) if len(like) == 1 else (None, "")

    def _stranger(self, question: Question) -> str:
        """What a machine without records is called; not as one that has some."""
        name = question.accelerator or (question.processor and called(question.processor, question.architecture))
        return f"another {name}" if name in self._machines else name


def _timed_with_all(question: Question, steps: float) -> bool:
    """Whether the steps that were timed are more than an epoch's, so that what lies between two is in their mean."""
    return question.timed is not None and question.timed.count > steps


def _may_be_called(machine: Machine, question: Question) -> bool:
    """Whether the names agree: records from before names had their vendor's numbers lack those."""
    called_alike = machine.processor == question.processor
    return called_alike or question.processor.startswith(f"{machine.processor} family ")


def _difference(machine: Machine, question: Question) -> tuple[bool, bool]:
    return (machine.architecture != question.architecture, machine.processor != question.processor)


def is_same(machine: Machine, question: Question) -> bool | None:
    """Whether a target is the machine of that name: by its vector extensions and its peak. None: nobody can tell.

    A name alone says little: virtual machines are called AMD EPYC whatever they have. Nor does a level of x86-64, which
    is what archspec knows of those that hide units, where the records say no more of the processor than such a name.
    """
    own_architecture, asked_architecture = (TARGETS.get(name) for name in (machine.architecture, question.architecture))
    exact = machine.architecture == question.architecture
    wide, narrow = (
        (own_architecture, asked_architecture)
        if own_architecture and asked_architecture and own_architecture in asked_architecture.ancestors
        else (asked_architecture, own_architecture)
    )
    if (
        not exact
        and question.architecture
        and not (wide and narrow and wide.vendor == "generic" and wide in narrow.ancestors)
    ):
        return False
    if question.peak_gflops and question.node_cores and machine.peaks:
        cores = min(machine.peaks)
        ratio = question.peak_gflops / question.node_cores / (machine.peaks[cores] / cores)
        return 1 / _ALIKE_PEAKS < ratio < _ALIKE_PEAKS
    if machine.processor != question.processor:
        return True if exact and own_architecture and own_architecture.vendor != "generic" else None
    return True if exact or any(map(str.isdigit, machine.processor)) else None


def _peak(question: Question, machine: Machine | None, threads: int | None) -> float | None:
    measured = peak_for(machine, threads or machine.cores or 1) if machine else None
    if measured or not question.peak_gflops:
        return measured
    if question.accelerator:
        return question.peak_gflops
    share = threads / question.node_cores if threads and question.node_cores else 1.0 / question.processes_per_node
    return question.peak_gflops * share


def _balance(question: Question, machine: Machine | None, threads: int | None) -> float | None:
    measured = balance_of(machine, threads or machine.cores or 1) if machine else None
    if measured or not question.peak_gflops or not question.memory_bandwidth:
        return measured
    return question.peak_gflops / question.memory_bandwidth


def _rates(question: Question, machine: Machine | None, threads: int | None) -> Rates | None:
    """In the number format: as measured on the machine of the records, or as the target says; None for neither."""
    precision = question.settings.get("precision", SINGLE)
    measured = rates_of(machine, threads or machine.cores or 1, precision) if machine else None
    if measured or precision == SINGLE:
        return measured or Rates.usual()
    if precision == "bf16" and question.peak_gflops_bf16 and question.peak_gflops:
        return Rates.usual(question.peak_gflops_bf16 / question.peak_gflops)
    return None


def whole_number(text: str | None) -> int | None:
    """Of a setting that is one, 1 or more; None for anything else."""
    return int(text) if text and text.isascii() and text.isdigit() and int(text) > 0 else None
