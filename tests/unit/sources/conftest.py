"""What is asked of any source."""

from __future__ import annotations

import pytest
from listed_sources import Sources


@pytest.fixture
def sources(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("modak_ansible.sources.listed._KEPT", -1)
    return Sources()
