"""What the records say of machines: peaks, bandwidths, storage, and the start of a process."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import TYPE_CHECKING

from modak_ansible.performance.stored import Machine

if TYPE_CHECKING:  # planning needs no records
    from modak_ansible.model.measured.record import Measure, Record

    Sample = tuple[Record, Measure]

_PEAKS = {"sgemm"}  # one product for all: a convolution's peak depends on its shape and its memory format
_BANDWIDTHS = {"triad"}
SINGLE = "fp32"
_STORAGE = {"read", "write", "small_files_read", "small_files_write"}


def machine_name(record: Record) -> str:
    """The accelerator where there is one, the processor with its vector extensions otherwise.

    A virtual machine's processor is called AMD EPYC whether it is a zen3 or a zen5: what one did is not the other's.
    """
    target = record.target
    return target.accelerator or called(target.processor, target.architecture)


def called(processor: str, architecture: str) -> str:
    return f"{processor} ({architecture})" if architecture else processor


def machines(records: Iterable[Record]) -> tuple[Machine, ...]:
    """Every machine that something was measured on, by name."""
    found: dict[str, list[Record]] = {}
    for record in records:
        if record.outcome == "measured":
            found.setdefault(machine_name(record), []).append(record)
    return tuple(_machine(name, members) for name, members in sorted(found.items()))


def peak_for(machine: Machine, threads: int) -> float | None:
    """GFLOP/s of so many threads: as measured, or in proportion from the nearest number of them."""
    return _for_threads(machine.peaks, threads)


def bandwidth_for(machine: Machine, threads: int) -> float | None:
    """GB/s of so many threads, in the same way."""
    return _for_threads(machine.bandwidths, threads)


def format_gain(machine: Machine | None, precision: str) -> float | None:
    """How much faster products in a number format are than in single precision; None where nobody measured it."""
    if precision == SINGLE:
        return 1.0
    return machine.formats.get(precision) if machine else None


def balance_of(machine: Machine, threads: int) -> float | None:
    """FLOP that so many threads do in the time in which they move a byte."""
    peak, bandwidth = peak_for(machine, threads), bandwidth_for(machine, threads)
    return peak / bandwidth if peak and bandwidth else None


def _for_threads(values: dict[int, float], threads: int) -> float | None:
    if not values:
        return None
    nearest = min(values, key=lambda value: (abs(value - threads), value))
    return values[nearest] * threads / nearest


def _machine(name: str, records: list[Record]) -> Machine:
    samples = [(record, measure) for record in records for measure in record.measures]
    newest, peaks = records[-1].target, _best(samples, _PEAKS)
    return Machine(
        name=name,
        processor=newest.accelerator or newest.processor,
        architecture=newest.architecture,
        cores=newest.cores,
        peaks=peaks,
        formats=_formats(samples, peaks),
        bandwidths=_best(samples, _BANDWIDTHS),
        storage=_storage(samples),
        launch=_launch(samples),
    )


def _formats(samples: list[Sample], single: dict[int, float]) -> dict[str, float]:
    """How much faster the best product of each number format is than that in single precision, by as many threads."""
    formats = sorted(
        {str(each.about.get("precision", SINGLE)) for _, each in samples if each.name in _PEAKS} - {SINGLE}
    )
    found = {}
    for name in formats:
        peaks = _best(samples, _PEAKS, name)
        ratios = [peak / single[threads] for threads, peak in peaks.items() if single.get(threads)]
        if ratios:
            found[name] = float(f"{median(ratios):.3g}")
    return found


def _best(samples: list[Sample], names: set[str], precision: str = SINGLE) -> dict[int, float]:
    """The best median of all shapes and libraries, by threads, in one number format."""
    values: dict[tuple[int, str], list[float]] = {}
    for _, each in samples:
        if each.name in names and each.about.get("precision", SINGLE) == precision:
            threads = int(each.about.get("threads", 1))
            about = ",".join(f"{key}={each.about[key]}" for key in sorted(each.about))
            values.setdefault((threads, about), []).extend(each.samples)
    found: dict[int, float] = {}
    for (threads, _), numbers in sorted(values.items()):
        found[threads] = max(found.get(threads, 0.0), round(median(numbers), 4))
    return found


def _storage(samples: list[Sample]) -> dict[str, dict[str, float]]:
    """Medians by storage class; what came from the page cache is no property of the storage."""
    values: dict[tuple[str, str], list[float]] = {}
    for _, each in samples:
        place = str(each.about.get("storage", ""))
        if each.name in _STORAGE and place and each.about.get("cache") != "warm":
            values.setdefault((place, each.name), []).extend(each.samples)
    found: dict[str, dict[str, float]] = {}
    for (place, name), numbers in sorted(values.items()):
        found.setdefault(place, {})[name] = round(median(numbers), 4)
    return found


def _launch(samples: list[Sample]) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for _, each in samples:
        if each.name == "launch":
            values.setdefault("container" if each.about.get("container") else "native", []).extend(each.samples)
    return {kind: round(median(numbers), 4) for kind, numbers in sorted(values.items())}
