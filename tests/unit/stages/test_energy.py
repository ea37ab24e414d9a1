"""The energy of a job: of what its processes counted each counter once, else what its scheduler's accounting says."""

from __future__ import annotations

import json

import pytest

from modak_ansible.stages.jobs.energy import energy_of

ALONE = {"job": {"scheduler": "slurm", "exclusive": True, "nodes": 2}}
SHARED = {"job": {"scheduler": "slurm", "exclusive": False, "nodes": 1}}
HERE = {"job": {"scheduler": "none", "exclusive": True, "nodes": 1}}
JOB = {"job_id": "7", "started": 100.0, "ended": 160.0}
PACKAGE, MEMORY = "intel-rapl:0 package-0", "intel-rapl:0:1 dram"
OTHERS = "; others may have used these nodes, too, and their energy would be included"


@pytest.fixture
def results(tmp_path):
    def written(*reports):
        for rank, (node, seconds, joules) in enumerate(reports):
            folder = tmp_path / "ranks" / str(rank) if rank else tmp_path
            folder.mkdir(parents=True, exist_ok=True)
            energy = {"joules": joules, "seconds": seconds} if joules else None
            report = {"schema": "modak.applied/1", "hostname": node, "energy": energy}
            (folder / "applied.json").write_text(json.dumps(report))
        return tmp_path

    return written


def test_the_counters_of_a_node_count_once_and_those_of_nodes_together(results):
    folder = results(
        ("n1", 60.0, {PACKAGE: 100.0, MEMORY: 10.0, "GPU-a": 5.0}),
        ("n1", 58.0, {PACKAGE: 98.0, MEMORY: 9.0, "GPU-b": 7.0}),
        ("n2", 59.0, {PACKAGE: 200.0, MEMORY: 20.0}),
    )
    found = energy_of(folder, ALONE, JOB, 999.0)
    assert (found["joules"], found["seconds"]) == (342.0, 60.0)
    assert found["source"] == "RAPL (package, dram) and NVML of 2 GPUs while its processes ran, on 2 nodes"


@pytest.mark.parametrize(
    ("plan", "job", "counters", "end"),
    [(SHARED, JOB, {PACKAGE: 1.0}, "on 1 node" + OTHERS), (HERE, JOB, {PACKAGE: 1.0}, "on 1 node" + OTHERS),
     (ALONE, JOB, {PACKAGE: 1.0}, "on 1 of its 2 nodes"), (SHARED, JOB, {"GPU-a": 1.0}, "NVML of 1 GPU while its processes ran, on 1 node"),
     (ALONE, {**JOB, "run": 3}, {PACKAGE: 1.0}, ", of its run 3 alone")],
)  # fmt: skip
def test_what_is_in_the_number_is_said(results, plan, job, counters, end):
    assert energy_of(results(("n1", 1.0, counters)), plan, job, None)["source"].endswith(end)


def test_without_counters_the_accounting_counts(results):
    folder = results(("n1", 1.0, None), ("n2", 1.0, {PACKAGE: 0.0}))
    found = energy_of(folder, ALONE, JOB, 5000.0)
    assert found == {
        "joules": 5000.0, "seconds": 60.0, "source": "Slurm's accounting of whole nodes while the job ran",
    }  # fmt: skip
    assert energy_of(folder, SHARED, {"job_id": "7"}, 5000.0)["source"].endswith(OTHERS)
    assert energy_of(folder, ALONE, JOB, None) is None


@pytest.mark.parametrize("energy", [5, [], {"joules": 7}, {"joules": {"a": "x"}, "seconds": "y"}, {"seconds": 1}])
def test_a_damaged_report_has_none(tmp_path, energy):
    report = {"schema": "modak.applied/1", "hostname": ["x"], "energy": energy}
    (tmp_path / "applied.json").write_text(json.dumps(report))
    assert energy_of(tmp_path, ALONE, JOB, None) is None
