"""What all tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
from example_blueprint import ROOT, BlueprintFolder
from hypothesis import settings

# Property tests run beside others, and say nothing about time.
settings.register_profile("modak", deadline=None)
settings.load_profile("modak")


@pytest.fixture
def blueprint(tmp_path: Path) -> BlueprintFolder:
    return BlueprintFolder(tmp_path / "example")


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT
