"""What steps that were timed on the target say of a training: all but what differs from them."""

from __future__ import annotations

from math import log

import pytest

from modak_ansible.model.measured.prediction import Question, Split
from modak_ansible.model.measured.timed_steps import TimedSteps
from modak_ansible.model.measured.work import Work
from modak_ansible.performance import load_model

PLACE = {"processor": "AMD EPYC", "architecture": "x86_64_v4", "threads": 1, "cores": 1, "node_cores": 2}
PYTORCH = {"framework": "pytorch", "version": "2.13.0", "entry": "pytorch-2.13-cpu", **PLACE}
ELSEWHERE = {"processor": "Made Of Straw", "architecture": "power9le", "peak_gflops": None}


def timed(**changes):
    found = {
        "key": "k", "target": "cluster", "address": "login.example", "training": "train",
        "date": "2026-11-27T10:22:06+00:00", "count": 300, "seconds": 0.2, "low": 0.19, "high": 0.22, "start": 9.0,
        "entry": "pytorch-2.13-cpu", "version": "2.13.0", "container": True, "threads": 1, "batch_size": 10,
    }  # fmt: skip
    return TimedSteps(**{**found, **changes})


def question(**changes):
    work = changes.pop("work", Work(samples=1000, epochs=5, batch_size=10))
    return Question(**{"work": work, "timed": timed(), **PYTORCH, **changes})


@pytest.fixture(scope="module")
def model():
    return load_model()


@pytest.mark.parametrize("place", [{}, ELSEWHERE])
def test_a_training_takes_as_long_as_its_steps_wherever_it_is(model, place):
    found = model.predict(question(**place))
    assert found.known
    assert found.parts["training"].middle == pytest.approx(500 * 0.2)
    assert found.parts["start"].middle == pytest.approx(9.0 - 0.2)  # the first step is among the training's
    assert "first_step" not in found.parts  # the start has it
    assert found.doubts == ("by 300 steps of it, timed on cluster on 2026-11-27",)
    assert found.core_hours == pytest.approx(found.seconds.middle / 3600)


def test_another_run_of_it_is_surer_than_a_work_that_nobody_measured(model):
    work = Work(samples=1000, epochs=5, batch_size=10, gflop_per_sample=1.0)
    by_steps, by_law = (model.predict(question(work=work, timed=steps)).parts["training"] for steps in (timed(), None))
    width = log(by_steps.high / by_steps.low)
    assert width < 0.47
    assert width < log(by_law.high / by_law.low) / 1.4
    assert by_steps.low < 100 < by_steps.high


def test_a_switch_changes_them_as_it_changes_others(model):
    plain, faster = (model.predict(question(settings=settings)) for settings in ({}, {"allocator": "tcmalloc"}))
    gain = model.gain(question(), question(settings={"allocator": "tcmalloc"}))
    assert faster.known
    assert plain.seconds.middle / faster.seconds.middle == pytest.approx(gain.ratio.middle)
    assert log(faster.parts["training"].high / faster.parts["training"].low) > log(
        plain.parts["training"].high / plain.parts["training"].low
    )


def test_what_they_ran_with_is_where_others_differ_from(model):
    steps = timed(settings={"allocator": "tcmalloc"})
    same = model.predict(question(timed=steps, settings={"allocator": "tcmalloc"}))
    without = model.predict(question(timed=steps))
    assert same.parts["training"].middle == pytest.approx(100)
    assert without.parts["training"].middle > 100


def test_a_compiler_that_they_ran_without_lengthens_the_start(model):
    assert model.predict(question(settings={"compiler": "inductor"})).parts["start"].middle > 10


def test_a_framework_without_records_is_predicted_as_it_was_timed(model):
    steps = timed(entry="other-1.0", version="1.0")
    asked = question(timed=steps, framework="other", entry="other-1.0", version="1.0")
    assert model.predict(asked).known
    other = model.predict(asked.model_copy(update={"settings": {"allocator": "tcmalloc"}}))
    assert not other.known
    assert other.doubts[0].startswith("no record of other")


def test_a_larger_batch_takes_as_much_longer_and_is_not_known(model):
    found = model.predict(question(work=Work(samples=1000, epochs=5, batch_size=20)))
    assert found.parts["training"].middle == pytest.approx(250 * 0.4)
    assert not found.known
    assert found.doubts[0] == "no record of the same work with another batch size"


def test_without_its_length_a_training_has_none(model):
    found = model.predict(question(work=Work(batch_size=10)))
    assert not found.known
    assert found.doubts[-1] == "how long it trains is not known: the work does not give its samples, epochs"


def test_several_processes_share_its_batch_by_the_law(model):
    several = {"nodes": 2, "shares_batch": True, "latency": 50.0, "bandwidth": 1.0, "split": None}
    work = Work(samples=1000, epochs=5, batch_size=10, parameters=1_000_000)
    found = model.predict(question(work=work, **several))
    assert found.known, found.doubts
    assert 50 < found.parts["training"].middle < 70  # half of a batch each, and the slower one is waited for
    assert found.parts["waiting"].middle > 0
    assert model.predict(question(work=work, **{**several, "split": Split(left=0.5)})).parts["training"]


def test_its_answers_are_kept_apart_from_those_of_other_steps(model):
    fast, slow = question(timed=timed(seconds=0.1)), question(timed=timed(seconds=0.4))
    faster = {"settings": {"allocator": "tcmalloc"}}
    gains = [model.gain(each, each.model_copy(update=faster)).ratio.middle for each in (fast, slow, fast)]
    assert gains[0] == gains[2] < gains[1]  # the start is a larger part of the shorter one


@pytest.mark.parametrize("settings", [{"optimizer_step": "fused"}, {"nobody": "knows"}])
def test_the_same_configuration_is_known_whatever_it_has(model, settings):
    assert model.predict(question(timed=timed(settings=settings), settings=settings)).known


def test_an_accelerator_without_records_is_known_as_it_was_timed(model):
    assert model.predict(question(accelerator="NVIDIA H100")).known
    assert not model.predict(question(accelerator="NVIDIA H100", settings={"precision": "bf16"})).known


@pytest.mark.parametrize(("entry", "origin"), [("image-0123456789ab", "given"), ("", "")])
def test_what_was_timed_in_an_image_of_the_user_s_is_about_that_image(model, entry, origin):
    steps = timed(entry="docker://registry.example/mine:1", version="2.9.1")
    found = model.predict(question(timed=steps, entry=entry, origin=origin, version=""))
    assert found.known
    assert found.parts["training"].middle == pytest.approx(100)


def test_fewer_threads_take_longer_also_where_no_peak_is_known(model):
    asked = question(timed=timed(threads=8), **ELSEWHERE)
    assert model.predict(asked).parts["training"].middle > 400


def test_several_processes_with_a_batch_each_are_none_that_the_model_cannot_tell_apart(model):
    work = Work(samples=1000, epochs=5, batch_size=10, parameters=1_000_000)
    found = model.predict(question(work=work, nodes=2, latency=50.0, bandwidth=1.0))
    assert found.known, found.doubts


@pytest.mark.parametrize(("count", "evaluated"), [(300, 0), (50, 100)])
def test_evaluation_is_counted_once(model, count, evaluated):
    work = Work(samples=1000, epochs=5, batch_size=10, evaluated=600)
    found = model.predict(question(work=work, timed=timed(count=count)))
    assert found.parts["training"].middle == pytest.approx((500 + evaluated) * 0.2)
