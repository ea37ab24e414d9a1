"""The trace of a training's memory: its job, and what is kept of it."""

from __future__ import annotations

import json

import pytest
from traced import need

from modak_ansible.allocation.options import settled
from modak_ansible.errors import ModakError
from modak_ansible.model.distributed import Distributed
from modak_ansible.model.job_options import JobComponent, JobOptions
from modak_ansible.model.measured.need import Need
from modak_ansible.planning.measured import Measured
from modak_ansible.planning.service import plan_blueprint, request_of
from modak_ansible.planning.tracing import key_of, known_needs, need_from, note_need, trace_alone
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.store.project import blueprint_state


@pytest.fixture
def request_(blueprint):
    return request_of(blueprint.service, Inputs())


def test_a_trace_is_a_short_job_of_one_process(request_):
    many = request_.resources.model_copy(update={"nodes": 4, "walltime": 90000})
    alone = trace_alone(request_.model_copy(update={"resources": many}))
    assert (alone.resources.nodes, alone.resources.walltime) == (1, 900)
    assert ("MODAK_TRACE", "memory") in alone.application.environment
    assert alone.blueprint.endswith("-trace")


def test_a_trace_with_an_accelerator_is_another_one(request_):
    there = request_.resources.model_copy(update={"accelerators": 1})
    assert key_of(request_.model_copy(update={"resources": there})) != key_of(request_)


@pytest.mark.parametrize(
    "options",
    [
        {"core_count": 2}, {"node_count": 2, "process_count_per_node": 2, "core_count": 4},
        {"node_count": 2, "components": (JobComponent(name="a"), JobComponent(name="b"))},
    ],
)  # fmt: skip
def test_it_is_of_one_process_whatever_the_job_options_ask_for(request_, options):
    asked = request_.model_copy(update={"job_options": JobOptions(**options)})
    assert settled(trace_alone(asked)).resources.layout.processes == 1


@pytest.mark.parametrize(
    ("prepares", "resources", "ranks"),
    [
        (True, {"nodes": 2, "processes_per_node": 2}, {"4"}),
        (True, {"nodes": 1}, set()),
        (False, {"nodes": 2, "processes_per_node": 2}, set()),  # nothing is known of how it is parallel
    ],
)
def test_a_script_that_prepare_makes_parallel_is_traced_as_ranks_too(request_, prepares, resources, ranks):
    asked = request_.model_copy(
        update={
            "application": request_.application.model_copy(update={"prepares": prepares}),
            "resources": request_.resources.model_copy(update=resources),
            "parallelism": None,
        }
    )
    environment = trace_alone(asked).application.environment
    assert {value for name, value in environment if name == "MODAK_TRACE_RANKS"} == ranks


@pytest.mark.parametrize(
    ("said", "each", "ways"),
    [
        (None, 2, "ddp fsdp tensor pipeline tensor_2 pipeline_2"),
        ({"strategy": "auto"}, 1, "ddp fsdp tensor pipeline"),  # two ranks
        ({"strategy": "fsdp", "degree": 3}, 3, "ddp fsdp tensor pipeline fsdp_3"),
        ({"strategy": "fsdp", "degree": 4}, 3, "ddp fsdp tensor pipeline tensor_2 pipeline_2"),  # which 6 are not
    ],
)
def test_copies_are_traced_as_they_are_asked_for_or_in_two_ranks_each(request_, said, each, ways):
    more = {"prepares": True, "distributed": Distributed(**said) if said else None}
    asked = request_.model_copy(
        update={
            "application": request_.application.model_copy(update=more),
            "resources": request_.resources.model_copy(update={"nodes": 2, "processes_per_node": each}),
            "parallelism": None,
        }
    )
    assert ("MODAK_TRACE_WAYS", ways) in trace_alone(asked).application.environment


def test_a_training_is_known_by_what_decides_its_memory(request_):
    longer = request_.resources.model_copy(update={"walltime": 60})
    other = request_.application.model_copy(update={"arguments": (("batch-size", "7"),)})
    assert key_of(request_) == key_of(request_.model_copy(update={"resources": longer}))
    assert key_of(request_) != key_of(request_.model_copy(update={"application": other}))


def test_what_was_traced_is_kept_once(tmp_path):
    note_need(tmp_path, need(key="a"))
    note_need(tmp_path, need(1, key="a"))
    assert known_needs(tmp_path) == {"a": need(1, key="a")}
    (tmp_path / "needs.json").write_text("{")
    with pytest.raises(ModakError, match="cannot be read"):
        known_needs(tmp_path)


@pytest.mark.parametrize("report", [None, {}, {"memory": {"loops": []}}, {"memory": {"loops": [{"steps": 1}]}}])
def test_a_report_without_a_trace_is_none(tmp_path, report):
    if report is not None:
        (tmp_path / "applied.json").write_text(json.dumps(report))
    assert need_from(tmp_path, "key", "train") is None


def test_a_report_has_what_is_needed(tmp_path):
    known = need().model_dump(mode="json", exclude={"key", "training"})
    (tmp_path / "applied.json").write_text(json.dumps({"memory": known}))
    assert need_from(tmp_path, "key", "train") == need()


def test_what_a_trace_counted_is_the_work_of_who_says_nothing(blueprint):
    state = blueprint_state(blueprint.service)
    state.mkdir(parents=True, exist_ok=True)
    operator = {"name": "mm", "shapes": [[64, 8]], "format": "float32", "count": 1, "flop": 256 * 10**9, "bytes": 1}
    found = need(key=key_of(request_of(blueprint.service, Inputs())))
    note_need(state, Need.model_validate({**found.model_dump(), "operators": [operator], "batches": 2}))
    told = plan_blueprint(blueprint.service, Inputs()).plan.application.work
    assert (told.gflop_per_sample, told.batch_size) == (2.0, 128)
    assert told.operators == ((2.0, 7.813e-12, 0.0),)
    assert (told.calls, told.kernel_seconds) == (1, 0.0)
    assert (told.samples, told.epochs) == (6000, 2)  # as the blueprint says


def test_a_second_trace_is_the_job_of_the_first(blueprint):
    """What the first one found changes later plans, and not that of the trace: nothing has to be run again."""
    first = plan_blueprint(blueprint.service, Inputs(), change=trace_alone, measured=Measured())
    state = blueprint_state(blueprint.service)
    operator = {"name": "mm", "shapes": [[64, 8]], "format": "float32", "count": 1, "flop": 256 * 10**9, "bytes": 1}
    found = need(key=key_of(request_of(blueprint.service, Inputs())))
    note_need(state, Need.model_validate({**found.model_dump(), "operators": [operator], "batches": 2}))
    again = plan_blueprint(blueprint.service, Inputs(), change=trace_alone, measured=Measured())
    assert again.plan.digest == first.plan.digest


def test_the_epochs_are_those_that_the_script_has_by_itself(blueprint):
    state = blueprint_state(blueprint.service)
    state.mkdir(parents=True, exist_ok=True)
    text = blueprint.service.read_text()
    assert "          epochs: { get_input: epochs }\n" in text
    blueprint.service.write_text(text.replace("          epochs: { get_input: epochs }\n", ""))
    found = need(key=key_of(request_of(blueprint.service, Inputs()))).model_dump()
    operator = {"name": "mm", "shapes": [[64, 8]], "format": "float32", "count": 1, "flop": 256 * 10**9, "bytes": 1}
    note_need(state, Need.model_validate({**found, "operators": [operator], "batches": 1, "epochs": 7}))
    told = plan_blueprint(blueprint.service, Inputs()).plan.application.work
    assert (told.samples, told.epochs) == (6000, 7)


def test_an_epoch_is_what_the_loader_that_trains_has():
    train, evaluate = need(1).model_dump()["loops"]
    loops = [{**train, "batches": 100}, {**evaluate, "batches": 1000}]
    found = Need.model_validate({**need().model_dump(), "loops": loops})
    assert (found.samples_of_epoch, found.evaluated) == (6400, 256_000)
    assert need().samples_of_epoch is need().evaluated is None
    before = Need.model_validate({**need().model_dump(), "loops": [loops[1], loops[0]]})
    assert before.evaluated is None, "what is looked at before all training is looked at once"
