"""What modak discover --measure takes from its records."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic_records import measured

from modak_ansible.commands.admin.measure import _peaks
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
