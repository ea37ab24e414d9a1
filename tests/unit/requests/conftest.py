"""Valid requests for tests to spoil."""

from __future__ import annotations

import pytest
from example_request import PROGRAM, TRAINING, RequestFolder


@pytest.fixture
def training(tmp_path):
    return RequestFolder(tmp_path / "training", TRAINING)


@pytest.fixture
def program(tmp_path):
    return RequestFolder(tmp_path / "program", PROGRAM)
