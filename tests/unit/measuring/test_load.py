"""A busy machine is waited for, with an end to it."""

from __future__ import annotations

import pytest

from modak_ansible.measuring import load
from modak_ansible.measuring.load import busy_cores, is_this_machine, wait_until_quiet
from modak_ansible.model.measured.finished_run import disturbance
from modak_ansible.model.target import Target


@pytest.fixture
def clock(monkeypatch):
    """Time passes in sleeps only; gives the list of them."""
    slept: list[float] = []
    monkeypatch.setattr(load.time, "sleep", slept.append)
    monkeypatch.setattr(load.time, "monotonic", lambda: sum(slept))
    return slept


def test_a_quiet_machine_is_not_waited_for(clock):
    said = []
    wait_until_quiet(120, said.append, lambda: 0.1)
    assert (clock, said) == ([], [])


def test_a_busy_machine_is_waited_for(clock):
    said, answers = [], [1.0, 0.9, 0.2]
    wait_until_quiet(120, said.append, lambda: answers.pop(0))
    assert len(clock) == 2
    assert said == ["the machine is busy (1.0 cores): waiting until it is quiet, 120 s at most"]


def test_the_wait_ends(clock):
    said = []
    wait_until_quiet(12, said.append, lambda: 1.5)
    assert sum(clock) == 12
    assert said[-1].startswith("the machine is still busy (1.5 cores); continuing")


def test_no_patience_is_no_wait_and_no_look():
    wait_until_quiet(0, pytest.fail, lambda: pytest.fail("looked"))


def test_nothing_known_is_not_waited_for(clock):
    wait_until_quiet(120, pytest.fail, lambda: None)


def test_the_load_of_this_machine_is_a_number_of_cores():
    busy = busy_cores(0.05)
    assert busy is None or busy >= 0


def test_only_targets_on_this_machine_are_looked_at():
    assert is_this_machine(Target(name="a", scheduler="none", local=True))
    assert is_this_machine(Target(name="a", scheduler="slurm", address="testbed"))
    assert not is_this_machine(Target(name="a", scheduler="slurm", address="cluster.example"))


@pytest.mark.parametrize(("cores", "is_disturbed"), [(None, False), (0.25, False), (0.26, True)])
def test_a_quarter_of_a_core_is_allowed(record, cores, is_disturbed):
    assert bool(disturbance(record(load={"foreign_cores": cores}))) is is_disturbed
