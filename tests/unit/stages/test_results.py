"""Results arrive whole or not at all, and whatever a script writes as its metrics breaks nothing."""

from __future__ import annotations

import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modak_ansible.errors import JobFailed, ModakError
from modak_ansible.stages.report import report
from modak_ansible.stages.results import fetch_results, summary_lines


def listing(folder):
    files = [
        {
            "path": str(path.relative_to(folder)),
            "size": path.stat().st_size,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]
    return {"files": files, "folder": str(folder), "missing": []}


def listed_alone(listing):
    """The module, asked for one deployment, of which a function gives what is listed."""

    def call(name, workspace, outputs):
        (wanted,) = outputs
        listed = listing()
        return {"folder": listed["folder"], "listed": {wanted: listed}}

    return call


@pytest.fixture
def remote(tmp_path):
    folder = tmp_path / "remote"
    (folder / "models").mkdir(parents=True)
    (folder / "output.log").write_text("trained\n")
    (folder / "models" / "a b;$(id).pt").write_bytes(b"weights")
    return folder


@pytest.mark.component
def test_ranks_with_too_few_cores_are_told_of_and_noted_when_all_is_over(make_stage, remote):
    words = "ranks 0, 1 on node01 have core 0 for 2 threads, which wait for each other"
    stage, said = make_stage(listed_alone(lambda: {**listing(remote), "crowded": words}))
    fetch_results(stage)
    assert stage.record.read()["progress"]["crowded"] == words
    assert words in said


@pytest.mark.component
def test_what_is_here_is_not_fetched_again(make_stage, remote):
    stage, _ = make_stage(listed_alone(lambda: listing(remote)))
    assert fetch_results(stage).changed
    results = stage.folder / "results"
    assert (results / "models" / "a b;$(id).pt").read_bytes() == b"weights"
    assert {file["path"] for file in json.loads((results / "manifest.json").read_text())["files"]} == {
        "output.log", "models/a b;$(id).pt"
    }  # fmt: skip
    assert not fetch_results(stage).changed
    (results / "output.log").write_text("damaged\n")
    assert fetch_results(stage).changed
    assert (results / "output.log").read_text() == "trained\n"


@pytest.mark.component
def test_what_an_undeployed_run_left_is_not_taken_for_that_of_the_next(make_stage, remote):
    """A job that waited was shown with the log and the loss of the one before it."""
    stage, _ = make_stage(listed_alone(lambda: listing(remote)))
    stage.record.note_job({"state": "COMPLETED", "job_id": "7"})
    fetch_results(stage)
    (remote / "output.log").unlink()  # cleared by the target, and still this run's
    fetch_results(stage)
    assert (stage.folder / "results" / "output.log").is_file()
    stage.record.note_job({"state": "QUEUED", "job_id": "8"})
    fetch_results(stage)
    assert not (stage.folder / "results" / "output.log").exists()
    assert [file.path for file in stage.store.files] == ["models/a b;$(id).pt"]
    assert not stage.store.has_old_results


@pytest.mark.component
def test_joules_are_kept_once_the_job_has_ended(make_stage, remote):
    stage, _ = make_stage(listed_alone(lambda: {**listing(remote), "joules": 7200.0}))
    for state, joules in (("RUNNING", None), ("FAILED", 7200.0)):
        stage.record.update(job={"state": state, "job_id": "7"})
        fetch_results(stage)
        assert (stage.record.read()["energy"] or {}).get("joules") == joules
    (told,) = (text for title, text in summary_lines(stage.plan, stage.record.read()) if title == "energy")
    assert told.startswith("7.2 kJ (2.0 Wh), by Slurm's accounting")


@pytest.mark.component
@pytest.mark.parametrize("state", ["QUEUED", "HELD", "RUNNING", "UNKNOWN", None, "COMPLETED", "FAILED"])
def test_an_output_is_missing_once_the_job_has_ended(make_stage, remote, state):
    stage, _ = make_stage(listed_alone(lambda: {**listing(remote), "missing": ["model.pt"]}))
    stage.record.update(job={"state": state, "job_id": "7"} if state else None)
    message = fetch_results(stage).message
    has_ended = state in ("COMPLETED", "FAILED")
    assert ("no file matches model.pt" in message) == has_ended
    assert stage.record.read()["missing_outputs"] == (["model.pt"] if has_ended else [])


@pytest.mark.component
@pytest.mark.parametrize(
    ("files", "is_silent"),
    [
        ({"output.log": "", "error.log": "INFO:    gocryptfs not found\n", "applied.json": "{}", "job.sh": "x"}, True),
        ({"output.log": "one line\n", "error.log": ""}, False),
        ({"output.log": "", "error.log": "a warning of its own\n"}, False),
        ({"output.log": "", "error.log": "", "model.pt": "x"}, False),
    ],
)
def test_a_training_that_ends_well_and_gives_nothing_is_told(make_stage, tmp_path, files, is_silent):
    (tmp_path / "remote").mkdir()
    for name, text in files.items():
        (tmp_path / "remote" / name).write_text(text)
    stage, _ = make_stage(listed_alone(lambda: listing(tmp_path / "remote")))
    stage.record.update(job={"state": "COMPLETED", "job_id": "7"})
    assert ("neither printed nor wrote anything" in fetch_results(stage).message) == is_silent


@pytest.mark.component
@pytest.mark.parametrize(("state", "epoch"), [("RUNNING", 3), ("COMPLETED", 12)])
def test_how_far_a_training_came_is_known_of_its_end(make_stage, tmp_path, state, epoch):
    """The last look, by which that was known before, was while it ran."""
    code = tmp_path / "remote" / "code"
    code.mkdir(parents=True)
    (tmp_path / "remote" / "job.sh").write_text("x")
    os.utime(tmp_path / "remote" / "job.sh", (1.0, 1.0))
    (code / "metrics.jsonl").write_text("".join(f'{{"epoch": {each}, "val_loss": 0.5}}\n' for each in range(1, 13)))
    stage, _ = make_stage(listed_alone(lambda: listing(tmp_path / "remote")))
    stage.record.update(job={"state": state, "job_id": "7"}, progress={"epoch": 3, "epochs": 12})
    fetch_results(stage)
    progress = stage.record.read()["progress"]
    assert (progress["epoch"], progress["epochs"]) == (epoch, 12)


def test_a_summary_says_what_differs_from_stock_and_names_the_rest():
    choices = [
        {"name": "image", "value": "pytorch-2.13-cpu", "stock": "pytorch-2.13-cpu", "reason": "it fits"},
        {"name": "threads", "value": "4", "stock": "the framework's default", "reason": "one for each core"},
        {"name": "memory_format", "value": "contiguous", "stock": "contiguous", "reason": "as PyTorch has it"},
        {"name": "batch_size", "value": "keep", "stock": "keep", "reason": "asked for"},
    ]
    plan = {"digest": "0" * 64, "name": "x", "target": {"name": "y"}, "job": {"scheduler": "slurm"}, "choices": choices}
    stages = {"dataset": {"message": "none", "seconds": 0.0}}
    assert summary_lines(plan, {"stages": stages})[1:] == [
        ("chosen", "image pytorch-2.13-cpu: it fits"),
        ("chosen", "threads 4: one for each core"),
        ("chosen", "at their defaults: memory format, batch size"),
    ]


@pytest.mark.component
def test_a_file_that_arrives_otherwise_is_refused_and_fetched_anew(make_stage, remote):
    listed = listing(remote)
    stage, _ = make_stage(listed_alone(lambda: listed))
    (remote / "output.log").write_text("TRAINED\n")
    with pytest.raises(ModakError, match=r"output\.log was changed on its way"):
        fetch_results(stage)
    assert not (stage.folder / "results" / "output.log").exists()
    (remote / "output.log").write_text("trained\n")
    assert fetch_results(stage).changed


@pytest.mark.component
@pytest.mark.parametrize("begun", ["TRAINED\n", "something longer\n"])
def test_what_an_earlier_fetch_left_unfinished_is_not_taken_for_it(make_stage, remote, begun):
    """rsync leaves alone what is as long as it is to be, or longer."""
    listed = listing(remote)
    stage, _ = make_stage(listed_alone(lambda: listed))
    (stage.folder / ".results.part").mkdir(parents=True)
    (stage.folder / ".results.part" / "output.log").write_text(begun)
    assert fetch_results(stage).changed
    assert (stage.folder / "results" / "output.log").read_text() == "trained\n"


@pytest.mark.component
def test_two_deploys_that_fetch_at_once_both_have_all(make_stage, remote):
    for number in range(200):
        (remote / f"{number}.log").write_bytes(b"x" * 50_000)
    listed = listing(remote)
    stage, _ = make_stage(listed_alone(lambda: listed))
    with ThreadPoolExecutor(3) as pool:
        fetched = [pool.submit(fetch_results, stage) for _ in range(3)]
    assert [each.result().message for each in fetched] == [fetched[0].result().message] * 3
    assert listing(remote)["files"] == [
        file for file in listing(stage.folder / "results")["files"] if file["path"] != "manifest.json"
    ]


@pytest.mark.component
def test_what_a_running_job_writes_meanwhile_comes_as_it_is(make_stage, remote):
    listed = listing(remote)
    stage, _ = make_stage(listed_alone(lambda: listed))
    stage.record.update(job={"job_id": "7", "state": "RUNNING"})
    with (remote / "output.log").open("a") as log:
        log.write("and more\n")
    (remote / "models" / "a b;$(id).pt").unlink()
    assert fetch_results(stage).changed
    assert (stage.folder / "results" / "output.log").read_text() == "trained\nand more\n"
    assert json.loads((stage.folder / "results" / "manifest.json").read_text())["files"] == listing(remote)["files"]


@pytest.fixture
def ended(make_stage, remote):
    """A stage whose job has ended well."""
    stage, _ = make_stage(listed_alone(lambda: listing(remote)))
    stage.record.update(job={"job_id": "7", "state": "COMPLETED", "exit_code": 0, "explanation": "", "nodes": "n1"})
    return stage


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["seconds", "test_accuracy", "x"]), inner)
    ),
    max_leaves=8,
)


@pytest.mark.component
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(metrics=JSON | st.fixed_dictionaries({"epochs": JSON, "epochs_requested": JSON}))
def test_any_metrics_of_a_users_script(ended, remote, metrics):
    (remote / "metrics.json").write_text(json.dumps(metrics))
    fetch_results(ended)
    assert report([ended]).data["facts"]["job_state"] == "COMPLETED"
    assert all(isinstance(text, str) for line in summary_lines(ended.plan, ended.record.read()) for text in line)


@pytest.mark.component
def test_the_summary_names_epochs_and_accuracy(make_stage, remote):
    epochs = [{"seconds": 2.0, "test_accuracy": 0.5}, {"seconds": 4.0, "test_accuracy": 1}]
    (remote / "metrics.json").write_text(json.dumps({"epochs": epochs}))
    stage, _ = make_stage(listed_alone(lambda: listing(remote)))
    fetch_results(stage)
    lines = dict(summary_lines(stage.plan, stage.record.read()))
    assert lines["training"] == "2 epochs, accuracy 100.00%, 4.0 s an epoch"


@pytest.mark.component
@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ({"r2": 0.8312, "fit_seconds": 2.5}, "r2 0.8312, fit_seconds 2.5"),
        ({"accuracy": 0.9722, "log_loss": 0.25}, "accuracy 97.22%, log_loss 0.25"),
        ({"epochs": [{"perplexity": 9.0}, {"perplexity": 8.0}]}, "2 epochs, perplexity 8"),
    ],
)
def test_the_summary_names_whatever_numbers_a_script_writes(make_stage, remote, metrics, expected):
    (remote / "metrics.json").write_text(json.dumps(metrics))
    stage, _ = make_stage(listed_alone(lambda: listing(remote)))
    fetch_results(stage)
    assert dict(summary_lines(stage.plan, stage.record.read()))["training"] == expected


def test_the_summary_says_that_a_training_has_diverged(make_stage):
    stage, _ = make_stage(None)
    lines = dict(summary_lines(stage.plan, {"progress": {"remarks": ["loss has been nan since epoch 4"]}}))
    assert lines["training"] == "loss has been nan since epoch 4"


def test_a_job_that_failed_is_reported_with_its_exit_code_and_last_words(make_stage):
    stage, _ = make_stage(None)
    stage.record.update(
        job={"job_id": "7", "state": "FAILED", "exit_code": 3, "explanation": "", "nodes": "", "error_tail": ["oh"]},
        results="/r",
    )
    with pytest.raises(JobFailed, match=r"job 7 ended as FAILED, exit code 3: no reason given\n  \| oh"):
        report([stage])


@pytest.mark.parametrize(
    ("state", "checkpoint", "hint"),
    [
        ("TIMEOUT", None, "runs it again, and no longer than this one: ask for more walltime, or for checkpoints"),
        ("TIMEOUT", {"every": 60}, "runs it again"),
        ("OUT_OF_MEMORY", None, "runs it again, with no more than this one had: ask for more memory under resources"),
        ("NODE_FAIL", None, "runs it again"),
    ],
)
def test_a_job_that_came_to_its_limits_is_told_to_ask_for_more(make_stage, state, checkpoint, hint):
    """The same job comes to the same end."""
    stage, _ = make_stage(None)
    stage.plan["job"]["checkpoint"] = checkpoint
    stage.record.update(job={"job_id": "7", "state": state, "nodes": ""}, results="/r")
    with pytest.raises(JobFailed) as caught:
        report([stage])
    assert caught.value.hint.endswith(hint)


@pytest.mark.component
def test_what_a_file_system_has_lost_since_stays_here(make_stage, remote):
    """Scratch is cleared of what is old, file by file."""
    (remote / "ranks" / "1").mkdir(parents=True)
    (remote / "ranks" / "1" / "error.log").write_text("slow\n")
    stage, _ = make_stage(listed_alone(lambda: listing(remote)))
    fetch_results(stage)
    (remote / "ranks" / "1" / "error.log").unlink()
    fetch_results(stage)
    assert (stage.store.results / "ranks" / "1" / "error.log").read_text() == "slow\n"


@pytest.mark.component
def test_what_an_earlier_attempt_wrote_is_not_taken_for_the_next_ones(make_stage, remote):
    """The second attempt has written no metrics yet, and those of the first are below its number."""
    (remote / "metrics.json").write_text(json.dumps({"epochs": [{"seconds": 1.0, "test_accuracy": 0.5}]}))
    (remote / "ranks" / "1").mkdir(parents=True)
    (remote / "ranks" / "1" / "output.log").write_text("trained, too\n")
    stage, _ = make_stage(listed_alone(lambda: listing(remote)))
    fetch_results(stage)
    assert stage.record.read()["metrics"]["epochs"] == 1
    aside = remote / "attempts" / "1"
    aside.mkdir(parents=True)
    for name in ("metrics.json", "output.log", "ranks"):
        (remote / name).rename(aside / name)
    (remote / "output.log").write_text("again\n")
    fetch_results(stage)
    results = stage.folder / "results"
    assert stage.record.read()["metrics"] is None
    assert not (results / "metrics.json").exists()
    assert not (results / "ranks" / "1" / "output.log").exists()
    assert (results / "attempts" / "1" / "ranks" / "1" / "output.log").read_text() == "trained, too\n"
    assert (results / "attempts" / "1" / "output.log").read_text() == "trained\n"
    assert (results / "output.log").read_text() == "again\n"


@pytest.mark.parametrize("path", ["../../above", "/etc/passwd", "a/../../b", ""])
def test_results_stay_in_their_folder(make_stage, path):
    files = [{"path": path, "size": 1, "sha256": "0"}]
    stage, _ = make_stage(listed_alone(lambda: {"folder": "/w", "files": files, "missing": []}))
    with pytest.raises(ModakError, match="leads out of the folder of results"):
        fetch_results(stage)
