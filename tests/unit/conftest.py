"""What unit tests share: no testbed of whoever runs them is found."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def state_home(tmp_path_factory, monkeypatch):
    """The user's state: a folder of the test's own."""
    folder = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder
