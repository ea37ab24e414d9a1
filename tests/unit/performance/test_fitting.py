"""The fit finds the truth of invented machines, within its own intervals, and the same truth every time."""

from __future__ import annotations

import math
import subprocess
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from invented_machine import ENTRY, PLACE, SWITCHES, WORKS, Truth
from synthetic_records import measured, record, training

from modak_ansible.errors import ModakError
from modak_ansible.model.measured.prediction import Question
from modak_ansible.model.measured.record import Allocation, Steps
from modak_ansible.model.measured.work import Rates, Work
from modak_ansible.performance.explaining import switch_effects
from modak_ansible.performance.features import Facts, configuration_words, unmeasured
from modak_ansible.performance.fit.calibration import _quantile, left_out_once
from modak_ansible.performance.fit.cases import Case, cases, work_of
from modak_ansible.performance.fit.fitting import digest, fit, fit_cases
from modak_ansible.performance.fit.machines import machines
from modak_ansible.performance.model import PerformanceModel
from modak_ansible.performance.stored import UNIT, Part, Stored, read_stored, stored_text, write_stored


def step_model(records, **options):
    known = machines(records)
    return PerformanceModel(fit_cases(cases(records, WORKS, known), known, WORKS, names=("step",), **options))


def question(workload, **changes):
    return Question(**{"work": WORKS[workload].model_copy(update={"batch_size": 128}), **PLACE, **changes})


def with_input(values):
    return {"input": "memory", **values}  # as the scripts of benchmarks/ have it


def gain_of(model, workload, name):
    stock = question(workload, settings=with_input({}))
    return model.gain(stock, question(workload, settings=with_input({name: SWITCHES[name]})))


def test_intervals_hold_the_truth_as_often_as_they_say():
    inside, all_of_them = 0, 0
    for seed in range(10):
        truth = Truth(seed)
        model = step_model(truth.records())
        for workload in WORKS:
            for name in SWITCHES:
                ratio = gain_of(model, workload, name).ratio
                inside += ratio.low <= math.exp(-truth.effect(workload, {name})) <= ratio.high
                all_of_them += 1
    assert 0.8 <= inside / all_of_them <= 0.99


def test_every_group_that_was_left_out_counts_as_much():
    """Two fifths of the configurations are of one machine, and its luck is not that of the next one."""
    one, others = [0.1] * 90, [[3.0] * 2 for _ in range(4)]
    assert _quantile([one, *others]) == 3.0
    assert _quantile([[float(number)] for number in range(1, 20)]) == 18.0
    assert _quantile([[1.0]]) == 1.0


def test_more_rounds_narrow_the_interval():
    few, many = (step_model(Truth(1).records(count)) for count in (2, 8))
    narrow, wide = (gain_of(model, "middle", "precision").ratio for model in (many, few))
    assert narrow.high / narrow.low < wide.high / wide.low


def test_runs_of_several_processes_are_no_runs_of_one():
    records = Truth(1).records(2)
    together = [
        each.model_copy(update={"allocation": each.allocation.model_copy(update={"nodes": 2})}) for each in records
    ]
    known = machines(records)
    assert cases(records, WORKS, known)
    assert cases(together, WORKS, known) == []


def test_slow_hours_of_the_machine_cancel(monkeypatch):
    truth = Truth(2, rounds=0.6)
    records = truth.records(3)
    with_rounds = gain_of(step_model(records), "middle", "allocator").ratio
    monkeypatch.setattr(Case, "passing", {})
    without = gain_of(step_model(records), "middle", "allocator").ratio
    assert with_rounds.high / with_rounds.low < 0.8 * without.high / without.low
    assert with_rounds.low <= math.exp(-truth.effect("middle", ["allocator"])) <= with_rounds.high


def test_a_workload_that_was_left_out_is_less_sure():
    truth = Truth(3)
    model = step_model(truth.records(3, works=("small", "large")))
    here, there = (gain_of(model, workload, "precision") for workload in ("small", "middle"))
    assert there.ratio.high / there.ratio.low > here.ratio.high / here.ratio.low
    assert "no record of middle" in there.why


def test_too_few_runs_tell_nothing_of_switches():
    shown = PerformanceModel(fit(Truth(1).records(1)[:4], WORKS))  # two peaks and two trainings
    assert "step" not in shown.regressions
    assert switch_effects(shown) == []


def test_the_order_of_records_does_not_matter():
    records = Truth(4).records()
    assert fit(records, WORKS) == fit(records, WORKS)
    turned = fit(records[::-1], WORKS)
    assert digest(records) == digest(records[::-1])
    again = fit(records, WORKS)
    assert turned.parts["step"].mean == pytest.approx(again.parts["step"].mean, abs=1e-3)


def test_only_runs_that_were_measured_count():
    truth = Truth(5)
    records = truth.records()
    wild = truth.run("small", {}, 1, 5.0).model_copy(update={"outcome": "disturbed", "reason": "busy"})
    assert fit([*records, wild], WORKS) == fit(records, WORKS)


def test_jobs_of_users_count_too():
    truth = Truth(8)
    steps = Steps(count=50, median_seconds=0.5, first_seconds=3.0, to_first_step_seconds=9.0, batch_size=128)
    work = WORKS["middle"].model_copy(update={"workload": "", "gflop_per_sample": 0.2})
    job = record(
        "pytorch-2.13-cpu", suite="jobs", workload="", steps=steps, work=work, settings={"allocator": "tcmalloc"}
    )
    records = truth.records()
    known = machines([*records, job])
    found = cases([*records, job], WORKS, known)
    last = found[-1]
    assert (last.step_seconds, last.facts.switches) == (0.5, {"allocator": "tcmalloc"})  # the script's own input
    assert math.exp(last.answers["step"]) == pytest.approx(0.5 * 100.0 / (0.2 * 128))
    assert (math.exp(last.answers["first_step"]), math.exp(last.answers["start"])) == pytest.approx((2.5, 6.0))
    other = job.model_copy(update={"date": "2026-11-29T10:00:00Z"})
    assert len({case.block for case in cases([job, other], WORKS, known)}) == 2
    assert fit([*records, job], WORKS).records == len(found)


@pytest.mark.parametrize(
    "records",
    [
        [],
        [record("pytorch-2.13-cpu", outcome="failed", reason="no")],
        [measured("pytorch-2.13-cpu", "sgemm", "GFLOP/s", [100.0], threads=2)],
        Truth(6).records()[2:],  # nobody measured the peak
    ],
)
def test_without_anything_to_fit_it_says_so(records):
    with pytest.raises(ModakError, match="there is nothing to fit"):
        fit(records, WORKS)


def test_a_model_is_written_whole_or_not_at_all(tmp_path):
    stored = fit(Truth(7).records(), WORKS)
    path = tmp_path / "deep" / "model.json"
    write_stored(stored, path)
    assert read_stored(path) == stored
    assert [each.name for each in path.parent.iterdir()] == ["model.json"]
    (tmp_path / "file").touch()
    with pytest.raises(ModakError, match="cannot be written"):
        write_stored(stored, tmp_path / "file" / "model.json")


numbers = st.floats(-1e6, 1e6, allow_nan=False)
names = st.lists(st.text(max_size=12), max_size=5, unique=True)


@st.composite
def parts(draw):
    known = draw(names)
    each = {"min_size": len(known), "max_size": len(known)}
    return Part(
        names=tuple(known),
        groups=tuple(draw(st.lists(st.text(max_size=8), **each))),
        mean=tuple(draw(st.lists(numbers, **each))),
        deviations=tuple(draw(st.lists(numbers, **each))),
        correlations=tuple(
            " ".join(map(str, draw(st.lists(st.integers(-UNIT, UNIT), min_size=row, max_size=row))))
            for row in range(len(known))
        ),
        counts=tuple(draw(st.lists(st.integers(0, 10**9), **each))),
        spread=draw(st.dictionaries(st.text(max_size=8), numbers, max_size=3)),
        noise=draw(st.dictionaries(st.text(max_size=8), numbers, max_size=3)),
        passing=draw(st.dictionaries(st.text(max_size=8), numbers, max_size=3)),
        runs=draw(st.integers(0, 10**9)),
    )


@given(st.dictionaries(st.sampled_from(["step", "start"]), parts(), min_size=1))
def test_the_file_of_any_model_reads_as_it_was(found):
    stored = Stored(records=1, records_digest="0", workloads={}, machines=(), parts=found)
    assert Stored.model_validate_json(stored_text(stored)) == stored


_THREADS = """
import sys
from types import SimpleNamespace
from threadpoolctl import threadpool_info
from modak_ansible.performance.fit import fitting

def told(*_, **__):
    import scipy.linalg, sklearn.linear_model
    sys.exit(str({each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}))

fitting.fit_part = told
fitting.fit_cases([SimpleNamespace(answers={"step": 1.0})] * 100, (), {}, names=("step",))
"""


@pytest.mark.component
def test_it_sums_in_one_thread_though_nothing_was_imported_before():
    done = subprocess.run([sys.executable, "-c", _THREADS], stderr=subprocess.PIPE, text=True, check=False)
    assert done.stderr.strip() == "{1}"


def test_scripts_without_a_workload_are_told_apart_by_what_a_sample_takes():
    def job(gflop, parameters):
        steps = Steps(count=50, median_seconds=0.5, batch_size=128, parameters=parameters)
        return record(ENTRY, suite="jobs", workload="", steps=steps, work=Work(gflop_per_sample=gflop))

    stored = fit([*Truth(1).records(), job(0.2, 1000), job(0.3, 2000)], WORKS)
    assert "" not in stored.workloads
    runs = PerformanceModel(stored).runs
    works = [runs.of(question("middle", work=Work(gflop_per_sample=gflop))) for gflop in (0.2, 0.3, 0.4, None)]
    assert [run.work.parameters for run in works] == [1000, 2000, None, None]
    assert len({run.facts.workload for run in works}) == 4
    assert works[-1].work == Work()


def test_a_recorded_network_has_what_its_trace_told():
    """Records say nothing of calls: those from before nobody counted them count as others."""
    traced = Work(operators=((0.1, 0.01),), calls=233, kernel_seconds=1e-6)
    network = {"name": "rows", "gflop_per_image": 0.2, "layers": 7}
    works = {"w": Work(workload="w"), "w/rows": traced}
    found = [
        work_of(record(ENTRY, workload="w", training=training(100.0, network={**network, "name": name})), works)
        for name in ("rows", "others")
    ]
    assert [(each.workload, each.gflop_per_sample, each.layers) for each in found] == [
        ("w/rows", 0.2, 7),
        ("w/others", 0.2, 7),
    ]
    assert [(each.operators, each.calls, each.kernel_seconds) for each in found] == [
        (traced.operators, 233, 1e-6),
        ((), None, 0.0),
    ]


def test_only_pytorchs_steps_have_the_kernels_that_are_slow_in_bf16():
    work = Work(operators=((0.1, 0.01),), gflop_per_sample=0.1, bf16_seconds=1e-3)
    facts = Facts(
        framework="pytorch", entry="e", workload="w", switches={"precision": "bf16"}, machine="m", balance=5.0
    )
    slow, other = (
        each.of_work(work, 8, Rates.usual(2.0), 100.0) for each in (facts, facts._replace(framework="tensorflow"))
    )
    assert slow.over_ideal == pytest.approx(other.over_ideal + 1.0)  # a millisecond at 100 GFLOP/s


@pytest.mark.parametrize(
    "changes",
    [
        {"batch_size": 0}, {"batch_size": -1}, {"training_images": 0}, {"parameters": -1},
        {"network": {"name": "n", "gflop_per_image": 1e308}}, {"network": {"name": "n", "gflop_per_image": math.inf}},
    ],
)  # fmt: skip
def test_numbers_that_none_can_be_end_no_fit(changes):
    """A script writes its own metrics.json, and what stands there is recorded."""
    known = Truth(1).records(1)
    odd = record(ENTRY, training={**training(100.0), **changes}, workload="middle")
    every = [*known, odd, odd.model_copy(update={"round": 2, "allocation": Allocation(nodes=2)})]
    assert fit(every, WORKS).records


def test_a_run_may_be_new_in_two_ways():
    facts = Facts(framework="pytorch", entry="e", workload="w", switches={}, machine="m")
    known = {"machine m": 1, "workload w": 1}
    assert unmeasured(facts, {}) == ["machines", "workloads"]
    assert unmeasured(facts, {"machine m": 1}) == ["workloads"]
    assert unmeasured(facts, known) == ["configurations"]
    assert unmeasured(facts, known | {configuration_words(facts): 1}) == []


def test_a_work_that_ran_on_one_machine_alone_says_nothing_of_machines():
    def case(workload, framework="pytorch"):
        return SimpleNamespace(facts=SimpleNamespace(workload=workload, framework=framework))

    facts = case("a").facts
    assert left_out_once("machines", facts, [case("b"), case("a")])
    assert not left_out_once("machines", facts, [case("b")])
    assert not left_out_once("machines", facts, [case("a", "tensorflow")])
    assert left_out_once("workloads", facts, [case("b")])
