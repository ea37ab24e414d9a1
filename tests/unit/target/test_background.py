import errno
import os
import signal
import time

import pytest

from modak_ansible.errors import ModakError, NotReached
from modak_ansible.target.core import background
from modak_ansible.target.core.background import Activity
from modak_ansible.target.images.build import NoCompanion

pytestmark = pytest.mark.component


def wait_until_over(activity):
    deadline = time.monotonic() + 10
    while activity.is_alive() and time.monotonic() < deadline:
        time.sleep(0.02)
    return activity.status()


def test_work_goes_on_without_its_starter(tmp_path):
    activity = Activity(tmp_path, "work")
    assert activity.status() == {"state": "none"}

    def work(own):
        own.note("halfway")
        print("said something")
        (tmp_path / "made").write_text("x")

    assert activity.start(work)
    status = wait_until_over(activity)
    assert (status["state"], status["step"], status["line"]) == ("done", "halfway", "said something")
    assert (tmp_path / "made").exists()


def test_a_second_start_joins_the_first(tmp_path):
    activity = Activity(tmp_path, "work")
    assert activity.start(lambda own: time.sleep(0.5))
    assert not Activity(tmp_path, "work").start(lambda own: (tmp_path / "second").touch())
    assert activity.status()["state"] == "running"
    wait_until_over(activity)
    assert not (tmp_path / "second").exists()


@pytest.mark.parametrize(
    ("error", "message", "lacks"),
    [
        (ModakError("no room", hint="make room"), "no room", ""),
        (NoCompanion("no build of torchvision", "torchvision"), "no build of torchvision", "torchvision"),
        (ValueError("odd"), "ValueError: odd", ""),
    ],
)
def test_a_failure_is_told(tmp_path, error, message, lacks):
    def work(own):
        raise error

    activity = Activity(tmp_path, "work")
    activity.start(work)
    status = wait_until_over(activity)
    assert (status["state"], status["message"], status.get("lacks", "")) == ("failed", message, lacks)


@pytest.mark.parametrize("kind", [ModakError, NotReached])
def test_who_waits_is_told_whether_an_address_was_reached(tmp_path, kind):
    def work(own):
        raise kind("no data")

    activity = Activity(tmp_path, "work")
    activity.start(work)
    assert wait_until_over(activity)["is_unreached"] == (kind is NotReached)


def test_a_killed_one_is_known_as_such_and_can_be_started_again(tmp_path):
    activity = Activity(tmp_path, "work")
    activity.start(lambda own: time.sleep(60))
    os.kill(activity.status()["pid"], signal.SIGKILL)
    assert wait_until_over(activity)["state"] == "killed"
    assert activity.start(lambda own: None)
    assert wait_until_over(activity)["state"] == "done"


def test_work_that_cannot_even_note_that_it_began_says_why(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(background, "write_json", full)
    monkeypatch.setattr(background, "lack_of_room", lambda folder: "the disk is full")
    with pytest.raises(ModakError, match=f"the disk is full at {tmp_path}"):
        Activity(tmp_path, "work").start(lambda own: (tmp_path / "made").touch())
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("status", "waits"),
    [({"state": "done", "step": "a"}, False), ({"state": "running", "step": "b"}, False),
     ({"state": "running", "step": "a"}, True)],
)  # fmt: skip
def test_news_are_the_end_or_another_step(tmp_path, monkeypatch, status, waits):
    now = iter(range(6, 60, 6))
    monkeypatch.setattr(background.time, "monotonic", lambda: next(now))
    slept = []
    monkeypatch.setattr(background.time, "sleep", slept.append)
    activity = Activity(tmp_path, "x")
    monkeypatch.setattr(activity, "status", lambda: status)
    activity.wait_for_news("step", "a", 20)
    assert bool(slept) == waits
