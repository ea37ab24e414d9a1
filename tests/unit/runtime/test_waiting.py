"""Whether threads may spin, by what others do on the cores when a process begins."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from modak_ansible.optimisations.process import wait_policy
from modak_ansible.runtime import FILES

sys.path.insert(0, str(FILES))

from modak_runtime import neighbours
from modak_runtime.parallel.alive import activity
from modak_runtime.report import Report

sys.path.remove(str(FILES))

SHOWN = (
    "import os; print(*[os.environ.get(each) for each in ('MODAK_WAIT_POLICY', 'OMP_WAIT_POLICY', 'GOMP_SPINCOUNT')])"
)


def environment(**more):
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("MODAK", "OMP", "GOMP"))}
    return {**ours, "PYTHONPATH": str(FILES), "MODAK_CHOICES": "wait_policy=adaptive", **more}


@pytest.fixture
def cores(monkeypatch):
    """Has others keep so many of four cores busy."""

    def busy(count):
        names = [f"cpu{core}" for core in range(4)]
        looks = iter([dict.fromkeys(names, (0, 0)), {name: (20 * (name in names[:count]), 20) for name in names}])
        monkeypatch.setattr(neighbours, "_ticks", lambda: next(looks))
        monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(4)))
        monkeypatch.setattr(neighbours.time, "sleep", lambda seconds: None)
        monkeypatch.setattr(os, "environ", environment())
        return os.environ

    return busy


@pytest.mark.parametrize(
    ("busy", "threads", "settled"),
    [(0, "4", "stock"), (1, "4", "brief"), (1, "3", "stock"), (2, "3", "brief"), (4, "1", "brief"), (3, "1", "stock"), (0, "", "stock"), (1, "9", "brief")],
)  # fmt: skip
def test_threads_spin_where_there_is_room_for_them(cores, busy, threads, settled):
    made = cores(busy)
    made["OMP_NUM_THREADS"] = threads
    report = Report("", {"wait_policy": "adaptive"})
    neighbours.settle_waiting(report)
    assert made["MODAK_WAIT_POLICY"] == settled
    assert ("GOMP_SPINCOUNT" in made) == (settled == "brief")
    assert report.as_dict(True)["choices"]["wait_policy"]["applied"] == settled


def test_briefly_is_what_it_is_in_a_plan():
    assert neighbours._BRIEFLY["GOMP_SPINCOUNT"] == wait_policy._BRIEFLY


def test_what_the_user_sets_stays(cores):
    made = cores(4)
    made["OMP_WAIT_POLICY"] = "ACTIVE"
    report = Report("", {"wait_policy": "adaptive"})
    neighbours.settle_waiting(report)
    assert (made["OMP_WAIT_POLICY"], "GOMP_SPINCOUNT" in made) == ("ACTIVE", False)
    assert report.as_dict(True)["choices"]["wait_policy"]["reason"] == "OMP_WAIT_POLICY is already set"


@pytest.mark.component
def test_real_neighbours_are_seen_and_children_take_it_over():
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in os.sched_getaffinity(0)]
    try:
        again = f"import subprocess, sys; {SHOWN}; subprocess.run([sys.executable, '-c', {SHOWN!r}])"
        said = subprocess.run(
            [sys.executable, "-c", again.replace("; print", "\nprint", 1)], env=environment(), capture_output=True,
            text=True, check=True,
        ).stdout.split("\n")  # fmt: skip
    finally:
        for each in busy:
            each.kill()
            each.wait()
    assert said[:2] == ["brief PASSIVE 1000"] * 2


@pytest.mark.component
def test_without_the_choice_nobody_looks():
    made = environment(MODAK_CHOICES="", MODAK_APPLIED="/dev/null")
    said = subprocess.run([sys.executable, "-c", SHOWN], env=made, capture_output=True, text=True, check=True).stdout
    assert said.split() == ["None"] * 3


@pytest.mark.component
def test_a_process_whose_name_ends_within_a_letter_is_one_like_others():
    """The kernel keeps 15 bytes of a name."""
    code = "open('/proc/self/comm', 'wb').write('Auswertungen_täglich'.encode()); print(flush=True); input()"
    other = subprocess.Popen(
        [sys.executable, "-X", "utf8", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        other.stdout.readline()
        neighbours.Neighbours()
        assert activity._spent(f"/proc/{other.pid}", True)[0] >= 0
    finally:
        other.communicate("\n")
