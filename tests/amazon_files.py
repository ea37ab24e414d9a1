"""What Amazon's client knows of its services, which it reads anew for each session: megabytes of JSON."""

from __future__ import annotations

from functools import cache

import pytest
from botocore.loaders import JSONFileLoader

_load = JSONFileLoader.load_file


@cache
def _read_once(path: str) -> object:
    """Nobody writes to it."""
    return _load(JSONFileLoader(), path)


def share(patch: pytest.MonkeyPatch) -> None:
    """Has the client's files read once for all tests of a process, those of a session that goes on included."""
    patch.setattr(JSONFileLoader, "load_file", lambda _, path: _read_once(path))
