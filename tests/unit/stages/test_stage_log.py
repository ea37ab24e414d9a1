"""What the stages note of their doings, and when how much of a log was seen."""

from __future__ import annotations

import json
import time

import pytest

from modak_ansible.errors import ModakError
from modak_ansible.stages.base import Outcome, timed_stage
from modak_ansible.store import logs as looks
from modak_ansible.store.logs import LOOKS, STAGE_LOG, note, note_look, read_stage_log, size_before


def texts(folder):
    return [(entry.stage, entry.text) for entry in read_stage_log(folder)]


def test_what_is_said_twice_is_noted_once(tmp_path):
    for text in ("making it", "making it", "made\nin two lines", "making it"):
        note(tmp_path, "image", text)
    assert texts(tmp_path) == [("image", "making it"), ("image", "made\nin two lines"), ("image", "making it")]
    assert read_stage_log(tmp_path)[0].time == pytest.approx(time.time(), abs=5)


def test_damaged_lines_are_left_out(tmp_path):
    note(tmp_path, "job", "job 7 submitted")
    with (tmp_path / STAGE_LOG).open("a") as file:
        file.write('{"time": 1, "stage": "jo\n[]\n{"time": "x", "stage": "", "text": ""}\n')
    note(tmp_path, "job", "job 7 is running")
    assert texts(tmp_path) == [("job", "job 7 submitted"), ("job", "job 7 is running")]
    assert read_stage_log(tmp_path / "nowhere") == []


def test_stages_note_their_ends(make_stage):
    stage, said = make_stage(None)
    with timed_stage(stage, "image") as finish:
        stage.tell("image", "making it")
        finish(Outcome(True, "made"))
    with pytest.raises(ModakError), timed_stage(stage, "job"):
        raise ModakError("refused", hint="ask")
    assert said == ["making it"]
    assert texts(stage.folder) == [("image", "making it"), ("image", "made"), ("job", "failed: refused\n  ask")]


def test_what_only_would_be_done_is_not_noted(make_stage):
    stage, _ = make_stage(None, check=True)
    with timed_stage(stage, "image") as finish:
        stage.tell("image", "making it")
        finish(Outcome(True, "would make it"))
    assert not (stage.folder / STAGE_LOG).exists()


def test_how_much_there_was_at_a_moment(tmp_path, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(looks.time, "time", lambda: now[0])
    for moment, size in ((1000, 10), (1001, 20), (1010, 30), (1100, 40)):  # one of them too close to its neighbour
        now[0] = moment
        note_look(tmp_path, "7", "output.log", size)
    note_look(tmp_path, "7", "error.log", 5)
    note_look(tmp_path, "8", "output.log", 3)
    found = [size_before(tmp_path, "7", "output.log", each) for each in (999, 1000, 1009, 1050, 2000)]
    assert found == [0, 10, 10, 30, 40]
    assert size_before(tmp_path, "8", "output.log", 2000) == 3
    assert len((tmp_path / LOOKS).read_text().splitlines()) == 5
    (tmp_path / LOOKS).write_text(json.dumps({"time": 1}) + "\nnonsense\n")
    assert size_before(tmp_path, "7", "output.log", 2000) == 0
