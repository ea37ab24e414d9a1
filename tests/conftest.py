"""What all tests share."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from example_blueprint import ROOT, BlueprintFolder
from hypothesis import settings

# Property tests run beside others, and say nothing about time. make test tries the same few examples in every run, and
# says whether something has changed; make thorough looks for new ones, with --hypothesis-profile=search. A test sets a
# number of its own only where an example of it takes long.
settings.register_profile("steady", max_examples=30, derandomize=True, deadline=None)
settings.register_profile("search", max_examples=500, deadline=None)
settings.load_profile("steady")

# Who starts the tests in the background of a script has them ignore Ctrl-C, and all that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def blueprint(tmp_path: Path) -> BlueprintFolder:
    return BlueprintFolder(tmp_path / "example")


@pytest.fixture
def closed_folder() -> Iterator[Path]:
    """A folder that whoever runs the test may see, and not enter; root is somebody else meanwhile."""
    nobody, root = 65534, os.geteuid() == 0
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name, "closed")
        Path(name).chmod(0o755)
        folder.mkdir(mode=0o700 if root else 0)
        if root:
            os.seteuid(nobody)
        try:
            yield folder
        finally:
            if root:
                os.seteuid(0)
            folder.chmod(0o700)


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT
