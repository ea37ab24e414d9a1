"""Which records say how a program scales."""

from __future__ import annotations

from synthetic_records import measured, record, training

from modak_ansible.performance.scaling import Run
from modak_ansible.performance.series import RUN, series


def ran(processes, seconds, **changes):
    return measured("openmpi-mpi4py", RUN, "s", [seconds], processes=processes, threads=1).model_copy(
        update={"workload": "solver", **changes}
    )


def test_runs_of_one_program_make_a_series():
    found = series([ran(1, 10.0), ran(4, 3.0), ran(4, 3.1)])
    assert [(series.name, series.runs) for series in found] == [("solver", ((1, 10.0), (4, 3.0), (4, 3.1)))]


def test_one_number_of_processes_is_no_series():
    assert series([ran(4, 10.0), ran(4, 11.0)]) == ()


def test_what_failed_or_was_disturbed_does_not_count():
    assert series([ran(1, 10.0), ran(2, 5.0, outcome="disturbed")]) == ()


def test_other_switches_are_another_series():
    assert series([ran(1, 10.0), ran(2, 5.0, settings={"allocator": "tcmalloc"})]) == ()


def test_trainings_count_by_the_time_of_a_sample():
    runs = [
        record("pytorch-2.13-cpu", training=training(100.0 * nodes), allocation={"nodes": nodes}) for nodes in (1, 2)
    ]
    (found,) = series(runs)
    assert {Run(*run) for run in found.runs} == {Run(1, 0.01), Run(2, 0.005)}
