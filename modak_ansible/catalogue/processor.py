"""Processors by their archspec names: which one a kernel describes, what it descends from, what fails on it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import archspec.cpu
from archspec.cpu.detect import COMPATIBILITY_CHECKS, TARGETS_JSON, partial_uarch

from modak_ansible.catalogue.entry import Entry
from modak_ansible.model.measured.refusal import Refusal
from modak_ansible.model.plan import digest_of
from modak_ansible.model.target import Target


def architecture_of(machine: str, cpuinfo: Mapping[str, str]) -> str:
    """The newest microarchitecture whose features a processor has.

    Args:
        machine: its family as the kernel names it, such as x86_64.
        cpuinfo: the first block of its /proc/cpuinfo; vendor_id and flags of an x86-64, CPU implementer, CPU part and
            Features of an ARM, cpu of a POWER.

    Returns:
        The family itself where archspec knows no more.
    """
    check = COMPATIBILITY_CHECKS.get(machine)
    if check is None:
        return machine
    info = _information(machine, cpuinfo)
    if machine.startswith("ppc64"):  # archspec's own check is of this very machine's family

        def check(info: Any, target: Any) -> bool:
            return bool(target.generation <= info.generation)

    candidates = [
        target for target in archspec.cpu.TARGETS.values() if target.family.name == machine and check(info, target)
    ]
    generic = max((candidate for candidate in candidates if candidate.vendor == "generic"), key=_rank, default=None)
    if generic is None:
        return machine
    of_part = [candidate for candidate in candidates if info.cpu_part and candidate.cpu_part == info.cpu_part]
    better = [candidate for candidate in of_part or candidates if candidate > generic]
    name: str = max(better, key=_rank, default=generic).name
    return name


def is_family(architecture: str) -> bool:
    """Whether an archspec name says the family only, which leaves the processor open."""
    microarchitecture = archspec.cpu.TARGETS.get(architecture)
    return microarchitecture is not None and microarchitecture.family.name == architecture


def family_of(architecture: str) -> set[str]:
    """A microarchitecture and those that it descends from."""
    microarchitecture = archspec.cpu.TARGETS.get(architecture)
    return (
        {architecture, *(ancestor.name for ancestor in microarchitecture.ancestors)}
        if microarchitecture
        else {architecture}
    )


def why_refused(entry: Entry, target: Target, refusals: Iterable[Refusal], requirements: Sequence[str] = ()) -> str:
    """What is known against a build, or against these packages in it, on a target; empty where nothing is."""
    architecture = target.processor.architecture
    for name in sorted(family_of(architecture) & set(entry.refusals)):
        return f"its probe fails on {name}: {entry.refusals[name]}"
    for refusal in refusals:
        place = (refusal.entry, refusal.address, refusal.architecture)
        is_alike = refusal.container in (None, target.container_runtime != "none")
        if refusal.lacks:
            if is_alike and refusal.address == target.address and _is_lacking(refusal, entry, target, requirements):
                return f"no index there has {refusal.lacks}, which belongs to it"
        elif is_alike and place == (entry.name, target.address, architecture) and refusal.entry_digest == entry.digest:
            return f"its probe failed on {refusal.processor}: {refusal.reason}"
    return ""


def _is_lacking(refusal: Refusal, entry: Entry, target: Target, requirements: Sequence[str]) -> bool:
    """Whether a build would miss the same package for the same requirements, as others of its release do."""
    from modak_ansible.catalogue.companions import constraints_of  # noqa: PLC0415 - packaging is slow to import, and few ask for packages

    is_asked = set(refusal.requirements) <= set(requirements)
    is_same_site = refusal.site == digest_of(target.site.model_dump(mode="json"))
    return is_asked and is_same_site and refusal.lacks in constraints_of(entry)


def _information(machine: str, cpuinfo: Mapping[str, str]) -> Any:
    if machine == "aarch64":
        code = cpuinfo.get("CPU implementer", "")
        vendor = TARGETS_JSON["conversions"]["arm_vendors"].get(code, code or "generic")
        features = set(cpuinfo.get("Features", "").split())
        return partial_uarch(vendor=vendor, features=features, cpu_part=cpuinfo.get("CPU part", ""))
    if machine.startswith("ppc64"):
        generation = re.search(r"POWER(\d{1,3})", cpuinfo.get("cpu", ""), re.ASCII)
        return partial_uarch(generation=int(generation.group(1)) if generation else 0)
    return partial_uarch(vendor=cpuinfo.get("vendor_id", "generic"), features=set(cpuinfo.get("flags", "").split()))


def _rank(candidate: Any) -> tuple[int, int]:
    return len(candidate.ancestors), len(candidate.features)
