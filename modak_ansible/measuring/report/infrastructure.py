"""Charts of what the machine gives: peaks, memory, storage classes, the network, starting and importing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from modak_ansible.measuring.report.charts import Bar, Chart, Table, number
from modak_ansible.measuring.report.runs import NATIVE, Run
from modak_ansible.measuring.report.trainings import slug
from modak_ansible.measuring.statistics import summary
from modak_ansible.model.measured.record import Measure, Record
from modak_ansible.model.quantities import counted

SAMPLES = "least to most of all samples; n counts samples"
# Titles of measures, by their names.
PEAKS = {
    "sgemm": "Matrix multiplication",
    "convolution": "3x3 convolution",
    "triad": "Memory bandwidth (STREAM triad)",
    "copy": "Memory bandwidth (copy)",
}
STORAGE = {
    "write": "Writing a large file",
    "read": "Reading a large file",
    "small_files_write": "Writing many small files",
    "small_files_read": "Reading many small files",
}
NETWORK = {
    "latency": "Latency between two nodes",
    "bandwidth": "Bandwidth between two nodes",
    "allreduce": "Summing over all processes of two nodes (allreduce)",
}
STARTS = {
    "process_start": "Starting a process",
    "container_start": "Starting a container",
    "python_start": "Starting Python",
    "import": "Importing the framework",
    "launch": "From the job's start to the program's",
}
TITLES = PEAKS | STORAGE | NETWORK | STARTS
_PLAIN = {
    "entry", "target", "processor", "accelerator", "storage", "file_system", "library", "matmul", "precision",
    "memory_format", "direction", "device", "module",
}  # fmt: skip


@dataclass(frozen=True)
class Sample:
    """A measure, the record that it is of, and what built the image that was measured, where a record tells."""

    measure: Measure
    record: Record
    built: str = ""


def measures(runs: Iterable[Run]) -> list[Sample]:
    all_runs = list(runs)
    built = {run.record.image.digest: run.record.entry for run in all_runs if run.record.image}
    return [
        Sample(measure, run.record, built.get(str(measure.about.get("image", "")), ""))
        for run in all_runs
        if run.record.outcome == "measured"
        for measure in run.record.measures
    ]


def measure_charts(samples: Iterable[Sample]) -> list[Chart]:
    """One chart for each measure and unit; those known by name first."""
    by_measure: dict[tuple[str, str], list[Sample]] = {}
    for sample in samples:
        by_measure.setdefault((sample.measure.name, sample.measure.unit), []).append(sample)
    names = list(TITLES)
    order = sorted(by_measure, key=lambda key: (names.index(key[0]) if key[0] in names else len(names), key))
    return [_chart(name, unit, by_measure[name, unit]) for name, unit in order]


def _chart(name: str, unit: str, samples: list[Sample]) -> Chart:
    labels = _labels(samples)
    unit, factor = _readable(unit, samples)
    pooled: dict[str, list[Sample]] = {}
    for label, sample in zip(labels, samples, strict=True):
        pooled.setdefault(label, []).append(sample)
    bars = tuple(_bar(label, members, factor) for label, members in pooled.items())
    rows = tuple(
        (bar.label, number(bar.value), _ends(bar), f"{bar.n} in {counted(len(pooled[bar.label]), 'run')}")
        for bar in bars
    )
    return Chart(
        name=slug(name),
        title=TITLES.get(name, name.replace("_", " ").capitalize()),
        unit=unit,
        bars=bars,
        interval=SAMPLES,
        table=Table(("What", f"Median {unit}", "Least to most", "Samples"), rows),
        caption=_caption(samples),
        more_is_better=unit not in {"s", "ms", "us", "µs"},
    )


def _readable(unit: str, samples: list[Sample]) -> tuple[str, float]:
    """Short times in milliseconds or microseconds, and what to multiply them by."""
    largest = max(value for sample in samples for value in sample.measure.samples)
    if unit != "s" or largest >= 1:
        return unit, 1.0
    return ("ms", 1e3) if largest >= 1e-3 else ("µs", 1e6)


def _bar(label: str, members: list[Sample], factor: float) -> Bar:
    pooled = summary(factor * value for member in members for value in member.measure.samples)
    several = pooled.n > 1
    return Bar(label, pooled.median, pooled.least if several else None, pooled.most if several else None, pooled.n)


def _ends(bar: Bar) -> str:
    return "one sample" if bar.low is None or bar.high is None else f"{number(bar.low)} to {number(bar.high)}"


def _facts(sample: Sample) -> dict[str, str]:
    record = sample.record
    # a number with a fraction was measured on the way, such as an error, and names nothing
    details = {name: str(value) for name, value in sample.measure.about.items() if not isinstance(value, float)}
    if "image" in details:  # a digest tells a reader nothing: what it was built from, where known, and how large it is
        size = sample.measure.about.get("megabytes")
        details["image"] = " of ".join(filter(None, (sample.built, f"{size:.0f} MB" if size else "")))
    place = {"target": record.target.name, "processor": record.target.processor}
    if record.training:  # how a job was launched has nothing to do with what it trained
        container = NATIVE[0] if record.image and not record.image.container else "any"
        return {**details, **place, "container": container}
    return {
        **details,
        "entry": record.entry,
        **place,
        "accelerator": record.target.accelerator,
        **record.settings,
    }


def _labels(samples: list[Sample]) -> list[str]:
    """What tells the samples of one measure apart, and nothing that they have in common."""
    facts = [_facts(sample) for sample in samples]
    names = list(dict.fromkeys(name for fact in facts for name in fact))
    telling = [name for name in names if len({fact.get(name, "") for fact in facts}) > 1]
    return [
        ", ".join(_fact(name, fact[name]) for name in telling if fact.get(name)) or samples[0].record.entry
        for fact in facts
    ]


def _fact(name: str, value: str) -> str:
    """A value with its name, unless it speaks for itself."""
    if name == "container":
        return "natively" if value in {"0", *NATIVE} else "in a container"
    return value if name in _PLAIN and value != "default" else f"{name.replace('_', ' ')} {value}"


def _caption(samples: list[Sample]) -> str:
    facts = [_facts(sample) for sample in samples]
    shared = {
        name: value
        for name, value in facts[0].items()
        if value
        and name not in {"target", "processor", "accelerator"}
        and all(fact.get(name) == value for fact in facts)
    }
    machines = dict.fromkeys(sample.record.target.processor for sample in samples)
    return f"{', '.join(machines)}. " + ", ".join(_fact(name, value) for name, value in shared.items())
