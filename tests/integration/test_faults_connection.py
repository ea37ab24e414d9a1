"""The connection to the target is cut at each stage of a deployment, shortly or for good."""

from __future__ import annotations

import time

import pytest
from cluster import thorough
from faults import finishes, line, nothing_runs_here
from reached import SIZE, STAGES, stages

pytestmark = pytest.mark.testbed
__all__ = ["line", "stages"]
QUICK = "watching"
LONGER = [stage for stage in STAGES if stage not in (QUICK, "plan")]  # planning needs no connection
GOES_ON = ("dataset", "files", "results")


@pytest.mark.parametrize("stage", [QUICK, *thorough(*LONGER)])
def test_cut_for_seconds(project, line, stages, stage):
    """The command goes on by itself."""
    started = stages.start(stage)
    line.cut()
    time.sleep(6)
    line.restore()
    line.speed, line.passed = None, 0
    assert started.end() == 0, started.said
    assert "the connection broke; trying again in 1 s" in started.said
    if stage in GOES_ON:
        assert line.passed < SIZE * 0.9
    assert "Nothing had to be built, staged or submitted" in finishes(project)


@pytest.mark.parametrize("stage", thorough(QUICK, *LONGER))
def test_cut_for_good(project, line, stages, stage):
    """The command ends when it has tried for two minutes; when the connection is back, the same command goes on."""
    started = stages.start(stage)
    line.cut()
    assert started.end(seconds=240) == 4, started.said
    assert "the connection broke; trying again in 1 s" in started.said
    assert "error: the target does not answer any more: " in started.said
    assert "what runs on the target continues; deploy again to follow it" in started.said
    assert "Traceback" not in started.said
    nothing_runs_here(project)
    line.restore()
    line.speed, line.passed = None, 0
    finishes(project)
    if stage in GOES_ON:
        assert line.passed < SIZE * 0.9


@pytest.mark.thorough
def test_cut_before_it_begins(project, line):
    """Whoever is not there at all is not waited for."""
    line.cut()
    first = project.deploy()
    assert first.returncode == 4
    assert "error: testbed refuses the connection" in first.stderr
    assert "check the address and the port, and that sshd runs there" in first.stderr
    line.restore()
    finishes(project)


@pytest.mark.thorough
def test_a_network_that_loses_everything_for_more_than_a_minute(project, line, stages):
    """Nobody says that the connection is gone; SSH itself finds out after a minute."""
    started = stages.start(QUICK)
    line.silence()
    time.sleep(75)
    line.restore()
    assert started.end() == 0, started.said
    assert "job      done" in started.said
    finishes(project)
