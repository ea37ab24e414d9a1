"""What tests of what runs on a target share."""

from __future__ import annotations

import itertools
import time

import pytest
from fake_deployment import FakeScheduler, plan_of, script_of

from modak_ansible.schedulers.registry import SCHEDULERS
from modak_ansible.target.core.workspace import Workspace
from modak_ansible.target.jobs.job import Deployment


@pytest.fixture
def passing_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time that passes when somebody sleeps, and a little at each look at it: nobody waits for what is only watched."""
    looks, slept, began = itertools.count(), [0.0], time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: began + next(looks) * 1e-3 + slept[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: slept.__setitem__(0, slept[0] + seconds))


@pytest.fixture
def fake(monkeypatch):
    scheduler = FakeScheduler()
    monkeypatch.setitem(SCHEDULERS, "fake", scheduler)
    return scheduler


@pytest.fixture
def code(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("print('x')\n")
    return path


@pytest.fixture
def staged(tmp_path, fake, code):
    made = Deployment(Workspace(str(tmp_path / "workspace")), "example-1", "fake", "example-1")
    made.stage(plan_of(code), script_of(code))
    return made


@pytest.fixture
def deployment(staged):
    return staged
