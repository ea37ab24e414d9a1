"""What was measured on a machine counts there: each machine has effects of its own, and so has what ran on it."""

from __future__ import annotations

import math
from statistics import fmean

from invented_machine import ENTRY, PEAK, PLACE, SWITCHES, WORKS, Truth
from synthetic_records import PROCESSOR, measured

from modak_ansible.model.measured.prediction import Question
from modak_ansible.model.measured.work import Rates
from modak_ansible.performance.fit.cases import cases
from modak_ansible.performance.fit.fitting import fit_cases
from modak_ansible.performance.fit.machines import machines, rates_of
from modak_ansible.performance.model import PerformanceModel

FOREIGN = "zen3"  # and called by the same name: virtual machines are


def there(record):
    target = record.target.model_copy(update={"architecture": FOREIGN})
    return record.model_copy(update={"target": target, "suite_digest": "4" * 64})


def peak():
    return there(measured(ENTRY, "sgemm", "GFLOP/s", [PEAK], precision="fp32", threads=2))


def logarithm(records, workload, settings):
    """What the model says of a steady step on the foreign machine."""
    known = machines(records)
    model = PerformanceModel(fit_cases(cases(records, WORKS, known), known, WORKS, names=("step",)))
    place = {**PLACE, "architecture": FOREIGN}
    work = WORKS[workload].model_copy(update={"batch_size": 128})
    run = model.runs.of(Question(work=work, settings={"input": "memory", **settings}, **place))
    return math.log(model.step_seconds(run))


def test_a_machine_of_the_same_name_is_another_one():
    """A zen3 with 15:17 promised and 19:30 measured, after runs of that very configuration, was called AMD EPYC, too."""
    here, foreign = Truth(21), Truth(21)
    foreign.base = here.base + 0.3
    elsewhere = [there(run) for run in foreign.records(3, works=("small", "large"))]
    own = [there(foreign.run("middle", {}, number, foreign.random.gauss(0, 0.04))) for number in (1, 2, 3)]
    records = [*here.records(5), *elsewhere, *own]
    known = {machine.name: machine.peaks for machine in machines(records)}
    assert known == {f"{PROCESSOR} (zen5)": {2: PEAK}, f"{PROCESSOR} ({FOREIGN})": {2: PEAK}}
    truth = math.log(WORKS["middle"].gflop_per_sample * 128 / PEAK) + foreign.base + foreign.workload["middle"]
    assert abs(logarithm(records, "middle", {}) - truth) < 0.07  # three runs of a noise of 4 %, on a day of 5 %


def test_three_runs_of_a_configuration_say_what_it_takes_there():
    """Its own effect is no other's: what everything else says of it is 0.25 off."""
    for seed in range(4):
        here, foreign = Truth(seed), Truth(seed)
        records = [*here.records(3), peak()]
        odd = {"memory_format": SWITCHES["memory_format"]}
        own = [foreign.random.gauss(0, 0.03) + 0.25 for _ in range(3)]
        records += [there(foreign.run("middle", odd, number, each)) for number, each in enumerate(own, 1)]
        records += [there(foreign.run(work, {}, number, 0.0)) for work in WORKS for number in (1, 2, 3)]
        truth = math.log(WORKS["middle"].gflop_per_sample * 128 / PEAK) + foreign.base + foreign.workload["middle"]
        truth += foreign.effect("middle", odd)
        assert abs(logarithm(records, "middle", odd) - truth - fmean(own)) < 0.09


def test_one_run_of_anything_halves_the_error_of_everything_else():
    before, after = [], []
    for seed in range(6):
        here, foreign = Truth(seed, noise=0.02), Truth(seed, noise=0.02)
        foreign.base += 0.35 if seed % 2 else -0.35
        truth = {
            (work, name): math.log(WORKS[work].gflop_per_sample * 128 / PEAK)
            + foreign.base
            + foreign.workload[work]
            + foreign.effect(work, [name])
            for work in WORKS
            for name in SWITCHES
        }
        records = [*here.records(3), peak()]
        given = there(foreign.run("small", {}, 1, foreign.random.gauss(0, 0.05)))
        for found, known in ((before, records), (after, [*records, given])):
            asked = [(work, name) for work, name in truth if work != "small"]
            off = [abs(logarithm(known, work, {name: SWITCHES[name]}) - truth[work, name]) for work, name in asked]
            found.append(fmean(off))
    assert fmean(after) < fmean(before) / 2


def on(record, day):
    return record.model_copy(update={"date": f"{day}T10:00:00Z", "suite_digest": "5" * 64})


def test_a_slow_day_says_nothing_of_what_ran_on_that_day_alone():
    """A demo on a host that is 18 % slower than that of the records, where one of two switches seemed to cost as much."""
    names = ("allocator", "memory_format")
    each_alone = [{name: SWITCHES[name]} for name in names]
    both = {name: SWITCHES[name] for name in names}
    for seed in range(4):
        truth = Truth(seed, noise=0.01, rounds=0.01, of_workload=0.0)
        truth.switch.update(dict.fromkeys(names, -0.1))
        records = [on(each, "2026-11-24") for each in truth.records(3, sets=[{}, *each_alone])]
        slow = [truth.run("middle", each, number, 0.18) for each in ({}, both) for number in (1, 2, 3)]
        records += [on(each, "2026-11-26") for each in slow]
        known = machines(records)
        model = PerformanceModel(fit_cases(cases(records, WORKS, known), known, WORKS, names=("step",)))
        work = WORKS["middle"].model_copy(update={"batch_size": 128})
        two, one = (
            Question(work=work, settings={"input": "memory", **each}, **PLACE) for each in (both, each_alone[0])
        )
        assert model.gain(two, one).ratio.middle < 1


def test_a_plan_is_for_another_day_than_those_on_record():
    """Its interval holds that day's luck, too, however often the very configuration ran on one."""
    truth = Truth(3, noise=0.01, rounds=0.01)
    records = [on(each, "2026-11-24") for each in truth.records(8)]
    known = machines(records)
    model = PerformanceModel(fit_cases(cases(records, WORKS, known), known, WORKS))
    assert [machine.day for machine in model.stored.machines] == ["2026-11-24"]
    work = WORKS["middle"].model_copy(update={"batch_size": 128, "samples": 60_000, "epochs": 12})
    seconds = model.predict(Question(work=work, settings={"input": "memory"}, **PLACE)).seconds
    assert math.log(seconds.high / seconds.low) / 2 > 1.645 * model.stored.parts["step"].spread["day"] > 0.1


def test_rates_are_those_of_convolutions_and_of_the_number_format():
    """Of convolutions the middle of all that were measured, of products the fastest."""
    measures = [("bf16", "sgemm", PEAK / 5), ("bf16", "sgemm", PEAK / 20), ("tf32", "sgemm", PEAK * 2)]
    measures += [("fp32", "sgemm", PEAK), *(("fp32", "convolution", PEAK / each) for each in (2, 4, 8))]
    measures += [("bf16", "convolution", PEAK / 10)]
    (machine,) = machines(
        measured(ENTRY, name, "GFLOP/s", [speed], precision=precision, threads=2, shape=str(number))
        for number, (precision, name, speed) in enumerate(measures)
    )
    assert rates_of(machine, 2, "fp32") == Rates(1.0, 1 / 4)
    assert rates_of(machine, 1, "bf16") == Rates(1 / 5, 1 / 10)
    assert rates_of(machine, 2, "tf32") == Rates.usual(2.0)
    assert rates_of(machine, 2, "fp16") is None
