"""How busy others keep the cores: what the kernel counted, less this process and its descendants."""

from __future__ import annotations

import os
import subprocess
import sys

import machine
import pytest
from infrastructure import module

from modak_ansible.target.core.processor import processor_name

TICKS = os.sysconf("SC_CLK_TCK")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(machine, "clock", lambda: now[0])
    return now


def test_foreign_cores_are_a_mean_over_time(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = [50.0]
    monkeypatch.setattr(machine, "_foreign_seconds", lambda: seconds[0])
    neighbours = machine.Neighbours()
    clock[0] += 10
    seconds[0] += 15
    assert neighbours.foreign_cores() == 1.5
    seconds[0] = 49.9  # ticks of both sides are not read at one moment
    assert neighbours.foreign_cores() == 0


def test_a_run_calls_its_processor_as_a_survey_does() -> None:
    """Else the two would be two machines of the records."""
    assert machine.processor_model() == processor_name()


def test_without_proc_nobody_knows(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_foreign_seconds", lambda: None)
    neighbours = machine.Neighbours()
    clock[0] += 1
    assert neighbours.foreign_cores() is None


@pytest.mark.component
def test_a_childs_work_is_ones_own() -> None:
    before = machine._own_ticks()
    work = "import time\nwhile time.process_time() < 0.3: pass\nprint('done', flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout
        assert child.stdout.readline() == "done\n"
        assert machine._own_ticks() - before >= 0.2 * TICKS
        child.communicate("\n")
    assert machine._own_ticks() - before >= 0.2 * TICKS


@pytest.mark.component
def test_a_neighbour_may_have_any_name() -> None:
    """The kernel cuts a name behind its fifteenth byte, wherever in a letter that is."""
    named = "import ctypes\nctypes.CDLL(None).prctl(15, b'0123456789abc\\xc3\\xa9'[:14], 0, 0, 0)\n"
    with subprocess.Popen(
        [sys.executable, "-c", named + "print('done', flush=True)\ninput()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as child:  # fmt: skip
        assert child.stdout
        assert child.stdout.readline() == "done\n"
        machine._own_ticks()
        module("startup/startup.py").image_reader_seconds()
        child.communicate("\n")


def test_descendants() -> None:
    mine = os.getpid()
    parents = {mine: 1, 1: 0, mine + 1: mine, mine + 2: mine + 1, mine + 3: 1}
    assert machine._descends(mine, parents)
    assert machine._descends(mine + 2, parents)
    assert not machine._descends(mine + 3, parents)
