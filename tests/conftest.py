"""What all tests share."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from example_blueprint import ROOT, BlueprintFolder
from hypothesis import settings

# Property tests run beside others, and say nothing about time.
settings.register_profile("modak", deadline=None)
settings.load_profile("modak")
# Who starts the tests in the background of a script has them ignore Ctrl-C, and all that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def blueprint(tmp_path: Path) -> BlueprintFolder:
    return BlueprintFolder(tmp_path / "example")


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT
