"""Which records say how a program scales."""

from __future__ import annotations

from synthetic_records import measured, record, training

from modak_ansible.model.application import Application, HpcApplication
from modak_ansible.model.target import Target
from modak_ansible.performance.scaling import ScalingRun
from modak_ansible.performance.series import RUN, runs_for, series
from modak_ansible.planning.service import request_of
from modak_ansible.reading.blueprint.reader import Inputs


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
    assert {ScalingRun(*run) for run in found.runs} == {ScalingRun(1, 0.01), ScalingRun(2, 0.005)}


def solver(size, processes, seconds):
    told = {"program": Application(name="solver", script="", framework="", words=("-s", size)).program} if size else {}
    return measured("openmpi-mpi4py", RUN, "s", [seconds], processes=processes, threads=1, **told).model_copy(
        update={"workload": "solver"}
    )


def test_each_problem_of_a_program_has_a_law_of_its_own(blueprint):
    known = series([solver("30", 1, 10.0), solver("30", 2, 6.0), solver("60", 1, 80.0), solver("60", 2, 41.0)])
    assert [each.runs for each in known] in ([((1, 10.0), (2, 6.0)), ((1, 80.0), (2, 41.0))],
                                             [((1, 80.0), (2, 41.0)), ((1, 10.0), (2, 6.0))])  # fmt: skip
    asked = request_of(blueprint.service, Inputs())
    place = Target(name="here", scheduler=asked.target.scheduler)

    def runs(size, known):
        hpc = HpcApplication(parallelisation="mpi")
        program = Application(name="solver", script="", framework="", words=("-s", size), hpc=hpc)
        return runs_for(asked.model_copy(update={"application": program, "target": place}), known)

    assert runs("60", known) == (ScalingRun(1, 80.0), ScalingRun(2, 41.0))
    assert runs("90", known) == ()
    before = series([solver("", 1, 12.0), solver("", 2, 7.0)])  # earlier versions did not say what they told it
    assert runs("90", before) == (ScalingRun(1, 12.0), ScalingRun(2, 7.0))
    assert runs("60", (*before, *known)) == (ScalingRun(1, 80.0), ScalingRun(2, 41.0))
