"""What a node's own counters say that a training used: RAPL's as the kernel has them, NVML's by a library that answers
as NVIDIA documents it."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.runtime import FILES

sys.path.insert(0, str(FILES))

from modak_runtime import energy
from modak_runtime.energy import Energy, Nvml
from modak_runtime.report import Report

sys.path.remove(str(FILES))

RANGE = 262143328850  # microjoules, of an Intel Xeon
# As a server with two sockets has them; what is in a package's number, or counts twice, is left out.
ZONES = {
    "intel-rapl:0": "package-0", "intel-rapl:0:0": "core", "intel-rapl:0:1": "dram", "intel-rapl:1": "package-1",
    "intel-rapl:1:0": "dram", "intel-rapl:2": "psys", "intel-rapl-mmio:0": "package-0", "dtpm": "dtpm",
}  # fmt: skip


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(energy, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


@pytest.fixture
def powercap(tmp_path):
    for zone, name in ZONES.items():
        (tmp_path / zone).mkdir()
        (tmp_path / zone / "name").write_text(f"{name}\n")
        (tmp_path / zone / "max_energy_range_uj").write_text(f"{RANGE}\n")
        (tmp_path / zone / "energy_uj").write_text("1000\n")
    return tmp_path


def test_packages_and_memory_count_and_nothing_twice(powercap, clock):
    measured = Energy(str(powercap))
    for zone in ZONES:
        (powercap / zone / "energy_uj").write_text("5001000")
    clock.now += 30
    names = ["intel-rapl:0 package-0", "intel-rapl:0:1 dram", "intel-rapl:1 package-1", "intel-rapl:1:0 dram"]
    assert measured.as_dict() == {"joules": dict.fromkeys(names, 5.0), "seconds": 30.0}


@given(st.lists(st.integers(0, RANGE), max_size=20))
def test_counters_go_round(tmp_path_factory, steps):
    folder = tmp_path_factory.mktemp("powercap")
    (folder / "intel-rapl:0").mkdir()
    for name, text in (("name", "package-0"), ("max_energy_range_uj", RANGE), ("energy_uj", RANGE - 5)):
        (folder / "intel-rapl:0" / name).write_text(str(text))
    measured, value = Energy(str(folder)), RANGE - 5
    for step in steps:
        value = (value + step) % (RANGE + 1)
        (folder / "intel-rapl:0" / "energy_uj").write_text(str(value))
        found = measured.as_dict()["joules"]
    assert not steps or found["intel-rapl:0 package-0"] == pytest.approx(sum(steps) / 1e6, abs=0.001)


def test_what_may_have_gone_round_unseen_tells_nothing(powercap, clock):
    measured = Energy(str(powercap))
    clock.now += RANGE / 1e9 + 1
    assert measured.as_dict() is None
    clock.now += 1
    assert measured.as_dict() is None


def test_what_only_root_may_read_is_not_missed(powercap, tmp_path, clock):
    for zone in ZONES:
        (powercap / zone / "energy_uj").unlink()
    assert Energy(str(powercap)).as_dict() is None
    assert Energy(str(tmp_path / "nowhere")).as_dict() is None


class Library:
    """NVML with GPUs that have used so many millijoules; None for one that is too old to count."""

    def __init__(self, *used, begins=0):
        self.used, self.begins = list(used), begins

    def nvmlInit_v2(self):
        return self.begins

    def nvmlDeviceGetCount_v2(self, number):
        number._obj.value = len(self.used)
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index, handle):
        handle._obj.value = index + 1
        return 0

    def nvmlDeviceGetUUID(self, handle, name, size):
        name.value = f"GPU-{handle.value - 1}a".encode()
        return 0 if size >= 80 else 7

    def nvmlDeviceGetTotalEnergyConsumption(self, handle, value):
        used = self.used[handle.value - 1]
        value._obj.value = used or 0
        return 0 if used is not None else 3


@pytest.mark.parametrize(
    ("visible", "names"),
    [(None, ["GPU-0a", "GPU-1a"]), ("1", ["GPU-1a"]), ("GPU-0", ["GPU-0a"]), ("", []), ("-1", []), ("MIG-7", []),
     ("0,2", ["GPU-0a"]), ("0, 1", ["GPU-0a", "GPU-1a"])],
)  # fmt: skip
def test_gpus_that_the_process_is_given(visible, names):
    assert sorted(Nvml(Library(5, 6, None), visible).joules()) == names


def test_gpus_count_from_when_a_framework_is_imported(tmp_path, clock):
    library, measured = Library(2_000_000, 10**18), Energy(str(tmp_path / "nowhere"))
    measured.count_gpus(library)
    library.used = [2_012_345, 10**18 + 1000]
    assert measured.as_dict()["joules"] == {"GPU-0a": 12.345, "GPU-1a": 1.0}


@pytest.mark.parametrize("library", [Library(5, begins=9), SimpleNamespace()])
def test_a_library_that_does_not_begin_is_not_missed(tmp_path, library):
    measured = Energy(str(tmp_path / "nowhere"))
    measured.count_gpus(library)
    assert measured.as_dict() is None


def test_the_report_has_what_counts_and_helpers_do_not_count(powercap, tmp_path, monkeypatch):
    monkeypatch.setattr(energy, "POWERCAP", str(powercap))
    monkeypatch.setattr("atexit.register", lambda *arguments, **options: None)
    steps = SimpleNamespace(count=1, as_dict=dict, tell=None)
    reports = [Report(str(tmp_path / "applied.json"), {}), Report("", {})]
    for report in reports:
        report.watch(steps)
    (powercap / "intel-rapl:0" / "energy_uj").write_text("3001000")
    reports[0].framework("torch", "2.13", 1.0)  # no GPU here, and nothing is missed
    reports[0].write()
    found = json.loads((tmp_path / "applied.json").read_text())["energy"]
    assert found["joules"]["intel-rapl:0 package-0"] == 3.0
    assert sum(found["joules"].values()) == 3.0
    assert reports[1].as_dict(finished=True)["energy"] is None
