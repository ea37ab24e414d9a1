"""What unit tests share: no testbed of whoever runs them is found, and only those marked component start processes."""

from __future__ import annotations

import gc
import itertools
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol
from example_blueprint import ROOT
from shipped_once import share

from modak_ansible.errors import Location
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.store.project import project_root

# Nor any target, or entry of the catalogue, that they have; what tests read when they are collected included.
_config = tempfile.TemporaryDirectory(prefix="modak-tests-")
os.environ["XDG_CONFIG_HOME"] = _config.name

gc.disable()  # until all is collected: of what is imported nothing goes

_STARTS = frozenset({"subprocess.Popen", "os.system", "os.fork", "os.forkpty", "os.exec", "os.posix_spawn", "os.spawn"})
_OWN = os.getpid()
_pure: list[str] = []  # the test that runs, where it may start no process
_folders = itertools.count()
_SLOW = 0.2  # seconds of a fixture that are worth a line among the slowest durations


def _refuse(event: str, arguments: tuple[object, ...]) -> None:
    """An audit hook. What multiprocessing starts, and what such a process starts in turn, is let be."""
    if event not in _STARTS or not _pure or os.getpid() != _OWN:
        return
    if sys._getframe(1).f_globals.get("__name__", "").startswith("multiprocessing."):
        return
    # matplotlib's first look for fonts, and Ansible's for the C library, in whichever test comes first
    if event == "subprocess.Popen" and list(arguments[1])[:1] in (["fc-list"], ["/sbin/ldconfig"]):
        return
    command = f" of {arguments[1]}" if event == "subprocess.Popen" else ""
    pytest.fail(f"{_pure[0]} starts a process ({event}{command}): mark it with @pytest.mark.component")


def pytest_collection_finish() -> None:
    """What was collected stays to the end: the garbage collector need not walk through it again and again, nor as often
    through the little that tests leave. Nothing was to be refused before."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()
    sys.addaudithook(_refuse)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _pure[:] = [] if item.get_closest_marker("component") else [item.nodeid]
    try:
        return (yield)
    finally:
        _pure.clear()


@pytest.hookimpl(specname="pytest_runtest_protocol")
def report_what_there_is_to_say(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """A worker tells the others' process of each test once: six messages a test keep that busy, beside the workers."""
    if not hasattr(item.config, "workerinput"):
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed or report.duration > _SLOW:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


@pytest.fixture(scope="session", autouse=True)
def shipped_once() -> Iterator[None]:
    """The types and the model that ship are read from disk once."""
    with pytest.MonkeyPatch.context() as patch:
        share(patch)
        yield


@pytest.fixture(scope="session", autouse=True)
def nothing_waits_for_the_disk() -> Iterator[None]:
    """What a test writes need not outlast a power cut, and a busy disk takes longer over it than all else does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def rules_are_on_the_page() -> Iterator[None]:
    """Whatever rule a test has the code name, docs/errors.md tells people of it."""
    told = set(re.findall(r"^### (\S+)$", (ROOT / "docs" / "errors.md").read_text(encoding="utf-8"), re.MULTILINE))
    add = Mistakes.add

    def checked(self: Mistakes, location: Location, rule: str, *words: str, **more: str) -> None:
        is_ours = "/modak_ansible/" in sys._getframe(1).f_code.co_filename
        assert rule in told or not is_ours, f"make generate: docs/errors.md has no {rule}"
        add(self, location, rule, *words, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Mistakes, "add", checked)
        yield


@pytest.fixture(scope="session", autouse=True)
def cache_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What is kept of one test serves the others; the user's own cache is let be, but for matplotlib's list of fonts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            "MPLCONFIGDIR", str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "matplotlib")
        )
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session", autouse=True)
def no_project_above(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Whoever has once run modak in the folder for temporary files has made that the project of all below it."""
    tests, found = tmp_path_factory.getbasetemp().resolve(), project_root

    def below(start: Path) -> Path:
        root = found(start)
        return start.resolve() if tests.is_relative_to(root) else root

    with pytest.MonkeyPatch.context() as patch:
        for module in list(sys.modules.values()):
            if vars(module).get("project_root") is found:
                patch.setattr(module, "project_root", below)
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
