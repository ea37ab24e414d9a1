"""What tests of what runs on a target share."""

from __future__ import annotations

import itertools
import time

import pytest


@pytest.fixture
def passing_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time that passes when somebody sleeps, and a little at each look at it: nobody waits for what is only watched."""
    looks, slept, began = itertools.count(), [0.0], time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: began + next(looks) * 1e-3 + slept[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: slept.__setitem__(0, slept[0] + seconds))
