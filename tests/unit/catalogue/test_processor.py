"""Processors are known by what their kernel says of them, wherever that is read."""

from __future__ import annotations

import archspec.cpu
import pytest

from modak_ansible.catalogue.processor import architecture_of, is_family


def cpuinfo_of(name: str) -> dict[str, str]:
    known = archspec.cpu.TARGETS[name]
    return {"vendor_id": known.vendor, "flags": " ".join(sorted(known.features))}


@pytest.mark.parametrize("name", ["haswell", "skylake_avx512", "icelake", "zen2", "zen4"])
def test_a_processor_with_the_features_of_a_microarchitecture_is_one(name):
    assert architecture_of("x86_64", cpuinfo_of(name)) == name


def test_a_processor_that_hides_something_is_what_is_left():
    hidden = {**cpuinfo_of("zen4"), "flags": " ".join(archspec.cpu.TARGETS["x86_64_v3"].features)}
    assert architecture_of("x86_64", hidden) == "x86_64_v3"


def test_an_arm_is_known_by_its_vendor_and_features():
    known = archspec.cpu.TARGETS["neoverse_n1"]
    cpuinfo = {"CPU implementer": "0x41", "CPU part": known.cpu_part, "Features": " ".join(known.features)}
    assert architecture_of("aarch64", cpuinfo) == "neoverse_n1"


@pytest.mark.parametrize(("machine", "expected"), [("x86_64", "x86_64"), ("mips64", "mips64")])
def test_nothing_known_leaves_the_family(machine, expected):
    assert architecture_of(machine, {}) == expected


@pytest.mark.parametrize(
    ("machine", "cpu", "expected"),
    [("ppc64le", "POWER9, altivec supported", "power9le"), ("ppc64le", "POWER8NVL (raw), altivec supported", "power8le"),
     ("ppc64le", "POWER11 (architected), altivec supported", "power10le"), ("ppc64", "POWER7 (raw)", "power7"), ("ppc64le", "", "ppc64le")],
)  # fmt: skip
def test_a_power_is_known_by_its_generation(machine, cpu, expected):
    assert architecture_of(machine, {"cpu": cpu}) == expected


def test_families():
    assert is_family("x86_64")
    assert is_family("aarch64")
    assert not is_family("zen2")
    assert not is_family("x86_64_v3")
    assert not is_family("nonsense")
