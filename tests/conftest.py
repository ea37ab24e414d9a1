"""What all tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
from example_blueprint import ROOT, BlueprintFolder


@pytest.fixture
def blueprint(tmp_path: Path) -> BlueprintFolder:
    return BlueprintFolder(tmp_path / "example")


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT
