"""What of a question was never measured, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from modak_ansible.model.measured.prediction import Question
from modak_ansible.model.measured.timed_steps import COUNTED
from modak_ansible.model.quantities import counted
from modak_ansible.performance.between import LAW, processes_of, wait_alike, why_unknown
from modak_ansible.performance.features import in_version, switch_name
from modak_ansible.performance.regression import Regression
from modak_ansible.performance.run import Reference, Run
from modak_ansible.performance.stored import Machine

# What a doubt of a machine without records ends with: why its interval is wide, and what makes it narrower.
STRANGER = (
    "the interval is that of any machine; `modak discover --measure` and a run there with `modak model fit` narrow it"
)


class Support(NamedTuple):
    """How much of a question is on record."""

    unknown: tuple[str, ...]  # what no record has; the answer is not to be relied on
    notes: tuple[str, ...]  # what makes it uncertain, though something like it was measured
    records: int  # measured runs of the rarest of its matters


class Coverage:
    def __init__(self, regressions: Mapping[str, Regression], machines: tuple[Machine, ...]) -> None:
        step = regressions.get("step")
        self._counts = step.counts if step else {}
        self._threads = {threads for machine in machines for threads in machine.peaks}
        self._machines = sorted(machine.name for machine in machines if f"machine {machine.name}" in self._counts)
        self._frameworks = {name.removeprefix("framework ") for name in self._counts if name.startswith("framework ")}

    def run(self, run: Run, question: Question) -> Support:
        """Of one run; where steps of it were timed on the target, only what is other than in these counts."""
        if run.reference:
            return self._beside(run, question, run.reference)
        facts = run.facts
        if facts.framework not in self._frameworks:
            return Support((f"no record of {facts.framework}",), (), 0)
        unknown, counts = self._place(run, question), [self._counts[f"framework {facts.framework}"]]
        notes = []
        entry = self._counts.get(f"entry {facts.entry}", 0)
        if entry:
            counts.append(entry)
        else:
            notes.append(f"no record of {facts.entry or 'this image'}, only of others of {facts.framework}")
        for name, value in facts.switches.items():
            self._switch(run, name, value, unknown, counts)
        if processes_of(question) > 1:
            why = why_unknown(run, question)
            (unknown if why else notes).append(why or LAW)
        return Support(tuple(unknown), (*notes, *self._notes(run)), min(counts))

    def _beside(self, run: Run, question: Question, reference: Reference) -> Support:
        timed, old, old_run = reference
        is_same = (run.facts, run.batch, question.settings) == (
            old_run.facts,
            old_run.batch,
            old.settings,
        )
        if is_same and processes_of(question) == 1:
            support = Support((), (), 1)
        else:
            support = self.difference(old_run, run, old, question)
        by = f"by {counted(timed.count, 'step')} of it, timed on {timed.target} on {timed.date[:10]}"
        law = (LAW,) if processes_of(question) > 1 and not support.unknown else ()
        return Support(support.unknown, (by, *law), support.records)

    def has_entry(self, entry: str) -> bool:
        """Whether a build was measured at all."""
        return f"entry {entry}" in self._counts

    def difference(self, first_run: Run, second_run: Run, old: Question, new: Question) -> Support:
        """Of what two runs differ in; what they have in common may be as unknown as it likes."""
        unknown = self._place(second_run, new)
        counts: list[int] = []
        before, after = first_run.facts, second_run.facts
        for kind, first, second in (
            ("framework", before.framework, after.framework),
            ("entry", before.entry, after.entry),
        ):
            if first != second:
                for value in (first, second):
                    count = self._counts.get(f"{kind} {value}", 0)
                    counts.append(count)
                    if not count:
                        unknown.append(f"no record of {value or 'an image without an entry'}")
        for own_run, other_facts in ((second_run, before), (first_run, after)):
            for name, value in own_run.facts.switches.items():
                if other_facts.framework != own_run.facts.framework or other_facts.switches.get(name) != value:
                    self._switch(own_run, name, value, unknown, counts)
        if before.threads != after.threads and f"{after.framework} log(threads)" not in self._counts:
            unknown.append("no record of another number of threads")
        if old.settings.get("staging", "shared") != new.settings.get("staging", "shared"):
            unknown.append("no record of what a copy of the data on the node saves")
        if first_run.work.batch_size != second_run.work.batch_size:
            unknown.append("no record of the same work with another batch size")
        is_by_law = not wait_alike(old, new)
        is_as_many = (old.nodes, old.processes_per_node) == (new.nodes, new.processes_per_node)
        if is_by_law or not is_as_many:
            unknown += filter(None, (why_unknown(first_run, old), why_unknown(second_run, new)))
        if before == after and old.settings != new.settings and is_as_many and not (is_by_law or unknown):
            unknown.append("the model does not tell them apart")
        of_all = 0 if is_by_law else self._counts.get(f"framework {after.framework}", 0)
        records = min(counts) if counts else of_all
        return Support(tuple(dict.fromkeys(unknown)), tuple(self._notes(second_run)), records)

    def _place(self, run: Run, question: Question) -> list[str]:
        if question.accelerator and run.machine is None:
            n = "n" if question.accelerator[0] in "aeiouAEIOU" else ""
            return [f"no record of a{n} {question.accelerator}"]
        return []

    def _switch(self, run: Run, name: str, value: str, unknown: list[str], counts: list[int]) -> None:
        """Another version may do something else: XLA was no loss in TensorFlow 2.1, and is one in 2.21."""
        framework, version = run.facts.framework, run.facts.version
        switch = switch_name(framework, name, value)
        count = self._counts.get(switch, 0)
        count_in_version = self._counts.get(in_version(switch, version), 0) if version else count
        counts.append(count_in_version)
        if not count_in_version:
            only = ", only with other versions" if count else ""
            unknown.append(f"no record of {framework} {version + ' ' if count else ''}with {name} {value}{only}")
        machine = run.facts.machine
        if name == "precision" and run.facts.format_gain is None and f"{switch} on {machine}" not in self._counts:
            processor = machine or "a processor that is not known"
            unknown.append(f"what {value} gains on {processor} was not measured: `modak discover --measure` does that")

    def _notes(self, run: Run) -> list[str]:
        notes = []
        if run.facts.machine not in self._machines:
            machine = run.facts.machine or "the machine, whose processor is not known"
            all_but_last, last = ", ".join(self._machines[:-1]), self._machines[-1:]
            measured = f"measured on {' and '.join(filter(None, (all_but_last, *last)))}, not on {machine}"
            notes.append(f"{measured}: {STRANGER}")
        if f"workload {run.facts.workload}" not in self._counts:
            notes.append(f"no record of {run.facts.workload or 'this work'}, only of others")
        return notes


def doubts_of(run: Run, question: Question) -> tuple[str, ...]:
    """What the question leaves open."""
    doubts = []
    work = run.work
    missing_facts = [
        title
        for value, title in (
            (work.gflop_per_sample or run.reference, "GFLOP of a sample"),
            (work.samples, "samples"),
            (work.epochs, "epochs"),
            (work.batch_size, "batch size"),
        )
        if not value
    ]
    if missing_facts:
        cure = "" if work.gflop_per_sample or run.reference else _cure(run.facts.framework, question)
        doubts.append(f"how long it trains is not known: the work does not give its {', '.join(missing_facts)}{cure}")
    if run.peak is None and not run.reference:
        doubts.append("the peak of the target is not known")
    elif run.peak_of and not run.reference:
        doubts.append(f"the peak is that of {run.peak_of}, which may be another machine")
    if question.settings.get("staging") in ("node-local", "by-node") and not question.dataset_bytes:
        doubts.append("the time to copy the dataset is left out: its size is not known")
    return tuple(doubts)


def _cure(framework: str, question: Question) -> str:
    """What finds out what the work is, or how long its steps take."""
    if framework not in COUNTED:
        return ""
    if question.is_traced:
        return "; its trace does not show it; modak trace --steps times some of its steps"
    finds = "finds what the script says of it" if framework == "pytorch" else "times some of its steps"
    return f"; modak trace {finds}"
