"""A deployment's record, which two deploys of one plan may write at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from modak_ansible.errors import ModakError
from modak_ansible.stages.base import timed_stage
from modak_ansible.store.record import DeploymentRecord


def test_nothing_is_lost_that_two_note_at_once(tmp_path):
    record = DeploymentRecord(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: record.note_stage(f"stage {number}", state="done"), range(100)))
        list(pool.map(lambda number: record.update(**{f"value {number}": number}), range(100)))
    state = record.read()
    assert len(state["stages"]) == 100
    assert [state[f"value {number}"] for number in range(100)] == list(range(100))


def test_a_failure_that_cannot_be_noted_is_told_all_the_same(make_stage, monkeypatch):
    def no(*_, **__):
        raise OSError(28, "No space left on device")

    stage, _ = make_stage(None)
    monkeypatch.setattr(DeploymentRecord, "note_stage", no)
    with pytest.raises(ModakError, match="the disk is full on this machine"), timed_stage(stage, "results"):
        raise ModakError("the disk is full on this machine")


FAILED = {"state": "failed", "message": "no space"}
DONE = {"state": "done", "message": "fine"}


def test_a_stage_that_begins_anew_has_not_failed(make_stage):
    stage, _ = make_stage(None)
    stage.record.update(stages={"target": DONE, "dataset": FAILED, "image": FAILED, "job": DONE}, stage="image")
    with timed_stage(stage, "dataset"):
        assert stage.record.read()["stages"] == {"target": DONE, "job": DONE}
        assert stage.record.read()["stage"] == "dataset"


def test_what_went_wrong_behind_stays_until_it_is_tried_again(make_stage):
    """Fetching results is no new attempt at the image."""
    stage, _ = make_stage(None)
    stage.record.update(stages={"target": DONE, "image": FAILED}, stage="image")
    stage.record.begin("results")
    assert stage.record.read()["stages"]["image"] == FAILED
    stage.record.begin("target")
    assert stage.record.read()["stages"] == {"target": DONE}


def test_what_was_undeployed_is_deployed_anew_from_its_first_stage_on(make_stage):
    stage, _ = make_stage(None)
    known = {"job": {"job_id": "7", "state": "FAILED"}, "metrics": {"loss": 1.0}, "results": "/r", "undeployed": 5.0}
    stage.record.update(**known)
    stage.record.begin("job")
    assert stage.record.read()["undeployed"] == 5.0
    stage.record.begin("target")
    assert stage.record.read().keys() == {"results", "stages", "stage", "updated"}


def test_where_nothing_failed_nothing_is_written(make_stage):
    stage, _ = make_stage(None)
    stage.record.update(stages={"target": DONE})
    before = stage.record.path.stat().st_mtime_ns, stage.record.path.stat().st_ino
    stage.record.begin("target")
    assert (stage.record.path.stat().st_mtime_ns, stage.record.path.stat().st_ino) == before


def test_a_stage_that_was_never_come_to_is_known_from_its_beginning_on(make_stage):
    """While its image was built, and after Ctrl-C then, a deployment's state was that of its data."""
    stage, _ = make_stage(None)
    stage.record.note_stage("dataset", **DONE)
    stage.record.begin("image")
    assert (stage.record.read()["stage"], stage.record.read()["stages"]) == ("image", {"dataset": DONE})
