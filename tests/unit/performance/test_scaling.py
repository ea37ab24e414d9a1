"""The law of scaling is found where there is one, and the choice keeps to it and to the limits."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from modak_ansible.model.scaled import Scale, Shape
from modak_ansible.performance.scaling import Limits, Scaling, ScalingRun, choose, fit_scaling, seen_efficiency

fractions = st.floats(0, 1)
times = st.floats(0.01, 1e5)
counts = st.lists(st.integers(1, 4096), min_size=1, max_size=12)
limits = st.builds(
    Limits, nodes=st.integers(1, 40), cores=st.integers(1, 40), threads=st.integers(1, 4), shared=st.just(1)
)


def amdahl(fraction, alone, processes, communication=0.0, linear=False):
    share = processes - 1 if linear else math.log2(processes)
    return ScalingRun(processes, alone * (fraction + (1 - fraction) / processes) + communication * share)


def law(**changes):
    values = {"serial": 0.0, "parallel": 1.0, "communication": 0.0, "form": "log2"}
    return Scaling(**{**values, "measured": 1024, "is_known": True, "records": 3, "off": 0.0, **changes})


@given(fractions, times, st.lists(st.integers(1, 1024), min_size=2, max_size=8, unique=True))
def test_amdahls_law_is_found_again(fraction, alone, numbers):
    found = fit_scaling(amdahl(fraction, alone, number) for number in numbers)
    for number in numbers:
        assert found.seconds(number) == pytest.approx(amdahl(fraction, alone, number).seconds, rel=1e-4)
    assert found.off < 1e-4


@pytest.mark.parametrize("linear", [False, True])
def test_communication_is_found_again(linear):
    found = fit_scaling(amdahl(0.02, 100.0, each, 0.5, linear) for each in (1, 2, 4, 8, 16, 32))
    assert found.form == ("linear" if linear else "log2")
    assert found.communication == pytest.approx(0.5, rel=1e-6)
    assert found.serial == pytest.approx(0.02 * (found.serial + found.parallel), rel=1e-4)


def test_all_is_shared_out():
    found = fit_scaling(amdahl(0.0, 60.0, each) for each in (1, 2, 4))
    assert found.serial == pytest.approx(0.0, abs=1e-7)
    assert found.efficiency(8) == pytest.approx(1.0)
    assert choose(found, Scale(minimal_efficiency=0.99), Limits(nodes=2, cores=4)) == Shape(2, 4)


def test_nothing_is_shared_out():
    found = fit_scaling(amdahl(1.0, 60.0, each) for each in (1, 2, 4))
    assert found.parallel == pytest.approx(0.0, abs=1e-7)
    assert found.efficiency(4) == pytest.approx(0.25)
    assert choose(found, Scale(minimal_efficiency=0.5), Limits(nodes=8, cores=8)) == Shape(1, 1)
    assert choose(found, Scale(minimal_efficiency=0.0), Limits(nodes=8, cores=8)) == Shape(1, 1)


@pytest.mark.parametrize(
    "runs", [[ScalingRun(4, 10.0)], [ScalingRun(4, 10.0)] * 3, [ScalingRun(1, 10.0), ScalingRun(1, 11.0)]]
)
def test_one_number_of_processes_says_nothing_of_another(runs):
    found = fit_scaling(runs)
    assert not found.is_known
    assert found.seconds(runs[0].processes) == pytest.approx(10.0, rel=0.1)


@pytest.mark.parametrize(
    "runs",
    [
        [],
        [ScalingRun(0, 1.0)],
        [ScalingRun(1, 0.0)],
        [ScalingRun(1, -1.0)],
        [ScalingRun(1, math.nan)],
        [ScalingRun(2, math.inf)],
    ],
)
def test_what_is_no_run_is_refused(runs):
    with pytest.raises(ValueError, match="measured|not a run"):
        fit_scaling(runs)


@given(fractions, times, st.floats(0, 1), st.lists(st.floats(0.7, 1.4), min_size=7, max_size=7))
def test_noise_does_not_make_anything_negative(fraction, alone, communication, noise):
    numbers = [1, 1, 2, 2, 4, 8, 16]
    runs = [amdahl(fraction, alone, number, communication * alone) for number in numbers]
    found = fit_scaling(
        ScalingRun(run.processes, run.seconds * factor) for run, factor in zip(runs, noise, strict=True)
    )
    assert min(found.serial, found.parallel, found.communication) >= 0
    for each in (1, 2, 4, 8, 16):
        assert found.seconds(each) > 0
        assert 0 <= found.efficiency(each) <= 1 + 1e-9


@given(counts, st.lists(times, min_size=12, max_size=12))
def test_whatever_was_measured_makes_a_law(numbers, seconds):
    found = fit_scaling(map(ScalingRun, numbers, seconds))
    assert all(math.isfinite(value) for value in (found.serial, found.parallel, found.communication, found.off))
    assert found.seconds(max(numbers)) > 0


@given(fractions, st.floats(0, 0.1), st.floats(0, 1), limits, st.sampled_from(["log2", "linear"]))
def test_the_choice_is_efficient_within_the_limits_and_the_fastest(serial, communication, least, given_limits, form):
    found = law(serial=serial, parallel=1 - serial, communication=communication, form=form)
    shape = choose(found, Scale(minimal_efficiency=least), given_limits)
    assert 1 <= shape.nodes <= given_limits.nodes
    assert 1 <= shape.processes_per_node <= given_limits.processes_per_node
    assert shape.processes == 1 or found.efficiency(shape.processes) >= least - 1e-9
    full = given_limits.processes_per_node
    for nodes in range(1, given_limits.nodes + 1):
        for number in range(1, full + 1):
            count = nodes * number
            if nodes == math.ceil(count / full) and found.efficiency(count) >= least and count <= found.most:
                assert found.seconds(shape.processes) <= found.seconds(count) * (1 + 1e-6)


@given(
    fractions,
    st.floats(0, 0.01),
    st.floats(0, 1),
    st.builds(
        Limits, nodes=st.integers(1, 700), cores=st.integers(1, 64), threads=st.integers(1, 8), shared=st.integers(1, 2)
    ),
)
def test_no_node_is_taken_that_the_processes_do_not_need(serial, communication, least, given_limits):
    found = law(serial=serial, parallel=1 - serial, communication=communication)
    found = found._replace(measured=20_000)
    shape = choose(found, Scale(minimal_efficiency=least), given_limits)
    assert shape.nodes == math.ceil(shape.processes / given_limits.processes_per_node)


def test_nodes_are_filled():
    """10278 processes are efficient enough, and share out evenly over 571 nodes: 160 full ones have 10240."""
    found = seen_efficiency(2, 0.9999)
    found = found._replace(measured=10_000)
    least = found.efficiency(10_278)
    assert choose(found, Scale(minimal_efficiency=least), Limits(nodes=2000, cores=64)) == (160, 64)


@given(fractions, st.floats(0, 0.1), limits, st.floats(0, 1), st.floats(0, 1))
def test_asking_for_more_efficiency_never_takes_more_processes(serial, communication, given_limits, one, other):
    found = law(serial=serial, parallel=1 - serial, communication=communication)
    strict, loose = (
        choose(found, Scale(minimal_efficiency=least), given_limits).processes
        for least in (max(one, other), min(one, other))
    )
    assert strict <= loose


def test_nothing_is_chosen_far_beyond_what_was_measured():
    found = fit_scaling([ScalingRun(1, 10.0), ScalingRun(2, 5.0)])
    assert choose(found, Scale(minimal_efficiency=0.5), Limits(nodes=100, cores=64)).processes == 4


@given(st.integers(2, 4096), st.floats(0.001, 1))
def test_one_efficiency_that_was_seen_is_kept(processes, efficiency):
    assume(efficiency >= 1 / processes)
    assert seen_efficiency(processes, efficiency).efficiency(processes) == pytest.approx(efficiency)


def test_ends_of_an_efficiency_that_was_seen():
    assert seen_efficiency(8, 1.0).serial == 0.0
    assert seen_efficiency(8, 1 / 8).serial == pytest.approx(1.0)
    assert seen_efficiency(8, 0.01).serial == 1.0
    assert not seen_efficiency(1, 1.0).is_known
    for processes, efficiency in ((8, 0.0), (8, 1.1), (0, 0.5), (8, math.nan)):
        with pytest.raises(ValueError, match="cannot have been seen"):
            seen_efficiency(processes, efficiency)


def test_threads_take_cores_and_shared_cores_give_them():
    assert Limits(nodes=1, cores=8, threads=4).processes_per_node == 2
    assert Limits(nodes=1, cores=2, threads=4).processes_per_node == 1
    assert Limits(nodes=1, cores=4, shared=2).processes_per_node == 8
