"""Every finished job leaves one record in its project, of what was really applied."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modak_ansible.measuring.records import read_records
from modak_ansible.model.plan import Candidate, Choice
from modak_ansible.planning.service import plan_blueprint
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.stages.jobs.record import _append, job_record, program_record, record_job

JOB = {"job_id": "7", "state": "COMPLETED", "explanation": "", "started": 1.7e9, "nodes": "n1"}
STEPS = {
    "count": 9,
    "median_seconds": 0.5,
    "first_seconds": 2.0,
    "batch_size": 64,
    "trial": False,
    "foreign_cores": 0.1,
}
REPORT = {
    "schema": "modak.applied/1",
    "hostname": "n1",
    "processor": {"model": "AMD EPYC", "architecture": "x86_64"},
    "frameworks": {"torch": {"version": "2.13.0+cpu", "import_seconds": 1.5}},
    "choices": {
        "compiler": {"planned": "inductor", "applied": None, "how": "prepare", "reason": "it failed"},
        "precision": {"planned": "bf16", "applied": "bf16", "how": "prepare", "reason": ""},
    },
    "steps": STEPS,
    "peak_memory_bytes": 10**9,
}
EPOCH = {
    "epoch": 1, "seconds": 2.0, "images_per_second": 30.0, "evaluation_seconds": 0.1, "training_loss": 1.0,
    "test_loss": 1.0, "test_accuracy": 0.5, "foreign_cores": 0.0,
}  # fmt: skip
METRICS = {
    "schema": "modak.metrics/1", "workload": "mnist_cnn", "switches": {"compiler": "none", "input": "memory"},
    "framework": {"name": "PyTorch", "version": "2.13.0"}, "versions": {"torch": "2.13.0"}, "hostname": "n2",
    "processor": {"model": "AMD EPYC", "architecture": "x86_64"}, "parameters": 5, "dataset": "digits",
    "training_images": 60, "test_images": 10, "batch_size": 6, "seed": 1, "learning_rate": 1.0, "dropout": 1.0,
    "epochs": [EPOCH], "first_losses": [2.3], "peak_memory_bytes": 10,
    "seconds": {
        "import": 1.0, "load_data": 1.0, "to_first_step": 3.0, "first_step": 0.1, "compile": 0.0, "total": 9.0,
    },
}  # fmt: skip


@pytest.fixture
def plan(blueprint):
    made = plan_blueprint(blueprint.service, Inputs()).plan
    chosen = {"allocator": "tcmalloc", "compiler": "inductor", "precision": "bf16"}
    choices = tuple(
        Choice(
            name=name, value=value, reason="", stock="stock", reaches="environment" if name == "allocator" else "code"
        )
        for name, value in chosen.items()
    )
    candidates = (Candidate(entry=made.image.entry, settings=chosen, chosen=True),)
    return made.model_copy(update={"choices": choices, "candidates": candidates})


@pytest.fixture
def results(tmp_path):
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "applied.json").write_text(json.dumps(REPORT))
    return folder


def test_settings_are_what_was_really_applied(plan, results):
    record = job_record(plan, JOB, results)
    assert (record.outcome, record.suite, record.group) == ("measured", "jobs", plan.training)
    assert record.settings == {"allocator": "tcmalloc", "precision": "bf16"}
    assert record.variant == "allocator=tcmalloc, precision=bf16"
    assert (record.steps.count, record.steps.median_seconds, record.steps.import_seconds) == (9, 0.5, 1.5)
    assert (record.target.processor, record.target.hostname) == ("AMD EPYC", "n1")
    assert record.versions == {"torch": "2.13.0+cpu"}


def test_a_record_names_the_release_that_ran(plan, results):
    made = job_record(plan, JOB, results)
    assert (made.entry, made.version, made.origin) == ("pytorch-2.13-cpu", "2.13.0", "pip")
    (results / "applied.json").write_text(json.dumps({**REPORT, "frameworks": {"torch": {"version": "2.14.1+cu130"}}}))
    made = job_record(plan, JOB, results)
    assert (made.framework, made.version, made.origin) == ("pytorch", "2.14.1+cu130", "given")
    assert made.entry == f"image-{plan.image.digest[:12]}"
    (results / "applied.json").write_text(json.dumps({**REPORT, "frameworks": {"torch": {"version": "odd"}}}))
    assert job_record(plan, JOB, results).version == "odd"
    (results / "applied.json").write_text(json.dumps({**REPORT, "frameworks": {}}))
    assert job_record(plan, JOB, results).entry == "pytorch-2.13-cpu"


def test_what_was_applied_without_a_plan_counts_too(plan, results):
    by_hand = {"matmul": {"planned": "onednn", "applied": "onednn", "how": "import", "reason": ""}}
    (results / "applied.json").write_text(json.dumps({**REPORT, "choices": by_hand}))
    assert job_record(plan, JOB, results).settings == {"allocator": "tcmalloc", "matmul": "onednn"}


def test_metrics_of_our_form_are_recorded_as_those_of_suites(plan, results):
    metrics = {**METRICS, "epochs": [{**EPOCH}]}
    (results / "metrics.json").write_text(json.dumps(metrics))
    record = job_record(plan, JOB, results)
    assert (record.outcome, record.workload, record.steps) == ("measured", "mnist_cnn", None)
    assert record.training.epochs[0].seconds == 2.0
    assert record.settings == {"allocator": "tcmalloc", "compiler": "none", "input": "memory", "precision": "bf16"}
    again = job_record(plan, {**JOB, "run": 2}, results)
    assert (again.outcome, again.reason) == ("disturbed", "it was interrupted, and continued in run 2")
    metrics["epochs"][0]["foreign_cores"] = 1.0
    (results / "metrics.json").write_text(json.dumps(metrics))
    assert job_record(plan, JOB, results).outcome == "disturbed"


def test_jobs_that_failed_or_measured_nothing_say_so(plan, results):
    failed = job_record(plan, {**JOB, "state": "TIMEOUT", "explanation": "it reached its wall time"}, results)
    assert (failed.outcome, failed.reason) == ("failed", "timeout: it reached its wall time")
    (results / "applied.json").write_text(json.dumps({**REPORT, "steps": {**STEPS, "count": 0}}))
    assert job_record(plan, JOB, results).reason == "nothing of it was measured"
    (results / "applied.json").unlink()
    assert job_record(plan, JOB, results).reason == "nothing of it was measured"
    (results / "applied.json").write_text(json.dumps({**REPORT, "steps": {**STEPS, "foreign_cores": 1.5}}))
    assert job_record(plan, JOB, results).outcome == "disturbed"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["count", "torch", "x"]), inner),
    max_leaves=6,
)
PARTS = st.sampled_from(["frameworks", "choices", "steps", "processor", "hostname", "peak_memory_bytes"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.dictionaries(PARTS, JSON), metrics=st.dictionaries(PARTS, JSON))
def test_whatever_a_job_leaves_makes_a_record(plan, results, parts, metrics):
    (results / "applied.json").write_text(json.dumps({**REPORT, **parts}))
    ours = {"schema": "modak.metrics/1", "switches": {}, **metrics}
    (results / "metrics.json").write_text(json.dumps(ours))
    assert job_record(plan, JOB, results).outcome == "failed"
    (results / "metrics.json").write_text("{}")
    assert job_record(plan, JOB, results).outcome in ("failed", "measured", "disturbed")


def test_a_job_is_recorded_once_and_after_a_torn_line(plan, results, tmp_path):
    path = tmp_path / "records" / "jobs.jsonl"
    record = job_record(plan, JOB, results)
    assert _append(path, record)
    assert not _append(path, record)
    with path.open("a") as file:
        file.write('{"torn')
    assert _append(path, job_record(plan, {**JOB, "job_id": "8"}, results))
    lines = path.read_text().splitlines()
    assert len(lines) == 3 and lines[1] == '{"torn'
    path.write_text("\n".join([lines[0], lines[2]]) + "\n")
    assert [record.allocation.job_id for record in read_records(path)] == ["7", "8"]


def test_only_a_projects_own_deployments_are_recorded(make_stage, blueprint):
    stage, _ = make_stage(None)
    stage.record.update(job=JOB)
    assert not record_job(stage)  # its folder is none of the project's
    planned = plan_blueprint(blueprint.service, Inputs())
    stage.folder = planned.save()
    energy = {"joules": 900.0, "seconds": 60.0, "source": "RAPL"}
    stage.record.update(job=JOB, energy=energy)
    assert record_job(stage)
    (made,) = read_records(blueprint.path / ".modak" / "records" / "jobs.jsonl")
    assert (made.joules, made.energy_seconds, made.energy_source) == (900.0, 60.0, "RAPL")
    assert not record_job(stage)
    stage.plan["application"]["environment"] = [["MODAK_BENCH_RUN", "1"]]
    stage.record.update(job={**JOB, "job_id": "9"})
    assert not record_job(stage)
    assert len(read_records(planned.state / "records" / "jobs.jsonl")) == 1


def test_a_parallel_program_leaves_the_time_of_its_run(plan):
    job = plan.job.model_copy(update={"nodes": 2, "processes_per_node": 4, "threads": 3})
    application = plan.application.model_copy(update={"framework": "", "script": "", "name": "solver"})
    program = plan.model_copy(update={"job": job, "application": application})
    record = program_record(program, {**JOB, "ended": JOB["started"] + 42.0})
    assert (record.outcome, record.workload, record.suite) == ("measured", "solver", "jobs")
    (measure,) = record.measures
    assert (measure.name, measure.unit, measure.samples) == ("run", "s", (42.0,))
    assert measure.about == {"processes": 8, "threads": 3, "program": application.program}
    assert program_record(program, JOB).outcome == "failed"
    failed = program_record(program, {**JOB, "state": "TIMEOUT", "ended": JOB["started"] + 42.0})
    assert (failed.outcome, failed.measures) == ("failed", ())


@pytest.mark.parametrize(
    "metrics",
    [{"versions": {"torch": None}}, {"versions": ["torch"]}, {"load_average": "0.1 0.2", "epochs": [{"foreign_cores": 0.1}]},
     {"load_average": {"1": 2}}, {"epochs": {"1": 2}}, {"workload": 7}],
)  # fmt: skip
def test_measurements_that_are_not_whole_are_said_to_be_so(plan, results, metrics):
    """A script of the user's may write a file of that name, and that schema, in any form."""
    (results / "metrics.json").write_text(json.dumps({"schema": "modak.metrics/1", "switches": {}, **metrics}))
    record = job_record(plan, JOB, results)
    assert record.outcome == "failed"
    assert record.reason.startswith("it wrote no complete measurements: ")
    assert "\n" not in record.reason


@pytest.mark.parametrize(("images", "seconds"), [(0, 2.0), (60, float("inf"))])
def test_measurements_that_nothing_can_be_computed_of_are_not_whole(plan, results, images, seconds):
    keras = {"tensorflow": "2.21.0", "keras": "3.15.0"}
    epochs = [EPOCH, {**EPOCH, "seconds": seconds}]
    metrics = {**METRICS, "versions": keras, "training_images": images, "epochs": epochs}
    (results / "metrics.json").write_text(json.dumps(metrics))
    assert job_record(plan, JOB, results).reason.startswith("it wrote no complete measurements: ")
