"""What modak discover --measure takes from its records."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic_records import measured

from modak_ansible.commands.admin.measure import _peaks, _storage
from modak_ansible.errors import ModakError

PATH = Path("peaks-cluster.jsonl")
PEAK = measured("pytorch-2.13-cpu", "sgemm", "GFLOP/s", [90.0, 100.0], threads=1, precision="fp32")


def gloo(name, unit, samples, machines=2):
    return measured("pytorch-2.13-cpu", name, unit, samples, backend="gloo", processes=2, machines=machines)


def test_the_network_of_trainings_is_taken_in_the_units_of_targets():
    records = [PEAK, gloo("latency", "s", [2.6e-4, 2.71e-4, 9e-4]), gloo("bandwidth", "GB/s", [0.117, 0.1183, 0.119])]
    found = _peaks(records, PATH)
    assert (found["network_latency"].value, found["network_bandwidth"].value) == (271.0, 0.118)
    assert "through gloo, peaks-cluster.jsonl" in found["network_latency"].source


@pytest.mark.parametrize(
    "records",
    [
        [gloo("latency", "s", [2.6e-4])],  # half of it tells nothing
        [gloo("latency", "s", [2.6e-4], machines=1), gloo("bandwidth", "GB/s", [2.0], machines=1)],  # a loopback
        [measured("openmpi-mpi4py", "latency", "s", [1e-6]), measured("openmpi-mpi4py", "bandwidth", "GB/s", [9.0])],
    ],
)
def test_what_is_no_network_of_trainings_is_left_out(records):
    assert "network_latency" not in _peaks([PEAK, *records], PATH)


def test_without_any_peak_nothing_was_measured():
    with pytest.raises(ModakError, match="nothing could be measured"):
        _peaks([], PATH)


def stored(name, samples, place="home", **about):
    return measured("measuring-tools", name, "files/s", samples, storage=place, file_system="lustre", **about)


@pytest.mark.parametrize(
    ("scratch", "has_scratch"), [("$TMPDIR", True), ("/tmp/", True), ("/scratch", False), ("", False)]
)
def test_what_files_cost_goes_into_the_target(scratch, has_scratch):
    records = [
        stored("read", [790.0, 800.0, 900.0]), stored("write", [500.0]),
        stored("small_files_read", [240.0, 250.4, 900.0], cache="posix_fadvise"),
        stored("small_files_read", [410.0], cache="warm"), stored("small_files_write", [99.0]),
        stored("small_files_read", [8800.0], place="scratch", cache="posix_fadvise"),
    ]  # fmt: skip
    found = _storage(records, scratch, PATH)
    values = {name: each.value for name, each in found.items() if name.startswith("home")}
    assert values == {
        "home": "~", "home_read_bandwidth": 800.0, "home_write_bandwidth": 500.0, "home_file_rate": 250.0,
        "home_warm_file_rate": 410.0,
    }  # fmt: skip
    assert found["home_file_rate"].source == "measured on lustre, peaks-cluster.jsonl"
    # the workload looks at $TMPDIR or /tmp: no number of those is another folder's
    assert ("scratch_file_rate" in found) is has_scratch
    assert _storage([PEAK], scratch, PATH) == {}
