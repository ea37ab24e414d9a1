"""What the records say of machines: peaks, bandwidths, storage, and the start of a process."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

from modak_ansible.model.measured.work import Rates
from modak_ansible.performance.stored import Machine

if TYPE_CHECKING:  # planning needs no records
    from modak_ansible.model.measured.record import Measure, Record

Key = TypeVar("Key")
_PEAK, _BANDWIDTH = "sgemm", "triad"
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
    return _for_threads(machine, machine.peaks, threads)


def rates_of(machine: Machine, threads: int, precision: str) -> Rates | None:
    """How fast so many threads compute in a number format, over their peak; None where nobody measured products."""
    peak = peak_for(machine, threads)
    products = (
        peak if precision == SINGLE else _for_threads(machine, machine.rates.get(f"{precision} products", {}), threads)
    )
    if not peak or not products:
        return None
    convolutions = _for_threads(machine, machine.rates.get(f"{precision} convolutions", {}), threads)
    return Rates(products / peak, convolutions / peak) if convolutions else Rates.usual(products / peak)


def balance_of(machine: Machine, threads: int) -> float | None:
    """FLOP that so many threads do in the time in which they move a byte."""
    peak, bandwidth = peak_for(machine, threads), _for_threads(machine, machine.bandwidths, threads)
    return peak / bandwidth if peak and bandwidth else None


def _for_threads(machine: Machine, values: dict[int, float], threads: int) -> float | None:
    """By threads of the processor; an accelerator computes as fast with any of them."""
    if not values:
        return None
    nearest = min(values, key=lambda value: (abs(value - threads), value))
    return values[nearest] if machine.is_accelerator else values[nearest] * threads / nearest


def _machine(name: str, records: list[Record]) -> Machine:
    measures = [measure for record in records for measure in record.measures]
    newest = records[-1].target
    return Machine(
        name=name,
        processor=newest.accelerator or newest.processor,
        architecture=newest.architecture,
        cores=newest.cores,
        peaks=_best(measures, _PEAK),
        rates=_rates(measures),
        bandwidths=_best(measures, _BANDWIDTH),
        storage=_storage(measures),
        launch=_launch(measures),
        day=max((day_of(each) for each in records if each.training or each.steps), default=""),
    )


def day_of(record: Record) -> str:
    return record.date[: len("2026-11-26")]


def _best(measures: list[Measure], name: str, precision: str = SINGLE) -> dict[int, float]:
    """The best median of all shapes and libraries, by threads, in one number format."""
    return {threads: max(values) for threads, values in _by_threads(measures, name, precision).items()}


def _rates(measures: list[Measure]) -> dict[str, dict[int, float]]:
    """GFLOP/s of what is no product in single precision, by threads.

    How fast a convolution is depends on its shape, its direction and its memory format: it is the middle of all.
    """
    found = {}
    for precision in sorted({str(each.about.get("precision", SINGLE)) for each in measures}):
        medians = _by_threads(measures, "convolution", precision)
        found[f"{precision} convolutions"] = {threads: _middle(each) for threads, each in medians.items()}
        found[f"{precision} products"] = _best(measures, _PEAK, precision) if precision != SINGLE else {}
    return {name: rates for name, rates in found.items() if rates}


def _by_threads(measures: list[Measure], name: str, precision: str) -> dict[int, list[float]]:
    """Medians of each shape, library and whatever else a measure is about, by threads."""
    medians = _medians(
        ((int(each.about.get("threads", 1)), ",".join(f"{key}={each.about[key]}" for key in sorted(each.about))), each)
        for each in measures
        if each.name == name and each.about.get("precision", SINGLE) == precision
    )
    found: dict[int, list[float]] = {}
    for (threads, _), value in medians.items():
        found.setdefault(threads, []).append(value)
    return found


def _storage(measures: list[Measure]) -> dict[str, dict[str, float]]:
    """Medians by storage class; what came from the page cache is no property of the storage."""
    medians = _medians(
        ((str(each.about["storage"]), each.name), each)
        for each in measures
        if each.name in _STORAGE and each.about.get("storage") and each.about.get("cache") != "warm"
    )
    found: dict[str, dict[str, float]] = {}
    for (place, name), value in medians.items():
        found.setdefault(place, {})[name] = value
    return found


def _launch(measures: list[Measure]) -> dict[str, float]:
    return _medians(
        ("container" if each.about.get("container") else "native", each) for each in measures if each.name == "launch"
    )


def _medians(measures: Iterable[tuple[Key, Measure]]) -> dict[Key, float]:
    """Of all samples of the measures with one key, in the order of keys."""
    samples: dict[Key, list[float]] = {}
    for key, each in measures:
        samples.setdefault(key, []).extend(each.samples)
    return {key: _middle(numbers) for key, numbers in sorted(samples.items())}


def _middle(numbers: Iterable[float]) -> float:
    """Their median, rounded."""
    from statistics import median  # noqa: PLC0415 - slow to import, and planning needs none

    return round(median(numbers), 4)
