"""Steps that a job makes to be timed, and what is kept of them."""

from __future__ import annotations

import pytest

from modak_ansible.errors import ModakError
from modak_ansible.model.measured.record import Allocation, Record, RecordedTarget
from modak_ansible.planning.service import plan_blueprint, request_of
from modak_ansible.planning.timing import known_steps, note_steps, timed_from, timing_alone
from modak_ansible.planning.tracing import Tracing, key_of
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.store.project import blueprint_state

STEPS = {
    "count": 301, "mean_seconds": 0.2, "p10_seconds": 0.19, "p90_seconds": 0.22, "to_first_step_seconds": 9.0,
    "batch_size": 10, "samples": 1000, "epochs": 4, "parameters": None, "foreign_cores": 0.1, "trial": True,
}  # fmt: skip
RECORD = Record(
    date="2026-11-27T10:22:06+00:00", suite="jobs", suite_digest="", group="train", variant="stock", round=1,
    position=1, outcome="measured", workload="", entry="pytorch-2.13-cpu", framework="pytorch", version="2.13.0",
    origin="wheel", settings={"allocator": "tcmalloc"}, allocation=Allocation(cores_per_process=2),
    target=RecordedTarget(name="cluster", scheduler="slurm", hostname="n1", processor="", architecture="x86_64_v4"),
)  # fmt: skip


@pytest.fixture
def request_(blueprint):
    return request_of(blueprint.service, Inputs())


@pytest.fixture
def plan(blueprint):
    return plan_blueprint(blueprint.service, Inputs(), change=Tracing(timing_alone)).plan


def test_steps_are_made_by_a_short_job_of_one_process(request_):
    many = request_.resources.model_copy(update={"nodes": 4, "walltime": 90000})
    alone = timing_alone(request_.model_copy(update={"resources": many}))
    assert (alone.resources.nodes, alone.resources.walltime) == (1, 900)
    assert {"MODAK_TRIAL_STEPS", "MODAK_TRIAL_SECONDS"} <= {name for name, _ in alone.application.environment}


def test_what_a_job_made_is_known_from_then_on(blueprint, plan):
    key = key_of(request_of(blueprint.service, Inputs()))
    found = timed_from(RECORD, {"steps": STEPS, "peak_memory_bytes": 5}, key, plan)
    assert found is not None
    assert (found.seconds, found.start, found.threads, found.memory) == (0.2, 9.0, 2, 5)
    chosen = next(each for each in plan.candidates if each.chosen)
    assert found.settings == chosen.settings  # as planned, whatever was applied
    assert (found.entry, found.partition) == (plan.image.entry, plan.job.partition)
    state = blueprint_state(blueprint.service)
    note_steps(state, found)
    assert known_steps(state) == {(key, plan.target.address): found}
    asked = request_of(blueprint.service, Inputs())
    assert asked.timed == found
    predicted = plan_blueprint(blueprint.service, Inputs()).plan.candidates[0].prediction
    assert predicted is not None
    assert any(doubt.startswith("by 301 steps of it, timed on ") for doubt in predicted.doubts)


def test_steps_of_another_target_are_not_its_own(blueprint, plan):
    key = key_of(request_of(blueprint.service, Inputs()))
    found = timed_from(RECORD, {"steps": STEPS}, key, plan)
    assert found is not None
    note_steps(blueprint_state(blueprint.service), found.model_copy(update={"address": "other.example"}))
    assert request_of(blueprint.service, Inputs()).timed is None


@pytest.mark.parametrize(
    "report", [None, {}, {"steps": None}, {"steps": {**STEPS, "count": 1, "mean_seconds": None}}, {"steps": {}}]
)
def test_too_few_steps_are_none(report, plan):
    assert timed_from(RECORD, report, "key", plan) is None


def test_epochs_that_somebody_asked_for_are_not_the_script_s_own(plan):
    work = plan.application.work.model_copy(update={"epochs": 2})
    asked = plan.model_copy(update={"application": plan.application.model_copy(update={"work": work})})
    nobody = plan.model_copy(
        update={"application": plan.application.model_copy(update={"work": work.model_copy(update={"epochs": None})})}
    )
    epochs = [timed_from(RECORD, {"steps": STEPS}, "key", each) for each in (asked, nobody)]
    assert [each and each.epochs for each in epochs] == [None, 4]


def test_a_damaged_list_of_steps_is_told_with_its_cure(tmp_path):
    (tmp_path / "steps.json").write_text("{")
    with pytest.raises(ModakError, match=r"steps\.json, the record of timed steps") as caught:
        known_steps(tmp_path)
    assert "modak trace --steps" in caught.value.hint


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (("--epochs", "5"), ("--epochs", "50"), True),
        (("--epochs=5", "--lr", "1"), ("--lr", "1"), True),
        (("--num-epochs", "5", "data"), ("--num_epochs=6", "data"), True),
        (("--lr", "1"), ("--lr", "2"), False),
        (("--epochs-file", "5"), ("--epochs-file", "6"), False),
    ],
)
def test_how_often_it_goes_through_its_data_is_no_matter_of_a_step(request_, one, other, same):
    keys = [
        key_of(request_.model_copy(update={"application": request_.application.model_copy(update={"words": words})}))
        for words in (one, other)
    ]
    assert (keys[0] == keys[1]) is same


def test_nor_is_it_as_an_argument(request_):
    def key(*arguments):
        application = request_.application.model_copy(update={"arguments": arguments})
        return key_of(request_.model_copy(update={"application": application}))

    assert key(("epochs", "5"), ("lr", "1")) == key(("max-epochs", "7"), ("lr", "1")) != key(("lr", "2"))


def test_steps_of_another_partition_are_not_those_of_this_one(blueprint, plan):
    key, state = key_of(request_of(blueprint.service, Inputs())), blueprint_state(blueprint.service)
    found = timed_from(RECORD, {"steps": STEPS}, key, plan)
    assert found is not None
    note_steps(state, found.model_copy(update={"partition": "other"}))
    predicted = plan_blueprint(blueprint.service, Inputs()).plan.candidates[0].prediction
    assert predicted is not None
    assert not any("timed on" in doubt for doubt in predicted.doubts)


def test_a_process_has_the_cores_that_each_of_several_has(request_):
    node = request_.target.model_copy(
        update={"partitions": (), "processor": request_.target.processor.model_copy(update={"cores": 8})}
    )

    def cores(processes):
        many = request_.resources.model_copy(
            update={"nodes": 1, "processes_per_node": processes, "cores_per_process": None, "partition": None}
        )
        return timing_alone(request_.model_copy(update={"resources": many, "target": node})).resources.cores_per_process

    assert [cores(processes) for processes in (1, 2, 4)] == [8, 4, 2]


def test_whoever_asks_again_has_them_made_again(request_, monkeypatch):
    jobs = []
    for now in (1.0, 2.0):
        monkeypatch.setattr("time.time", lambda now=now: now)
        jobs.append(timing_alone(request_).application.environment)
    assert jobs[0] != jobs[1]
