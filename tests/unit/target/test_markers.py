"""What a job notes of itself, damaged in all ways, and by clocks that differ."""

from __future__ import annotations

import os
import time

import pytest

from modak_ansible.target.jobs.markers import (
    claimed_by,
    failed_rank,
    missed_for,
    noted_code,
    noted_start,
    submitted_job,
)

JUNK = [b"", b"\x00\xff\xfe", "²".encode(), b"9" * 5000, b"--all", b"-u modak", b"{", b"[1]", b'{"job_id": {}}']


def test_what_a_job_and_its_submitter_note(tmp_path):
    for name, text in (
        ("submitted.json", '{"job_id": "7", "time": 1}'), ("claim", "12[3].server.example\n"), ("finished", "-9\n"),
        ("started", "1700000000 7 node01\n"),
    ):  # fmt: skip
        (tmp_path / name).write_text(text)
    assert submitted_job(tmp_path) == "7"
    assert claimed_by(tmp_path) == "12[3].server.example"
    assert noted_code(tmp_path) == -9
    (tmp_path / "failed_rank").write_text("12 137 node03\n")
    assert failed_rank(tmp_path).words == "rank 12 on node03 failed first, with exit code 137"
    os.utime(tmp_path / "started", (1700003600, 1700003600))  # the date of the file, and not the node's own clock
    assert noted_start(tmp_path) == (1700003600.0, "node01")


@pytest.mark.parametrize("content", [*JUNK, None])
def test_what_is_damaged_says_nothing(tmp_path, content):
    """None stands for a folder in the file's place."""
    for name in ("submitted.json", "claim", "finished", "started", "failed_rank"):
        if content is None:
            (tmp_path / name).mkdir()
        else:
            (tmp_path / name).write_bytes(content)
    assert (submitted_job(tmp_path), noted_code(tmp_path), noted_start(tmp_path)) == ("", None, (None, ""))
    assert claimed_by(tmp_path) == ""
    assert failed_rank(tmp_path) is None


def test_how_long_a_job_is_missed_is_by_one_clock(tmp_path, monkeypatch):
    assert missed_for(tmp_path) == 0.0
    file, now = tmp_path / "missed", time.time()
    os.utime(file, (now + 3600, now + 3600))  # a clock that was set back
    assert missed_for(tmp_path) == 0.0
    os.utime(file, (now - 20, now - 20))
    assert 20 <= missed_for(tmp_path) < 60
    file.unlink()
    monkeypatch.setattr("modak_ansible.target.jobs.markers.time.time", lambda: now - 3600)  # a front end that is behind
    assert missed_for(tmp_path) == 0.0
    monkeypatch.setattr("modak_ansible.target.jobs.markers.time.time", lambda: now - 3580)
    assert missed_for(tmp_path) == pytest.approx(20, abs=0.1)
