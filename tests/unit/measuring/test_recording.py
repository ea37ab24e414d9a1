"""Records say what identifies their run, and nothing that nobody knows."""

from __future__ import annotations

import pytest

from modak_ansible.measuring.executor import RunOutcome
from modak_ansible.measuring.recording import Turn, record_of

FACTS = {"processor": "A processor", "architecture": "zen2", "cores": 2, "memory": 2**34, "hostname": "frontend"}
JOB = {"job_id": "7", "started": 1_700_000_000.5}
MEASURES = {
    "schema": "modak.measures/1", "workload": "memory_bandwidth", "finished": True, "hostname": "node01", "threads": 1,
    "processor": {"model": "A processor", "architecture": "x86_64"}, "versions": {"python": "3.13.0"},
    "measures": [{"name": "triad", "unit": "GB/s", "samples": [9.0, 10.0], "about": {"megabytes": 256}}],
    "load_average": 0.2, "foreign_cores": 0.1,
}  # fmt: skip


@pytest.fixture
def made(example, planned):
    suite, blocks = example

    def make(metrics, facts=FACTS, job=JOB, problem="", energy=None):
        outcome = RunOutcome(metrics, job, problem, energy)
        return record_of(suite, blocks[0].variants[0], Turn(2, 1, 3), "2026-11-21", planned.plan, facts, outcome)

    return make


def test_a_training_is_recorded_with_what_identifies_it(made, metrics, planned):
    record = made(metrics())
    assert (record.round, record.position, record.attempt, record.outcome) == (2, 1, 3, "measured")
    assert record.date == "2023-11-14T22:13:20+00:00"
    assert record.plan == planned.plan.digest
    assert (record.image.digest, record.image.base) == (planned.plan.image.digest, "debian-bookworm")
    assert record.image.definition_digest != record.image.digest
    assert (record.allocation.job_id, record.allocation.partition, record.allocation.threads) == ("7", "debug", 1)
    assert (record.training.dataset, record.training.seconds.imports) == ("MNIST", 1.0)
    assert (record.target.cores, record.target.memory) == (2, 2**34)


def test_a_node_that_is_not_like_the_front_end_speaks_for_itself(made, metrics):
    other = metrics() | {"processor": {"model": "Another", "architecture": "x86_64"}}
    target = made(other).target
    assert (target.processor, target.architecture, target.cores, target.memory) == ("Another", "x86_64", None, None)


def test_quantities_of_the_infrastructure_are_recorded(made):
    record = made(MEASURES)
    assert record.training is None
    assert (record.measures[0].name, record.measures[0].samples) == ("triad", (9.0, 10.0))
    assert (record.load.foreign_cores, record.load.load_average) == (0.1, 0.2)


def test_the_load_is_the_mean_over_the_time_of_the_steady_epochs(made, metrics):
    left = metrics()
    for epoch, (seconds, cores) in zip(left["epochs"], [(9.0, 2.0), (1.0, 0.4), (3.0, 0.0)], strict=True):
        epoch.update(seconds=seconds, foreign_cores=cores)
    assert made(left).load.foreign_cores == pytest.approx(0.1)
    assert made(metrics(foreign=None)).load.foreign_cores is None


def test_a_failed_run_keeps_its_reason_and_no_numbers(made, metrics):
    record = made(metrics(), problem="job 7 ended as TIMEOUT: it reached its wall time")
    assert (record.outcome, record.training) == ("failed", None)
    assert record.reason.endswith("wall time")
    assert made(None, facts={}, job={}, problem="no").date == "2026-11-21"


def test_the_energy_of_a_run_is_recorded_with_what_counted_it(made, metrics):
    record = made(metrics(), energy={"joules": 500.0, "seconds": 20.0, "source": "RAPL (package)"})
    assert (record.joules, record.energy_seconds, record.energy_source) == (500.0, 20.0, "RAPL (package)")
    nobody = made(metrics())
    assert (nobody.joules, nobody.energy_seconds, nobody.energy_source) == (None, None, "")
