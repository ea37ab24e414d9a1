"""What unit tests share: no testbed of whoever runs them is found, and only those marked component start processes."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from shipped_once import share

_STARTS = frozenset({"subprocess.Popen", "os.system", "os.fork", "os.forkpty", "os.exec", "os.posix_spawn", "os.spawn"})
_OWN = os.getpid()
_pure: list[str] = []  # the test that runs, where it may start no process
_folders = itertools.count()


def _refuse(event: str, arguments: tuple[object, ...]) -> None:
    """An audit hook. What multiprocessing starts, and what such a process starts in turn, is let be."""
    if event not in _STARTS or not _pure or os.getpid() != _OWN:
        return
    if sys._getframe(1).f_globals.get("__name__", "").startswith("multiprocessing."):
        return
    command = f" of {arguments[1]}" if event == "subprocess.Popen" else ""
    pytest.fail(f"{_pure[0]} starts a process ({event}{command}): mark it with @pytest.mark.component")


sys.addaudithook(_refuse)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _pure[:] = [] if item.get_closest_marker("component") else [item.nodeid]
    try:
        return (yield)
    finally:
        _pure.clear()


@pytest.fixture(scope="session", autouse=True)
def shipped_once() -> Iterator[None]:
    """The types and the model that ship are read from disk once."""
    with pytest.MonkeyPatch.context() as patch:
        share(patch)
        yield


@pytest.fixture(scope="session")
def state_homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("states")


@pytest.fixture(autouse=True)
def state_home(state_homes: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's state and settings: a folder of the test's own."""
    folder = state_homes / str(next(_folders))
    folder.mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder
