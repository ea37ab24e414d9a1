"""modak status: what it says of each deployment, whom it asks, and what it shows."""

from __future__ import annotations

import errno
import json
import re
import time
from queue import SimpleQueue
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planned_once import planned_once
from rich.cells import cell_len

from modak_ansible.commands.status import status
from modak_ansible.commands.status.table import clock, lines_of, rounded, shortened
from modak_ansible.commands.status.watch import watch_for
from modak_ansible.deployment import status_query as status_asking
from modak_ansible.deployment.status import StatusEntry, may_live, row_of, rows_of
from modak_ansible.deployment.status_query import ask_targets
from modak_ansible.errors import TargetUnreachable
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.stages.jobs.query import NotNoted
from modak_ansible.store.deployment import DeploymentStore, queue_of
from modak_ansible.store.deployments import glance
from modak_ansible.store.forecasts import BEFORE, noted
from modak_ansible.store.record import DeploymentRecord, run_of
from modak_ansible.target.core.files import read_json, write_json

DONE = {"probe": {"state": "done", "message": "x"}}


@pytest.fixture
def deployed(blueprint, monkeypatch):
    """Three deployments of the example, seen from its folder; their jobs run as far as is known."""
    (blueprint.path / ".modak").mkdir()
    monkeypatch.chdir(blueprint.path)
    folders = []
    for number in (2, 3, 4):
        folder = planned_once(blueprint.service, Inputs(None, (("epochs", str(number)),))).save()
        DeploymentRecord(folder).update(job={"state": "RUNNING", "job_id": str(number), "nodes": "node01"}, stages=DONE)
        folders.append(folder)
    return folders


def test_a_deployment_that_is_started_again_shows_no_old_error(deployed, blueprint):
    record = DeploymentRecord(deployed[0])
    record.update(job=None)
    record.note_stage("image", state="failed", message="no space left\nclear some")
    row = next(row for row in rows_of(entries_of(blueprint)) if row["deployment"] == deployed[0].name)
    assert (row["stage"], row["explanation"]) == ("image", "no space left")
    record.begin("target")
    row = next(row for row in rows_of(entries_of(blueprint)) if row["deployment"] == deployed[0].name)
    assert (row["stage"], row["explanation"]) == ("target", "")


def test_a_deployment_that_failed_before_its_job_is_shown_until_its_training_is_deployed_anew(deployed, capsys):
    def shown(*words):
        status.command(*words, offline=True, as_json=True)
        return {row["deployment"] for row in json.loads(capsys.readouterr().out)}

    first, _, last = (DeploymentStore(folder).name for folder in deployed)
    for folder in (deployed[0], deployed[2]):
        record = DeploymentRecord(folder)
        record.update(job=None)
        record.note_stage("image", state="failed", message="pip finds no build of torchvision")
    assert first not in shown()
    assert last in shown()
    assert shown(first) == {first}
    (deployed[0] / "state.json").unlink()  # interrupted while it was planned
    assert first not in shown()
    assert shown(first) == {first}
    (deployed[0] / "state.json").write_text("gone\n")  # what it was, nobody knows
    assert first in shown()
    (deployed[2] / "state.json").unlink()
    assert last in shown()


def entries_of(blueprint):
    return [StatusEntry(deployment_store) for deployment_store in glance(blueprint.path / ".modak")]


def job(state="RUNNING", **more):
    situation = {"state": state, "job_id": "7", "nodes": "", "explanation": "", "reason": "", "exit_code": None}
    answer = {"there": True, "elapsed": None, "position": None, "starts": "", "progress": {}, "forecast": None}
    return {**answer, "situation": situation, **more}


def test_a_full_disk_here_is_told_and_is_no_damaged_deployment(deployed, blueprint, monkeypatch):
    def full(path, _):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr("modak_ansible.transport.ssh.write_whole", full)
    entries = entries_of(blueprint)
    ask_targets(entries)
    (problem,) = {entry.problem for entry in entries}
    assert problem.endswith("ssh_config: No space left on device\n  make room there, and run the same command again")


def test_when_a_job_was_expected_to_begin(deployed, capsys):
    """Of one deployment all is told that is news; of many how far forecasts hold as long as a job waits."""
    plan = DeploymentStore(deployed[0]).plan
    for folder, started, said in ((deployed[0], 5000.0, 1000.0), (deployed[1], None, 2000.0)):
        running = {"state": "RUNNING" if started else "QUEUED", "job_id": "7", "started": started}
        notes = noted({}, running, BEFORE, {"said": said, "starts": 4000.0}, plan)
        DeploymentRecord(folder).update(job=running, forecasts=notes)
    status.command(deployment=deployed[0].name, offline=True)
    told = capsys.readouterr().out.splitlines()[-1]
    assert told.startswith("start expected at ")
    assert told.endswith(", 17 min later")
    accuracy = "the last forecast on cluster: 17 min later"
    status.command(offline=True)
    assert capsys.readouterr().out.splitlines()[-1] == accuracy
    status.command(deployment=deployed[1].name, offline=True)
    told, below = capsys.readouterr().out.splitlines()[-2:]
    assert "began" not in told
    assert below == accuracy
    status.command(deployment=deployed[0].name, offline=True, as_json=True)
    (row,) = json.loads(capsys.readouterr().out)
    assert [each["error_seconds"] for each in row["forecasts"]] == [1000.0]
    DeploymentRecord(deployed[0]).update(job={"state": "RUNNING", "job_id": "7", "started": 4010.0})  # it was right
    for name in (None, deployed[0].name):
        status.command(name, offline=True)
        assert not re.search("forecast|expected", capsys.readouterr().out)


def test_what_stands_below_the_table_is_watched_too(deployed, capsys, monkeypatch):
    plan = DeploymentStore(deployed[0]).plan
    for folder, started in ((deployed[0], 5000.0), (deployed[1], None)):
        running = {"state": "RUNNING" if started else "QUEUED", "job_id": "7", "started": started}
        forecasts = noted({}, running, BEFORE, {"said": 1000.0, "starts": 4000.0}, plan)
        DeploymentRecord(folder).update(job=running, forecasts=forecasts)
    monkeypatch.setattr(status_asking, "ask_targets", lambda entries, every, heard: (heard(), heard()))
    status.command(watch=True)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4  # each deployment, and what is said of the machine, once
    assert lines[-1][10:] == "the last forecast on cluster: 17 min later"
    monkeypatch.setenv("COLUMNS", "30")
    with watch_for(lambda: [], lambda _: ["a line that is longer than a narrow terminal"], as_json=False) as update:
        update()
    assert capsys.readouterr().out[10:].strip() == "a line that is longer than a narrow terminal"


# --- who is asked


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"job": {"state": "RUNNING"}}, True), ({"job": {"state": "UNKNOWN"}}, True), ({"job": {"state": "FAILED"}}, False),
        ({"job": {"state": "RUNNING"}, "undeployed": 5.0}, False), ({"stages": DONE}, True), ({}, False),
        ({"stages": {**DONE, "image": {"state": "failed"}}}, False), ({"job": 5, "stages": [1], "stage": "job"}, False),
        ({"job": 5, "stages": [1]}, True),
    ],
)  # fmt: skip
def test_who_may_have_a_job_that_lives(tmp_path, record, expected):
    if record:
        write_json(tmp_path / "state.json", record)
    assert may_live(DeploymentStore(tmp_path)) is expected


def test_every_target_is_asked_once(deployed, blueprint, monkeypatch):
    """Two of three deployments share a target; the third enters it as somebody else."""
    plan, origin = (read_json(deployed[2] / f"{each}.json") for each in ("plan", "origin"))
    plan["target"]["username"] = "bob"
    write_json(deployed[2] / "plan.json", plan)
    (deployed[2] / "origin.json").write_text(json.dumps({**origin, "queue": queue_of(plan, origin["blueprint"])}))
    asked = []

    def ask(asking, take, _):
        assert (asking.every, asking.inside, asking.folder) == (0.0, "", deployed[0].parent)
        asked.append(asking.deployments)
        silent = len(asking.deployments) == 1
        take({} if silent else {name: job(position=3, elapsed=5.0) for name in asking.deployments}, "no route" * silent)

    monkeypatch.setattr(status_asking, "ask_for_jobs", ask)
    entries = entries_of(blueprint)
    heard = []
    ask_targets(entries, heard=lambda: heard.append(1))
    assert sorted(map(len, asked)) == [1, 2]
    assert len(heard) == 2
    rows = {row["deployment"]: row for row in rows_of(entries)}
    assert [rows[folder.name]["answered"] for folder in deployed] == [True, True, False]
    assert [rows[folder.name]["explanation"] for folder in deployed] == ["", "", "no route"]
    assert rows[deployed[2].name]["state"] == "RUNNING"  # what was known last


@pytest.mark.parametrize("answers", [True, False])
def test_the_table_is_shown_once_and_as_soon_as_all_have_answered(deployed, blueprint, monkeypatch, capsys, answers):
    """What is new is noted in a thousand records afterwards, which takes a while."""
    seen, shown = [], Event()
    show = status._show

    def ask(asking, take, _):
        take({name: job() for name in asking.deployments if answers}, "")
        shown.wait(5.0 if answers else 0.2)
        seen.append(capsys.readouterr().out)

    monkeypatch.setattr(status_asking, "ask_for_jobs", ask)
    monkeypatch.setattr(status, "_show", lambda *given, **more: (show(*given, **more), shown.set()))
    monkeypatch.setattr(status, "without_collecting", lambda: None)  # this process lives on
    status.command()
    seen.append(capsys.readouterr().out)
    assert [len(text.splitlines()) for text in seen] == ([4, 0] if answers else [0, 4])


def test_nobody_is_asked_for_what_has_ended(deployed, blueprint, monkeypatch):
    for folder in deployed:
        DeploymentRecord(folder).update(job={"state": "COMPLETED", "job_id": "1"})
    monkeypatch.setattr(status_asking, "ask_for_jobs", lambda *_: pytest.fail("asked"))
    ask_targets(entries_of(blueprint))


@pytest.mark.parametrize("broken", [KeyboardInterrupt, MemoryError])
def test_whoever_has_seen_enough_ends_it_and_what_breaks_is_not_hidden(deployed, blueprint, monkeypatch, broken):
    told = SimpleQueue()

    def ask(asking, take, wait):
        if broken is MemoryError:
            raise broken
        take({}, "")
        told.put(wait(5.0))

    def enough():
        raise broken

    monkeypatch.setattr(status_asking, "ask_for_jobs", ask)
    with pytest.raises(broken):
        ask_targets(entries_of(blueprint), 2.0, enough)
    assert broken is MemoryError or told.get(timeout=5.0) is True  # so that nobody is asked again


# --- what is said


def test_a_prediction_counts_on_the_data_of_the_first_source(deployed, blueprint):
    entry = next(entry for entry in entries_of(blueprint) if entry.store.folder == deployed[0])
    plan = entry.store.plan
    plan["dataset"] = {
        **(plan["dataset"] or {}),
        "sources": [{"label": "MNIST"}, {"label": "MNIST"}, {"label": "drawn"}],
    }
    plan["candidates"] = [{"chosen": True, "prediction": {"known": True, "seconds": {"middle": 61.0}}}]
    for label, seconds in ((None, 61.0), ("MNIST", 61.0), ("drawn", None)):
        if label:
            entry.store.record["data"] = label
        assert row_of(entry)["predicted_seconds"] == seconds


def test_a_job_that_only_tunes_has_no_trainings_time(deployed, blueprint):
    entry = next(entry for entry in entries_of(blueprint) if entry.store.folder == deployed[0])
    entry.store.plan["candidates"] = [{"chosen": True, "prediction": {"known": True, "seconds": {"middle": 61.0}}}]
    for trains, seconds in ((True, 61.0), (False, None)):
        entry.store.plan["tuning"] = {"trains": trains, "reduction": 3, "candidates": []}
        assert row_of(entry)["predicted_seconds"] == seconds


@pytest.mark.parametrize(("samples", "seconds"), [(60000, 16.0), (6000, 61.0), (3000, 61.0), (None, None)])
def test_with_digits_drawn_it_counts_on_as_many_as_there_are(deployed, blueprint, samples, seconds):
    entry = next(entry for entry in entries_of(blueprint) if entry.store.folder == deployed[0])
    plan = entry.store.plan
    plan["dataset"] = {**(plan["dataset"] or {}), "sources": [{"label": "MNIST"}, {"label": "drawn digits, not MNIST"}]}
    plan["application"]["work"] = {"samples": samples}
    prediction = {"known": True, "seconds": {"middle": 61.0}, "parts": {"training": {"middle": 50.0}}}
    plan["candidates"] = [{"chosen": True, "prediction": prediction}]
    entry.store.record["data"] = "drawn digits, not MNIST"
    assert row_of(entry)["predicted_seconds"] == seconds


def test_a_row(deployed, blueprint):
    entry = next(entry for entry in entries_of(blueprint) if entry.store.folder == deployed[0])
    entry.answer = job(elapsed=90.0, progress={"step": 7, "epoch": 1, "loss": 0.25})
    row = row_of(entry)
    assert (row["state"], row["stage"], row["epoch"], row["epochs_requested"]) == ("RUNNING", "job", 1, 2)
    assert (row["step"], row["loss"], row["answered"]) == (7, 0.25, True)
    assert 90 <= row["elapsed_seconds"] < 95
    entry.asked -= 60
    assert 150 <= row_of(entry)["elapsed_seconds"] < 155  # it runs on between two answers
    json.dumps(row, allow_nan=False)


def test_a_job_that_is_queued_again_has_not_run_since_its_first_start(deployed, blueprint):
    DeploymentRecord(deployed[0]).update(
        job={"state": "QUEUED", "job_id": "1", "started": 100.0, "ended": 160.0, "run": 1}
    )
    entry = next(entry for entry in entries_of(blueprint) if entry.store.folder == deployed[0])
    assert row_of(entry)["elapsed_seconds"] is None
    entry.answer = job("QUEUED")
    entry.answer["situation"].update(started=100.0, ended=160.0)
    assert row_of(entry)["elapsed_seconds"] is None


def test_what_was_brought_while_it_ran_is_not_what_it_is_at(deployed, blueprint):
    metrics = {"loss": 1.0, "accuracy": 0.1, "numbers": {"loss": 1.0}}
    DeploymentRecord(deployed[0]).update(metrics=metrics, brought="")
    entry = next(entry for entry in entries_of(blueprint) if entry.store.folder == deployed[0])
    entry.answer = job(progress={"step": 9, "numbers": {"loss": 0.1, "lr": 0.01}})
    assert row_of(entry)["loss"] == 0.1
    entry.answer = job("COMPLETED", progress={"step": 9, "loss": 0.3, "numbers": {"loss": 0.3}})
    assert row_of(entry)["loss"] == 0.3
    entry.store.record["brought"] = run_of(entry.answer["situation"])
    assert (row_of(entry)["loss"], row_of(entry)["accuracy"]) == (1.0, 0.1)


@pytest.mark.parametrize("told", [{"metrics": {"loss": 1.0}}, {"progress": {"loss": 1.0}}])
def test_what_another_run_came_to_is_not_what_this_one_is_at(deployed, blueprint, told):
    record = DeploymentRecord(deployed[0])
    record.note_job({"state": "FAILED", "job_id": "1", "attempt": 1}, **told)
    record.note_job({"state": "QUEUED", "job_id": "2", "attempt": 2})
    entry = next(entry for entry in entries_of(blueprint) if entry.store.folder == deployed[0])
    assert row_of(entry)["loss"] is None


def test_how_far_a_job_came_is_asked_once_where_nobody_looked_after_its_end(deployed, blueprint, monkeypatch):
    asked = []

    def ask(_, __, given):
        asked.append(given["deployments"])
        each = job("COMPLETED", deployment=deployed[0].name, progress={"epoch": 4, "loss": 0.5})
        each["situation"].update(started=1.0, job_id="1")
        return {"jobs": [each]}

    monkeypatch.setattr("modak_ansible.stages.jobs.query.ask", ask)
    for folder in deployed:
        DeploymentRecord(folder).note_job({"state": "COMPLETED", "job_id": "1"})
    DeploymentRecord(deployed[0]).note_job(
        {"state": "COMPLETED", "job_id": "1", "started": 1.0}
    )  # as modak logs -f notes it
    for _ in range(2):
        entries = entries_of(blueprint)
        ask_targets(entries)
        (row,) = (row for row in rows_of(entries) if row["deployment"] == deployed[0].name)
        assert (row["state"], row["epoch"], row["loss"]) == ("COMPLETED", 4, 0.5)
    assert asked == [[deployed[0].name]]


def test_what_cannot_be_noted_is_shown_and_said(deployed, blueprint, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device", "state.json")

    answer = {"jobs": [job("COMPLETED", deployment=folder.name) for folder in deployed]}
    monkeypatch.setattr("modak_ansible.stages.jobs.query.ask", lambda *_: answer)
    monkeypatch.setattr("modak_ansible.store.record.write_json", full)
    entries = entries_of(blueprint)
    with pytest.warns(NotNoted, match=r"not noted: on this machine, state.json: No space left on device\n  make room"):
        ask_targets(entries)
    assert {row["state"] for row in rows_of(entries)} == {"COMPLETED"}


def test_a_target_that_is_gone_is_asked_once_for_what_has_ended_there(deployed, blueprint, monkeypatch):
    def away(*_):
        asked.append(1)
        raise TargetUnreachable("no route to cluster")

    asked = []
    monkeypatch.setattr("modak_ansible.stages.jobs.query.ask", away)
    for folder, words in zip(deployed, ("it failed", "", ""), strict=True):
        DeploymentRecord(folder).note_job({"state": "FAILED", "job_id": "1", "started": 1.0, "explanation": words})
    entries = entries_of(blueprint)
    ask_targets(entries)
    told = sorted(row["explanation"] for row in rows_of(entries))
    assert told == ["it failed", "no route to cluster", "no route to cluster"]
    ask_targets(entries_of(blueprint))
    assert asked == [1]


def test_a_known_end_stays_where_nobody_can_tell_how_far_the_job_came(deployed, blueprint):
    entry = entries_of(blueprint)[0]
    entry.store.record["job"] = {"state": "FAILED", "job_id": "1", "started": 1.0}
    entry.answer = {**job("NONE"), "there": False}
    assert (row_of(entry)["state"], row_of(entry)["explanation"]) == ("FAILED", "its folder on the target is gone")


def test_how_far_another_attempt_came_is_not_shown_of_this_one(deployed, blueprint):
    DeploymentRecord(deployed[0]).update(job={"state": "FAILED", "job_id": "1"}, progress={"epoch": 9, "loss": 0.01})
    entry = next(entry for entry in entries_of(blueprint) if entry.store.folder == deployed[0])
    assert row_of(entry)["epoch"] == 9
    entry.answer = job(progress={})
    entry.answer["situation"]["job_id"] = "2"
    assert (row_of(entry)["epoch"], row_of(entry)["loss"]) == (None, None)


def test_the_time_of_a_job_that_is_over_is_its_own(deployed, blueprint):
    DeploymentRecord(deployed[0]).update(job={"state": "FAILED", "job_id": "1", "started": 100.0, "ended": 160.0})
    (row,) = (row for row in rows_of(entries_of(blueprint)) if row["state"] == "FAILED")
    assert row["elapsed_seconds"] == 60.0


def test_a_known_end_is_shown_though_nobody_answers_for_it(deployed, blueprint):
    entry = next(entry for entry in entries_of(blueprint) if entry.store.folder == deployed[0])
    entry.store.record["job"] = {**job("CANCELLED")["situation"], "explanation": "it was cancelled"}
    entry.answer = job("UNKNOWN")
    row = row_of(entry)
    assert (row["state"], row["explanation"]) == ("CANCELLED", "it was cancelled")


def test_nothing_is_said_of_why_an_undeployed_job_waited(deployed, blueprint):
    queued = {"state": "QUEUED", "job_id": "1", "reason": "BeginTime", "explanation": "BeginTime"}
    DeploymentRecord(deployed[0]).update(job=queued, undeployed=5.0)
    (row,) = (row for row in rows_of(entries_of(blueprint)) if row["state"] == "UNDEPLOYED")
    assert (row["reason"], row["explanation"]) == ("", "")
    DeploymentRecord(deployed[1]).update(job=None)
    DeploymentRecord(deployed[1]).note_stage("job", state="failed", message="its folder was removed meanwhile")
    DeploymentRecord(deployed[1]).update(undeployed=6.0)
    assert {row["explanation"] for row in rows_of(entries_of(blueprint)) if row["state"] == "UNDEPLOYED"} == {""}


def test_a_deployment_that_is_gone_on_its_target(deployed, blueprint):
    entries = entries_of(blueprint)
    entries[0].answer = {**job("NONE"), "there": False}
    row = row_of(entries[0])
    assert (row["state"], row["explanation"]) == ("NONE", "its folder on the target is gone")


def test_damaged_files_hide_no_others(deployed, blueprint):
    first, second, third = deployed
    (first / "plan.json").write_text('{"digest": "abc", "nothing": 1}')
    (second / "plan.json").write_text("{")
    (third / "state.json").write_text("\x00\x00")
    lost = first.parent / "lost-123456789012"
    lost.mkdir()
    (lost / "state.json").write_text("{}")
    rows = {row["deployment"]: row for row in rows_of(entries_of(blueprint))}
    assert {name: row["state"] for name, row in rows.items()} == dict.fromkeys(
        (first.name, second.name, third.name, lost.name), "DAMAGED"
    )
    assert all(row["explanation"] for row in rows.values())
    assert lines_of(list(rows.values()), 100)


def test_a_damaged_record_is_asked_for_and_written_anew(deployed, blueprint):
    (deployed[0] / "state.json").write_text("{")
    entry = next(entry for entry in entries_of(blueprint) if entry.store.folder == deployed[0])
    assert may_live(entry.store)
    entry.answer = job("COMPLETED")
    assert row_of(entry)["state"] == "COMPLETED"


def test_why_a_deployment_is_damaged_on_its_target_is_told(deployed, blueprint):
    entry = entries_of(blueprint)[0]
    entry.answer = job()
    entry.answer["situation"] = {"state": "DAMAGED", "job_id": "", "explanation": "submitted.json holds no id"}
    row = row_of(entry)
    assert (row["state"], row["explanation"]) == ("DAMAGED", "submitted.json holds no id")


def test_what_lives_comes_first(deployed, blueprint):
    entries = entries_of(blueprint)
    for entry, (state, position) in zip(entries, [("COMPLETED", None), ("QUEUED", 2), ("QUEUED", 1)], strict=True):
        entry.answer = job(state, position=position)
    assert [(row["state"], row["position"]) for row in rows_of(entries)] == [
        ("QUEUED", 1), ("QUEUED", 2), ("COMPLETED", None),
    ]  # fmt: skip


# --- what is shown

ROW = {
    "deployment": "mnist-pytorch-slurm-0123456789ab", "target": "cluster", "job_id": "4711", "state": "RUNNING", "stage": "job",
    "elapsed_seconds": 3723.0, "predicted_seconds": 7200.0, "epoch": 3, "epochs_requested": 12, "loss": 0.123456,
    "nodes": "node01", "explanation": "", "position": None, "starts": "",
}  # fmt: skip


def test_the_table_of_an_ordinary_project_fits_100_columns():
    queued = {**ROW, "deployment": "mnist-pytorch-slurm-ba9876543210", "state": "QUEUED", "position": 12,
              "starts": "2026-11-22T01:10:00", "explanation": "Priority", "elapsed_seconds": None, "epoch": None, "loss": None}  # fmt: skip
    lines = lines_of([ROW, queued], 100)
    assert max(map(len, lines)) <= 100
    assert lines[1].split() == [
        "mnist-pytorch-slurm-0123",
        "4711",
        "RUNNING",
        "1:02:03/2:00:00",
        "3/12",
        "0.1235",
        "node01",
    ]
    assert lines[2].startswith("mnist-pytorch-slurm-ba98 ")
    assert "position 12, from" in lines[2]
    assert lines_of([ROW])[1].startswith("mnist-pytorch-slurm-0123456789ab ")


def test_digests_are_cut_to_what_still_tells_them_apart():
    names = ["a-0123456789ab", "a-01234f6789ab", "plain"]
    assert shortened(names) == ["a-012345", "a-01234f", "plain"]


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (250.4, "4:10"), (3723, "1:02:03"), (200000, "55:33:20")])
def test_clocks(seconds, text):
    assert clock(seconds) == text


ANY = st.text(max_size=40) | st.none()


@given(
    st.lists(
        st.fixed_dictionaries(
            {"deployment": st.text(min_size=1, max_size=60), "state": st.sampled_from(["RUNNING", "QUEUED", "FAILED"])},
            optional={"explanation": st.text(max_size=200), "nodes": ANY, "job_id": st.text(max_size=20),
                      "loss": st.floats(allow_nan=False), "epoch": st.integers(0, 10**9), "target": st.text(max_size=30),
                      "position": st.integers(1, 10**6), "elapsed_seconds": st.floats(0, 1e9)},
        ),
        min_size=1, max_size=5,
    ),
    st.integers(40, 200),
)  # fmt: skip
def test_no_line_is_wider_than_the_terminal_or_breaks(rows, width):
    for lines in (lines_of(rows, width), lines_of(rows)):
        assert len(lines) == len(rows) + 1
        assert all(letter.isprintable() for line in lines for letter in line)
    assert all(cell_len(line) <= width for line in lines_of(rows, width))


def test_points_of_a_sweep_say_how_well_they_went_on_80_columns():
    numbers = {"accuracy": 0.5, "val_loss": 0.25, "learning_rate": 0.1}
    point = {**ROW, "state": "COMPLETED", "numbers": numbers, "loss": None, "predicted_seconds": None}
    names = [("a", "lr=0.0001,kind=adamw"), ("b", "lr=0.01,kind=adam")]
    rows = [{**point, "deployment": f"sweep-{each * 12}", "training": f"train:{text}"} for each, text in names]
    title, line, _ = lines_of(rows, 80)
    assert "job" not in title
    assert "accuracy 50.00%" in line
    assert "job" in lines_of(rows, 160)[0]
    line = lines_of([{**each, "search": {"objective": "val_loss"}} for each in rows], 80)[1]
    assert "val_loss 0.25" in line
    trial = {**rows[0], "loss": 0.25, "numbers": {"loss": 0.25}, "search": {"objective": "loss"}}
    assert lines_of([trial], 80)[1].count("0.25") == 1  # it has a column of its own


@pytest.mark.parametrize(
    ("points", "short"),
    [
        (["lr=0.000201945,kind=sgd", "lr=0.0159658,n=12345"], ["lr=0.000202,kind=sgd", "lr=0.016,n=12345"]),
        (["lr=0.100001", "lr=0.100002"], ["lr=0.100001", "lr=0.100002"]),
        (["", "version=1.23456.1", "x=1e-05"], ["", "version=1.23456.1", "x=1e-05"]),
    ],
)
def test_numbers_of_points_are_as_short_as_they_differ(points, short):
    assert rounded(points) == short


def test_a_thousand_rows_are_shown_at_once():
    rows = [{**ROW, "deployment": f"training-{number:012x}"} for number in range(1000)]
    began = time.process_time()
    assert len(lines_of(rows, 100)) == 1001
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize("as_json", [False, True])
def test_on_a_pipe_every_change_is_a_line(capsys, as_json):
    row = dict(ROW)
    with watch_for(lambda: [row, {**ROW, "deployment": "other"}], as_json=as_json) as update:
        update()
        row["elapsed_seconds"], row["loss"] = 4000.0, 0.1
        update()
        row["epoch"] = 4
        update()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert ["other" in line for line in lines] == [False, True, False]
    if as_json:
        assert [json.loads(line)["epoch"] for line in lines] == [3, 3, 4]
    else:
        assert lines[2].split()[1:] == [
            ROW["deployment"],
            "cluster",
            "4711",
            "RUNNING",
            "1:06:40/2:00:00",
            "4/12",
            "0.1",
            "node01",
        ]
